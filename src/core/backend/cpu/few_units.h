/* few_units.h - decodes packed blocks (packed/packed.h) in registers, a unit of 64 steps of k of one column at a time,
 * for gemm_few_blocks.h (to fp32) and gemm_few_amx.h (to bf16). The values are those of lvn_blocks_read(), except those
 * of int8, which are integers: the factor of a column is multiplied after the sum.
 *
 * A value of 4 bits is an index into a table of sixteen numbers. The table is computed from the scale of a block (nf4:
 * its factor; Q4_K: scale and minimum of a group), with the arithmetic of lvn_blocks_read(). A load of nf4 has 64
 * values, four in the lower 16 bits of each lane; a load of GGUF files has 32, two in the lower 8 bits of each lane.
 * Values of 5 and 6 bits are unpacked to bytes first (ggml_cpu.h). */
#ifndef LVN_FEW_UNITS_H
#define LVN_FEW_UNITS_H

#if defined(__AVX2__)

#include "backend/cpu/ggml_cpu.h"
#include "backend/cpu/simd.h"
#include "packed/packed.h"

enum {
    FEW_UNIT = 64, /* a block of nf4 */
    FEW_VECTORS = FEW_UNIT / LVN_LANES,
};

/* code[index] for the lower four bits of each lane's index. */
LVN_INLINE vf few_select(vu index, vf code)
{
#if defined(__AVX512F__)
    return (vf)_mm512_permutexvar_ps((__m512i)index, (__m512)code);
#else
    const union vhalves c = {code}, i = {(vf)index};
    union vhalves x;
    for (int h = 0; h < 2; h++) {
        const __m256i at = _mm256_castps_si256(i.h[h]);
        x.h[h] = _mm256_blendv_ps(_mm256_permutevar8x32_ps(c.h[0], at), _mm256_permutevar8x32_ps(c.h[1], at),
                                  _mm256_castsi256_ps(_mm256_slli_epi32(at, 28)));
    }
    return x.v;
#endif
}

#if defined(__AVX512F__)
/* map[index]: in less than half the time of a gather. */
LVN_INLINE __m512 few_map(const float *map, __m512i index)
{
    __m512 x[LVN_NF4_FACTORS / 32]; /* selected by five bits of the index; the three others then select one of these */
    LVN_UNROLL
    for (int i = 0; i < LVN_NF4_FACTORS / 32; i++)
        x[i] = _mm512_permutex2var_ps(_mm512_loadu_ps(map + 32 * i), index, _mm512_loadu_ps(map + 32 * i + 16));
    LVN_UNROLL
    for (int bit = 1; bit < 8; bit *= 2) {
        const __mmask16 is = _mm512_test_epi32_mask(index, _mm512_set1_epi32(32 * bit));
        LVN_UNROLL
        for (int i = 0; i < 8; i += 2 * bit) x[i] = _mm512_mask_blend_ps(is, x[i], x[i + bit]);
    }
    return x[0];
}
#endif

/* The factors of n blocks, at most 16. */
LVN_INLINE void few_factors(const struct lvn_nf4 *x, int64_t first, int64_t n, float *to)
{
#if defined(__AVX512F__)
    if (!x->scale && first / LVN_NF4_GROUP == (first + n - 1) / LVN_NF4_GROUP) {
        const __m512i index = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8((__mmask16)((1U << n) - 1), x->factor + first));
        const __m512 group = _mm512_set1_ps(x->group[first / LVN_NF4_GROUP]), offset = _mm512_set1_ps(x->offset[0]);
        _mm512_storeu_ps(to, _mm512_add_ps(_mm512_mul_ps(few_map(x->map, index), group), offset));
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++) to[i] = lvn_nf4_factor(x, first + i);
}

/* Four values of nf4 in each lane. */
LVN_INLINE vu few_words(const uint8_t *p)
{
    const __m256i words = _mm256_loadu_si256((const void *)p);
#if defined(__AVX512F__)
    return (vu)_mm512_cvtepu16_epi32(words);
#else
    union vhalves x;
    x.h[0] = _mm256_castsi256_ps(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(words)));
    x.h[1] = _mm256_castsi256_ps(_mm256_cvtepu16_epi32(_mm256_extracti128_si256(words, 1)));
    return (vu)x.v;
#endif
}

/* A chunk of a column of GGUF files. Other types use only p, the byte of the column at which decoding begins. */
struct few_chunk {
    const uint8_t *p;
    struct ggml_scales s;
};

/* A unit of a column: 64 steps, decoded one vector at a time. */
struct few_unit {
    const uint8_t *p; /* its bytes; of GGUF files the chunk's */
    const struct ggml_scales *s;
    int64_t group;            /* in the chunk */
    vf table[2];              /* values of 4 bits: the numbers; of GGUF files one table for each 32 steps */
    vu codes;                 /* indices of several vectors */
    int8_t integer[FEW_UNIT]; /* integers of 5 to 8 bits of GGUF files */
};

LVN_INLINE bool few_is_nibbles(const int type)
{
    return type == LVN_Q4_0 || type == LVN_Q4_1 || type == LVN_Q4_K;
}

/* Indices of 32 steps of a GGUF file. */
LVN_INLINE vu few_two(const struct few_unit *u, const int half, const int type)
{
    const int64_t k = 16 + (u->group + half) * 16, other = (u->group + half + 1) * ggml_size(type) - 16;
    const __m128i bytes = _mm_loadu_si128((const void *)(u->p + (type == LVN_Q4_K ? k : other)));
#if defined(__AVX512F__)
    return (vu)_mm512_cvtepu8_epi32(bytes);
#else
    union vhalves x;
    x.h[0] = _mm256_castsi256_ps(_mm256_cvtepu8_epi32(bytes));
    x.h[1] = _mm256_castsi256_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)));
    return (vu)x.v;
#endif
}

LVN_INLINE vf few_vector(struct few_unit *u, const int v, const int type)
{
    if (type == LVN_NF4) {
        /* the first of two values is in the upper half of a byte */
        static const int shift[FEW_VECTORS] = {4, 0, 12, 8};
        if (v == 0) u->codes = few_words(u->p);
        return few_select(u->codes >> shift[v], u->table[0]);
    }
    if (type == LVN_INT8_ROWS) return ggml_numbers((const int8_t *)u->p + v * LVN_LANES);
    if (few_is_nibbles(type)) {
        if (v % 2 == 0) u->codes = few_two(u, v / 2, type);
        return few_select(v % 2 ? u->codes >> 4 : u->codes, u->table[type == LVN_Q4_K ? v % 2 : v / 2]);
    }
    const int8_t *p = type == LVN_Q8_0 ? (const int8_t *)u->p + (u->group + v / 2) * ggml_size(type) + 2
                                       : u->integer + v / 2 * GGML_GROUP;
    return ggml_value(u->s, p + v % 2 * LVN_LANES, u->group + v / 2, v % 2, type);
}

/* Begin at step i of a block of K. */
LVN_INLINE void few_begin(struct few_unit *u, const struct few_chunk *chunk, vf code, float factor, int64_t i,
                          const int type)
{
    u->p = chunk->p;
    if (type == LVN_NF4) u->table[0] = code * vset(factor);
    if (type < LVN_Q8_0) {
        u->p += type == LVN_NF4 ? i / 2 : i;
        return;
    }
    u->s = &chunk->s;
    u->group = i % GGML_CHUNK / GGML_GROUP;
    LVN_UNROLL
    for (int h = 0; h < 2; h++) {
        if (few_is_nibbles(type)) {
            u->table[h] = code * vset(u->s->scale[u->group + h]);
            if (ggml_has_minimum(type)) u->table[h] -= vset(u->s->minimum[u->group + h]);
        } else if (type != LVN_Q8_0) {
            _mm256_storeu_si256((void *)(u->integer + h * GGML_GROUP), ggml_integers(u->p, u->group + h, type));
        }
    }
}

#if defined(__AVX512BF16__)
/* 32 steps of a unit of a GGUF file, in their order, rounded to bf16; half: 0 or 1. */
LVN_INLINE __m512i few_bf16(struct few_unit *u, const int half, const int type)
{
    typedef uint16_t vsteps __attribute__((vector_size(64)));
    const vsteps step = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                         16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    if (few_is_nibbles(type)) {
        /* each 16-bit lane of `index` gets the byte that has its step, then the step's four bits */
        const vsteps byte = step % 16, shift = step / 16 * 4;
        const int64_t at = (u->group + half + 1) * ggml_size(type) - 16;
        const __m512i table = (__m512i)_mm512_cvtne2ps_pbh((__m512)u->table[1], (__m512)u->table[0]);
        __m512i index;
        if (type == LVN_Q4_K) {
            index = _mm512_cvtepu8_epi16(ggml_bytes32(u->p + 16 + u->group / 2 * 32));
            index = _mm512_srli_epi16(index, half ? 4 : 0);
        } else {
            index = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(u->p + at)));
            index = _mm512_srlv_epi16(_mm512_shuffle_epi8(index, (__m512i)(byte | 0x8000)), (__m512i)shift);
        }
        index = (__m512i)(((vsteps)index & 15) | (uint16_t)(16 * half)); /* the table of this half */
        return _mm512_permutexvar_epi16(index, table);
    }
    const __m512 first = (__m512)few_vector(u, 2 * half, type), last = (__m512)few_vector(u, 2 * half + 1, type);
    return (__m512i)_mm512_cvtne2ps_pbh(last, first);
}
#endif

/* Begin a chunk of `steps` steps at p, and prefetch the bytes `distance` after them. */
LVN_INLINE void few_chunk_begin(struct few_chunk *c, const uint8_t *p, int64_t steps, int64_t distance, const int type)
{
    c->p = p;
    for (int64_t i = 0; i < steps / ggml_values(type) * ggml_size(type); i += 64) __builtin_prefetch(p + i + distance);
    ggml_scales_of(&c->s, p, steps / GGML_GROUP, type);
}

/* Bytes of `steps` steps. */
LVN_INLINE int64_t few_bytes(int64_t steps, const int type)
{
    return type == LVN_NF4 ? steps / 2 : type == LVN_INT8_ROWS ? steps : steps / ggml_values(type) * ggml_size(type);
}

#endif
#endif
