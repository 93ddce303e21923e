/* snapshot_weights.h - the weights of a checkpoint: the whole model, or adapters without their base model.
 *
 * Private to snapshot.c. See snapshot.h for the files and optimizer_shards.h for optimizer state. */
#ifndef LVN_SNAPSHOT_WEIGHTS_H
#define LVN_SNAPSHOT_WEIGHTS_H

#include "train/snapshot.h"

struct lvn_model_files;
struct lvn_snapshot_files;

/* On the ranks that add files: add the weights. Sets *f, which must be released after the files are written; the caller
 * still has to add its config.json. */
enum lvn_status lvn_snapshot_add_weights(struct lvn_snapshot_files *files, struct lvn_model_files *f,
                                         const struct lvn_snapshot_target *target,
                                         const struct lvn_model_state *n) LVN_CHECKED;
/* On rank 0: load the values of all parameters from the checkpoint `dir`, or with `remaining_only` those that
 * lvn_snapshot_load_shards() did not load. */
enum lvn_status lvn_snapshot_load_weights(struct lvn_arena *a, const char *dir, const struct lvn_model_state *n,
                                          const struct lvn_snapshot_source *source, bool remaining_only) LVN_CHECKED;
/* On each rank with a shard, without adapters: load its values of the parameters with the same order in the file as in
 * memory. */
enum lvn_status lvn_snapshot_load_shards(const char *dir, const struct lvn_model_state *n) LVN_CHECKED;

#endif
