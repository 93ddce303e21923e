/* store_copy.c - copies between any two paths: `levin cp`. Between two stores the file goes through the cache
 * folder. */
#include <unistd.h>

#include "formats/checksum.h"
#include "stores/cache.h"
#include "stores/store_private.h"

static enum lvn_status copy_through_cache(struct lvn_arena *a, const char *from, const char *to,
                                          lvn_store_progress *progress, void *context)
{
    const char *folder;
    char hash[LVN_CHECKSUM_TEXT];
    LVN_TRY(lvn_cache_folder(a, "copies", &folder));
    const char *both = lvn_arena_printf(a, "%s %s", from, to); /* another copy of the same file may be under way */
    if (!both) return LVN_MEMORY;
    lvn_checksum_text(lvn_checksum(both, (int64_t)strlen(both)), hash);
    char *temporary = lvn_arena_printf(a, "%s/%s", folder, hash);
    if (!temporary) return LVN_MEMORY;
    LVN_TRY(lvn_store_get(from, temporary, NULL, progress, context));
    LVN_TRY(lvn_store_put(temporary, to, progress, context));
    unlink(temporary);
    return LVN_OK;
}

/* The path without "file://" and its escapes, in the arena; NULL: not on this machine, or out of memory. */
static const char *local_path(struct lvn_arena *a, const char *path, enum lvn_status *status)
{
    struct lvn_location location;
    const char *local = NULL;
    *status = lvn_location_open(&location, path);
    if (*status != LVN_OK) return NULL;
    if (!location.store->network && !(local = lvn_arena_strdup(a, location.key))) *status = LVN_MEMORY;
    lvn_location_close(&location);
    return local;
}

static enum lvn_status copy(struct lvn_arena *a, const char *from, const char *to, lvn_store_progress *progress,
                            void *context)
{
    enum lvn_status status;
    const char *to_local = local_path(a, to, &status), *from_local = NULL;
    LVN_TRY(status);
    if (to_local) return lvn_store_get(from, to_local, NULL, progress, context);
    from_local = local_path(a, from, &status);
    LVN_TRY(status);
    if (from_local) return lvn_store_put(from_local, to, progress, context);
    return copy_through_cache(a, from, to, progress, context);
}

enum lvn_status lvn_store_copy(const char *from, const char *to, lvn_store_progress *progress, void *context)
{
    LVN_LOCAL_ARENA(a);
    return copy(&a, from, to, progress, context);
}
