/* tile_bf16.h - multiplications of small bf16 blocks in the cache, with fp32 sums, by AMX or AVX512-BF16. Attention in
 * src/core/ops uses it.
 *
 * Both operands are stored as in pairs.h. With AMX a block of C is 2 x 2 tiles of 16 x 16, otherwise 8 rows of 2
 * vectors. Each element of C is computed in the same order at any position. */
#ifndef LVN_TILE_BF16_H
#define LVN_TILE_BF16_H

#include <stdbool.h>
#include <string.h>

#include "backend/cpu/pairs.h"
#include "backend/cpu/tile.h"

/* A multiplication; row strides are in bytes. */
struct bf16_product {
    const uint16_t *a; /* (m, 32 steps) */
    int64_t a_row;
    const uint16_t *b; /* (16 steps, n, 2) */
    int64_t b_row;
    int64_t steps; /* steps of 32 k */
    float *c;      /* (m, n), multiples of 16 */
    int64_t c_row;
    int64_t m, n;
    bool add; /* C += A B; otherwise C is overwritten */
};

#if defined(LVN_AMX)
enum { BF16_ROWS = 32 };

LVN_INLINE void bf16_block(const struct bf16_product *p, int64_t i, int64_t j, const bool two_rows,
                           const bool two_columns)
{
    const char *a = (const char *)p->a + i * p->a_row, *b = (const char *)p->b + j * 4;
    char *c = (char *)p->c + i * p->c_row + j * 4, *lower = c + 16 * p->c_row;
    PAIRS_BARRIER();
    if (p->add) {
        _tile_loadd(0, c, p->c_row);
        if (two_columns) _tile_loadd(1, c + 64, p->c_row);
        if (two_rows) _tile_loadd(2, lower, p->c_row);
        if (two_rows && two_columns) _tile_loadd(3, lower + 64, p->c_row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t s = 0; s < p->steps; s++, a += 64, b += 16 * p->b_row) {
        _tile_loadd(4, a, p->a_row);
        _tile_loadd(6, b, p->b_row);
        if (two_columns) _tile_loadd(7, b + 64, p->b_row);
        if (two_rows) _tile_loadd(5, a + 16 * p->a_row, p->a_row);
        _tile_dpbf16ps(0, 4, 6);
        if (two_columns) _tile_dpbf16ps(1, 4, 7);
        if (two_rows) _tile_dpbf16ps(2, 5, 6);
        if (two_rows && two_columns) _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, p->c_row);
    if (two_columns) _tile_stored(1, c + 64, p->c_row);
    if (two_rows) _tile_stored(2, lower, p->c_row);
    if (two_rows && two_columns) _tile_stored(3, lower + 64, p->c_row);
    PAIRS_BARRIER();
}
#else
enum { BF16_ROWS = 8 };

LVN_INLINE void bf16_block(const struct bf16_product *p, int64_t i, int64_t j, const bool two_rows,
                           const bool two_columns)
{
    (void)two_rows;
    const int vectors = two_columns ? 2 : 1;
    const char *a = (const char *)p->a + i * p->a_row, *b = (const char *)p->b + j * 4;
    char *c = (char *)p->c + i * p->c_row + j * 4;
    __m512 sum[BF16_ROWS][2];
    LVN_UNROLL for (int r = 0; r < BF16_ROWS; r++) LVN_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] =
        p->add ? _mm512_loadu_ps(c + r * p->c_row + v * 64) : _mm512_setzero_ps();
    for (int64_t s = 0; s < 16 * p->steps; s++, a += 4, b += p->b_row) {
        __m512bh y[2];
        LVN_UNROLL for (int v = 0; v < vectors; v++) y[v] = (__m512bh)_mm512_loadu_si512(b + v * 64);
        LVN_UNROLL for (int r = 0; r < BF16_ROWS; r++)
        {
            int32_t pair;
            memcpy(&pair, a + r * p->a_row, sizeof pair);
            const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
            LVN_UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x, y[v]);
        }
    }
    LVN_UNROLL for (int r = 0; r < BF16_ROWS; r++) LVN_UNROLL for (int v = 0; v < vectors; v++)
        _mm512_storeu_ps(c + r * p->c_row + v * 64, sum[r][v]);
}
#endif

/* Call between pairs_begin() and pairs_end(). */
static inline void bf16_multiply(const struct bf16_product *p)
{
    for (int64_t j = 0; j < p->n; j += 32)
        for (int64_t i = 0; i < p->m; i += BF16_ROWS) {
            const bool two_rows = p->m - i > 16, two_columns = p->n - j > 16;
            if (two_rows && two_columns)
                bf16_block(p, i, j, true, true);
            else if (two_rows)
                bf16_block(p, i, j, true, false);
            else if (two_columns)
                bf16_block(p, i, j, false, true);
            else
                bf16_block(p, i, j, false, false);
        }
}

#endif
