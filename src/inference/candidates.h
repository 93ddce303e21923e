/* candidates.h - one token out of a model's logits: greedy, temperature, top_k, top_p.
 *
 * Tokens are taken from a heap, the likeliest first, and no more of them than the choice asks for. top_k takes k. top_p
 * needs the sum of all weights, which takes no order, and then as many tokens as hold its share of it. Without either,
 * tokens are taken until the random number is reached. So each token costs a pass over the vocabulary and a few steps
 * for what was taken, and the vocabulary is never sorted. */
#ifndef LVN_CANDIDATES_H
#define LVN_CANDIDATES_H

#include <stdint.h>

#include "base/status.h"

struct lvn_choice {
    double temperature; /* 0: the likeliest token */
    int64_t top_k;      /* 0: off */
    double top_p;       /* 0 or 1: off */
};

struct lvn_candidate {
    float value; /* the logit; once it is taken, its weight */
    int32_t id;
};

struct lvn_candidates {
    struct lvn_candidate *list; /* (n) a heap by logit; behind it those that were taken, the likeliest last */
    int64_t n, taken;
    float top; /* the largest logit */
    double temperature;
};

enum lvn_status lvn_candidates_init(struct lvn_candidates *c, int64_t vocab_size) LVN_CHECKED;
void lvn_candidates_release(struct lvn_candidates *c);
/* The token at `at`, a random number from [0, 1), among those that `s` leaves. logits: (n), finite. Equal logits are
 * ranked by their ids. */
int32_t lvn_candidates_choose(struct lvn_candidates *c, const float *logits, const struct lvn_choice *s, double at);

#endif
