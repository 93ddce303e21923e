/* hub_cache.h - models that Python's huggingface_hub has downloaded to this machine.
 *
 * Its cache is HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub, and in it
 *
 *     models--ORG--NAME/refs/main            the commit that `main` was
 *     models--ORG--NAME/snapshots/COMMIT/    the files, as links
 *
 * It is only read here; stores/hub/hf_download.c adds to it. */
#ifndef LVN_HUB_CACHE_H
#define LVN_HUB_CACHE_H

#include "base/arena.h"

/* The folder of the cache, in the arena; NULL: memory. */
const char *lvn_hub_cache(struct lvn_arena *a);
/* Where a repository "org/name" of a kind ("models", "datasets") is kept, in the arena, there or not; NULL: memory. */
const char *lvn_hub_cache_folder(struct lvn_arena *a, const char *kind, const char *repository);
/* The snapshot of a revision (branch, tag or commit) in that folder; *out is NULL when it is not there. */
LVN_CHECKED enum lvn_status lvn_hub_cache_snapshot(struct lvn_arena *a, const char *folder, const char *revision,
                                                   const char **out);
/* The folder of a model "org/name" or "name", revision "main" unless another one (branch, tag or commit) is given:
 * *out is NULL when it is not in the cache. */
LVN_CHECKED enum lvn_status lvn_hub_cache_find(struct lvn_arena *a, const char *model, const char *revision,
                                               const char **out);

#endif
