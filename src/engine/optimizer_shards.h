/* optimizer_shards.h - the optimizer's state in checkpoints: whole on every rank, or (zero1) a shard on each.
 *
 * snapshot.c saves and loads with it. Files hold whole tensors for any number of ranks; rank 0 reads and writes them,
 * or all ranks do (shared_files.h, shard_files.h). */
#ifndef LVN_OPTIMIZER_SHARDS_H
#define LVN_OPTIMIZER_SHARDS_H

#include "engine/model_state.h"
#include "engine/ranks.h"
#include "formats/safetensors.h"

struct lvn_optimizer_shards {
    const struct lvn_model_state *model_state;
    struct lvn_ranks *ranks;
    void *buffer; /* one tensor that is not in host memory; NULL: none was asked for yet */
};

void lvn_optimizer_shards_init(struct lvn_optimizer_shards *m, const struct lvn_model_state *n,
                               struct lvn_ranks *ranks);
/* Collecting or gathering: the moments of all trainable parameters, as far as they have them, as tensors exp_avg.NAME
 * and exp_avg_sq.NAME, for a writer. Release it always. */
enum lvn_status lvn_optimizer_shards_source(struct lvn_optimizer_shards *m, struct lvn_arena *a,
                                            struct lvn_safetensors_source *source) LVN_CHECKED;
void lvn_optimizer_shards_release(struct lvn_optimizer_shards *m);
/* All ranks: load the state from rank 0's file. Only rank 0 reads `path`; shared: where the state is in shards, each
 * rank reads its own, from the same file. */
enum lvn_status lvn_optimizer_shards_load(struct lvn_optimizer_shards *m, const char *path, bool shared) LVN_CHECKED;

/* The tensor `prefix` + the parameter's name, which must have its shape. */
enum lvn_status lvn_stored_find(const struct lvn_safetensors *file, const char *path, const char *prefix,
                                const struct lvn_param *p, const struct lvn_safetensor **out) LVN_CHECKED;

#endif
