/* pairs.h - bf16 operands in the layout that AMX and AVX512-BF16 multiply: pairs of adjacent steps of k. For
 * gemm_bf16.h and tile_bf16.h.
 *
 * In a multiplication A (m,k) B (k,n), a row of A is stored unchanged, two steps of k per 32 bits; rows 2 l and 2 l + 1
 * of B are interleaved, so that 32 bits contain both elements of a column. This file interleaves, transposes, and
 * configures the tiles of AMX. */
#ifndef LVN_PAIRS_H
#define LVN_PAIRS_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/cpu/simd.h"

enum { PAIRS_K = 32 }; /* steps of k in a register, and in a row of a tile */

/* Transpose 16 x 16 pairs, or other words of 32 bits. */
static inline void pairs_transpose(__m512i r[16])
{
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

/* The first 16 (with `upper`, the last 16) elements of two rows of 32 bf16 as 16 pairs. */
LVN_INLINE __m512i pairs_interleave(__m512i a, __m512i b, const bool upper)
{
    const __m512i first =
        _mm512_setr_epi32(0x200000, 0x210001, 0x220002, 0x230003, 0x240004, 0x250005, 0x260006, 0x270007, 0x280008,
                          0x290009, 0x2a000a, 0x2b000b, 0x2c000c, 0x2d000d, 0x2e000e, 0x2f000f);
    const __m512i last = _mm512_or_si512(first, _mm512_set1_epi32(0x100010));
    return _mm512_permutex2var_epi16(a, upper ? last : first, b);
}

/* Transpose 32 x 32 bf16; `row`, `column`: strides in elements. */
static inline void pairs_transpose_block(const uint16_t *from, int64_t row, uint16_t *to, int64_t column)
{
    __m512i r[2][16];
    for (int l = 0; l < 16; l++, from += 2 * row) {
        const __m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + row);
        r[0][l] = pairs_interleave(a, b, false);
        r[1][l] = pairs_interleave(a, b, true);
    }
    for (int part = 0; part < 2; part++) {
        pairs_transpose(r[part]);
        for (int l = 0; l < 16; l++, to += column) _mm512_storeu_si512(to, r[part][l]);
    }
}

#define PAIRS_BARRIER()                                                                                                \
    __asm__ volatile("" ::                                                                                             \
                         : "memory") /* the compiler does not see tile loads as memory accesses                        \
                                      */

#if defined(LVN_AMX)
/* Configure all eight tiles as 16 rows of 64 bytes, until pairs_end(). */
static inline void pairs_begin(void)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    _tile_loadconfig(&config);
}

static inline void pairs_end(void)
{
    _tile_release();
}
#else
static inline void pairs_begin(void)
{
}

static inline void pairs_end(void)
{
}
#endif

#endif
