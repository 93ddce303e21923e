/* cache.h - files of stores in this machine's cache (host/cache_dir.h). Downloads use it, except for stores with their
 * own cache (hf://). No name in it contains a secret of a URL.
 *
 *     files/SCHEME/BUCKET/KEY    the file
 *     facts/SCHEME/BUCKET/KEY    its size, time, checksum and the store's version; touched at each use
 *     locks/HASH                 lock of a file that is being downloaded
 *     stage/NAME-HASH            folders to be uploaded (upload_staging.h)
 *     uploads/HASH               unfinished uploads (store_put.c)
 *     rates/HASH                 measured speed of this machine (cli/plan/plan_time.c)
 *     copies/HASH                unfinished copies from store to store (store_copy.c)
 *     kernels/HASH               compiled device kernels (backend/gpu/kernel_cache.h)
 *     encoded/HASH               encoded data, and encoded-new/, what is being made (data/texts/encoded_cache.h)
 *
 * With another endpoint than the store's default, BUCKET is BUCKET@HASH. A cached file is used if the store still has
 * the same version and the file was not changed. LEVIN_CACHE_SIZE (such as 50G) limits `files`, and `encoded`: the
 * least recently used ones are removed first, but none that this process has used and not released. */
#ifndef LVN_STORES_CACHE_H
#define LVN_STORES_CACHE_H

#include "host/cache_dir.h"
#include "stores/store_kind.h"

/* Paths of a key of the location in the cache ("" for the folder of all keys), in the arena. */
enum lvn_status lvn_store_cache_path(struct lvn_arena *a, const struct lvn_location *location, const char *key,
                                     const char **file, const char **facts) LVN_CHECKED;
/* Download the file of the location into the cache, unless the cache has it. */
enum lvn_status lvn_store_cache_download(struct lvn_location *location, struct lvn_http *http,
                                         lvn_store_progress *progress, void *context, const char **local) LVN_CHECKED;
/* Lock an open file. Waits while another process holds the lock; STOPPED if `progress` or an interrupt ends the wait.
 * Returns immediately if the file system has no locks. */
enum lvn_status lvn_store_cache_lock(int fd, lvn_store_progress *progress, void *context) LVN_CHECKED;
/* Make room for `bytes` more in a folder of the cache if LEVIN_CACHE_SIZE is set: removes the least recently used
 * files. facts: the folder with a file of the same name for each, whose time is that of its last use; it may be the
 * same one. *excess: bytes that are too many nevertheless, because this process uses the remaining files; else 0 or
 * less. */
enum lvn_status lvn_store_cache_evict(struct lvn_arena *a, const char *files, const char *facts, int64_t bytes,
                                      int64_t *excess) LVN_CHECKED;
/* The file was used now: its facts, or the file if it has none. */
void lvn_store_cache_touch(const char *facts);
/* This process does not need the file any more, so it may be evicted. */
void lvn_store_cache_release(const char *facts);
/* The length of NAME in NAME.part and NAME.part.done, the files of an unfinished download of NAME; 0: it is neither. */
size_t lvn_store_cache_part(const char *name);
/* Remove a file and its facts from the cache. False: it is part of a download in progress, and stays. */
bool lvn_store_cache_drop(const char *file, const char *facts);

#endif
