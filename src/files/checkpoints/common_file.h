/* common_file.h - a file that several processes write concurrently, each its own bytes, on a file system that supports
 * this. Checkpoints in which every rank writes its shards use it.
 *
 * One process creates the file with its full size; then all open it. Errors as in files.h. */
#ifndef LVN_COMMON_FILE_H
#define LVN_COMMON_FILE_H

#include "base/status.h"

/* True if the file system of `path` keeps concurrent writes of several processes to any bytes of one file, also from
 * several hosts: a local file system, or Lustre, GPFS, BeeGFS, CephFS. Clients of NFS and SMB write whole pages, which
 * may overwrite the bytes of others. False too for an unknown file system. */
bool lvn_path_has_common_writes(const char *path);

/* Buffer for blocks that bypass the page cache: its bytes, and its alignment (which satisfies every disk). */
enum { LVN_DIRECT_BYTES = 4 << 20, LVN_DIRECT_UNIT = 4096 };

struct lvn_common_file {
    int fd;
    int direct;       /* the same file without the page cache (O_DIRECT), for whole blocks; -1: not supported */
    char *block;      /* owned by the caller; NULL: none */
    const char *path; /* owned by the caller */
};
/* Create a file of `bytes`, which begins with data [n]; the rest is zeros. It is synced when it is closed after a
 * write. */
enum lvn_status lvn_common_file_create(const char *path, const void *data, int64_t n, int64_t bytes) LVN_CHECKED;
/* block: [LVN_DIRECT_BYTES], for files that are open one after the other; NULL: all writes use the page cache. */
enum lvn_status lvn_common_file_open(struct lvn_common_file *file, const char *path, char *block) LVN_CHECKED;
/* Whole blocks bypass the page cache if the file system supports it; the system starts to write the rest to the disk
 * immediately. */
enum lvn_status lvn_common_file_write(const struct lvn_common_file *file, const void *data, int64_t offset,
                                      int64_t bytes) LVN_CHECKED;
/* Close; `so_far` is the status of writing: if it is OK, the bytes of this process are on the disk. */
enum lvn_status lvn_common_file_close(struct lvn_common_file *file, enum lvn_status so_far) LVN_CHECKED;
/* Close without sync, if the file is opened again and lvn_common_file_close() syncs it then. */
void lvn_common_file_close_unsynced(struct lvn_common_file *file);

#endif
