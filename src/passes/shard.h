/* shard.h - which part of the trainable parameters a rank owns with zero1. The pass shard cuts the flat buffers so; the
 * engine allocates, saves and exchanges shards by it. Left out: the pass itself (pass.h). */
#ifndef LVN_SHARD_H
#define LVN_SHARD_H

#include "graph/graph.h"

/* First element of a rank's shard of the trainable parameters in the flat buffers; rank = size: the end of the last
 * shard. A multiple of LVN_NORM_BLOCK, or the end. */
int64_t lvn_shard_first(const struct lvn_params *params, int size, int rank);

#endif
