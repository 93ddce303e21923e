/* mask.h - masks tokens of a sample for masked language modeling. Called by lvn_dataset_sample().
 *
 * Each token (or each word) is chosen with the probability `fraction`, special tokens never. Of the chosen ones 80 %
 * become the mask token, 10 % a random token, 10 % stay; their labels are the original ids, all other labels are -1.
 * The choice is a function of seed, epoch and sample (Devlin et al., 2018; new masks in each epoch: Liu et al.,
 * "RoBERTa", 2019).
 */
#ifndef LVN_MASK_H
#define LVN_MASK_H

#include "tokenizers/tokenizer.h"

enum { LVN_MASK_SPECIAL = 8 };
struct lvn_mask {
    double fraction;                   /* probability of a token or word */
    bool whole_words;                  /* tokens that continue a word (##) are masked together with its first token */
    int32_t mask;                      /* the id of the mask token */
    int32_t special[LVN_MASK_SPECIAL]; /* ids of the tokens of BERT and RoBERTa that are never masked, nor are the
                                          tokenizer's special added tokens; -1: none */
    int64_t n_tokens;                  /* of the vocabulary */
    const struct lvn_tokenizer *tokenizer;
    uint64_t seed;
};

/* ARG if the tokenizer has no mask token, or, for whole_words, is not a WordPiece with a prefix (##). Borrows `t`. */
enum lvn_status lvn_mask_init(struct lvn_mask *m, const struct lvn_tokenizer *t, double fraction, bool whole_words,
                              uint64_t seed) LVN_CHECKED;
/* Change ids (n) of sample number `at` and set labels (n). order: see struct lvn_draw. */
void lvn_mask_sample(const struct lvn_mask *m, uint64_t order, int64_t at, int64_t n, int32_t *ids, int32_t *labels);

#endif
