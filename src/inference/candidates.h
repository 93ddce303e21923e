/* candidates.h - chooses one token by a model's logits: greedy, temperature, top_k, top_p.
 *
 * sampler.h calls it for every new token. Tokens are taken from a heap, the likeliest first, and no more than the
 * choice needs. top_k takes k, and only logits that may be among these are in the heap. top_p needs the sum of all
 * weights, which takes no order, and then as many tokens as make up its fraction. Without either, tokens are taken
 * until the random number is reached. So a token costs a pass over the vocabulary and a few heap operations, and the
 * vocabulary is never sorted. */
#ifndef LVN_CANDIDATES_H
#define LVN_CANDIDATES_H

#include <stdint.h>

#include "base/status.h"

struct lvn_choice {
    double temperature; /* 0: greedy, the likeliest token */
    int64_t top_k;      /* 0: off */
    double top_p;       /* 0 or 1: off */
};

struct lvn_candidate {
    float value; /* the logit; of a token that was taken, its weight */
    int32_t id;
};

struct lvn_candidates {
    struct lvn_candidate *list; /* a heap by logit; after it the tokens that were taken, the likeliest last */
    int64_t n_listed;           /* length of the list; with top_k few, since most logits are too small */
    int64_t n;                  /* size of the vocabulary */
    int64_t taken;
    float max_logit;
    double temperature;
};

enum lvn_status lvn_candidates_init(struct lvn_candidates *c, int64_t vocab_size) LVN_CHECKED;
void lvn_candidates_release(struct lvn_candidates *c);
/* The token at the quantile `u`, a random number from [0, 1), among those that `s` leaves. logits: [n], finite. Equal
 * logits are ordered by their ids. */
int32_t lvn_candidates_choose(struct lvn_candidates *c, const float *logits, const struct lvn_choice *s, double u);

#endif
