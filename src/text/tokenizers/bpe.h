/* bpe.h - byte pair encoding of one piece of text: the table of merges, and merging. Called by encoder.c and the
 * readers of files; unigram.h uses the table as a trie.
 *
 * A piece starts as one token for each symbol (byte or character). Repeatedly, the neighbors whose merge has the
 * lowest rank (the leftmost of equals) become one token, until none can merge. Short pieces are scanned again after
 * each merge; long ones have a heap of possible merges, so that a word of n letters takes O(n log n). */
#ifndef LVN_BPE_H
#define LVN_BPE_H

#include "base/status.h"

struct lvn_bpe_slot {
    uint64_t pair; /* left << 32 | right; LVN_BPE_EMPTY: free */
    uint32_t rank;
    int32_t id;
};
#define LVN_BPE_EMPTY UINT64_MAX

/* Merges by pair: open addressing. */
struct lvn_bpe {
    int32_t byte_id[256];      /* of BPE of bytes; -1: the vocabulary has no token for this byte */
    struct lvn_bpe_slot *slot; /* [mask + 1] */
    uint64_t mask;
    int64_t n;
};

/* With a capacity of `merges` merges. */
enum lvn_status lvn_bpe_init(struct lvn_bpe *b, int64_t merges) LVN_CHECKED;
void lvn_bpe_release(struct lvn_bpe *b);
/* Add the merge left + right -> id with the next rank. A pair that exists keeps its rank. */
void lvn_bpe_add(struct lvn_bpe *b, int32_t left, int32_t right, int32_t id);

static inline uint64_t lvn_bpe_hash(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15ULL;
    return x ^ x >> 29;
}

/* The slot at which the search for a pair begins, for prefetching. */
static inline const struct lvn_bpe_slot *lvn_bpe_first_slot(const struct lvn_bpe *b, int32_t left, int32_t right)
{
    return &b->slot[lvn_bpe_hash((uint64_t)(uint32_t)left << 32 | (uint32_t)right) & b->mask];
}

static inline const struct lvn_bpe_slot *lvn_bpe_find(const struct lvn_bpe *b, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    for (uint64_t i = lvn_bpe_hash(pair) & b->mask;; i = (i + 1) & b->mask) {
        if (b->slot[i].pair == pair) return &b->slot[i];
        if (b->slot[i].pair == LVN_BPE_EMPTY) return NULL;
    }
}

/* Scratch of one thread. All zero is empty. */
struct lvn_bpe_scratch {
    struct lvn_bpe_node *node;
    uint64_t *heap;
    int64_t capacity;
};
void lvn_bpe_scratch_release(struct lvn_bpe_scratch *s);

/* Merge ids[0, *n) in place; *n becomes the number of tokens. LVN_MEMORY, or LVN_FORMAT for a piece of more than
 * LVN_BPE_MAX symbols. */
enum { LVN_BPE_SHORT = 48, LVN_BPE_MAX = 64 << 20 };
enum lvn_status lvn_bpe_merge(const struct lvn_bpe *b, struct lvn_bpe_scratch *s, int32_t *ids, int64_t *n) LVN_CHECKED;

#endif
