/* candidates.h - chooses one token from a model's logits: greedy, temperature, top_k, top_p.
 *
 * sampler.h calls it for every new token. Tokens are removed from a heap, most likely first, and only as many as
 * needed. top_k removes k, and only logits that may be among these are in the heap. top_p needs the sum of all weights,
 * in any order, and then removes tokens until they reach its fraction. Without either, tokens are removed until the
 * random number is reached. So a token costs one pass over the vocabulary and a few heap operations, and the vocabulary
 * is never sorted.
 */
#ifndef LVN_CANDIDATES_H
#define LVN_CANDIDATES_H

#include "base/status.h"

struct lvn_choice {
    double temperature; /* 0: greedy, the likeliest token */
    int64_t top_k;      /* 0: off */
    double top_p;       /* 0 or 1: off */
    double
        repetition_penalty; /* divides positive logits of tokens of the text, multiplies negative ones; 0 or 1: off */
};

/* ARG, with the value and its range, unless all are in range. */
enum lvn_status lvn_choice_check(const struct lvn_choice *s) LVN_CHECKED;

struct lvn_candidate {
    float value; /* the logit; after removal the weight */
    int32_t id;
};

struct lvn_candidates {
    struct lvn_candidate *list; /* a heap by logit, followed by the removed tokens, the likeliest last */
    int64_t n_listed;           /* length of the list; short with top_k, since most logits are too small */
    int64_t n;                  /* size of the vocabulary */
    int64_t taken;
    float max_logit;
    double temperature;
    float *penalized; /* [n] */
};

enum lvn_status lvn_candidates_init(struct lvn_candidates *c, int64_t vocab_size) LVN_CHECKED;
void lvn_candidates_release(struct lvn_candidates *c);
/* Are all n logits finite? */
bool lvn_candidates_finite(const float *logits, int64_t n);
/* The logits with the repetition penalty of these ids, valid until the next call. Ids that repeat count once. */
const float *lvn_candidates_penalize(struct lvn_candidates *c, const float *logits, double penalty, const int32_t *ids,
                                     int64_t n, const int32_t *more, int64_t n_more);
/* The token at the quantile `u`, a random number from [0, 1), among those that `s` allows. logits: [n], finite. Equal
 * logits are ordered by id. */
int32_t lvn_candidates_choose(struct lvn_candidates *c, const float *logits, const struct lvn_choice *s, double u);

#endif
