/* optimizer_shards.h - the optimizer's state over ranks: whole on every rank, or (zero1) a shard on each.
 *
 * Files hold whole tensors whatever the number of ranks. When saving, rank 0 asks for one tensor after the other and
 * the owners send their parts; when loading it sends them. So no rank ever needs room for more than its own. */
#ifndef LVN_OPTIMIZER_SHARDS_H
#define LVN_OPTIMIZER_SHARDS_H

#include "engine/model_state.h"
#include "engine/ranks.h"
#include "formats/safetensors.h"

struct lvn_optimizer_shards {
    const struct lvn_model_state *network;
    const struct lvn_sharding *sharding;
    struct lvn_ranks *ranks;
    void *buffer;           /* rank 0, in shards: one tensor */
    enum lvn_status status; /* of communication */
};

void lvn_optimizer_shards_init(struct lvn_optimizer_shards *m, const struct lvn_model_state *n,
                               const struct lvn_sharding *s, struct lvn_ranks *ranks);
/* Bytes that saving takes besides what is there. */
int64_t lvn_optimizer_shards_bytes(const struct lvn_model_state *n, const struct lvn_sharding *s);
/* Rank 0: the state of all trainable parameters as tensors exp_avg.NAME and exp_avg_sq.NAME, for a writer. */
enum lvn_status lvn_optimizer_shards_source(struct lvn_optimizer_shards *m, struct lvn_arena *a,
                                            struct lvn_safetensors_source *source) LVN_CHECKED;
/* All ranks, after rank 0 made a source, or failed to: rank 0 calls it when it has written everything or given up; the
 * others send what it asks for until then. */
enum lvn_status lvn_optimizer_shards_finish(struct lvn_optimizer_shards *m) LVN_CHECKED;
/* All ranks: the state as rank 0's file holds it, which is looked at there alone. */
enum lvn_status lvn_optimizer_shards_load(struct lvn_optimizer_shards *m, const char *path) LVN_CHECKED;

/* What is stored under `prefix` + a parameter's name, of its shape. */
enum lvn_status lvn_stored_find(const struct lvn_safetensors *file, const char *path, const char *prefix,
                                const struct lvn_param *p, const struct lvn_safetensor **out) LVN_CHECKED;

#endif
