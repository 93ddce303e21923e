/* unigram.h - tokens by the likeliest way to cut a piece: each has a score, the sum over a piece shall be largest.
 *
 * A walk from left to right keeps the best way to every place (Viterbi). Characters without a token are unknown, below
 * every other score. Kudo: Subword regularization, 2018. */
#ifndef LVN_UNIGRAM_H
#define LVN_UNIGRAM_H

#include "tokenizers/tokenizer.h"

struct lvn_unigram {
    double *score; /* [n] of a token; below all, of what is unknown */
    double unknown;
    struct lvn_bpe next; /* the trie: node and byte to node */
    int32_t *token;      /* [nodes] that ends at a node; -1: none does */
    bool *special;       /* [n] not looked for in ordinary text */
};

/* Make t->unigram of the tokens that t has and their scores, in the arena. */
enum lvn_status lvn_unigram_new(struct lvn_tokenizer *t, double *score) LVN_CHECKED;

/* Memory of one thread. All zero is empty. */
struct lvn_unigram_scratch {
    struct lvn_unigram_place *place;
    int64_t capacity;
};
void lvn_unigram_scratch_release(struct lvn_unigram_scratch *s);
/* The tokens of a piece at out[0..n), where there is room for n; *made: how many. */
enum lvn_status lvn_unigram_piece(const struct lvn_tokenizer *t, struct lvn_unigram_scratch *s, const uint8_t *p,
                                  int64_t n, bool specials, int32_t *out, int64_t *made) LVN_CHECKED;

#endif
