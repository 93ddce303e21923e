/* bpe.c - see bpe.h. (Sennrich, Haddow, Birch: "Neural machine translation of rare words with subword units", 2016.) */
#include "tokenizers/bpe.h"

#include "base/arena.h"

enum lvn_status lvn_bpe_init(struct lvn_bpe *b, int64_t merges)
{
    uint64_t capacity = 1024;
    while (2 * capacity < 3 * (uint64_t)merges) capacity *= 2; /* 580,000 merges: 16 MiB */
    *b = (struct lvn_bpe){.mask = capacity - 1};
    b->slot = lvn_malloc((size_t)capacity * sizeof *b->slot);
    if (!b->slot) return LVN_MEMORY;
    memset(b->slot, 0xff, (size_t)capacity * sizeof *b->slot); /* LVN_BPE_EMPTY everywhere */
    return LVN_OK;
}

void lvn_bpe_release(struct lvn_bpe *b)
{
    free(b->slot);
    *b = (struct lvn_bpe){0};
}

void lvn_bpe_add(struct lvn_bpe *b, int32_t left, int32_t right, int32_t id)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right, i = lvn_bpe_hash(pair) & b->mask;
    for (; b->slot[i].pair != LVN_BPE_EMPTY; i = (i + 1) & b->mask)
        if (b->slot[i].pair == pair) return;
    b->slot[i] = (struct lvn_bpe_slot){.pair = pair, .rank = (uint32_t)b->n++, .id = id};
}

static int64_t merge_short(const struct lvn_bpe *b, int32_t *ids, int64_t n)
{
    uint32_t rank[LVN_BPE_SHORT];
    int32_t id[LVN_BPE_SHORT];
    for (int64_t i = 0; i + 1 < n; i++) {
        const struct lvn_bpe_slot *s = lvn_bpe_find(b, ids[i], ids[i + 1]);
        rank[i] = s ? s->rank : UINT32_MAX;
        id[i] = s ? s->id : 0;
    }
    while (n > 1) {
        int64_t at = 0;
        uint32_t best = rank[0];
        for (int64_t i = 1; i + 1 < n; i++)
            if (rank[i] < best) {
                best = rank[i];
                at = i;
            }
        if (best == UINT32_MAX) break;
        ids[at] = id[at];
        size_t after = (size_t)(n - at - 2);
        memmove(ids + at + 1, ids + at + 2, after * sizeof *ids);
        memmove(rank + at, rank + at + 1, after * sizeof *rank);
        memmove(id + at, id + at + 1, after * sizeof *id);
        n--;
        for (int64_t i = at ? at - 1 : 0; i <= at && i + 1 < n; i++) {
            const struct lvn_bpe_slot *s = lvn_bpe_find(b, ids[i], ids[i + 1]);
            rank[i] = s ? s->rank : UINT32_MAX;
            id[i] = s ? s->id : 0;
        }
    }
    return n;
}

/* A token of a long piece, in a doubly linked list. */
struct lvn_bpe_node {
    int32_t id;       /* -1: merged into the previous one */
    int32_t merged;   /* the token that it and the next one would become */
    uint32_t rank;    /* of that merge; UINT32_MAX: they do not merge */
    int32_t previous; /* index; -1: none */
    int32_t next;     /* index; -1: none */
};

void lvn_bpe_scratch_release(struct lvn_bpe_scratch *s)
{
    free(s->node);
    free(s->heap);
    *s = (struct lvn_bpe_scratch){0};
}

static enum lvn_status reserve(struct lvn_bpe_scratch *s, int64_t n)
{
    LVN_CHECK(n <= LVN_BPE_MAX, FORMAT,
              "a word of %lld bytes without a place to split it: at most %d bytes can be one word", (long long)n,
              (int)LVN_BPE_MAX);
    if (n <= s->capacity) return LVN_OK;
    int64_t capacity = n < 4096 ? 4096 : n + n / 2;
    struct lvn_bpe_node *node = lvn_realloc(s->node, (size_t)capacity * sizeof *node);
    if (!node) return LVN_MEMORY;
    s->node = node;
    /* At first there are at most n - 1 entries. Each of at most n - 1 merges removes one entry and adds at most two. */
    uint64_t *heap = lvn_realloc(s->heap, (size_t)capacity * 2 * sizeof *heap);
    if (!heap) return LVN_MEMORY;
    s->heap = heap;
    s->capacity = capacity;
    return LVN_OK;
}

static void sift_down(uint64_t *heap, int64_t n, int64_t at)
{
    uint64_t x = heap[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= x) break;
        heap[at] = heap[child];
    }
    heap[at] = x;
}

static void sift_up(uint64_t *heap, int64_t at)
{
    uint64_t x = heap[at];
    for (; at && heap[(at - 1) / 2] > x; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
    heap[at] = x;
}

static void find_merge(const struct lvn_bpe *b, struct lvn_bpe_node *node, int64_t at)
{
    const struct lvn_bpe_slot *s = node[at].next < 0 ? NULL : lvn_bpe_find(b, node[at].id, node[node[at].next].id);
    node[at].rank = s ? s->rank : UINT32_MAX;
    node[at].merged = s ? s->id : 0;
}

static int64_t merge_long(const struct lvn_bpe *b, struct lvn_bpe_scratch *s, int32_t *ids, int64_t n)
{
    struct lvn_bpe_node *node = s->node;
    uint64_t *heap = s->heap;
    int64_t used = 0, left = 0;
    for (int64_t i = 0; i < n; i++)
        node[i] =
            (struct lvn_bpe_node){.id = ids[i], .previous = (int32_t)i - 1, .next = i + 1 < n ? (int32_t)i + 1 : -1};
    for (int64_t i = 0; i < n; i++) {
        find_merge(b, node, i);
        if (node[i].rank != UINT32_MAX) heap[used++] = (uint64_t)node[i].rank << 32 | (uint64_t)i;
    }
    for (int64_t i = used / 2 - 1; i >= 0; i--) sift_down(heap, used, i);
    while (used) {
        int64_t at = (int64_t)(heap[0] & UINT32_MAX);
        uint32_t rank = (uint32_t)(heap[0] >> 32);
        heap[0] = heap[--used];
        if (used) sift_down(heap, used, 0);
        if (node[at].id < 0 || node[at].rank != rank) continue; /* stale: it was merged since */
        int32_t removed = node[at].next;
        node[at].id = node[at].merged;
        node[removed].id = -1;
        node[at].next = node[removed].next;
        if (node[at].next >= 0) node[node[at].next].previous = (int32_t)at;
        int32_t changed[2] = {(int32_t)at, node[at].previous};
        for (int k = 0; k < 2; k++) {
            if (changed[k] < 0) continue;
            find_merge(b, node, changed[k]);
            if (node[changed[k]].rank == UINT32_MAX) continue;
            heap[used] = (uint64_t)node[changed[k]].rank << 32 | (uint64_t)changed[k];
            sift_up(heap, used++);
        }
    }
    for (int64_t i = 0; i >= 0; i = node[i].next) ids[left++] = node[i].id;
    return left;
}

enum lvn_status lvn_bpe_merge(const struct lvn_bpe *b, struct lvn_bpe_scratch *s, int32_t *ids, int64_t *n)
{
    if (*n <= LVN_BPE_SHORT) {
        *n = merge_short(b, ids, *n);
        return LVN_OK;
    }
    LVN_TRY(reserve(s, *n));
    *n = merge_long(b, s, ids, *n);
    return LVN_OK;
}
