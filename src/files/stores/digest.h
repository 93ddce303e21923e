/* digest.h - checksums of files in the notation "md5:9e10...", "crc32c:a1b2c3d4", "crc64nvme:...", "sha256:...".
 * Downloads and uploads are verified with the checksums of stores. */
#ifndef LVN_DIGEST_H
#define LVN_DIGEST_H

#include "formats/sha256.h"

enum { LVN_DIGEST_TEXT = 80 };

/* An incremental checksum. */
struct lvn_digest {
    enum { LVN_DIGEST_CRC32C, LVN_DIGEST_CRC64NVME, LVN_DIGEST_MD5, LVN_DIGEST_SHA256 } kind;
    uint32_t crc32c;
    uint64_t crc64nvme;
    void *crypto; /* for MD5, and for SHA-256 if libcrypto is installed */
    struct lvn_sha256 sha256;
};
/* True if the kind with which `like` begins is supported. MD5 requires libcrypto. */
bool lvn_digest_is_supported(const char *like);
/* Start a checksum of the kind with which `like` begins, which must be supported. */
void lvn_digest_init(struct lvn_digest *digest, const char *like);
void lvn_digest_add(struct lvn_digest *digest, const void *data, int64_t bytes);
/* Add a chunk of which only the CRC-64 is known; false if the digest is of another kind. */
bool lvn_digest_combine(struct lvn_digest *digest, uint64_t crc64nvme, int64_t bytes);
/* Release an unfinished checksum; does nothing to a zeroed struct. */
void lvn_digest_release(struct lvn_digest *digest);
/* Write the result in the notation above; the digest cannot be used afterwards. */
void lvn_digest_finish(struct lvn_digest *digest, char text[LVN_DIGEST_TEXT]);

/* The checksum of a local file, of the kind with which `like` begins. */
enum lvn_status lvn_digest_file(const char *path, const char *like, char text[LVN_DIGEST_TEXT]) LVN_CHECKED;
/* Decode a CRC as stores send it, big-endian in base 64: ("crc32c:", "n03x6A==") becomes "crc32c:9f4df1e8". False, and
 * text unchanged, if it is malformed. */
bool lvn_digest_decode(const char *prefix, const char *base64, char text[LVN_DIGEST_TEXT]);
/* "MD5", "CRC-32C", "CRC-64", "SHA-256". */
const char *lvn_digest_name(const char *like);

#endif
