/* blocks_cpu.h - widens ranges of a matrix in packed blocks (packed/packed.h) to fp32, for matrix multiplications that
 * pack B (gemm_pack.h, gemm_bf16_pack.h); gemm_few_blocks.h decodes them without that. The values are those of
 * lvn_blocks_read(), bit for bit. */
#ifndef LVN_BLOCKS_CPU_H
#define LVN_BLOCKS_CPU_H

#if defined(__AVX2__)
#include "backend/cpu/ggml_cpu.h"
#endif

#include "backend/cpu/gemm.h"
#include "backend/cpu/simd.h"
#include "packed/packed.h"

#if defined(__AVX512F__)
/* Values [i, i + n) of a block in nf4, i and n multiples of 16. */
LVN_INLINE void widen_nf4(const struct lvn_nf4 *x, __m512 code, int64_t i, int64_t n, float *to)
{
    const __m512 factor = _mm512_set1_ps(lvn_nf4_factor(x, i / LVN_NF4_BLOCK));
    for (; n >= 32; n -= 32, i += 32, to += 32) {
        const __m128i two = _mm_loadu_si128((const void *)(x->value + i / 2));
        const __m128i high = _mm_srli_epi16(two, 4);
        const __m512i a = _mm512_cvtepu8_epi32(_mm_unpacklo_epi8(high, two)), /* only the lower 4 bits select */
            b = _mm512_cvtepu8_epi32(_mm_unpackhi_epi8(high, two));
        _mm512_storeu_ps(to, _mm512_mul_ps(_mm512_permutexvar_ps(a, code), factor));
        _mm512_storeu_ps(to + 16, _mm512_mul_ps(_mm512_permutexvar_ps(b, code), factor));
    }
    if (n == 0) return;
    const __m128i two = _mm_loadl_epi64((const void *)(x->value + i / 2));
    const __m512i a = _mm512_cvtepu8_epi32(_mm_unpacklo_epi8(_mm_srli_epi16(two, 4), two));
    _mm512_storeu_ps(to, _mm512_mul_ps(_mm512_permutexvar_ps(a, code), factor));
}
#endif

/* Values [column, column + n) of a row. */
static void blocks_widen(const struct lvn_blocks *b, const void *p, int64_t row, int64_t column, int64_t n, float *to)
{
#if defined(__AVX512F__)
    const int64_t first = row * b->columns + column;
    if (lvn_dtype_is_nf4(b->dtype) && first % 16 == 0) {
        const struct lvn_nf4 x = lvn_nf4_of(b, p);
        const __m512 code = _mm512_loadu_ps(x.code);
        const int64_t whole = n / 16 * 16, end = first + whole;
        for (int64_t i = first, part; i < end; i += part, to += part) {
            part = LVN_NF4_BLOCK - i % LVN_NF4_BLOCK;
            if (part > end - i) part = end - i;
            widen_nf4(&x, code, i, part, to);
        }
        n -= whole;
        column += whole;
    }
    if (b->dtype == LVN_INT8_ROWS) {
        const int8_t *value = (const int8_t *)p + first;
        const float *factors = lvn_int8_factors(b, p);
        const __m512 factor = _mm512_set1_ps(factors[row]), part = _mm512_set1_ps((float)(1.0 / 127.0));
        for (int64_t i = 0; i < n; i += 16) {
            const __mmask16 mask = (__mmask16)(n - i >= 16 ? 0xffff : (1 << (n - i)) - 1);
            const __m512 x = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, value + i)));
            _mm512_mask_storeu_ps(to + i, mask, _mm512_mul_ps(_mm512_mul_ps(x, factor), part));
        }
        return;
    }
#endif
#if defined(__AVX2__)
    if (ggml_widen(b, p, row, column, n, to)) return;
#endif
    if (n > 0) lvn_blocks_read(b, p, row, column, n, to);
}

/* --- operand B of a matrix multiplication --- */

/* Is column j of B row j of the matrix? Else row k of B is row k of the matrix. */
static inline bool blocks_are_columns(const struct lvn_gemm *g)
{
    return g->b_row == 1;
}

/* Steps [k, k + steps) of columns [j, j + n), as rows of the matrix that are `distance` apart: columns of B if
 * blocks_are_columns(), else steps. */
static void blocks_widen_part(const struct lvn_gemm *g, int64_t k, int64_t steps, int64_t j, int64_t n,
                              int64_t distance, float *to)
{
    if (blocks_are_columns(g))
        for (int64_t i = 0; i < n; i++) blocks_widen(&g->b_blocks, g->b, j + i, k, steps, to + i * distance);
    else
        for (int64_t i = 0; i < steps; i++) blocks_widen(&g->b_blocks, g->b, k + i, j, n, to + i * distance);
}

#endif
