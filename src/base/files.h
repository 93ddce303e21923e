/* files.h - whole files, memory maps, atomic writes, directories and paths. All folders of src use it.
 *
 * A failure is LVN_IO with a message that contains the path and the system's reason (LVN_MEMORY if memory is
 * exhausted). Written data is on the disk when a function returns: file and directory are fsynced. For streams see
 * base/output.h, for devices and pipes as outputs base/target.h, for URLs stores/store.h. */
#ifndef LVN_FILES_H
#define LVN_FILES_H

#include "base/arena.h"
#include "base/status.h"

/* Read the whole file into memory that the caller frees, with a NUL after the last byte. LVN_FORMAT if the file has
 * more than `limit` bytes; limit 0: no limit. Also reads pipes and /proc. */
enum lvn_status lvn_file_read(const char *path, int64_t limit, char **text, int64_t *bytes) LVN_CHECKED;
/* Like lvn_file_read(), but also accepts named pipes. */
enum lvn_status lvn_input_read(const char *path, int64_t limit, char **text, int64_t *bytes) LVN_CHECKED;

/* A read-only memory map of a file. An empty file has data == NULL and bytes == 0.
 *
 * If a mapped file is truncated or its server fails, access raises a signal (SIGBUS) and not an error. So a file of up
 * to LVN_FILE_COPY_BYTES that is not on a local file system is read into memory instead. Larger ones are mapped; code
 * that reads them for a long time reads windows (stores/streaming_file.h). */
struct lvn_mapping {
    const unsigned char *data;
    int64_t bytes;
    bool copied; /* memory with the file's contents, which is not loaded again */
};
enum { LVN_FILE_COPY_BYTES = 64 << 20 };
enum lvn_status lvn_file_map(struct lvn_mapping *mapping, const char *path) LVN_CHECKED;
void lvn_file_unmap(struct lvn_mapping *mapping);
/* The pages that were read leave the process's memory; those that are read again are loaded again. */
void lvn_file_map_drop(const struct lvn_mapping *mapping);

/* True if `path` is on a local file system, such as ext4 or XFS, and not on NFS, Lustre or an unknown one. False too if
 * that cannot be determined. */
bool lvn_path_is_local(const char *path);
/* pread(2) of exactly `bytes` bytes, restarted after signals. LVN_IO, which names `path`, also if the file ends before.
 */
enum lvn_status lvn_fd_read_at(int fd, const char *path, void *to, int64_t offset, int64_t bytes) LVN_CHECKED;

/* Replace or create `path` atomically: hidden temporary file in the same directory, fsync, rename, fsync of the
 * directory. After a failure or a kill at any point the file has either its old or its new content. */
enum lvn_status lvn_file_write(const char *path, const void *data, int64_t bytes) LVN_CHECKED;

/* write(2) until everything is written, restarted after signals and short writes. False: errno has the reason. */
bool lvn_fd_write(int fd, const void *data, int64_t bytes);

/* fsync of a file that is already closed. */
enum lvn_status lvn_file_sync(const char *path) LVN_CHECKED;

/* rename(2): an existing file `to` is replaced. */
enum lvn_status lvn_file_rename(const char *from, const char *to) LVN_CHECKED;

/* fsync of a directory, which makes its entries durable. Silent on file systems that do not support it. */
enum lvn_status lvn_dir_sync(const char *path) LVN_CHECKED;
/* mkdir -p; an existing directory is not an error. */
enum lvn_status lvn_dir_make(const char *path) LVN_CHECKED;
/* rm -rf; does not follow symbolic links; a missing path is not an error. */
enum lvn_status lvn_tree_remove(const char *path) LVN_CHECKED;
/* The same for clean-up after a failure: records no error. */
void lvn_tree_drop(const char *path);
/* The entries of a directory without "." and "..", sorted by bytes, in the arena. */
enum lvn_status lvn_dir_list(struct lvn_arena *a, const char *path, const char *const **names, int *n) LVN_CHECKED;

/* These follow symbolic links. False if the path is missing or not accessible. */
bool lvn_path_is_file(const char *path);
bool lvn_path_is_dir(const char *path);
bool lvn_path_exists(const char *path);
/* True if both exist and are the same file or folder. */
bool lvn_path_same(const char *one, const char *two);
/* *found: does the path exist? A dangling link counts as missing. Unlike lvn_path_exists(), IO if this cannot be
 * determined, for example because a folder is not accessible. */
enum lvn_status lvn_path_find(const char *path, bool *found) LVN_CHECKED;
/* True if the path, whose last components need not exist, is below the folder `dir`. False for a dangling symbolic
 * link, and for a path below `dir` with a component that begins with a dot, such as ".ssh". */
bool lvn_path_is_below(const char *path, const char *dir);
/* The same for a file of a model's folder. Links from a snapshot of Hugging Face's cache to its blobs are also below.
 */
bool lvn_path_is_inside(const char *dir, const char *path);
/* `~` and `~/x` with HOME instead of `~`, in the arena. Other paths, and all paths if HOME is not set, are returned
 * unchanged. NULL: out of memory. */
const char *lvn_path_home(struct lvn_arena *a, const char *path);
/* "dir/name" in the arena; only name if dir is "" or name is absolute. NULL: out of memory. */
char *lvn_path_join(struct lvn_arena *a, const char *dir, const char *name);
/* The part after the last slash; points into path. */
const char *lvn_path_name(const char *path);
/* The path without trailing slashes, in the arena; "/" is unchanged. NULL: out of memory. */
char *lvn_path_plain(struct lvn_arena *a, const char *path);
/* Length of the path without its last extension (".yaml"); the whole length if it has none, as in "v1.2/.hidden". */
int64_t lvn_path_stem(const char *path);
/* The part before the last slash, "." if there is none, "/" for "/x", in the arena. NULL: out of memory. */
char *lvn_path_dir(struct lvn_arena *a, const char *path);

#endif
