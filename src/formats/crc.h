/* crc.h - cyclic checksums of bytes that come in pieces: give back what came, 0 at first. */
#ifndef LVN_CRC_H
#define LVN_CRC_H

#include <stdint.h>

/* Of zip archives (IEEE 802.3). */
uint32_t lvn_crc32(uint32_t sum, const void *data, int64_t bytes);
/* Castagnoli's, RFC 3720: Google's, and one of S3's. */
uint32_t lvn_crc32c(uint32_t sum, const void *data, int64_t bytes);
/* Of the NVM Express specification (NVM command set, 64-bit protection information): S3's of any file that was sent
 * without another one. */
uint64_t lvn_crc64nvme(uint64_t sum, const void *data, int64_t bytes);
/* That of A followed by B, from A's, B's and the bytes of B. */
uint64_t lvn_crc64nvme_combine(uint64_t a, uint64_t b, int64_t b_bytes);

#endif
