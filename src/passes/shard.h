/* shard.h - which elements of which block of the model a rank owns, where something is sharded (enum lvn_shards). The
 * pass shard cuts the flat buffers so; the engine allocates, saves and exchanges shards by it. Left out: the pass
 * itself (pass.h).
 *
 * Every block is divided among all ranks, at multiples of LVN_NORM_BLOCK elements, so that the gradient's norm has the
 * same summands on any number of ranks. How many of a block's pieces of that size a rank owns is as if all pieces of
 * the model were dealt to the ranks in turn: so ranks differ by one piece at most, in a block and in the model, and
 * no table is needed. The pieces that a rank owns of a block are neighbours, in the order of the ranks. In a rank's
 * memory, its shards follow each other in the order of the layout. */
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
/* The part that it owns of elements [first, first + count), which lie in the block. */
struct lvn_shard lvn_shard_within(const struct lvn_param_block *block, int size, int rank, int64_t first,
                                  int64_t count);
/* Elements of the memory for a rank's shards of all blocks; trainable_only: without those of frozen parameters. */
int64_t lvn_shard_total(const struct lvn_params *params, int size, int rank, bool trainable_only);
/* Where an element of the block, which the rank owns, lies in its memory of shards, in elements. */
int64_t lvn_shard_place(const struct lvn_param_block *block, int size, int rank, int64_t element);

/* Parameters of a block on their way to other ranks, some of them rounded: elements [start[k], start[k + 1]) of the
 * flat buffers are fp32 if k is even, and bf16 if it is odd. */
static inline enum lvn_dtype lvn_shard_travel_type(int k)
{
    return k % 2 ? LVN_BF16 : LVN_F32;
}
/* The byte at which an element lies then. */
int64_t lvn_shard_travels(const struct lvn_extents *ranges, int64_t element);

#endif
