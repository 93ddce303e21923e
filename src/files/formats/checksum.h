/* checksum.h - XXH64, the checksum of tensors and files in checkpoints and caches.
 *
 * It detects accidental damage (bad disks, truncated files), not forgery, at the speed of memory. Based on the XXH64
 * specification (xxHash fast digest algorithm, doc/xxhash_spec.md), seed 0, so that other tools can verify it. */
#ifndef LVN_CHECKSUM_H
#define LVN_CHECKSUM_H

#include "base/status.h"

struct lvn_checksum {
    uint64_t lane[4];
    uint64_t bytes;
    unsigned char tail[32]; /* bytes of an incomplete stripe */
};
enum { LVN_CHECKSUM_TEXT = 17 };

void lvn_checksum_init(struct lvn_checksum *checksum);
void lvn_checksum_add(struct lvn_checksum *checksum, const void *data, int64_t bytes);
/* Add a text and its NUL; NULL is "". */
void lvn_checksum_add_text(struct lvn_checksum *checksum, const char *text);
/* The checksum of the bytes so far; more may be added afterwards. */
uint64_t lvn_checksum_value(const struct lvn_checksum *checksum);
uint64_t lvn_checksum(const void *data, int64_t bytes);
/* Read the next n bytes of a file, through a buffer, and add them. */
enum lvn_status lvn_checksum_add_file(struct lvn_checksum *checksum, int fd, const char *path, int64_t n, void *buffer,
                                      int64_t capacity) LVN_CHECKED;
/* 16 lower-case hexadecimal digits and a NUL; returns text. */
char *lvn_checksum_text(uint64_t value, char text[LVN_CHECKSUM_TEXT]);

#endif
