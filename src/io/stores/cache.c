/* cache.c - see cache.h. */
#include "io/stores/cache.h"

#include <stdlib.h>

#include "base/files.h"

enum lvn_status lvn_cache_folder(struct lvn_arena *a, const char *name, const char **out)
{
    const char *own = getenv("LEVIN_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (own && *own)
        *out = lvn_arena_printf(a, "%s/%s", own, name);
    else if (xdg && *xdg)
        *out = lvn_arena_printf(a, "%s/levin/%s", xdg, name);
    else
        *out = lvn_arena_printf(a, "%s/.cache/levin/%s", home && *home ? home : "/tmp", name);
    if (!*out) return LVN_MEMORY;
    LVN_TRY_WHILE(lvn_dir_make(*out), "making the cache folder; LEVIN_CACHE names another one");
    return LVN_OK;
}
