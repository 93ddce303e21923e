/* resumable_file.h - a file that several runs append to: buffered and checksummed, and truncated to the length that the
 * last state recorded. Called by text_write.c. The caller records that state. */
#ifndef LVN_RESUMABLE_FILE_H
#define LVN_RESUMABLE_FILE_H

#include "base/status.h"
#include "formats/checksum.h"

struct lvn_resumable_file {
    int fd; /* -1: not open */
    char *path;
    char *buffer;
    int64_t used;            /* bytes in the buffer */
    int64_t bytes;           /* in all, with those in the buffer */
    struct lvn_checksum sum; /* of all bytes */
};

/* Open the file, verify that its first `bytes` bytes have the checksum `sum`, and truncate it to these. LVN_FORMAT
 * if it is shorter or differs (then nothing is open); LVN_IO, also if another process has it open; LVN_MEMORY. */
enum lvn_status lvn_resumable_file_open(struct lvn_resumable_file *f, const char *path, int64_t bytes,
                                        uint64_t sum) LVN_CHECKED;
enum lvn_status lvn_resumable_file_write(struct lvn_resumable_file *f, const void *p, int64_t bytes) LVN_CHECKED;
/* Keep the first `bytes` bytes. Read them again for their checksum. */
enum lvn_status lvn_resumable_file_truncate(struct lvn_resumable_file *f, int64_t bytes) LVN_CHECKED;
/* Write the buffer and call fsync(). */
enum lvn_status lvn_resumable_file_sync(struct lvn_resumable_file *f) LVN_CHECKED;
/* Discard the buffer. */
void lvn_resumable_file_close(struct lvn_resumable_file *f);

#endif
