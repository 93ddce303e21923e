/* snapshot_weights.h - the weights of a checkpoint: the whole model, or adapters without their base model.
 *
 * Private to snapshot.c. Which files there are is said in snapshot.h; optimizer state is optimizer_shards.h's. */
#ifndef LVN_SNAPSHOT_WEIGHTS_H
#define LVN_SNAPSHOT_WEIGHTS_H

#include "train/snapshot.h"

struct lvn_model_files;
struct lvn_snapshot_files;

/* On the ranks that add files. Fills *f, to be released after they are written; the caller still has to add its
 * config.json. */
enum lvn_status lvn_snapshot_add_weights(struct lvn_snapshot_files *w, struct lvn_model_files *f,
                                         const struct lvn_snapshot_target *target,
                                         const struct lvn_model_state *n) LVN_CHECKED;
/* On rank 0: the values of all parameters, from the checkpoint `dir`, or those that lvn_snapshot_load_shards() has
 * left. */
enum lvn_status lvn_snapshot_load_weights(struct lvn_arena *a, const char *dir, const struct lvn_model_state *n,
                                          const struct lvn_snapshot_source *source, bool left) LVN_CHECKED;
/* On each rank that holds a shard, without adapters: its values of the parameters that have the same order in the file
 * as in memory. */
enum lvn_status lvn_snapshot_load_shards(const char *dir, const struct lvn_model_state *n) LVN_CHECKED;

#endif
