/* output.h - buffered writing of a file from its start; safetensors and checkpoint writers use it. Errors as in
 * files.h. */
#ifndef LVN_OUTPUT_H
#define LVN_OUTPUT_H

#include "base/status.h"

enum { LVN_OUTPUT_BUFFER = 1 << 20 };
/* After a failure all later calls return the same status, and lvn_output_close() only closes the file. */
struct lvn_output {
    int fd;
    enum lvn_status status;
    int64_t bytes; /* written, including those in the buffer */
    char *path;
    char *buffer;
    int64_t used; /* bytes in the buffer */
    bool no_sync; /* set by the caller after opening: close does not fsync, and the caller uses lvn_file_sync() later */
    /* direct I/O (lvn_output_bypass_cache()): whether it is on, seconds spent, bytes written */
    bool direct;
    double direct_s;
    int64_t direct_bytes;
};
enum lvn_status lvn_output_open(struct lvn_output *output, const char *path) LVN_CHECKED;
/* After opening: bypass the page cache (O_DIRECT) if the file system supports it and the disk is fast, so that writing
 * a large file uses no processor time of the threads that compute. Otherwise nothing changes. */
void lvn_output_bypass_cache(struct lvn_output *output);
enum lvn_status lvn_output_write(struct lvn_output *output, const void *data, int64_t bytes) LVN_CHECKED;
/* Write the buffer, fsync (unless `no_sync`) and close; returns the first failure. Requires a successful open. */
enum lvn_status lvn_output_close(struct lvn_output *output) LVN_CHECKED;

#endif
