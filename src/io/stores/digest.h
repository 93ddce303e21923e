/* digest.h - checksums of files as stores keep them, written "md5:9e10...", "crc32c:a1b2c3d4", "sha256:...". */
#ifndef LVN_DIGEST_H
#define LVN_DIGEST_H

#include <stdint.h>

#include "base/status.h"

enum { LVN_DIGEST_TEXT = 80, LVN_MD5_BYTES = 16 };

/* That of a local file, of the kind that `like` begins with. */
LVN_CHECKED enum lvn_status lvn_digest_file(const char *path, const char *like, char text[LVN_DIGEST_TEXT]);
/* "MD5", "CRC-32C", "SHA-256". */
const char *lvn_digest_name(const char *like);

/* MD5 (RFC 1321) of bytes in memory: an old checksum that finds accidents, and no more. */
void lvn_md5(const void *data, int64_t bytes, unsigned char digest[LVN_MD5_BYTES]);
/* CRC-32C (Castagnoli, RFC 3720) of bytes behind those that gave `sum`; 0 at first. */
uint32_t lvn_crc32c(uint32_t sum, const void *data, int64_t bytes);

#endif
