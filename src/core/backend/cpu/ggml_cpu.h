/* ggml_cpu.h - decodes the packed blocks of GGUF files (packed/ggml_blocks.h) with AVX2 and AVX-512, for blocks_cpu.h
 * and gemm_few_blocks.h. The arithmetic is that of ggml_blocks.c, so the values are equal bit by bit.
 *
 * A value is scale * integer - minimum. All types have a scale for each group of 32 values, Q6_K for each 16. Scales
 * are decoded for a chunk of 256 values, a block of the K types or eight of the others. */
#ifndef LVN_GGML_CPU_H
#define LVN_GGML_CPU_H

#if defined(__AVX2__)

#include <immintrin.h>

#include "backend/cpu/simd.h"
#include "packed/ggml_blocks.h"

enum { GGML_CHUNK = 256, GGML_GROUP = 32, GGML_GROUPS = GGML_CHUNK / GGML_GROUP };

struct ggml_scales {
    float scale[2 * GGML_GROUPS], minimum[GGML_GROUPS]; /* Q6_K: 16 scales */
};

/* Values and bytes of a block, as constants. */
LVN_INLINE int64_t ggml_values(const int type)
{
    return type == LVN_Q4_K || type == LVN_Q5_K || type == LVN_Q6_K ? GGML_CHUNK : GGML_GROUP;
}

LVN_INLINE int64_t ggml_size(const int type)
{
#define SIZE(name, function, id, values, bytes, write, file_type)                                                      \
    if (type == LVN_##name) return bytes;
    LVN_GGML_MAP(SIZE)
#undef SIZE
    return 1;
}

LVN_INLINE bool ggml_has_minimum(const int type)
{
    return type == LVN_Q4_1 || type == LVN_Q5_1 || type == LVN_Q4_K || type == LVN_Q5_K;
}

/* Sixteen bytes as numbers. */
LVN_INLINE vf ggml_numbers(const int8_t *p)
{
    const __m128i b = _mm_loadu_si128((const void *)p);
#if defined(__AVX512F__)
    return (vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(b));
#else
    union vhalves x;
    x.h[0] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b));
    x.h[1] = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(b, 8)));
    return x.v;
#endif
}

/* --- scales --- */

/* n fp16 numbers at p, p + distance, ... */
LVN_INLINE __m256 ggml_halves(const uint8_t *p, int64_t distance, int64_t n)
{
    uint64_t x[2] = {0};
    LVN_UNROLL
    for (int i = 0; i < GGML_GROUPS; i++) {
        uint16_t half;
        memcpy(&half, p + (i < n ? i : 0) * distance, sizeof half);
        x[i / 4] |= (uint64_t)half << i % 4 * 16;
    }
    return _mm256_cvtph_ps(_mm_set_epi64x((long long)x[1], (long long)x[0]));
}

/* An fp16 number in all lanes. */
LVN_INLINE __m256 ggml_half(const uint8_t *p)
{
    short half;
    memcpy(&half, p, sizeof half);
    return _mm256_cvtph_ps(_mm_set1_epi16(half));
}

/* Eight bytes as numbers, times an fp16 number. */
LVN_INLINE __m256 ggml_times(uint32_t low, uint32_t high, const uint8_t *half)
{
    const __m128i bytes = _mm_set_epi64x(0, (long long)((uint64_t)high << 32 | low));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)), ggml_half(half));
}

/* The six bits of scales and minimums of Q4_K and Q5_K; see scales_of() of ggml_blocks.c. */
LVN_INLINE void ggml_scales_k(const uint8_t *b, struct ggml_scales *to)
{
    uint32_t s[3];
    memcpy(s, b + 4, sizeof s);
    _mm256_storeu_ps(to->scale, ggml_times(s[0] & 0x3f3f3f3f, (s[2] & 0x0f0f0f0f) | (s[0] >> 2 & 0x30303030), b));
    _mm256_storeu_ps(to->minimum,
                     ggml_times(s[1] & 0x3f3f3f3f, (s[2] >> 4 & 0x0f0f0f0f) | (s[1] >> 2 & 0x30303030), b + 2));
}

LVN_INLINE void ggml_scales_q6(const uint8_t *b, struct ggml_scales *to)
{
    const __m256 d = ggml_half(b + 208);
    const __m128i s = _mm_loadu_si128((const void *)(b + 192));
    _mm256_storeu_ps(to->scale, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(s))));
    _mm256_storeu_ps(to->scale + 8, _mm256_mul_ps(d, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(s, 8)))));
}

/* Those of n groups from p on; n is 8 if blocks have 256 values. */
LVN_INLINE void ggml_scales_of(struct ggml_scales *to, const uint8_t *p, int64_t n, const int type)
{
    const int64_t size = ggml_size(type);
    if (type == LVN_Q4_K || type == LVN_Q5_K) {
        ggml_scales_k(p, to);
    } else if (type == LVN_Q6_K) {
        ggml_scales_q6(p, to);
    } else {
        _mm256_storeu_ps(to->scale, ggml_halves(p, size, n));
        if (ggml_has_minimum(type)) /* it is added */
            _mm256_storeu_ps(to->minimum, _mm256_xor_ps(ggml_halves(p + 2, size, n), _mm256_set1_ps(-0.0F)));
    }
}

/* --- integers, as bytes --- */

LVN_INLINE __m256i ggml_bytes32(const void *p)
{
    return _mm256_loadu_si256(p);
}

/* Bits [shift, ...) of each byte that are in `mask`. */
LVN_INLINE __m256i ggml_bits(__m256i x, int64_t shift, const int mask)
{
    return _mm256_and_si256(_mm256_srl_epi16(x, _mm_cvtsi64_si128((long long)shift)), _mm256_set1_epi8((char)mask));
}

/* Blocks of 32 values: the lower four bits of the first 16, then of the others. */
LVN_INLINE __m256i ggml_two_halves(const uint8_t *p)
{
    const __m128i two = _mm_loadu_si128((const void *)p);
    return ggml_bits(_mm256_set_m128i(_mm_srli_epi16(two, 4), two), 0, 15);
}

/* The fifth bits of 32 values, which are bits at p. */
LVN_INLINE __m256i ggml_fifth(const uint8_t *p)
{
    const __m256i byte = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3,
                                          3, 3, 3, 3, 3, 3),
                  bit = _mm256_set1_epi64x((long long)0x8040201008040201);
    int32_t bits;
    memcpy(&bits, p, sizeof bits);
    const __m256i is = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte), bit);
    return _mm256_and_si256(_mm256_cmpeq_epi8(is, bit), _mm256_set1_epi8(16));
}

/* Group g of the chunk that begins at p. */
LVN_INLINE __m256i ggml_integers(const uint8_t *p, int64_t g, const int type)
{
    const uint8_t *block = p + g * ggml_size(type), *low = block + ggml_size(type) - 16;
    switch (type) {
    case LVN_Q8_0:
        return ggml_bytes32(block + 2);
    case LVN_Q4_0:
        return _mm256_sub_epi8(ggml_two_halves(low), _mm256_set1_epi8(8));
    case LVN_Q4_1:
        return ggml_two_halves(low);
    case LVN_Q5_0:
        return _mm256_sub_epi8(_mm256_or_si256(ggml_two_halves(low), ggml_fifth(low - 4)), _mm256_set1_epi8(16));
    case LVN_Q5_1:
        return _mm256_or_si256(ggml_two_halves(low), ggml_fifth(low - 4));
    case LVN_Q4_K:
        return ggml_bits(ggml_bytes32(p + 16 + g / 2 * 32), g % 2 * 4, 15);
    case LVN_Q5_K:
        return _mm256_or_si256(ggml_bits(ggml_bytes32(p + 48 + g / 2 * 32), g % 2 * 4, 15),
                               _mm256_slli_epi16(ggml_bits(ggml_bytes32(p + 16), g, 1), 4));
    default: /* Q6_K: of 128 values, 64 bytes of low bits, 32 of high ones */
        return _mm256_sub_epi8(
            _mm256_or_si256(ggml_bits(ggml_bytes32(p + g / 4 * 64 + g % 2 * 32), g % 4 / 2 * 4, 15),
                            _mm256_slli_epi16(ggml_bits(ggml_bytes32(p + 128 + g / 4 * 32), g % 4 * 2, 3), 4)),
            _mm256_set1_epi8(32));
    }
}

/* Sixteen values of group g, of which `integer` are the integers; half: 0 or 1. */
LVN_INLINE vf ggml_value(const struct ggml_scales *s, const int8_t *integer, int64_t g, const int half, const int type)
{
    const vf x = ggml_numbers(integer) * vset(s->scale[type == LVN_Q6_K ? 2 * g + half : g]);
    return ggml_has_minimum(type) ? x - vset(s->minimum[g]) : x;
}

/* Values [column, column + n) of a row that begins at p. */
LVN_INLINE void ggml_widen_as(const uint8_t *p, int64_t column, int64_t n, float *to, const int type)
{
    const int64_t end = column + n, size = ggml_size(type);
    for (int64_t next; column < end; column = next) {
        const int64_t chunk = column / ggml_values(type) * ggml_values(type);
        const uint8_t *at = p + chunk / ggml_values(type) * size;
        struct ggml_scales s;
        ggml_scales_of(&s, at, ggml_values(type) / GGML_GROUP, type);
        next = chunk + ggml_values(type) < end ? chunk + ggml_values(type) : end;
        for (int64_t group = (column - chunk) / GGML_GROUP; chunk + group * GGML_GROUP < next; group++) {
            int8_t integer[GGML_GROUP];
            float wide[GGML_GROUP];
            const int64_t first = chunk + group * GGML_GROUP;
            const bool whole = first >= column && first + GGML_GROUP <= next;
            float *values = whole ? to + first - column : wide;
            _mm256_storeu_si256((void *)integer, ggml_integers(at, group, type));
            vstore(values, ggml_value(&s, integer, group, 0, type));
            vstore(values + LVN_LANES, ggml_value(&s, integer + LVN_LANES, group, 1, type));
            for (int64_t i = 0; !whole && i < GGML_GROUP; i++)
                if (first + i >= column && first + i < next) to[first + i - column] = wide[i];
        }
        to += next - column;
    }
}

typedef void ggml_widener(const uint8_t *p, int64_t column, int64_t n, float *to);
#define GGML_WIDEN(name, function, id, values, bytes, write, file_type)                                                \
    static void ggml_widen_##name(const uint8_t *p, int64_t column, int64_t n, float *to)                              \
    {                                                                                                                  \
        ggml_widen_as(p, column, n, to, LVN_##name);                                                                   \
    }
LVN_GGML_MAP(GGML_WIDEN)
#undef GGML_WIDEN

/* Values [column, column + n) of a row; false: the matrix has another type. */
static bool ggml_widen(const struct lvn_blocks *b, const void *p, int64_t row, int64_t column, int64_t n, float *to)
{
    static ggml_widener *const all[] = {
#define GGML_WIDEN(name, function, id, values, bytes, write, file_type) ggml_widen_##name,
        LVN_GGML_MAP(GGML_WIDEN)
#undef GGML_WIDEN
    };
    const struct lvn_ggml_block *type = lvn_ggml_block(b->dtype);
    if (!type) return false;
    all[b->dtype - LVN_Q8_0]((const uint8_t *)p + row * (b->columns / type->values) * type->bytes, column, n, to);
    return true;
}

#endif
#endif
