/* target.h - opens and writes output files where a path may name something else than a regular file.
 *
 * A path that the user names as an output is a target: symbolic links are followed and the file that they lead to is
 * replaced, so the link stays. A pipe, a terminal or another character device is a stream: it is written to and never
 * replaced. Directories, disks and sockets are refused. Files in levin's own directories (runs, caches) are opened with
 * lvn_file_open_nofollow(): others may be able to write to such a directory, and a link there could lead anywhere.
 * Errors as in files.h. */
#ifndef LVN_TARGET_H
#define LVN_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

struct lvn_target {
    const char *path; /* with links followed; of a stream as it was given */
    bool stream;      /* write to it; there is no file to replace */
    bool is_stdout;   /* the same stream as standard output; nothing else may be printed then */
    int descriptor;   /* descriptor of this process that a path such as /dev/stdout names; -1: none */
};
/* Finds what `path` is; a missing path is a file to be created. t->path is `path` itself or lies in the arena. */
LVN_CHECKED enum lvn_status lvn_target_find(struct lvn_arena *a, const char *path, struct lvn_target *t);
/* The file to replace, for formats that cannot be streamed: LVN_IO for a stream. In the arena. */
LVN_CHECKED enum lvn_status lvn_target_file(struct lvn_arena *a, const char *path, const char **file);
/* Opens a stream for writing. Waits for the reader of a named pipe. */
LVN_CHECKED enum lvn_status lvn_target_open(const struct lvn_target *t, int *fd);
/* Writes a whole file: replaced as by lvn_file_write(), or written to the stream. */
LVN_CHECKED enum lvn_status lvn_target_write(const char *path, const void *data, int64_t bytes);

/* open(2) for writing; `flags` with or without O_CREAT. Refuses a symbolic link as the last component, and everything
 * but regular files. */
LVN_CHECKED enum lvn_status lvn_file_open_nofollow(const char *path, int flags, int *fd);

#endif
