/* shard.c - see shard.h. */
#include "passes/shard.h"

/* How many of pieces 0 to n - 1 belong to ranks below `rank`, if piece i belongs to rank i modulo size. */
static int64_t dealt_below(int64_t n, int size, int rank)
{
    const int64_t rest = n % size;
    return n / size * rank + (rest < rank ? rest : rank);
}

static int64_t dealt_to(int64_t n, int size, int rank)
{
    return dealt_below(n, size, rank + 1) - dealt_below(n, size, rank);
}

struct lvn_shard lvn_shard_at(const struct lvn_params *params, int block, int size, int rank)
{
    const struct lvn_param_block *b = &params->blocks[block + 1];
    const int64_t before = b->offset / LVN_NORM_BLOCK, behind = before + lvn_norm_blocks(b->count);
    const int64_t end = b->offset + b->count;
    int64_t first = before + dealt_below(behind, size, rank) - dealt_below(before, size, rank);
    int64_t count = dealt_to(behind, size, rank) - dealt_to(before, size, rank);
    first *= LVN_NORM_BLOCK;
    count *= LVN_NORM_BLOCK;
    if (count > 0 && first + count > end) count = end - first; /* the last piece of a block may be shorter */
    return (struct lvn_shard){first, count};
}

int64_t lvn_shard_place(const struct lvn_params *params, int size, int rank, int block, int64_t element)
{
    const int64_t before = params->blocks[block + 1].offset / LVN_NORM_BLOCK;
    return dealt_to(before, size, rank) * LVN_NORM_BLOCK + element - lvn_shard_at(params, block, size, rank).first;
}

int64_t lvn_shard_total(const struct lvn_params *params, int size, int rank)
{
    int last = params->n_blocks - 2; /* lvn_param.block of the last block with trainable parameters */
    while (last > -1 && !params->blocks[last + 1].count) last--;
    const struct lvn_shard s = lvn_shard_at(params, last, size, rank);
    return lvn_shard_place(params, size, rank, last, s.first + s.count);
}
