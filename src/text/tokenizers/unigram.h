/* unigram.h - the Unigram model: the segmentation of a piece whose tokens have the largest sum of scores. Called by
 * encoder.c.
 *
 * The Viterbi algorithm, from left to right. A character without a token becomes the unknown token, with a score below
 * all others. (Kudo: "Subword regularization", 2018.) */
#ifndef LVN_UNIGRAM_H
#define LVN_UNIGRAM_H

#include "tokenizers/tokenizer.h"

struct lvn_unigram {
    double *score;       /* [n] of a token */
    double unknown;      /* score of an unknown character */
    struct lvn_bpe trie; /* (node, byte) -> node */
    int32_t *token;      /* [nodes] the token that ends at a node; -1: none */
    bool *special;       /* [n] not recognized in ordinary text; lvn_added_sets() sets it */
};

/* Set t->unigram from the tokens of t and their scores; allocated in the arena. */
enum lvn_status lvn_unigram_new(struct lvn_tokenizer *t, double *score) LVN_CHECKED;

/* Memory of one thread. All zero is empty. */
struct lvn_unigram_scratch {
    struct lvn_unigram_node *node;
    int64_t capacity;
};
void lvn_unigram_scratch_release(struct lvn_unigram_scratch *s);
/* Write the tokens of a piece of n bytes to out, whose capacity must be n. *made: their number. */
enum lvn_status lvn_unigram_piece(const struct lvn_tokenizer *t, struct lvn_unigram_scratch *s, const uint8_t *p,
                                  int64_t n, bool specials, int32_t *out, int64_t *made) LVN_CHECKED;

#endif
