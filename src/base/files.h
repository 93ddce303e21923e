/* files.h - whole files, memory maps, writes that are all or nothing, directories, paths.
 *
 * Each failure is LVN_IO with a sentence that names the path and the system's reason (LVN_MEMORY where memory ran out).
 * What is written is on the disk when a function returns: file and directory are fsynced. */
#ifndef LVN_FILES_H
#define LVN_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

/* The whole file into fresh memory (free() it), with a NUL behind the last byte. A file of more than `limit` bytes is
 * refused with LVN_FORMAT; limit 0: none. Works for pipes and /proc too. */
LVN_CHECKED enum lvn_status lvn_file_read(const char *path, int64_t limit, char **text, int64_t *bytes);

/* A file seen as memory, read-only. An empty file has data == NULL and bytes == 0. */
struct lvn_mapping {
    const unsigned char *data;
    int64_t bytes;
};
LVN_CHECKED enum lvn_status lvn_file_map(struct lvn_mapping *m, const char *path);
void lvn_file_unmap(struct lvn_mapping *m);

/* Replaces or creates `path`: a hidden temporary file beside it, fsync, rename, fsync of the directory. After a failure
 * or a kill at any moment the old content is there, or the new one. */
LVN_CHECKED enum lvn_status lvn_file_write(const char *path, const void *data, int64_t bytes);

/* write(2) until all is written: signals and short writes do not end it. False: errno says why. */
bool lvn_fd_write(int fd, const void *data, int64_t bytes);

/* fsync of a file that is closed. */
LVN_CHECKED enum lvn_status lvn_file_sync(const char *path);

/* rename(2): to replaces a file of that name. */
LVN_CHECKED enum lvn_status lvn_file_rename(const char *from, const char *to);
/* For tests. Make the k-th write, fsync, mkdir, rename or link from now (1, 2, ...) fail as on a full disk, and all
 * after it too when `sticky`; k < 0: the process kills itself at the (-k)-th of these or of the removals; 0 turns it
 * off. Returns how many there were since the last call. */
long lvn_files_fail_at(long k, bool sticky);
/* True when that is to fail now (errno is then ENOSPC); for code that calls the system itself. */
bool lvn_files_refuse(void);

/* fsync of a directory, so that the names in it last. Silent where a file system cannot do that. */
LVN_CHECKED enum lvn_status lvn_dir_sync(const char *path);
/* mkdir -p; fine when it is there. */
LVN_CHECKED enum lvn_status lvn_dir_make(const char *path);
/* rm -rf, following no symbolic links; fine when it is not there. */
LVN_CHECKED enum lvn_status lvn_tree_remove(const char *path);
/* The same as well as it goes, for clean-up after a failure: records nothing. */
void lvn_tree_drop(const char *path);
/* The names in a directory without "." and "..", sorted by bytes, in the arena. */
LVN_CHECKED enum lvn_status lvn_dir_list(struct lvn_arena *a, const char *path, const char *const **names, int *n);

/* Follow symbolic links; false when it is not there or cannot be looked at. */
bool lvn_path_is_file(const char *path);
bool lvn_path_is_dir(const char *path);
bool lvn_path_exists(const char *path);
/* `~` and `~/x` with the home folder of HOME, in the arena; what else there is, and all without HOME, as it is. NULL:
 * no memory. */
const char *lvn_path_home(struct lvn_arena *a, const char *path);
/* "dir/name" in the arena; name alone when dir is "" or name is absolute. NULL when memory ran out. */
char *lvn_path_join(struct lvn_arena *a, const char *dir, const char *name);
/* The part after the last slash; points into path. */
const char *lvn_path_name(const char *path);
/* A path without slashes at its end, as shells complete it, in the arena; "/" stays. NULL when memory ran out. */
char *lvn_path_plain(struct lvn_arena *a, const char *path);
/* Bytes of a path without its last ending (".yaml"); all of them where there is none, as in "v1.2/.hidden". */
int64_t lvn_path_stem(const char *path);
/* All before the last slash, "." when there is none, "/" for "/x", in the arena. NULL when memory ran out. */
char *lvn_path_dir(struct lvn_arena *a, const char *path);

#endif
