/* sha256.h - SHA-256 (FIPS 180-4) and HMAC, incremental, for downloads and signatures. */
#ifndef LVN_SHA256_H
#define LVN_SHA256_H

#include "base/status.h"

struct lvn_sha256 {
    uint32_t h[8];
    uint64_t bytes;
    unsigned char block[64];
};
enum { LVN_SHA256_TEXT = 65, LVN_SHA256_BYTES = 32 };

void lvn_sha256_init(struct lvn_sha256 *sha);
void lvn_sha256_add(struct lvn_sha256 *sha, const void *data, size_t bytes);
/* 64 lower-case hexadecimal digits and a NUL. */
void lvn_sha256_finish(struct lvn_sha256 *sha, char text[LVN_SHA256_TEXT]);
/* SHA-256 of bytes in memory. */
void lvn_sha256_text(const void *data, size_t bytes, char text[LVN_SHA256_TEXT]);
/* HMAC (RFC 2104). */
void lvn_sha256_hmac(const void *key, size_t key_bytes, const void *data, size_t bytes,
                     unsigned char digest[LVN_SHA256_BYTES]);

#endif
