/* model_fetch.h - downloads models and runs from a store. */
#ifndef LVN_MODEL_FETCH_H
#define LVN_MODEL_FETCH_H

#include "base/arena.h"

/* Resolve a MODEL argument that may be in a store to a path on this machine, in the arena; a local path is returned
 * unchanged. From a run or a folder of checkpoints only the checkpoint `prefer` ("best" or "last"), or the newest, is
 * downloaded; from a folder with a model, its weights, config and tokenizer. */
enum lvn_status lvn_checkpoint_fetch(struct lvn_arena *a, const char *model, const char *prefer,
                                     const char **local) LVN_CHECKED;
/* Download a run from a store into its local folder, so that it can resume: its newest and its best checkpoint, and
 * everything else with a name in `files` or below one; unless the local checkpoints are as new. An empty store is not
 * an error. */
enum lvn_status lvn_checkpoints_fetch_run(const char *folder, const char *path, const char *const *files,
                                          int n_files) LVN_CHECKED;
/* The step of the last checkpoint of a run in a store; -1: none. */
enum lvn_status lvn_checkpoints_last_uploaded(const char *path, int64_t *step) LVN_CHECKED;

#endif
