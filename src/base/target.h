/* target.h - opens and writes output files if a path may refer to something other than a regular file.
 *
 * A path that the user specifies as an output is a target. Symbolic links are followed, and the file to which they lead
 * is replaced, so the link remains. A pipe, a terminal or another character device is a stream: it is written to and
 * never replaced. Directories, disks and sockets are refused. Files in levin's own directories (runs, caches) are
 * opened with lvn_file_open_nofollow(), because other users may be able to write to such a directory and place a link
 * there. Errors as in files.h. */
#ifndef LVN_TARGET_H
#define LVN_TARGET_H

#include "base/arena.h"
#include "base/status.h"

struct lvn_target {
    const char *path; /* with links followed; for a stream as it was specified */
    bool stream;      /* write to it; no file is replaced */
    bool is_stdout;   /* it is also standard output, so nothing else may be printed */
    int descriptor;   /* descriptor of this process to which a path such as /dev/stdout refers; -1: none */
};
/* Determine what `path` is; a missing path is a file to create. target->path is `path` itself or in the arena. */
enum lvn_status lvn_target_find(struct lvn_arena *a, const char *path, struct lvn_target *target) LVN_CHECKED;
/* The file to replace, for formats that cannot be streamed: LVN_IO for a stream. In the arena. */
enum lvn_status lvn_target_file(struct lvn_arena *a, const char *path, const char **file) LVN_CHECKED;
/* Open a stream for writing. Waits for the reader of a named pipe. */
enum lvn_status lvn_target_open(const struct lvn_target *target, int *fd) LVN_CHECKED;
/* Write a whole file: replaced as by lvn_file_write(), or written to the stream. */
enum lvn_status lvn_target_write(const char *path, const void *data, int64_t bytes) LVN_CHECKED;

/* open(2) for writing; `flags` with or without O_CREAT. Refuses a symbolic link as the last component, and everything
 * except regular files. */
enum lvn_status lvn_file_open_nofollow(const char *path, int flags, int *fd) LVN_CHECKED;

#endif
