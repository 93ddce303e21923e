/* resumable_file.h - a file that grows, over several runs if need be: appended to, checksummed, cut back to what is
 * known.
 */
#ifndef LVN_RESUMABLE_FILE_H
#define LVN_RESUMABLE_FILE_H

#include "base/status.h"
#include "formats/checksum.h"

struct lvn_resumable_file {
    int fd; /* -1: not open */
    char *path;
    char *buffer;
    int64_t used, bytes; /* in the buffer; in all, with these */
    struct lvn_checksum sum;
};

/* Open path, keep its first `bytes` bytes if their checksum is `sum`, and cut off the rest. LVN_FORMAT when there are
 * fewer or others (then nothing is open); LVN_IO, LVN_MEMORY. One process at a time may have it open. */
enum lvn_status lvn_resumable_file_open(struct lvn_resumable_file *f, const char *path, int64_t bytes,
                                        uint64_t sum) LVN_CHECKED;
enum lvn_status lvn_resumable_file_write(struct lvn_resumable_file *f, const void *p, int64_t bytes) LVN_CHECKED;
/* All of it is on the disk afterwards. */
enum lvn_status lvn_resumable_file_sync(struct lvn_resumable_file *f) LVN_CHECKED;
/* What is only in the buffer is lost. */
void lvn_resumable_file_close(struct lvn_resumable_file *f);

#endif
