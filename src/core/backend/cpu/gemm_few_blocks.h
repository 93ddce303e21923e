/* gemm_few_blocks.h - matrix multiplications of few rows with columns in packed blocks (packed/packed.h): generating
 * text with weights in 4 or 8 bits. gemm.cpu.c calls few_blocks_run().
 *
 * Reading B dominates, so its values are decoded in registers and used there for all rows. Sixteen lanes are steps of k
 * of one column, because the bytes of a column are contiguous in k. Each lane sums every sixteenth step of a block of
 * K, and the lanes are added at its end. So bits depend neither on threads nor on the number of rows, and are the same
 * on AVX2 and AVX-512. They differ from those of widened values, which processors without AVX2 use, in the order of the
 * sum; for int8 the factor of a column is also multiplied after the sum.
 *
 * nf4: a load has 64 values, four in each 16-bit lane. The values of a block are an index to sixteen numbers, which
 * are multiplied by the factor of the block first. */
#ifndef LVN_GEMM_FEW_BLOCKS_H
#define LVN_GEMM_FEW_BLOCKS_H

#include "backend/cpu/gemm_few.h"
#include "backend/cpu/simd.h"

#if defined(__AVX2__)
enum {
    FEW_KC = 1024,   /* maximum steps of a block of K */
    FEW_PART = 8192, /* numbers of A that are packed at a time, in the L1 cache */
    FEW_UNIT = 64,   /* steps that are decoded at a time: a block of nf4 */
    FEW_VECTORS = FEW_UNIT / LVN_LANES,
    FEW_COLUMNS = 4, /* maximum columns at a time */
};

static bool few_blocks_fit(const struct lvn_gemm *g)
{
    const enum lvn_dtype type = g->b_blocks.dtype;
    return (type == LVN_NF4 || type == LVN_INT8_ROWS) && blocks_are_columns(g) && g->k % FEW_UNIT == 0;
}

/* Steps [k0, k0 + k) of columns from j on. */
struct few_blocks {
    const struct lvn_gemm *g;
    struct lvn_nf4 nf4; /* of B in nf4 */
    int64_t k0, k, block;
    const float *a; /* (rows,k), each 64 steps in the order in which they are decoded */
};

/* The number of each lane's lower four bits. */
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

/* Sixteen bytes. */
LVN_INLINE vf few_bytes(const int8_t *p)
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

/* The factors of n blocks, at most 16. */
LVN_INLINE void few_factors(const struct lvn_nf4 *x, int64_t first, int64_t n, float *to)
{
#if defined(__AVX512F__)
    if (first / LVN_NF4_GROUP == (first + n - 1) / LVN_NF4_GROUP) {
        const __mmask16 mask = (__mmask16)((1U << n) - 1);
        const __m512i index = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, x->factor + first));
        const __m512 group = _mm512_set1_ps(x->group[first / LVN_NF4_GROUP]), offset = _mm512_set1_ps(x->offset[0]);
        _mm512_storeu_ps(to, _mm512_add_ps(_mm512_mul_ps(_mm512_i32gather_ps(index, x->map, 4), group), offset));
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++) to[i] = lvn_nf4_factor(x, first + i);
}

/* Four values of nf4 in each lane. */
LVN_INLINE vu few_words(const uint8_t *p)
{
    typedef uint16_t words __attribute__((vector_size(2 * LVN_LANES)));
    words w;
    memcpy(&w, p, sizeof w);
    return __builtin_convertvector(w, vu);
}

/* sum += 64 steps of each column, at p + i; those of int8 without the factor. A vector of A is used for all columns
 * when it is loaded, because with more of them there are too few registers. */
LVN_INLINE void few_unit(const uint8_t *const p[FEW_COLUMNS], int64_t i, const vf code[FEW_COLUMNS], const float *a,
                         int64_t a_row, const int columns, const int rows, struct vacc sum[FEW_COLUMNS][FEW],
                         const bool nf4)
{
    static const int shift[FEW_VECTORS] = {4, 0, 12, 8}; /* the first of two values is in the upper half of a byte */
    vu four[FEW_COLUMNS];
    LVN_UNROLL
    for (int c = 0; nf4 && c < columns; c++) four[c] = few_words(p[c] + i);
    LVN_UNROLL
    for (int v = 0; v < FEW_VECTORS; v++) {
        vf x[FEW_COLUMNS];
        LVN_UNROLL
        for (int c = 0; c < columns; c++)
            x[c] = nf4 ? few_select(four[c] >> shift[v], code[c]) : few_bytes((const int8_t *)p[c] + i + v * LVN_LANES);
        LVN_UNROLL
        for (int r = 0; r < rows; r++) {
            const vf y = vload(a + r * a_row + v * LVN_LANES);
            LVN_UNROLL
            for (int c = 0; c < columns; c++) sum[c][r] = vacc_fma(sum[c][r], y, x[c]);
        }
    }
}

/* C of `columns` columns from j on, of which n exist, for one block of K. */
LVN_INLINE void few_block(const struct few_blocks *f, int64_t at, int64_t j, int64_t n, const int columns,
                          const int rows, const bool nf4)
{
    const struct lvn_gemm *g = f->g;
    const int64_t k0 = f->k0 + at, k = f->k - at < f->block ? f->k - at : f->block, row = nf4 ? g->k / 2 : g->k;
    const float *a = f->a + at;
    const uint8_t *p[FEW_COLUMNS];
    float factor[FEW_COLUMNS][FEW_KC / FEW_UNIT];
    struct vacc sum[FEW_COLUMNS][FEW];
    const vf code = nf4 ? vload(f->nf4.code) : vset(0);
    LVN_UNROLL
    for (int c = 0; c < columns; c++) {
        const int64_t column = j + (c < n ? c : n - 1);
        p[c] = (nf4 ? f->nf4.value : (const uint8_t *)g->b) + column * row + (nf4 ? k0 / 2 : k0);
        if (nf4) few_factors(&f->nf4, (column * g->k + k0) / FEW_UNIT, k / FEW_UNIT, factor[c]);
        LVN_UNROLL
        for (int r = 0; r < rows; r++) sum[c][r] = vacc_set(vset(0));
    }
    for (int64_t i = 0; i < k; i += FEW_UNIT) {
        const int64_t bytes = nf4 ? i / 2 : i;
        vf scaled[FEW_COLUMNS];
        LVN_UNROLL
        for (int c = 0; c < columns; c++) {
            __builtin_prefetch(p[c] + bytes + columns * row); /* the next columns at this k */
            if (nf4) scaled[c] = code * vset(factor[c][i / FEW_UNIT]);
        }
        few_unit(p, bytes, scaled, a + i, f->k, columns, rows, sum, nf4);
    }
    const float *scale = nf4 ? NULL : lvn_int8_factors(&g->b_blocks, g->b) + j;
    for (int c = 0; c < columns && c < n; c++)
        for (int r = 0; r < rows && r < g->m; r++) {
            float *to = g->c + r * g->c_row + j + c, total = vsum(vacc_get(sum[c][r]));
            if (!nf4) total = total * scale[c] * (float)(1.0 / 127.0);
            *to = total + (k0 > 0 || g->add ? *to : g->bias ? g->bias[j + c] : 0);
        }
}

LVN_INLINE void few_columns_of(const struct few_blocks *f, int64_t j, int64_t end, const int columns, const int rows,
                               const bool nf4)
{
    for (; j < end; j += columns)
        for (int64_t at = 0; at < f->k; at += f->block) few_block(f, at, j, end - j, columns, rows, nf4);
}

/* Columns at a time; more of them need more registers for sums than there are. */
#if defined(__AVX512F__)
#define FEW_AT_ONCE(rows) (rows == 1 ? 4 : 2)
#else
#define FEW_AT_ONCE(rows) 1
#endif
typedef void few_blocks_product(const struct few_blocks *f, int64_t j, int64_t end);
#define FEW_BLOCKS(rows)                                                                                               \
    static void few_nf4_##rows(const struct few_blocks *f, int64_t j, int64_t end)                                     \
    {                                                                                                                  \
        few_columns_of(f, j, end, FEW_AT_ONCE(rows), rows, true);                                                      \
    }                                                                                                                  \
    static void few_int8_##rows(const struct few_blocks *f, int64_t j, int64_t end)                                    \
    {                                                                                                                  \
        few_columns_of(f, j, end, FEW_AT_ONCE(rows), rows, false);                                                     \
    }
FEW_BLOCKS(1)
FEW_BLOCKS(4)
FEW_BLOCKS(8)
static few_blocks_product *const few_blocks_products[3][2] = {
    {few_int8_1, few_nf4_1}, {few_int8_4, few_nf4_4}, {few_int8_8, few_nf4_8}};

/* Steps [k0, k0 + k) of A; rows that do not exist are zero. */
static void few_pack_a(const struct lvn_gemm *g, int64_t rows, int64_t k0, int64_t k, bool nf4, float *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < k; i++, to++) {
            const int64_t v = i % FEW_UNIT / LVN_LANES, lane = i % LVN_LANES;
            const int64_t step = nf4 ? i / FEW_UNIT * FEW_UNIT + lane * FEW_VECTORS + v : i;
            *to = r < g->m ? ((const float *)g->a)[r * g->a_row + (k0 + step) * g->a_col] : 0;
        }
}

/* All rows, at most FEW, of columns [j, end). */
static void few_blocks_run(const struct lvn_gemm *g, int64_t j, int64_t end)
{
    float a[FEW_PART] __attribute__((aligned(64)));
    const bool nf4 = g->b_blocks.dtype == LVN_NF4;
    const int which = g->m == 1 ? 0 : g->m <= 4 ? 1 : 2, rows = which == 0 ? 1 : which * 4;
    const int64_t units = g->k / FEW_UNIT, blocks = (g->k + FEW_KC - 1) / FEW_KC;
    struct few_blocks f = {.g = g, .a = a, .block = (units + blocks - 1) / blocks * FEW_UNIT};
    const int64_t part = FEW_PART / rows / f.block * f.block;
    if (nf4) f.nf4 = lvn_nf4_of(&g->b_blocks, g->b);
    for (f.k0 = 0; f.k0 < g->k; f.k0 += part) {
        f.k = part < g->k - f.k0 ? part : g->k - f.k0;
        few_pack_a(g, rows, f.k0, f.k, nf4, a);
        few_blocks_products[which][nf4](&f, j, end);
    }
}
#endif

#endif
