/* mask.h - tokens that a model has to find: masked language modelling.
 *
 * Each token (or each word) is chosen with the probability `fraction`; special tokens never are. Of those chosen eight
 * in ten become [MASK], one becomes any token, one stays; they are the labels, and all others have none (-1). What is
 * chosen is a function of seed, epoch and sample (Devlin et al., 2018; anew in each epoch: Liu et al., "RoBERTa",
 * 2019). */
#ifndef LVN_MASK_H
#define LVN_MASK_H

#include "tokenizers/tokenizer.h"

struct lvn_mask {
    double fraction;
    bool words;         /* whole words: pieces that begin with ## go with the one before them */
    int32_t mask;       /* the id of [MASK] */
    int32_t special[5]; /* ids that are left alone; -1: none */
    int64_t n_tokens;   /* of the vocabulary */
    const struct lvn_tokenizer *tokenizer;
    uint64_t seed;
};

/* ARG where the tokenizer has no [MASK], or no pieces of words. `t` stays the caller's. */
enum lvn_status lvn_mask_init(struct lvn_mask *m, const struct lvn_tokenizer *t, double fraction, bool words,
                              uint64_t seed) LVN_CHECKED;
/* ids[0..n) of sample `at` in its order of drawing; labels (n). */
void lvn_mask_sample(const struct lvn_mask *m, uint64_t order, int64_t at, int64_t n, int32_t *ids, int32_t *labels);

#endif
