/* crc.c - see crc.h. CRC-32C uses the x86 instruction if the CPU has it. Otherwise, and for the others, tables process
 * sixteen bytes at a time (slicing-by-16, after Kounavis and Berry 2005).
 *
 * Bits are reflected: the lowest bit of the first byte is the highest power of x. */
#include "formats/crc.h"

#include <endian.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <nmmintrin.h>
#endif

static const uint64_t POLYNOMIAL32 = 0xedb88320, POLYNOMIAL32C = 0x82f63b78, POLYNOMIAL64 = 0x9a6c9329ac4bc9b5;

static uint64_t table32[16][256], table32c[16][256], table64[16][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill_table(uint64_t polynomial, uint64_t table[16][256])
{
    for (uint64_t i = 0; i < 256; i++) {
        uint64_t x = i;
        for (int k = 0; k < 8; k++) x = x >> 1 ^ (x & 1 ? polynomial : 0);
        table[0][i] = x;
    }
    for (int t = 1; t < 16; t++)
        for (int i = 0; i < 256; i++) table[t][i] = table[t - 1][i] >> 8 ^ table[0][table[t - 1][i] & 255];
}

/* x^n modulo the polynomial of CRC-64. */
static uint64_t power(int n)
{
    uint64_t x = (uint64_t)1 << 63;
    for (; n > 0; n--) x = x >> 1 ^ (x & 1 ? POLYNOMIAL64 : 0);
    return x;
}

#if defined(__x86_64__)
static bool has_instruction;

static bool find_instruction(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2);
}
#endif

static void fill(void)
{
#if defined(__x86_64__)
    has_instruction = find_instruction();
#endif
    fill_table(POLYNOMIAL32, table32);
    fill_table(POLYNOMIAL32C, table32c);
    fill_table(POLYNOMIAL64, table64);
}

static uint64_t update_by_table(const uint64_t table[16][256], uint64_t x, const unsigned char *p, int64_t bytes)
{
    for (; bytes >= 16; bytes -= 16, p += 16) {
        uint64_t word[2];
        memcpy(word, p, 16);
        word[0] = le64toh(word[0]) ^ x;
        word[1] = le64toh(word[1]);
        x = 0;
        for (int i = 0; i < 8; i++) x ^= table[15 - i][word[0] >> 8 * i & 255] ^ table[7 - i][word[1] >> 8 * i & 255];
    }
    for (; bytes > 0; bytes--) x = x >> 8 ^ table[0][(x ^ *p++) & 255];
    return x;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2,crc32"))) static uint64_t update_by_instruction(uint64_t x, const unsigned char *p,
                                                                              int64_t bytes)
{
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint64_t eight;
        memcpy(&eight, p, 8);
        x = _mm_crc32_u64(x, eight);
    }
    for (; bytes > 0; bytes--) x = _mm_crc32_u8((uint32_t)x, *p++);
    return x;
}
#endif

uint32_t lvn_crc32(uint32_t crc, const void *data, int64_t bytes)
{
    pthread_once(&once, fill);
    return (uint32_t)~update_by_table(table32, (uint32_t)~crc, data, bytes);
}

uint32_t lvn_crc32c(uint32_t crc, const void *data, int64_t bytes)
{
    uint64_t x = (uint32_t)~crc;
    pthread_once(&once, fill);
#if defined(__x86_64__)
    if (has_instruction) return (uint32_t)~update_by_instruction(x, data, bytes);
#endif
    return (uint32_t)~update_by_table(table32c, x, data, bytes);
}

uint64_t lvn_crc64nvme(uint64_t crc, const void *data, int64_t bytes)
{
    pthread_once(&once, fill);
    return ~update_by_table(table64, ~crc, data, bytes);
}

/* a times b modulo the polynomial. */
static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    for (; a; a <<= 1) {
        if (a >> 63) product ^= b;
        b = b >> 1 ^ (b & 1 ? POLYNOMIAL64 : 0);
    }
    return product;
}

uint64_t lvn_crc64nvme_combine(uint64_t a, uint64_t b, int64_t b_bytes)
{
    for (uint64_t shift = power(8); b_bytes > 0; b_bytes >>= 1, shift = multiply(shift, shift))
        if (b_bytes & 1) a = multiply(shift, a);
    return a ^ b;
}
