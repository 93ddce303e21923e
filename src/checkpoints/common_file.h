/* common_file.h - a file that several processes write at once, each its own bytes, where the file system keeps all of
 * them. Checkpoints of which every rank writes its shards are written so.
 *
 * One process creates the file, at its full size; then all open it. Errors as in files.h. Left out: who writes what. */
#ifndef LVN_COMMON_FILE_H
#define LVN_COMMON_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* Does the file system of `path` keep what processes write at once, to any bytes of one file, also from several hosts:
 * one of this machine alone, or Lustre, GPFS, BeeGFS, CephFS? Clients of NFS and SMB write whole pages, in which others
 * may have written. False too if levin does not know it. */
bool lvn_path_has_common_writes(const char *path);

/* Memory through which blocks pass that bypass the page cache: its bytes, and its alignment (which satisfies every
 * disk). */
enum { LVN_DIRECT_BYTES = 4 << 20, LVN_DIRECT_UNIT = 4096 };

struct lvn_common_file {
    int fd;
    int direct;       /* the same file without the page cache (O_DIRECT), for whole blocks; -1: not supported */
    char *block;      /* the caller's; NULL: none */
    const char *path; /* the caller's */
};
/* A new file of `bytes`, which begins with data [n]; the rest is zeros. Not synced: closing it after a write is. */
LVN_CHECKED enum lvn_status lvn_common_file_create(const char *path, const void *data, int64_t n, int64_t bytes);
/* block: [LVN_DIRECT_BYTES], for all files that are open one after the other; NULL: everything is cached. */
LVN_CHECKED enum lvn_status lvn_common_file_open(struct lvn_common_file *f, const char *path, char *block);
/* Whole blocks bypass the page cache, where the file system supports it; the system begins at once to write the rest to
 * the disk. */
LVN_CHECKED enum lvn_status lvn_common_file_write(const struct lvn_common_file *f, const void *data, int64_t offset,
                                                  int64_t bytes);
/* Closes; `so_far` is the status of writing: if it is OK, what this process has written is on the disk. */
LVN_CHECKED enum lvn_status lvn_common_file_close(struct lvn_common_file *f, enum lvn_status so_far);
/* Closes and does not sync: the file is opened again, and lvn_common_file_close() syncs it then. */
void lvn_common_file_close_unsynced(struct lvn_common_file *f);

#endif
