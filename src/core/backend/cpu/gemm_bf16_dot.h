/* gemm_bf16_dot.h - a block of gemm_bf16.h with the dot products of AVX512-BF16, in which each lane adds the two
 * products of a pair.
 *
 * Eight rows of C by two vectors stay in registers; a pair of a row of A is broadcast to all lanes. */
#ifndef LVN_GEMM_BF16_DOT_H
#define LVN_GEMM_BF16_DOT_H

#include "backend/cpu/gemm_bf16_pack.h"
#include "backend/cpu/tile.h"

enum {
    BF16_MIN = 16,   /* minimum rows, columns and steps of k that are faster in bf16 */
    BF16_SPLITS = 0, /* fp32 operands that may not be rounded are faster without a split */
    BF16_ROWS = 8,
};

/* Maximum steps of k of a block: BF16_NC columns of it fill half of the L2 cache. */
static inline int64_t bf16_kc(int parts)
{
    (void)parts;
    return 512;
}

/* Cycles of one step of k of a block of C. */
static inline double bf16_cycles(int parts)
{
    (void)parts;
    return 32;
}

LVN_INLINE void bf16_dots(struct bf16_a a, const char *b, int64_t steps, const char *from, int64_t from_row, char *c,
                          int64_t c_row, const bool two_columns)
{
    const int vectors = two_columns ? 2 : 1;
    __m512 sum[BF16_ROWS][2];
    LVN_UNROLL for (int r = 0; r < BF16_ROWS; r++)
    {
        __builtin_prefetch(c + r * c_row, 1);
        LVN_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
            from ? _mm512_loadu_ps(from + r * from_row + v * 64) : _mm512_setzero_ps();
    }
    for (; steps > 0; steps--, a.p += a.step, b += bf16_step(1))
        for (int64_t p = 0; p < 16; p++) {
            __m512bh y[2];
            LVN_UNROLL for (int v = 0; v < vectors; v++) y[v] = (__m512bh)_mm512_load_si512(b + v * BF16_TILE + p * 64);
            LVN_UNROLL for (int r = 0; r < BF16_ROWS; r++)
            {
                int32_t pair;
                memcpy(&pair, a.p + r * a.row + p * 4, sizeof pair);
                const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
                LVN_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x, y[v]);
            }
        }
    LVN_UNROLL for (int r = 0; r < BF16_ROWS; r++) LVN_UNROLL for (int v = 0; v < vectors; v++)
        _mm512_storeu_ps(c + r * c_row + v * 64, sum[r][v]);
}

/* Compute up to 32 x 32 of C, at c (strides in bytes), over `steps` steps, starting from `from` (NULL: zero; stride
 * 0: the same row for all). */
static void bf16_block_by_size(struct bf16_a a, const char *b, int64_t steps, const float *from, int64_t from_row,
                               float *c, int64_t c_row, bool two_rows, bool two_columns, int parts)
{
    (void)parts;
    for (int64_t i = 0; i < (two_rows ? BF16_SIDE : 16); i += BF16_ROWS) {
        const struct bf16_a rows = {a.p + i * a.row, a.row, a.step};
        const char *start = from ? (const char *)from + i * from_row : NULL;
        if (two_columns)
            bf16_dots(rows, b, steps, start, from_row, (char *)c + i * c_row, c_row, true);
        else
            bf16_dots(rows, b, steps, start, from_row, (char *)c + i * c_row, c_row, false);
    }
}

#endif
