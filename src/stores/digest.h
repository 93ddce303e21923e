/* digest.h - checksums of files as stores keep them, written "md5:9e10...", "crc32c:a1b2c3d4", "crc64nvme:...",
 * "sha256:...". */
#ifndef LVN_DIGEST_H
#define LVN_DIGEST_H

#include <stdbool.h>

#include "formats/sha256.h"

enum { LVN_DIGEST_TEXT = 80 };

/* Of bytes that come one after the other. */
struct lvn_digest {
    enum { LVN_DIGEST_CRC32C, LVN_DIGEST_CRC64NVME, LVN_DIGEST_MD5, LVN_DIGEST_SHA256 } kind;
    uint32_t crc32c;
    uint64_t crc64nvme;
    void *crypto; /* of MD5, and of SHA-256 where libcrypto is here */
    struct lvn_sha256 sha256;
};
/* Whether the kind that `like` begins with can be computed here: MD5 cannot without libcrypto. */
bool lvn_digest_is_supported(const char *like);
/* Of the kind that `like` begins with, which must be known. */
void lvn_digest_init(struct lvn_digest *d, const char *like);
void lvn_digest_add(struct lvn_digest *d, const void *data, int64_t bytes);
/* Adds a piece that is known by its CRC-64 alone; false where the digest is of another kind. */
bool lvn_digest_combine(struct lvn_digest *d, uint64_t crc64nvme, int64_t bytes);
/* Of one that is not finished; all zero is fine. */
void lvn_digest_release(struct lvn_digest *d);
/* "md5:..." and so on; the digest is used up. */
void lvn_digest_finish(struct lvn_digest *d, char text[LVN_DIGEST_TEXT]);

/* That of a local file, of the kind that `like` begins with. */
LVN_CHECKED enum lvn_status lvn_digest_file(const char *path, const char *like, char text[LVN_DIGEST_TEXT]);
/* A CRC as stores write it, big-endian in base 64, into the text of a digest: ("crc32c:", "n03x6A==") becomes
 * "crc32c:9f4df1e8". False, and text as it was, where it is none. */
bool lvn_digest_decode(const char *prefix, const char *base64, char text[LVN_DIGEST_TEXT]);
/* "MD5", "CRC-32C", "CRC-64", "SHA-256". */
const char *lvn_digest_name(const char *like);

#endif
