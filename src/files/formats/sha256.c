/* sha256.c - see sha256.h: FIPS 180-4, 64 rounds on each block of 64 bytes. */
#include "formats/sha256.h"

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate_right(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void block(uint32_t h[8], const unsigned char *p)
{
    uint32_t w[64];
    for (int t = 0; t < 16; t++, p += 4)
        w[t] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = rotate_right(w[t - 15], 7) ^ rotate_right(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotate_right(w[t - 2], 17) ^ rotate_right(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = w[t - 16] + s0 + w[t - 7] + s1;
    }
    uint32_t v[8];
    memcpy(v, h, sizeof v);
    /* The standard moves all eight words in each round; rotating the names instead is several times faster. */
    for (int t = 0; t < 64; t += 8) {
#define ROUND(a, b, c, d, e, f, g, h, i)                                                                               \
    do {                                                                                                               \
        uint32_t t1 = v[h] + (rotate_right(v[e], 6) ^ rotate_right(v[e], 11) ^ rotate_right(v[e], 25)) +               \
                      ((v[e] & v[f]) ^ (~v[e] & v[g])) + K[t + i] + w[t + i];                                          \
        v[d] += t1;                                                                                                    \
        v[h] = t1 + (rotate_right(v[a], 2) ^ rotate_right(v[a], 13) ^ rotate_right(v[a], 22)) +                        \
               ((v[a] & v[b]) ^ (v[a] & v[c]) ^ (v[b] & v[c]));                                                        \
    } while (0)
        ROUND(0, 1, 2, 3, 4, 5, 6, 7, 0);
        ROUND(7, 0, 1, 2, 3, 4, 5, 6, 1);
        ROUND(6, 7, 0, 1, 2, 3, 4, 5, 2);
        ROUND(5, 6, 7, 0, 1, 2, 3, 4, 3);
        ROUND(4, 5, 6, 7, 0, 1, 2, 3, 4);
        ROUND(3, 4, 5, 6, 7, 0, 1, 2, 5);
        ROUND(2, 3, 4, 5, 6, 7, 0, 1, 6);
        ROUND(1, 2, 3, 4, 5, 6, 7, 0, 7);
#undef ROUND
    }
    for (int i = 0; i < 8; i++) h[i] += v[i];
}

void lvn_sha256_init(struct lvn_sha256 *sha)
{
    *sha = (struct lvn_sha256){
        .h = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void lvn_sha256_add(struct lvn_sha256 *sha, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    size_t buffered = (size_t)(sha->bytes % 64);
    sha->bytes += bytes;
    while (bytes > 0) {
        if (buffered == 0 && bytes >= 64) {
            block(sha->h, p);
            p += 64;
            bytes -= 64;
            continue;
        }
        size_t n = 64 - buffered < bytes ? 64 - buffered : bytes;
        memcpy(sha->block + buffered, p, n);
        buffered = (buffered + n) % 64;
        if (buffered == 0) block(sha->h, sha->block);
        p += n;
        bytes -= n;
    }
}

static void finish(struct lvn_sha256 *sha)
{
    uint64_t bits = sha->bytes * 8;
    unsigned char end[8], zero = 0;
    for (int i = 0; i < 8; i++) end[i] = (unsigned char)(bits >> (56 - 8 * i));
    lvn_sha256_add(sha, "\x80", 1);
    while (sha->bytes % 64 != 56) lvn_sha256_add(sha, &zero, 1);
    lvn_sha256_add(sha, end, 8);
}

static void finish_digest(struct lvn_sha256 *sha, unsigned char digest[LVN_SHA256_BYTES])
{
    finish(sha);
    for (int i = 0; i < LVN_SHA256_BYTES; i++) digest[i] = (unsigned char)(sha->h[i / 4] >> (24 - i % 4 * 8));
}

void lvn_sha256_finish(struct lvn_sha256 *sha, char text[LVN_SHA256_TEXT])
{
    finish(sha);
    for (int i = 0; i < 8; i++) snprintf(text + (size_t)8 * (size_t)i, 9, "%08x", sha->h[i]);
}

void lvn_sha256_text(const void *data, size_t bytes, char text[LVN_SHA256_TEXT])
{
    struct lvn_sha256 sha;
    lvn_sha256_init(&sha);
    lvn_sha256_add(&sha, data, bytes);
    lvn_sha256_finish(&sha, text);
}

void lvn_sha256_hmac(const void *key, size_t key_bytes, const void *data, size_t bytes,
                     unsigned char digest[LVN_SHA256_BYTES])
{
    unsigned char key_block[64] = {0}, pad[64];
    struct lvn_sha256 sha;
    if (key_bytes > sizeof key_block) {
        lvn_sha256_init(&sha);
        lvn_sha256_add(&sha, key, key_bytes);
        finish_digest(&sha, key_block);
    } else if (key_bytes) {
        memcpy(key_block, key, key_bytes);
    }
    for (int i = 0; i < 64; i++) pad[i] = key_block[i] ^ 0x36;
    lvn_sha256_init(&sha);
    lvn_sha256_add(&sha, pad, sizeof pad);
    lvn_sha256_add(&sha, data, bytes);
    finish_digest(&sha, digest);
    for (int i = 0; i < 64; i++) pad[i] = key_block[i] ^ 0x5c;
    lvn_sha256_init(&sha);
    lvn_sha256_add(&sha, pad, sizeof pad);
    lvn_sha256_add(&sha, digest, LVN_SHA256_BYTES);
    finish_digest(&sha, digest);
}
