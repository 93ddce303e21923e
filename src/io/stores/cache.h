/* cache.h - the folder on this machine where files of stores are kept: LEVIN_CACHE, or levin in XDG_CACHE_HOME, or
 * ~/.cache/levin. */
#ifndef LVN_CACHE_H
#define LVN_CACHE_H

#include "base/arena.h"

/* The path of a folder in it, made; in the arena. */
LVN_CHECKED enum lvn_status lvn_cache_folder(struct lvn_arena *a, const char *name, const char **out);

#endif
