/* shard.h - which elements of each block of the model a rank owns, if something is sharded (enum lvn_shards). The pass
 * data_parallel divides the flat buffers accordingly; the engine allocates, saves and exchanges these shards.
 *
 * Every block is divided among all ranks at multiples of LVN_NORM_BLOCK elements, so that the gradient norm has the
 * same summands on any number of ranks. Pieces are counted round-robin over the whole model: a rank's share of a
 * block has one piece for each piece of the block whose index in the model is the rank modulo their number. So ranks
 * differ by at most one piece, in each block and in the model, and no table is needed. The share is contiguous, and
 * the shares of a block are in rank order. A rank's memory holds its shards in the order of the layout. */
#ifndef LVN_SHARD_H
#define LVN_SHARD_H

#include "graph/graph.h"

/* Elements [first, first + count) of the flat buffers. */
struct lvn_shard {
    int64_t first; /* a multiple of LVN_NORM_BLOCK */
    int64_t count; /* a multiple of LVN_PARAM_ALIGN; 0: nothing */
};
/* The part of a block that a rank owns. */
struct lvn_shard lvn_shard_at(const struct lvn_param_block *block, int size, int rank);
/* The part that a rank owns of elements [first, first + count) of the block. */
struct lvn_shard lvn_shard_within(const struct lvn_param_block *block, int size, int rank, int64_t first,
                                  int64_t count);
/* Number of elements of a rank's shards of all blocks; trainable_only: without frozen parameters. */
int64_t lvn_shard_total(const struct lvn_params *params, int size, int rank, bool trainable_only);
/* Index of an element of the block, owned by the rank, in the rank's memory of shards. */
int64_t lvn_shard_offset(const struct lvn_param_block *block, int size, int rank, int64_t element);

/* Parameters of a block in a gather, some of them rounded: elements [start[k], start[k + 1]) of the flat buffers are
 * fp32 if k is even, and bf16 if k is odd. */
static inline enum lvn_dtype lvn_gathered_dtype(int k)
{
    return k % 2 ? LVN_BF16 : LVN_F32;
}
/* The byte offset of an element in the gathered data. */
int64_t lvn_gathered_offset(const struct lvn_extents *ranges, int64_t element);

#endif
