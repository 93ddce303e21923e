/* kernel_cache.h - the cache of compiled kernels: the folder `kernels` of this machine's cache (host/cache_dir.h).
 * The backends opencl and cuda call it when they prepare a program.
 *
 * The key of an entry is the text of all of its inputs (sources, options, compiler, device). The entry contains its
 * key, so that equal hashes are not confused, and a checksum; a damaged entry counts as missing. Processes may write
 * the same entry at the same time, because a complete file is renamed into place. A cache that cannot be written is not
 * an error for compiled kernels: they are compiled again in the next run. */
#ifndef LVN_KERNEL_CACHE_H
#define LVN_KERNEL_CACHE_H

#include "base/status.h"

/* The binary of `key`, in memory that the caller frees. False: the cache has none. */
bool lvn_kernel_cache_find(const char *key, void **binary, int64_t *bytes);
enum lvn_status lvn_kernel_cache_store(const char *key, const void *binary, int64_t bytes) LVN_CHECKED;

#endif
