/* shard.h - which elements of which block of the model a rank owns, where something is sharded (enum lvn_shards). The
 * pass shard cuts the flat buffers so; the engine allocates, saves and exchanges shards by it. Left out: the pass
 * itself (pass.h).
 *
 * Shards are cut between blocks of LVN_NORM_BLOCK elements of the flat trainable parameters, so that the gradient's
 * norm has the same sums on any number of ranks. A rank's shards of all blocks lie side by side in its memory, in the
 * order of the layout. */
#ifndef LVN_SHARD_H
#define LVN_SHARD_H

#include "graph/graph.h"

/* Elements [first, first + count) of the flat buffers. */
struct lvn_shard {
    int64_t first;
    int64_t count;
};
/* What a rank owns of the trainable parameters of `block` (lvn_param.block). */
struct lvn_shard lvn_shard_at(const struct lvn_params *params, int block, int size, int rank);
/* Elements that a rank owns of all blocks. */
int64_t lvn_shard_total(const struct lvn_params *params, int size, int rank);
/* Where an element that the rank owns lies in its memory of shards, in elements. */
int64_t lvn_shard_place(const struct lvn_params *params, int size, int rank, int block, int64_t element);
/* Boundaries between the ranks' parts of the flat buffers: first element of a rank's part; rank = size: the end of the
 * last one. A multiple of LVN_NORM_BLOCK, or the end. For the collectives of the pass, which take one range a rank. */
int64_t lvn_shard_first(const struct lvn_params *params, int size, int rank);

#endif
