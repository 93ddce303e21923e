/* cache.h - what is kept of stores in this machine's cache (host/cache_dir.h). No secret of an address stands in a
 * name.
 *
 *     files/SCHEME/BUCKET/KEY    the file
 *     facts/SCHEME/BUCKET/KEY    what came: size, time, checksum, the store's version; touched at each use
 *     locks/HASH                 who is bringing a file
 *     stage/NAME-HASH            folders that are made here and belong into a store (upload_staging.h)
 *     uploads/HASH               unfinished uploads (store_put.c)
 *     rates/HASH                 what this machine does in a second (cli/plan/plan_time.c)
 *     copies/HASH                copies from store to store under way (store_copy.c)
 *     kernels/HASH               of devices, compiled (backend/gpu/gpu_kernels.h)
 *
 * At another address than the store's usual one, BUCKET is BUCKET@HASH. A file is taken from here when the store still
 * has the same version of it and nobody changed it here. LEVIN_CACHE_SIZE (as 50G) limits `files`: what has not been
 * used for the longest time goes first, but nothing that this process has used. */
#ifndef LVN_STORES_CACHE_H
#define LVN_STORES_CACHE_H

#include "host/cache_dir.h"
#include "stores/store_kind.h"

/* Where a key of the place is kept ("" for the folder of them all), in the arena. */
LVN_CHECKED enum lvn_status lvn_store_cache_path(struct lvn_arena *a, const struct lvn_location *p, const char *key,
                                                 const char **file, const char **facts);
/* Brings the file of a place into the cache, unless it is there. */
LVN_CHECKED enum lvn_status lvn_store_cache_download(struct lvn_location *p, struct lvn_http *h,
                                                     lvn_store_progress *progress, void *context, const char **local);
/* Removes what the cache has of a key. */
void lvn_store_cache_drop(const char *file, const char *facts);

#endif
