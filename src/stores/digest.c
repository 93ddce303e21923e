/* digest.c - see digest.h. MD5 by the rounds of RFC 1321. */
#include "stores/digest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "formats/crc.h"

/* --- MD5 --- */

/* floor(2^32 |sin(i + 1)|) */
static const uint32_t K[64] = {
    0xd76aa478, 0xe8c7b756, 0x242070db, 0xc1bdceee, 0xf57c0faf, 0x4787c62a, 0xa8304613, 0xfd469501,
    0x698098d8, 0x8b44f7af, 0xffff5bb1, 0x895cd7be, 0x6b901122, 0xfd987193, 0xa679438e, 0x49b40821,
    0xf61e2562, 0xc040b340, 0x265e5a51, 0xe9b6c7aa, 0xd62f105d, 0x02441453, 0xd8a1e681, 0xe7d3fbc8,
    0x21e1cde6, 0xc33707d6, 0xf4d50d87, 0x455a14ed, 0xa9e3e905, 0xfcefa3f8, 0x676f02d9, 0x8d2a4c8a,
    0xfffa3942, 0x8771f681, 0x6d9d6122, 0xfde5380c, 0xa4beea44, 0x4bdecfa9, 0xf6bb4b60, 0xbebfbc70,
    0x289b7ec6, 0xeaa127fa, 0xd4ef3085, 0x04881d05, 0xd9d4d039, 0xe6db99e5, 0x1fa27cf8, 0xc4ac5665,
    0xf4292244, 0x432aff97, 0xab9423a7, 0xfc93a039, 0x655b59c3, 0x8f0ccc92, 0xffeff47d, 0x85845dd1,
    0x6fa87e4f, 0xfe2ce6e0, 0xa3014314, 0x4e0811a1, 0xf7537e82, 0xbd3af235, 0x2ad7d2bb, 0xeb86d391,
};

static inline uint32_t rotate_left(uint32_t x, int n)
{
    return x << n | x >> (32 - n);
}

static inline uint32_t word(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void block(uint32_t h[4], const unsigned char *p)
{
    uint32_t a = h[0], b = h[1], c = h[2], d = h[3], w[16];
    for (int i = 0; i < 16; i++) w[i] = word(p + (size_t)4 * (size_t)i);
        /* Four steps a rotate_left, each with the names moved by one. */
#define STEP(a, b, f, i, k, s) a = (b) + rotate_left(a + (f) + K[i] + w[(k)&15], s)
#define FOUR(F, i, k, by, s0, s1, s2, s3)                                                                              \
    STEP(a, b, F(b, c, d), i, k, s0);                                                                                  \
    STEP(d, a, F(a, b, c), (i) + 1, (k) + (by), s1);                                                                   \
    STEP(c, d, F(d, a, b), (i) + 2, (k) + 2 * (by), s2);                                                               \
    STEP(b, c, F(c, d, a), (i) + 3, (k) + 3 * (by), s3)
#define F0(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define F1(x, y, z) (((x) & (z)) + ((y) & ~(z)))
#define F2(x, y, z) ((x) ^ (y) ^ (z))
#define F3(x, y, z) ((y) ^ ((x) | ~(z)))
    for (int i = 0; i < 16; i += 4) {
        FOUR(F0, i, i, 1, 7, 12, 17, 22);
    }
    for (int i = 16; i < 32; i += 4) {
        FOUR(F1, i, 5 * i + 1, 5, 5, 9, 14, 20);
    }
    for (int i = 32; i < 48; i += 4) {
        FOUR(F2, i, 3 * i + 5, 3, 4, 11, 16, 23);
    }
    for (int i = 48; i < 64; i += 4) {
        FOUR(F3, i, 7 * i, 7, 6, 10, 15, 21);
    }
#undef STEP
#undef FOUR
#undef F0
#undef F1
#undef F2
#undef F3
    h[0] += a;
    h[1] += b;
    h[2] += c;
    h[3] += d;
}

static void add_md5(struct lvn_digest *d, const unsigned char *p, int64_t bytes)
{
    size_t held = (size_t)(d->md5.bytes % 64);
    d->md5.bytes += (uint64_t)bytes;
    if (held) {
        size_t n = 64 - held < (size_t)bytes ? 64 - held : (size_t)bytes;
        memcpy(d->md5.block + held, p, n);
        if (held + n < 64) return;
        block(d->md5.h, d->md5.block);
        p += n;
        bytes -= (int64_t)n;
    }
    for (; bytes >= 64; bytes -= 64, p += 64) block(d->md5.h, p);
    if (bytes) memcpy(d->md5.block, p, (size_t)bytes);
}

static void finish_md5(struct lvn_digest *d, char *text)
{
    unsigned char end[72] = {0x80};
    uint64_t bits = d->md5.bytes * 8;
    size_t n = 1 + (size_t)((119 - d->md5.bytes % 64) % 64); /* so that 56 bytes stand in the last block */
    for (int i = 0; i < 8; i++) end[n + (size_t)i] = (unsigned char)(bits >> 8 * i);
    add_md5(d, end, (int64_t)n + 8);
    for (int i = 0; i < 16; i++) snprintf(text + (size_t)2 * (size_t)i, 3, "%02x", d->md5.h[i / 4] >> i % 4 * 8 & 255);
}

/* --- all of them --- */

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

void lvn_digest_init(struct lvn_digest *d, const char *like)
{
    *d = (struct lvn_digest){.kind = kind_of(like), .md5.h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}};
    lvn_sha256_init(&d->sha256);
}

void lvn_digest_add(struct lvn_digest *d, const void *data, int64_t bytes)
{
    switch (d->kind) {
    case LVN_DIGEST_CRC32C:
        d->crc32c = lvn_crc32c(d->crc32c, data, bytes);
        break;
    case LVN_DIGEST_CRC64NVME:
        d->crc64nvme = lvn_crc64nvme(d->crc64nvme, data, bytes);
        break;
    case LVN_DIGEST_MD5:
        add_md5(d, data, bytes);
        break;
    case LVN_DIGEST_SHA256:
        lvn_sha256_add(&d->sha256, data, (size_t)bytes);
        break;
    }
}

bool lvn_digest_join(struct lvn_digest *d, uint64_t crc64nvme, int64_t bytes)
{
    if (d->kind != LVN_DIGEST_CRC64NVME) return false;
    d->crc64nvme = lvn_crc64nvme_join(d->crc64nvme, crc64nvme, bytes);
    return true;
}

void lvn_digest_finish(struct lvn_digest *d, char text[LVN_DIGEST_TEXT])
{
    int n = snprintf(text, LVN_DIGEST_TEXT, "%s", kinds[d->kind].prefix);
    switch (d->kind) {
    case LVN_DIGEST_CRC32C:
        snprintf(text + n, 9, "%08" PRIx32, d->crc32c);
        break;
    case LVN_DIGEST_CRC64NVME:
        snprintf(text + n, 17, "%016" PRIx64, d->crc64nvme);
        break;
    case LVN_DIGEST_MD5:
        finish_md5(d, text + n);
        break;
    case LVN_DIGEST_SHA256:
        lvn_sha256_finish(&d->sha256, text + n);
        break;
    }
}

const char *lvn_digest_name(const char *like)
{
    return kinds[kind_of(like)].name;
}

bool lvn_digest_decode(const char *prefix, const char *base64, char text[LVN_DIGEST_TEXT])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const int bytes = kind_of(prefix) == LVN_DIGEST_CRC64NVME ? 8 : 4, n_digits = (bytes * 8 + 5) / 6;
    uint64_t x = 0;
    for (int i = 0; i < n_digits; i++) {
        const char *digit = base64[i] ? strchr(digits, base64[i]) : NULL;
        if (!digit) return false;
        const uint64_t six = (uint64_t)(digit - digits);
        x = i + 1 < n_digits ? x << 6 | six : x << (bytes * 8 - 6 * i) | six >> (6 * n_digits - bytes * 8);
    }
    snprintf(text, LVN_DIGEST_TEXT, "%s%0*" PRIx64, prefix, 2 * bytes, x);
    return true;
}

enum lvn_status lvn_digest_file(const char *path, const char *like, char text[LVN_DIGEST_TEXT])
{
    struct lvn_mapping m;
    struct lvn_digest d;
    LVN_TRY(lvn_file_map(&m, path));
    lvn_digest_init(&d, like);
    lvn_digest_add(&d, m.data, m.bytes);
    lvn_file_unmap(&m);
    lvn_digest_finish(&d, text);
    return LVN_OK;
}
