/* ggml_cpu.h - widens the packed blocks of GGUF files (packed/ggml_blocks.h) to fp32 with AVX-512, for blocks_cpu.h.
 * The arithmetic is that of ggml_blocks.c, so the values are equal bit by bit. Types that are not here use the plain
 * code. */
#ifndef LVN_GGML_CPU_H
#define LVN_GGML_CPU_H

#include <immintrin.h>
#include <string.h>

#include "backend/cpu/simd.h"
#include "packed/ggml_blocks.h"

enum { GGML_GROUP = 32 }; /* values that are widened at a time */

LVN_INLINE __m512 ggml_half(const unsigned char *p)
{
    short half;
    memcpy(&half, p, sizeof half);
    return _mm512_cvtph_ps(_mm256_set1_epi16(half));
}

LVN_INLINE __m128i ggml_bytes16(const unsigned char *p)
{
    return _mm_loadu_si128((const void *)p);
}

/* The numbers of 16 codes, in the lower 4 bits of each byte. */
LVN_INLINE __m512 ggml_numbers(__m128i codes, __m512 number)
{
    return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(codes), number);
}

LVN_INLINE __m128i ggml_upper(__m128i bytes)
{
    return _mm_srli_epi16(bytes, 4);
}

LVN_INLINE void ggml_q8_0(const unsigned char *b, float *to)
{
    const __m512 d = ggml_half(b);
    for (int i = 0; i < GGML_GROUP; i += 16) {
        const __m512 x = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(ggml_bytes16(b + 2 + i)));
        _mm512_storeu_ps(to + i, _mm512_mul_ps(x, d));
    }
}

LVN_INLINE void ggml_q4_0(const unsigned char *b, __m512 number, float *to)
{
    const __m512 d = ggml_half(b);
    const __m128i q = ggml_bytes16(b + 2);
    _mm512_storeu_ps(to, _mm512_mul_ps(d, ggml_numbers(q, number)));
    _mm512_storeu_ps(to + 16, _mm512_mul_ps(d, ggml_numbers(ggml_upper(q), number)));
}

LVN_INLINE void ggml_q4_1(const unsigned char *b, __m512 number, float *to)
{
    const __m512 d = ggml_half(b), m = ggml_half(b + 2);
    const __m128i q = ggml_bytes16(b + 4);
    _mm512_storeu_ps(to, _mm512_add_ps(_mm512_mul_ps(d, ggml_numbers(q, number)), m));
    _mm512_storeu_ps(to + 16, _mm512_add_ps(_mm512_mul_ps(d, ggml_numbers(ggml_upper(q), number)), m));
}

/* Group `group` of a block of 256 values. */
LVN_INLINE void ggml_q4_k(const unsigned char *b, int64_t group, __m512 number, float *to)
{
    const unsigned char *s = b + 4 + group, *q = b + 16 + group / 2 * GGML_GROUP;
    const int scale = group < 4 ? s[0] & 63 : (s[4] & 15) | s[-4] >> 6 << 4,
              minimum = group < 4 ? s[4] & 63 : s[4] >> 4 | s[0] >> 6 << 4;
    const __m512 d = _mm512_mul_ps(ggml_half(b), _mm512_set1_ps((float)scale)),
                 m = _mm512_mul_ps(ggml_half(b + 2), _mm512_set1_ps((float)minimum));
    for (int i = 0; i < GGML_GROUP; i += 16) {
        const __m128i bytes = ggml_bytes16(q + i);
        const __m512 x = ggml_numbers(group % 2 ? ggml_upper(bytes) : bytes, number);
        _mm512_storeu_ps(to + i, _mm512_sub_ps(_mm512_mul_ps(d, x), m));
    }
}

/* Widens whole groups of the values [column, column + n) of a row; returns their number. */
static int64_t ggml_widen(const struct lvn_blocks *b, const void *p, int64_t row, int64_t column, int64_t n, float *to)
{
    const struct lvn_ggml_block *type = lvn_ggml_block(b->dtype);
    if (!type || column % GGML_GROUP) return 0;
    const unsigned char *at = (const unsigned char *)p + row * (b->columns / type->values) * type->bytes;
    const __m512 number = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                 below = _mm512_sub_ps(number, _mm512_set1_ps(8));
    const int64_t end = (column + n) / GGML_GROUP, first = column / GGML_GROUP;
    if (type->values == GGML_GROUP) at += first * type->bytes;
    switch ((int)b->dtype) {
    case LVN_GGML_Q8_0:
        for (int64_t i = first; i < end; i++, at += type->bytes, to += GGML_GROUP) ggml_q8_0(at, to);
        break;
    case LVN_GGML_Q4_0:
        for (int64_t i = first; i < end; i++, at += type->bytes, to += GGML_GROUP) ggml_q4_0(at, below, to);
        break;
    case LVN_GGML_Q4_1:
        for (int64_t i = first; i < end; i++, at += type->bytes, to += GGML_GROUP) ggml_q4_1(at, number, to);
        break;
    case LVN_GGML_Q4_K:
        for (int64_t i = first; i < end; i++, to += GGML_GROUP) ggml_q4_k(at + i / 8 * type->bytes, i % 8, number, to);
        break;
    default:
        return 0;
    }
    return (end - first) * GGML_GROUP;
}

#endif
