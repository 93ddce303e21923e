/* shard.c - see shard.h. */
#include "passes/shard.h"

/* Number of pieces 0 to n - 1 that are counted for ranks below `rank`: piece i for rank i modulo size. */
static int64_t round_robin_below(int64_t n, int size, int rank)
{
    const int64_t rest = n % size;
    return n / size * rank + (rest < rank ? rest : rank);
}

static int64_t round_robin_of(int64_t n, int size, int rank)
{
    return round_robin_below(n, size, rank + 1) - round_robin_below(n, size, rank);
}

struct lvn_shard lvn_shard_at(const struct lvn_param_block *b, int size, int rank)
{
    const int64_t before = b->offset / LVN_NORM_BLOCK, after = before + lvn_norm_blocks(b->count);
    const int64_t end = b->offset + b->count;
    int64_t first = before + round_robin_below(after, size, rank) - round_robin_below(before, size, rank);
    int64_t count = round_robin_of(after, size, rank) - round_robin_of(before, size, rank);
    first *= LVN_NORM_BLOCK;
    count *= LVN_NORM_BLOCK;
    if (count > 0 && first + count > end) count = end - first; /* the last piece of a block may be shorter */
    return (struct lvn_shard){first, count};
}

struct lvn_shard lvn_shard_within(const struct lvn_param_block *b, int size, int rank, int64_t first, int64_t count)
{
    const struct lvn_shard mine = lvn_shard_at(b, size, rank);
    const int64_t begin = first > mine.first ? first : mine.first;
    int64_t end = first + count;
    if (end > mine.first + mine.count) end = mine.first + mine.count;
    return (struct lvn_shard){begin, end > begin ? end - begin : 0};
}

int64_t lvn_shard_offset(const struct lvn_param_block *b, int size, int rank, int64_t element)
{
    const int64_t before = b->offset / LVN_NORM_BLOCK;
    return round_robin_of(before, size, rank) * LVN_NORM_BLOCK + element - lvn_shard_at(b, size, rank).first;
}

/* The last of n blocks that has parameters; NULL: none has. */
static const struct lvn_param_block *last_of(const struct lvn_param_block *blocks, int n)
{
    while (n > 0 && !blocks[n - 1].count) n--;
    return n ? &blocks[n - 1] : NULL;
}

int64_t lvn_shard_total(const struct lvn_params *params, int size, int rank, bool trainable_only)
{
    const struct lvn_param_block *last = trainable_only ? NULL : last_of(params->frozen, params->n_blocks);
    if (!last) last = last_of(params->blocks, params->n_blocks);
    if (!last) return 0;
    const struct lvn_shard s = lvn_shard_at(last, size, rank);
    return lvn_shard_offset(last, size, rank, s.first + s.count);
}

int64_t lvn_gathered_offset(const struct lvn_extents *ranges, int64_t element)
{
    int64_t bytes = 0;
    for (int k = 0; k < ranges->n && ranges->start[k] < element; k++) {
        const int64_t end = ranges->start[k + 1] < element ? ranges->start[k + 1] : element;
        bytes += (end - ranges->start[k]) * lvn_dtype_bytes(lvn_gathered_dtype(k));
    }
    return bytes;
}
