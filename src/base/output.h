/* output.h - a file being written from its start, through a buffer; errors as in files.h. */
#ifndef LVN_OUTPUT_H
#define LVN_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { LVN_OUTPUT_BUFFER = 1 << 20 };
/* After a failure each further call fails alike, and close only closes. */
struct lvn_output {
    int fd;
    enum lvn_status status;
    int64_t bytes;
    char *path, *buffer;
    int64_t used;
    bool no_sync; /* set after opening: close does not fsync, lvn_file_sync() will */
    /* lvn_output_bypass_cache(): what is written so and how long it took */
    bool direct;
    double direct_s;
    int64_t direct_bytes;
};
LVN_CHECKED enum lvn_status lvn_output_open(struct lvn_output *o, const char *path);
/* After opening: go past the system's cache (O_DIRECT) where the file system can and the disk is fast, so that writing
 * a large file takes no processor from those who compute. Where not, nothing changes. */
void lvn_output_bypass_cache(struct lvn_output *o);
LVN_CHECKED enum lvn_status lvn_output_write(struct lvn_output *o, const void *data, int64_t bytes);
/* Writes what is buffered, fsyncs (unless `later`) and closes; returns the first failure. To be called after a
 * successful open. */
LVN_CHECKED enum lvn_status lvn_output_close(struct lvn_output *o);

#endif
