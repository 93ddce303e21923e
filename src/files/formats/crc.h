/* crc.h - incremental cyclic redundancy checks: pass 0 first, then the previous result. Used by zip archives,
 * TensorBoard events and the checksums of stores. */
#ifndef LVN_CRC_H
#define LVN_CRC_H

#include <stdint.h>

/* CRC-32 of zip archives (IEEE 802.3). */
uint32_t lvn_crc32(uint32_t crc, const void *data, int64_t bytes);
/* CRC-32C (Castagnoli; RFC 3720), used by TensorBoard, Google's storage and, as an option, S3. */
uint32_t lvn_crc32c(uint32_t crc, const void *data, int64_t bytes);
/* CRC-64 of the NVM Express specification (NVM command set, 64-bit protection information): S3's default for files
 * uploaded without another checksum. */
uint64_t lvn_crc64nvme(uint64_t crc, const void *data, int64_t bytes);
/* The CRC-64 of A followed by B, computed from the CRCs of A and B and the length of B. */
uint64_t lvn_crc64nvme_combine(uint64_t a, uint64_t b, int64_t b_bytes);

#endif
