/* model_fetch.h - models that lie in a store. */
#ifndef LVN_MODEL_FETCH_H
#define LVN_MODEL_FETCH_H

#include <stdint.h>

#include "base/arena.h"

/* What people give as MODEL, where it may be in a store, as the path of the same on this machine, in the arena; what is
 * no URL is given back. Of a run or a folder of checkpoints only the one that `prefer` ("best" or "last") names comes,
 * or the newest; of a folder with a model, its weights, sizes and tokenizer. */
LVN_CHECKED enum lvn_status lvn_checkpoint_fetch(struct lvn_arena *a, const char *model, const char *prefer,
                                                 const char **local);
/* A run that lies in a store, into its folder here, so that it can go on: its newest checkpoint and its best one, and
 * of the rest what has one of these names, or lies below one; unless those here are as new. Nothing in the store is no
 * error. */
LVN_CHECKED enum lvn_status lvn_checkpoints_fetch_run(const char *folder, const char *path, const char *const *files,
                                                      int n_files);
/* The step of the last checkpoint that a run in a store has there; -1: none. */
LVN_CHECKED enum lvn_status lvn_checkpoints_last_uploaded(const char *path, int64_t *step);

#endif
