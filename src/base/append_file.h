/* append_file.h - a file that grows while others read it: rows of metrics, events.
 *
 * What is put is written together, a quarter of a second after the last time at the latest, if anything is put then,
 * and when it is flushed: a step of 100 microseconds has no time for the system. Half of what was put is never left
 * behind: of a write that fails nothing stays, and the next one is tried anew. */
#ifndef LVN_APPEND_FILE_H
#define LVN_APPEND_FILE_H

#include "base/text.h"

struct lvn_append_file {
    int fd; /* a file's, whose end is written to */
    bool is_open;
    struct lvn_text pending;
    double last_write_s; /* lvn_seconds(), the last time */
};

/* Takes over the file. */
void lvn_append_file_open(struct lvn_append_file *a, int fd);
/* IO when it was time to write, and that failed: what was pending is lost. */
enum lvn_status lvn_append_file_write(struct lvn_append_file *a, const void *p, int64_t n) LVN_CHECKED;
enum lvn_status lvn_append_file_flush(struct lvn_append_file *a) LVN_CHECKED;
/* Flushes, and closes the file; of zeros: nothing. */
enum lvn_status lvn_append_file_close(struct lvn_append_file *a);

#endif
