/* append_file.h - an append-only log file that others may read while it grows. The metrics logger and TensorBoard's
 * writer use it.
 *
 * Writes are buffered: the first write that comes 0.25 s or more after the last flush flushes the buffer, so a step of
 * 100 microseconds makes no system call. A failed flush leaves no partial row in the file; its rows are lost, and later
 * rows are written normally. There is no timer: rows remain in the buffer until the next write or flush. */
#ifndef LVN_APPEND_FILE_H
#define LVN_APPEND_FILE_H

#include "base/text.h"

struct lvn_append_file {
    int fd; /* open for writing; rows go to the end of the file */
    bool is_open;
    struct lvn_text pending;
    double last_write_s; /* lvn_seconds() of the last flush */
};

/* Take ownership of the descriptor. */
void lvn_append_file_open(struct lvn_append_file *file, int fd);
/* Add n bytes to the buffer and flush it if 0.25 s have passed. LVN_IO if the flush failed; the buffered rows are
 * then lost. */
enum lvn_status lvn_append_file_write(struct lvn_append_file *file, const void *p, int64_t n) LVN_CHECKED;
enum lvn_status lvn_append_file_flush(struct lvn_append_file *file) LVN_CHECKED;
/* Flush and close the file. Does nothing to a zeroed struct. */
enum lvn_status lvn_append_file_close(struct lvn_append_file *file);

#endif
