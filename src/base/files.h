/* files.h - whole files, memory maps, atomic writes, directories and paths. Every room that touches files uses it.
 *
 * A failure is LVN_IO with a sentence that names the path and the system's reason (LVN_MEMORY if memory ran out).
 * Written data is on the disk when a function returns: file and directory are fsynced. Left out: streams
 * (base/output.h), devices and pipes as outputs (base/target.h), URLs (stores/store.h). */
#ifndef LVN_FILES_H
#define LVN_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

/* Reads the whole file into fresh memory (free() it), with a NUL after the last byte. LVN_FORMAT if the file has more
 * than `limit` bytes; limit 0: no limit. Also reads pipes and /proc. */
LVN_CHECKED enum lvn_status lvn_file_read(const char *path, int64_t limit, char **text, int64_t *bytes);
/* As lvn_file_read(), but also accepts named pipes. */
LVN_CHECKED enum lvn_status lvn_input_read(const char *path, int64_t limit, char **text, int64_t *bytes);

/* A read-only memory map of a file. An empty file has data == NULL and bytes == 0.
 *
 * Behind a map, a file that is cut off, or a server that fails, is a signal (SIGBUS) and no error. So a file of up to
 * LVN_FILE_COPY_BYTES that is not on a file system of this machine is read into memory instead. Larger ones are mapped;
 * what reads them for long reads windows (stores/streaming_file.h). */
struct lvn_mapping {
    const unsigned char *data;
    int64_t bytes;
};
enum { LVN_FILE_COPY_BYTES = 64 << 20 };
LVN_CHECKED enum lvn_status lvn_file_map(struct lvn_mapping *m, const char *path);
void lvn_file_unmap(struct lvn_mapping *m);

/* Is `path` on a file system of this machine alone, as ext4 or XFS, and not on NFS, Lustre or one that levin does not
 * know? False too if it cannot be found out. */
bool lvn_path_is_local(const char *path);
/* pread(2) of exactly `bytes` bytes, over signals. LVN_IO names `path`; also if the file ends before. */
LVN_CHECKED enum lvn_status lvn_fd_read_at(int fd, const char *path, void *to, int64_t offset, int64_t bytes);

/* Replaces or creates `path` atomically: hidden temporary file in the same directory, fsync, rename, fsync of the
 * directory. After a failure or a kill at any point the file has its old content or the new one. */
LVN_CHECKED enum lvn_status lvn_file_write(const char *path, const void *data, int64_t bytes);

/* write(2) until everything is written, over signals and short writes. False: errno holds the reason. */
bool lvn_fd_write(int fd, const void *data, int64_t bytes);

/* fsync of a file that is closed already. */
LVN_CHECKED enum lvn_status lvn_file_sync(const char *path);

/* rename(2): an existing file `to` is replaced. */
LVN_CHECKED enum lvn_status lvn_file_rename(const char *from, const char *to);
/* For tests: the k-th write, fsync, mkdir, rename or link from now (1, 2, ...) fails as on a full disk, and with
 * `sticky` all later ones too. k < 0: the process kills itself at the (-k)-th of these operations or of removals. 0
 * turns this off. Returns the number of operations since the last call. */
long lvn_files_fail_at(long k, bool sticky);
/* True if the next operation must fail for the test (errno is then ENOSPC). For code that makes system calls itself. */
bool lvn_files_refuse(void);

/* fsync of a directory, which makes its entries durable. Silent on file systems that do not support it. */
LVN_CHECKED enum lvn_status lvn_dir_sync(const char *path);
/* mkdir -p; an existing directory is no error. */
LVN_CHECKED enum lvn_status lvn_dir_make(const char *path);
/* rm -rf; follows no symbolic links; a missing path is no error. */
LVN_CHECKED enum lvn_status lvn_tree_remove(const char *path);
/* The same, best effort, for clean-up after a failure: records no error. */
void lvn_tree_drop(const char *path);
/* The entries of a directory without "." and "..", sorted by bytes, in the arena. */
LVN_CHECKED enum lvn_status lvn_dir_list(struct lvn_arena *a, const char *path, const char *const **names, int *n);

/* These follow symbolic links. False: missing, or not accessible. */
bool lvn_path_is_file(const char *path);
bool lvn_path_is_dir(const char *path);
bool lvn_path_exists(const char *path);
/* `~` and `~/x` with HOME in place of `~`, in the arena. Other paths, and all paths if HOME is not set, are returned
 * unchanged. NULL: out of memory. */
const char *lvn_path_home(struct lvn_arena *a, const char *path);
/* "dir/name" in the arena; only name if dir is "" or name is absolute. NULL: out of memory. */
char *lvn_path_join(struct lvn_arena *a, const char *dir, const char *name);
/* The part after the last slash; points into path. */
const char *lvn_path_name(const char *path);
/* The path without trailing slashes, in the arena; "/" stays. NULL: out of memory. */
char *lvn_path_plain(struct lvn_arena *a, const char *path);
/* Length of the path without its last extension (".yaml"); the whole length if it has none, as in "v1.2/.hidden". */
int64_t lvn_path_stem(const char *path);
/* The part before the last slash, "." if there is none, "/" for "/x", in the arena. NULL: out of memory. */
char *lvn_path_dir(struct lvn_arena *a, const char *path);

#endif
