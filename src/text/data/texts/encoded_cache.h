/* encoded_cache.h - encoded data in the user's cache (host/cache_dir.h), memory-mapped: all ranks of a host, and later
 * runs, use what the first one has made.
 *
 * A file is named by a key: a checksum of everything that determines its contents. One process makes it while the
 * others wait for a file lock, writes it with bounded memory, and renames it. A file that is incomplete or damaged is
 * made again. LEVIN_CACHE_SIZE limits the folder (stores/cache.h). Without a usable cache the data stay in memory.
 *
 * With data.cache the file is also SHARED/KEY/encoded in a store or a folder that several hosts reach. The process that
 * has the lease of SHARED/KEY makes it and puts it there, while those of other hosts wait; then they download it.
 * Called by kinds of data. */
#ifndef LVN_ENCODED_CACHE_H
#define LVN_ENCODED_CACHE_H

#include <stdio.h>

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

/* shared: data.cache, a path of any kind (stores/store.h); NULL or "": none. Release it, even after a failure. */
enum lvn_status lvn_encoded_open(struct lvn_encoded *e, uint64_t key, const char *shared,
                                 enum lvn_status (*make)(void *context, struct lvn_encoded_output *out),
                                 void *context) LVN_CHECKED;
void lvn_encoded_release(struct lvn_encoded *e); /* does nothing to a zeroed struct */

#endif
