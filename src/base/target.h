/* target.h - opens and writes files where a path may be something else than a file: a link, a device, a pipe.
 *
 * A path that the user names as an output is a target: symbolic links are followed and the file that they lead to is
 * replaced, so the link stays. A pipe, a terminal or another character device is a stream: it is written into and never
 * replaced. Folders, disks and sockets are refused. Files in folders that levin keeps for itself (runs, caches) are
 * opened with lvn_file_open_nofollow(), which follows no link: in a folder that others may write to, such a link could
 * lead anywhere. Errors as in files.h. */
#ifndef LVN_TARGET_H
#define LVN_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

struct lvn_target {
    const char *path; /* links are followed; of a stream as it was given */
    bool stream;      /* write into it; there is no file to replace */
    bool is_stdout;   /* the same stream as standard output, where nothing else may be printed then */
    int descriptor;   /* of this process, that a path such as /dev/stdout names; -1: none */
};
/* Finds out what stands at `path`; nothing there is a file to be made. `path` is kept, or a new one is in the arena. */
LVN_CHECKED enum lvn_status lvn_target_find(struct lvn_arena *a, const char *path, struct lvn_target *t);
/* The file to replace, for formats that cannot be written into a stream: streams are refused. In the arena. */
LVN_CHECKED enum lvn_status lvn_target_file(struct lvn_arena *a, const char *path, const char **file);
/* Opens a stream for writing. Waits for the reader of a named pipe. */
LVN_CHECKED enum lvn_status lvn_target_open(const struct lvn_target *t, int *fd);
/* A whole file: replaced as by lvn_file_write(), or written into a stream. */
LVN_CHECKED enum lvn_status lvn_target_write(const char *path, const void *data, int64_t bytes);

/* open(2) for writing of a regular file, `flags` with O_CREAT or without: no symbolic link is followed at the end of
 * the path, and nothing but a regular file is opened. */
LVN_CHECKED enum lvn_status lvn_file_open_nofollow(const char *path, int flags, int *fd);

#endif
