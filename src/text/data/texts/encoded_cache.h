/* encoded_cache.h - encoded data in the user's cache (host/cache_dir.h), memory-mapped: all ranks of a host, and later
 * runs, use the file that the first one has written.
 *
 * A file is named by a key: a checksum of everything that determines its contents. One process encodes the data
 * with bounded memory, while the others wait for a file lock, and renames the file. A file that is incomplete or
 * damaged is written again. LEVIN_CACHE_SIZE limits the folder (stores/cache.h). Without a usable cache the data stay
 * in memory.
 *
 * With data.cache the file is also SHARED/KEY/encoded in a store or a folder that several hosts reach. The process that
 * holds the lease of SHARED/KEY encodes and uploads it; those of other hosts wait and download it.
 * Called by kinds of data. */
#ifndef LVN_ENCODED_CACHE_H
#define LVN_ENCODED_CACHE_H

#include "base/files.h"
#include "base/text.h"
#include "formats/checksum.h"

struct lvn_encoded {
    const char *data; /* valid until the release */
    int64_t bytes;
    struct lvn_text text;
    struct lvn_mapping map;
};

/* Where make() writes. */
struct lvn_encoded_output {
    struct lvn_text *text; /* append here, then call lvn_encoded_flush() */
    FILE *file;            /* NULL: everything stays in memory */
    const char *path;
    int64_t written;
    struct lvn_checksum sum;
};
enum lvn_status lvn_encoded_flush(struct lvn_encoded_output *out) LVN_CHECKED;

/* shared: data.cache, a path of any kind (stores/store.h); NULL or "": none. Fails with
 * the status of make(), or if data.cache cannot be used. Release it, even after a failure. */
enum lvn_status lvn_encoded_open(struct lvn_encoded *e, uint64_t key, const char *shared,
                                 enum lvn_status (*make)(void *context, struct lvn_encoded_output *out),
                                 void *context) LVN_CHECKED;
void lvn_encoded_release(struct lvn_encoded *e); /* does nothing to a zeroed struct */

#endif
