/* optimizer_shards.h - the optimizer's state in checkpoints: whole on every rank, or (zero1, zero2, fsdp) one shard per
 * rank.
 *
 * snapshot.c saves and loads with it. Files contain whole tensors for any number of ranks; rank 0 reads and writes
 * them, or all ranks do (shared_files.h, shard_files.h). */
#ifndef LVN_OPTIMIZER_SHARDS_H
#define LVN_OPTIMIZER_SHARDS_H

#include "engine/model_state.h"
#include "engine/ranks.h"
#include "formats/safetensors.h"

struct lvn_optimizer_shards {
    const struct lvn_model_state *model_state;
    struct lvn_ranks *ranks;
    const struct lvn_safetensors_item *items; /* of the source; in its arena */
    void *buffer; /* the tensor being written, if this rank's host memory lacks a part of it; NULL: not needed yet */
};

void lvn_optimizer_shards_init(struct lvn_optimizer_shards *shards, const struct lvn_model_state *n,
                               struct lvn_ranks *ranks);
/* Between lvn_parameters_begin_collecting() or lvn_parameters_begin_gathering() and its end: describe the moments of
 * the trainable parameters as tensors exp_avg.NAME and exp_avg_sq.NAME for a writer. Always release it. */
enum lvn_status lvn_optimizer_shards_source(struct lvn_optimizer_shards *shards, struct lvn_arena *a,
                                            struct lvn_safetensors_source *source) LVN_CHECKED;
void lvn_optimizer_shards_release(struct lvn_optimizer_shards *shards);
/* All ranks: load the state from `path`. Rank 0 reads it and sends each rank its part; if `shared` and the state is
 * sharded, each rank reads its own shard. */
enum lvn_status lvn_optimizer_shards_load(struct lvn_optimizer_shards *shards, const char *path,
                                          bool shared) LVN_CHECKED;

#endif
