/* digest.c - see digest.h. MD5 uses libcrypto, and so does SHA-256 if it is installed, because it is several times
 * faster. */
#include "stores/digest.h"

#include "base/files.h"
#include "base/text.h"
#include "base/work.h"
#include "formats/crc.h"
#include "stores/crypto.h"

static const struct {
    const char *prefix, *name;
} kinds[] = {[LVN_DIGEST_CRC32C] = {"crc32c:", "CRC-32C"},
             [LVN_DIGEST_CRC64NVME] = {"crc64nvme:", "CRC-64"},
             [LVN_DIGEST_MD5] = {"md5:", "MD5"},
             [LVN_DIGEST_SHA256] = {"sha256:", "SHA-256"}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static int kind_of(const char *like)
{
    int kind = 0;
    while (kind < N_KINDS - 1 && strncmp(like, kinds[kind].prefix, strlen(kinds[kind].prefix)) != 0) kind++;
    return kind;
}

void lvn_digest_init(struct lvn_digest *digest, const char *like)
{
    *digest = (struct lvn_digest){.kind = kind_of(like)};
    if (digest->kind == LVN_DIGEST_MD5 || digest->kind == LVN_DIGEST_SHA256)
        digest->crypto = lvn_crypto_digest_new(digest->kind == LVN_DIGEST_MD5);
    lvn_sha256_init(&digest->sha256);
}

bool lvn_digest_is_supported(const char *like)
{
    void *crypto = kind_of(like) == LVN_DIGEST_MD5 ? lvn_crypto_digest_new(true) : NULL;
    lvn_crypto_digest_free(crypto);
    return crypto || kind_of(like) != LVN_DIGEST_MD5;
}

static void add(struct lvn_digest *digest, const void *data, int64_t bytes)
{
    switch (digest->kind) {
    case LVN_DIGEST_CRC32C:
        digest->crc32c = lvn_crc32c(digest->crc32c, data, bytes);
        break;
    case LVN_DIGEST_CRC64NVME:
        digest->crc64nvme = lvn_crc64nvme(digest->crc64nvme, data, bytes);
        break;
    case LVN_DIGEST_MD5:
    case LVN_DIGEST_SHA256:
        if (digest->crypto)
            lvn_crypto_digest_add(digest->crypto, data, (size_t)bytes);
        else
            lvn_sha256_add(&digest->sha256, data, (size_t)bytes);
        break;
    }
}

void lvn_digest_add(struct lvn_digest *digest, const void *data, int64_t bytes)
{
    for (int64_t offset = 0; offset < bytes; offset += LVN_WORK_CHUNK) {
        int64_t n = bytes - offset < LVN_WORK_CHUNK ? bytes - offset : LVN_WORK_CHUNK;
        add(digest, (const char *)data + offset, n);
        lvn_work_done(n);
    }
}

bool lvn_digest_combine(struct lvn_digest *digest, uint64_t crc64nvme, int64_t bytes)
{
    if (digest->kind != LVN_DIGEST_CRC64NVME) return false;
    digest->crc64nvme = lvn_crc64nvme_combine(digest->crc64nvme, crc64nvme, bytes);
    return true;
}

void lvn_digest_release(struct lvn_digest *digest)
{
    lvn_crypto_digest_free(digest->crypto);
    digest->crypto = NULL;
}

static void finish_crypto(const struct lvn_digest *digest, char *text)
{
    unsigned char out[LVN_CRYPTO_BYTES];
    const size_t bytes = digest->kind == LVN_DIGEST_MD5 ? 16 : 32;
    lvn_crypto_digest_end(digest->crypto, out);
    lvn_hex_text(out, bytes, text);
}

void lvn_digest_finish(struct lvn_digest *digest, char text[LVN_DIGEST_TEXT])
{
    int n = snprintf(text, LVN_DIGEST_TEXT, "%s", kinds[digest->kind].prefix);
    switch (digest->kind) {
    case LVN_DIGEST_CRC32C:
        snprintf(text + n, 9, "%08" PRIx32, digest->crc32c);
        break;
    case LVN_DIGEST_CRC64NVME:
        snprintf(text + n, 17, "%016" PRIx64, digest->crc64nvme);
        break;
    case LVN_DIGEST_MD5:
    case LVN_DIGEST_SHA256:
        if (digest->crypto)
            finish_crypto(digest, text + n);
        else
            lvn_sha256_finish(&digest->sha256, text + n);
        break;
    }
    lvn_digest_release(digest);
}

const char *lvn_digest_name(const char *like)
{
    return kinds[kind_of(like)].name;
}

bool lvn_digest_decode(const char *prefix, const char *base64, char text[LVN_DIGEST_TEXT])
{
    const int bytes = kind_of(prefix) == LVN_DIGEST_CRC64NVME ? 8 : 4;
    unsigned char crc[8];
    if (lvn_base64_bytes(base64, crc, bytes) != bytes) return false;
    snprintf(text, LVN_DIGEST_TEXT, "%s", prefix);
    lvn_hex_text(crc, (size_t)bytes, text + strlen(prefix));
    return true;
}

enum lvn_status lvn_digest_file(const char *path, const char *like, char text[LVN_DIGEST_TEXT])
{
    struct lvn_mapping mapping;
    struct lvn_digest digest;
    LVN_TRY(lvn_file_map(&mapping, path));
    lvn_digest_init(&digest, like);
    lvn_digest_add(&digest, mapping.data, mapping.bytes);
    lvn_file_unmap(&mapping);
    lvn_digest_finish(&digest, text);
    return LVN_OK;
}
