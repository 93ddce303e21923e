/* simd_random.h - dropout masks on the CPU: the bits of lvn_dropout_bits(), for 64 consecutive columns at a time.
 *
 * One Philox call gives the bits of eight columns, so eight calls with consecutive counters run in parallel. Philox
 * multiplies 32 bits by 32 bits to 64: lanes are 64 bits wide, and each word of the counter is in the lower half of its
 * lane. The multiplication ignores the upper half, so the low half of a product needs no masking, and the high half one
 * shift. The keys of the ten rounds are computed once per kernel.
 *
 * The result is a bit mask, one bit per column, 1 = retained: it is small, and one instruction converts it to the form
 * that each instruction set needs. Source: Salmon et al., see base/random.h. */
#ifndef LVN_SIMD_RANDOM_H
#define LVN_SIMD_RANDOM_H

#include "backend/cpu/simd.h"
#include "base/random.h"

/* The parameters of one tensor's mask in one step, common to all rows. */
struct vdropout {
    struct lvn_dropout_key key;
    uint32_t threshold; /* lvn_dropout_threshold(p), at most 65535 */
    float scale;        /* factor of retained values: 1 / (1 - threshold / 65536); 0 if p rounds to 1 */
    uint32_t round_key[10][2];
};

LVN_INLINE struct vdropout vdropout_make(uint64_t seed, uint64_t step, uint32_t op, double p)
{
    uint32_t threshold = lvn_dropout_threshold(p);
    struct vdropout d = {.key = {seed, step, op}, .threshold = threshold < 65535 ? threshold : 65535};
    d.scale = threshold < 65536 ? (float)(1.0 / (1.0 - threshold / 65536.0)) : 0;
    uint64_t key = seed ^ ((uint64_t)LVN_STREAM_DROPOUT << 56);
    for (uint32_t r = 0; r < 10; r++) {
        d.round_key[r][0] = (uint32_t)key + r * 0x9E3779B9u;
        d.round_key[r][1] = (uint32_t)(key >> 32) + r * 0xBB67AE85u;
    }
    return d;
}

#if defined(__AVX512BW__)

/* Lane 2i holds counter i and lane 2i + 1 counter 4 + i, so that unpacking yields the columns in order. */
LVN_INLINE_LONG uint64_t vdropout_keep(const struct vdropout *d, uint64_t row, uint32_t column)
{
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
    __m512i c0 = _mm512_add_epi64(_mm512_set1_epi64(column / 8), _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7));
    __m512i c1 = _mm512_set1_epi64((uint32_t)row);
    __m512i c2 = _mm512_set1_epi64(d->key.op ^ (uint32_t)(row >> 32) * 0x9E3779B9u);
    __m512i c3 = _mm512_set1_epi64((uint32_t)d->key.step);
    for (int r = 0; r < 10; r++) {
        __m512i k0 = _mm512_set1_epi32((int)d->round_key[r][0]), k1 = _mm512_set1_epi32((int)d->round_key[r][1]);
        __m512i p0 = _mm512_mul_epu32(c0, m0), p1 = _mm512_mul_epu32(c2, m1);
        c0 = _mm512_ternarylogic_epi32(_mm512_srli_epi64(p1, 32), c1, k0, 0x96); /* 0x96: a ^ b ^ c */
        c2 = _mm512_ternarylogic_epi32(_mm512_srli_epi64(p0, 32), c3, k1, 0x96);
        c1 = p1;
        c3 = p0;
    }
    __m512i a = _mm512_mask_shuffle_epi32(c0, 0xAAAA, c1, 0xA0); /* lanes: word 0, word 1 */
    __m512i b = _mm512_mask_shuffle_epi32(c2, 0xAAAA, c3, 0xA0); /* word 2, word 3 */
    __m512i t = _mm512_set1_epi16((short)d->threshold);
    uint64_t low = _mm512_cmpge_epu16_mask(_mm512_unpacklo_epi64(a, b), t);
    uint64_t high = _mm512_cmpge_epu16_mask(_mm512_unpackhi_epi64(a, b), t);
    return low | high << 32;
}

/* x in lanes whose bit is set, else 0; bits 16 and up are ignored. */
LVN_INLINE vf vkeep(vf x, uint64_t bits)
{
    return (vf)_mm512_maskz_mov_ps((__mmask16)bits, (__m512)x);
}

#elif defined(__AVX2__)

/* 32 columns: lanes hold counters 0, 2, 1, 3, so that unpacking yields the columns in order. */
LVN_INLINE uint32_t vdropout_keep32(const struct vdropout *d, uint64_t row, uint32_t column)
{
    const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
    __m256i c0 = _mm256_add_epi64(_mm256_set1_epi64x(column / 8), _mm256_setr_epi64x(0, 2, 1, 3));
    __m256i c1 = _mm256_set1_epi64x((uint32_t)row);
    __m256i c2 = _mm256_set1_epi64x(d->key.op ^ (uint32_t)(row >> 32) * 0x9E3779B9u);
    __m256i c3 = _mm256_set1_epi64x((uint32_t)d->key.step);
    for (int r = 0; r < 10; r++) {
        __m256i k0 = _mm256_set1_epi32((int)d->round_key[r][0]), k1 = _mm256_set1_epi32((int)d->round_key[r][1]);
        __m256i p0 = _mm256_mul_epu32(c0, m0), p1 = _mm256_mul_epu32(c2, m1);
        c0 = _mm256_xor_si256(_mm256_xor_si256(c1, k0), _mm256_srli_epi64(p1, 32));
        c2 = _mm256_xor_si256(_mm256_xor_si256(c3, k1), _mm256_srli_epi64(p0, 32));
        c1 = p1;
        c3 = p0;
    }
    __m256i a = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xAA);
    __m256i b = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xAA);
    __m256i t = _mm256_set1_epi16((short)d->threshold);
    __m256i x = _mm256_unpacklo_epi64(a, b), y = _mm256_unpackhi_epi64(a, b); /* counters 0, 1 and 2, 3 */
    x = _mm256_cmpeq_epi16(_mm256_max_epu16(x, t), x);                        /* x >= t */
    y = _mm256_cmpeq_epi16(_mm256_max_epu16(y, t), y);
    __m256i bytes = _mm256_permute4x64_epi64(_mm256_packs_epi16(x, y), 0xD8);
    return (uint32_t)_mm256_movemask_epi8(bytes);
}

LVN_INLINE_LONG uint64_t vdropout_keep(const struct vdropout *d, uint64_t row, uint32_t column)
{
    return vdropout_keep32(d, row, column) | (uint64_t)vdropout_keep32(d, row, column + 32) << 32;
}

#else

LVN_INLINE_LONG uint64_t vdropout_keep(const struct vdropout *d, uint64_t row, uint32_t column)
{
    uint32_t c2 = d->key.op ^ (uint32_t)(row >> 32) * 0x9E3779B9u;
    uint64_t key = d->key.seed ^ ((uint64_t)LVN_STREAM_DROPOUT << 56), keep = 0;
    for (uint32_t i = 0; i < 8; i++) {
        struct lvn_philox r = lvn_philox(key, column / 8 + i, (uint32_t)row, c2, (uint32_t)d->key.step);
        for (uint32_t j = 0; j < 4; j++) {
            uint64_t two = (uint64_t)((r.v[j] & 0xffffu) >= d->threshold) | (uint64_t)(r.v[j] >> 16 >= d->threshold)
                                                                                << 1;
            keep |= two << (8 * i + 2 * j);
        }
    }
    return keep;
}

#endif

#if !defined(__AVX512BW__)
LVN_INLINE vf vkeep(vf x, uint64_t bits)
{
    vi set = (vi)(((vu){0} + (uint32_t)bits) << (31 - (vu)viota())) >> 31; /* the lane's bit in all its bits */
    return (vf)((vi)x & set);
}
#endif

/* lo and hi: the halves of a * b, lane by lane. */
LVN_INLINE void vmul_wide(vu a, uint32_t b, vu *lo, vu *hi)
{
#if defined(__AVX512F__)
    const __m512i x = (__m512i)a, y = _mm512_set1_epi32((int)b);
    const __m512i even = _mm512_mul_epu32(x, y), odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), y);
    *lo = (vu)_mm512_mask_shuffle_epi32(even, 0xAAAA, odd, 0xA0);
    *hi = (vu)_mm512_mask_blend_epi32(0xAAAA, _mm512_srli_epi64(even, 32), odd);
#else
    for (int i = 0; i < LVN_LANES; i++) {
        uint64_t p = (uint64_t)a[i] * b;
        (*lo)[i] = (uint32_t)p;
        (*hi)[i] = (uint32_t)(p >> 32);
    }
#endif
}

/* Four words for each of 16 consecutive counters: lane i is lvn_philox(key, c0 + i, c1, c2, c3). c0 + 15 must not
 * overflow. */
LVN_INLINE_LONG void vphilox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, vu out[4])
{
    vu a = (vu)viota() + c0, b = (vu){0} + c1, c = (vu){0} + c2, d = (vu){0} + c3;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        vu lo0, hi0, lo1, hi1;
        vmul_wide(a, 0xD2511F53u, &lo0, &hi0);
        vmul_wide(c, 0xCD9E8D57u, &lo1, &hi1);
        a = hi1 ^ b ^ k0;
        c = hi0 ^ d ^ k1;
        b = lo1;
        d = lo0;
    }
    out[0] = a, out[1] = b, out[2] = c, out[3] = d;
}

/* Mask of the lanes, of 16, that dropout keeps. */
#if defined(__AVX512F__)
typedef __mmask16 vlanes;
#else
typedef vi vlanes;
#endif

/* x in retained lanes, else 0. */
LVN_INLINE vf vkeep_lanes(vf x, vlanes keep)
{
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_mov_ps(keep, (__m512)x);
#else
    return (vf)((vi)x & keep);
#endif
}

/* Words of the generators of rows row, row + 2, ...: one register of 64-bit lanes, the words in their lower halves. */
#if defined(__AVX512F__)
LVN_INLINE void vphilox_rows(const struct vdropout *d, uint32_t row, uint32_t column, uint32_t high, __m512i word[4])
{
    const __m512i m0 = _mm512_set1_epi64(0xD2511F53), m1 = _mm512_set1_epi64(0xCD9E8D57);
    __m512i c0 = _mm512_set1_epi64(column / 8), c2 = _mm512_set1_epi64(high);
    __m512i c1 = _mm512_add_epi64(_mm512_set1_epi64(row), _mm512_setr_epi64(0, 2, 4, 6, 8, 10, 12, 14));
    __m512i c3 = _mm512_set1_epi64((uint32_t)d->key.step);
    for (int r = 0; r < 10; r++) {
        __m512i k0 = _mm512_set1_epi32((int)d->round_key[r][0]), k1 = _mm512_set1_epi32((int)d->round_key[r][1]);
        __m512i p0 = _mm512_mul_epu32(c0, m0), p1 = _mm512_mul_epu32(c2, m1);
        c0 = _mm512_ternarylogic_epi32(_mm512_srli_epi64(p1, 32), c1, k0, 0x96);
        c2 = _mm512_ternarylogic_epi32(_mm512_srli_epi64(p0, 32), c3, k1, 0x96);
        c1 = p1;
        c3 = p0;
    }
    word[0] = c0, word[1] = c1, word[2] = c2, word[3] = c3;
}
#elif defined(__AVX2__)
LVN_INLINE void vphilox_rows(const struct vdropout *d, uint32_t row, uint32_t column, uint32_t high, __m256i word[4])
{
    const __m256i m0 = _mm256_set1_epi64x(0xD2511F53), m1 = _mm256_set1_epi64x(0xCD9E8D57);
    __m256i c0 = _mm256_set1_epi64x(column / 8), c2 = _mm256_set1_epi64x(high);
    __m256i c1 = _mm256_add_epi64(_mm256_set1_epi64x(row), _mm256_setr_epi64x(0, 2, 4, 6));
    __m256i c3 = _mm256_set1_epi64x((uint32_t)d->key.step);
    for (int r = 0; r < 10; r++) {
        __m256i k0 = _mm256_set1_epi32((int)d->round_key[r][0]), k1 = _mm256_set1_epi32((int)d->round_key[r][1]);
        __m256i p0 = _mm256_mul_epu32(c0, m0), p1 = _mm256_mul_epu32(c2, m1);
        c0 = _mm256_xor_si256(_mm256_xor_si256(c1, k0), _mm256_srli_epi64(p1, 32));
        c2 = _mm256_xor_si256(_mm256_xor_si256(c3, k1), _mm256_srli_epi64(p0, 32));
        c1 = p1;
        c3 = p0;
    }
    word[0] = c0, word[1] = c1, word[2] = c2, word[3] = c3;
}
#endif

/* The same bits transposed, for kernels whose lanes are rows: lane i of keep[c] is set if element (row + i, column + c)
 * is retained, i in [0, 16), c in [0, 8); column is a multiple of 8. The low 32 bits of row + i must not wrap around.
 */
LVN_INLINE void vdropout_keep_rows(const struct vdropout *d, uint64_t row, uint32_t column, vlanes keep[8])
{
    const uint32_t low = (uint32_t)row, high = d->key.op ^ (uint32_t)(row >> 32) * 0x9E3779B9u;
#if defined(__AVX512F__)
    const __m512i t = _mm512_set1_epi32((int)d->threshold), t_high = _mm512_set1_epi32((int)(d->threshold << 16));
    __m512i even[4], odd[4];
    vphilox_rows(d, low, column, high, even);
    vphilox_rows(d, low + 1, column, high, odd);
    for (int w = 0; w < 4; w++) {
        __m512i x = _mm512_mask_shuffle_epi32(even[w], 0xAAAA, odd[w], 0xA0);
        keep[2 * w] = _mm512_cmpge_epu32_mask(_mm512_and_epi32(x, _mm512_set1_epi32(0xffff)), t);
        keep[2 * w + 1] = _mm512_cmpge_epu32_mask(x, t_high);
    }
#elif defined(__AVX2__)
    const __m256i t = _mm256_set1_epi32((int)d->threshold - 1);
    for (uint32_t half = 0; half < 2; half++) {
        __m256i even[4], odd[4];
        vphilox_rows(d, low + 8 * half, column, high, even);
        vphilox_rows(d, low + 8 * half + 1, column, high, odd);
        for (int w = 0; w < 4; w++) {
            __m256i x = _mm256_blend_epi32(even[w], _mm256_slli_epi64(odd[w], 32), 0xAA);
            __m256i a = _mm256_cmpgt_epi32(_mm256_and_si256(x, _mm256_set1_epi32(0xffff)), t);
            __m256i b = _mm256_cmpgt_epi32(_mm256_srli_epi32(x, 16), t);
            memcpy((char *)&keep[2 * w] + 32 * half, &a, sizeof a);
            memcpy((char *)&keep[2 * w + 1] + 32 * half, &b, sizeof b);
        }
    }
#else
    for (uint32_t i = 0; i < 16; i++) {
        struct lvn_philox r = lvn_philox(d->key.seed ^ ((uint64_t)LVN_STREAM_DROPOUT << 56), column / 8, low + i, high,
                                         (uint32_t)d->key.step);
        for (uint32_t w = 0; w < 4; w++) {
            keep[2 * w][i] = -((r.v[w] & 0xffffu) >= d->threshold);
            keep[2 * w + 1][i] = -(r.v[w] >> 16 >= d->threshold);
        }
    }
#endif
}

/* vdropout_keep(d, row, column): bit i is set if column + i is retained, i in [0, 64); column is a multiple of 8.
 * Columns beyond the end of the row have bits too. */

#endif
