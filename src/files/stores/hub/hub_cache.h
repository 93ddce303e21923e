/* hub_cache.h - models in the cache of Python's huggingface_hub on this machine.
 *
 * The cache is HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE or the folder `hub` in lvn_hub_home(), and contains
 *
 *     models--ORG--NAME/refs/main            the commit of `main` at the time of the download
 *     models--ORG--NAME/snapshots/COMMIT/    the files, as links
 *
 * This file only reads it; stores/hub/hf.c adds to it. */
#ifndef LVN_HUB_CACHE_H
#define LVN_HUB_CACHE_H

#include "base/arena.h"

/* HF_HOME, XDG_CACHE_HOME/huggingface or ~/.cache/huggingface; without a home directory `huggingface` in levin's cache
 * (cache_dir.h). In the arena; NULL: out of memory, or the folder in levin's cache cannot be created. */
const char *lvn_hub_home(struct lvn_arena *a);
/* The folder of the cache, in the arena; NULL: out of memory. */
const char *lvn_hub_cache(struct lvn_arena *a);
/* The folder of a repository "org/name" of a kind ("models", "datasets"), which may not exist, in the arena; NULL: out
 * of memory. */
const char *lvn_hub_cache_folder(struct lvn_arena *a, const char *kind, const char *repository);
/* The snapshot of a revision (branch, tag or commit) in that folder; *out is NULL if it is missing. */
enum lvn_status lvn_hub_cache_snapshot(struct lvn_arena *a, const char *folder, const char *revision,
                                       const char **out) LVN_CHECKED;
/* The snapshot of a model "org/name" or "name"; revision: branch, tag or commit, NULL: "main". *out is NULL if it is
 * not in the cache. */
enum lvn_status lvn_hub_cache_find(struct lvn_arena *a, const char *model, const char *revision,
                                   const char **out) LVN_CHECKED;

#endif
