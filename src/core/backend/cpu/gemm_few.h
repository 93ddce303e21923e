/* gemm_few.h - matrix multiplications with few rows (generating text one token at a time), and those with K = 1.
 * gemm.cpu.c calls it.
 *
 * Each element of B (fp32 or bf16) is used once or a few times, so reading B from memory dominates. Therefore nothing
 * is packed, and B is read in place, in memory order. The sums are those of the tiles, in the same order, with
 * identical bits.
 *
 * If rows of B are contiguous, a few of them at a time are added to sums that stay in the L1 cache. If columns are (a
 * weight stored as (out,in)), GL of them are read in parallel.
 *
 * K = 1 is the gradient of a weight for a batch of one row, which is bound by writing C. */
#ifndef LVN_GEMM_FEW_H
#define LVN_GEMM_FEW_H

#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_pack.h"
#if defined(__AVX512F__)
#include "backend/cpu/pairs.h"
#endif

enum { FEW = 8, STEPS = 4, FEW_LOOKAHEAD = 16, FEW_SUMS = 4096, FEW_PAIR = 2 };
/* Columns of a strip, whose sums stay in the L1 cache together with the operands. */
static int64_t few_columns(int64_t rows)
{
    return rows <= 2 ? FEW_SUMS / 2 : FEW_SUMS / FEW;
}

/* One block of k of a strip of columns. */
struct few {
    int64_t k, n;
    const float *a;
    int64_t a_row, a_col;
    const void *b;
    int64_t b_row, b_col;
    float *c;
    int64_t c_row;
    const float *start; /* added at the end; NULL: none */
    int64_t start_row;
    float *sums; /* (rows, width) */
    int64_t width;
};

/* A vector of B from element i on, with n valid elements. */
LVN_INLINE gv few_load(const void *b, int64_t i, int64_t n, const bool bf16)
{
    if (bf16) return n >= GL ? gload_bf16((const uint16_t *)b + i) : gload_bf16_n((const uint16_t *)b + i, n);
    return n >= GL ? gload((const float *)b + i) : gload_n((const float *)b + i, n);
}

LVN_INLINE void few_store(const struct few *f, int64_t r, int64_t j, gv sum, int64_t n)
{
    float *c = f->c + r * f->c_row + j;
    const int64_t start = r * f->start_row + j;
    if (n >= GL)
        gstore(c, f->start ? sum + gload(f->start + start) : sum + gset(0));
    else
        gstore_n(c, f->start ? sum + gload_n(f->start + start, n) : sum + gset(0), n);
}

/* sums += `steps` steps of k, for the n columns at j, at most one vector. Prefetches FEW_LOOKAHEAD rows ahead, because
 * rows are short and the hardware prefetcher does not continue from one to the next. */
LVN_INLINE void few_step(const void *b, int64_t b_row, gv x[FEW][STEPS], const int rows, const int steps, float *sums,
                         int64_t width, int64_t j, int64_t n, const bool bf16)
{
    gv w[STEPS];
    LVN_UNROLL
    for (int s = 0; s < steps; s++) {
        w[s] = few_load(b, s * b_row + j, n, bf16);
        __builtin_prefetch(vat(b, (s + FEW_LOOKAHEAD) * b_row + j, bf16), 0, 2);
    }
    LVN_UNROLL
    for (int r = 0; r < rows; r++) {
        gv sum = gload(sums + r * width + j);
        LVN_UNROLL
        for (int s = 0; s < steps; s++) sum = gfma(x[r][s], w[s], sum);
        gstore(sums + r * width + j, sum);
    }
}

LVN_INLINE void few_steps(const struct few *f, int64_t k, const int rows, const int steps, const bool bf16)
{
    gv x[FEW][STEPS];
    const int64_t n = f->n, b_row = f->b_row, width = f->width;
    const void *b = vat(f->b, k * b_row, bf16);
    float *sums = f->sums;
    int64_t j = 0;
    LVN_UNROLL
    for (int r = 0; r < rows; r++) {
        LVN_UNROLL
        for (int s = 0; s < steps; s++) x[r][s] = gset(f->a[r * f->a_row + (k + s) * f->a_col]);
    }
    for (; j + GL <= n; j += GL) few_step(b, b_row, x, rows, steps, sums, width, j, GL, bf16);
    if (j < n) few_step(b, b_row, x, rows, steps, sums, width, j, n - j, bf16);
}

/* b_col == 1 */
LVN_INLINE void few_by_rows(const struct few *f, const int rows, const bool bf16)
{
    int64_t k = 0;
    for (int r = 0; r < rows; r++)
        for (int64_t j = 0; j < f->n; j += GL) gstore(f->sums + r * f->width + j, gset(0));
    for (; k + STEPS <= f->k; k += STEPS) few_steps(f, k, rows, STEPS, bf16);
    for (; k < f->k; k++) few_steps(f, k, rows, 1, bf16);
    for (int r = 0; r < rows; r++)
        for (int64_t j = 0; j < f->n; j += GL) few_store(f, r, j, gload(f->sums + r * f->width + j), f->n - j);
}

/* One step of k of GL columns, of which n are valid. */
LVN_INLINE gv few_gather(const struct few *f, int64_t k, int64_t j, int64_t n, const bool bf16)
{
    float x[GL] = {0};
    for (int64_t l = 0; l < n; l++) {
        const int64_t i = k * f->b_row + (j + l) * f->b_col;
        x[l] = bf16 ? bf16_number((const uint16_t *)f->b + i) : ((const float *)f->b)[i];
    }
    return gload(x);
}

#if defined(__AVX512F__)
/* n <= 16 words of each of GL columns, to word[i] of all columns. */
LVN_INLINE void few_lines(const float *b, int64_t distance, int64_t n, __m512i word[GL])
{
    const __mmask16 mask = (__mmask16)((1u << n) - 1);
    __m512i tile[GL];
    LVN_UNROLL
    for (int l = 0; l < GL; l++) tile[l] = _mm512_maskz_loadu_epi32(mask, b + l * distance);
    pairs_transpose(tile);
    LVN_UNROLL
    for (int i = 0; i < GL; i++) _mm512_store_si512(word + i, tile[i]);
}

/* Is every column a sequence of whole words: fp32 or two bf16? */
static bool few_has_lines(const struct few *f, bool bf16)
{
    return f->b_row == 1 && (!bf16 || (f->b_col % 2 == 0 && f->k % 2 == 0));
}

/* C of two vectors of columns from j on, which use a number of A once for both: with many rows, loading them takes as
 * long as multiplying. A whole line of each column is read at a time, since lines that are a multiple of 4096 bytes
 * apart evict each other from the L1 cache. */
LVN_INLINE void few_columns_by_lines(const struct few *f, int64_t j, const int rows, const bool bf16)
{
    const int64_t per = bf16 ? 2 : 1, words = f->k / per, distance = f->b_col / per;
    gv sum[FEW_PAIR][FEW];
    LVN_UNROLL
    for (int v = 0; v < FEW_PAIR; v++) {
        LVN_UNROLL
        for (int r = 0; r < rows; r++) sum[v][r] = gset(0);
    }
    for (int64_t k = 0; k < words; k += GL) {
        __m512i word[FEW_PAIR][GL];
        const int64_t left = words - k < GL ? words - k : GL;
        const float *b = (const float *)vat(f->b, j * f->b_col, bf16) + k, *a = f->a + k * per * f->a_col;
        LVN_UNROLL
        for (int v = 0; v < FEW_PAIR; v++) few_lines(b + v * GL * distance, distance, left, word[v]);
        for (int l = 0; l < FEW_PAIR * GL; l++) /* the next columns at this k, which the hardware does not expect */
            __builtin_prefetch(b + (FEW_PAIR * GL + l) * distance, 0, 2);
        for (int64_t i = 0; i < left; i++)
            for (int half = 0; half < (bf16 ? 2 : 1); half++, a += f->a_col) {
                gv w[FEW_PAIR];
                LVN_UNROLL
                for (int v = 0; v < FEW_PAIR; v++) {
                    const __m512i x = word[v][i];
                    w[v] = (gv)(!bf16  ? x
                                : half ? _mm512_and_si512(x, _mm512_set1_epi32((int)0xffff0000u))
                                       : _mm512_slli_epi32(x, 16));
                }
                LVN_UNROLL
                for (int r = 0; r < rows; r++) {
                    gv x = gset(a[r * f->a_row]);
                    __asm__("" : "+v"(x)); /* GCC would load it for each vector */
                    LVN_UNROLL
                    for (int v = 0; v < FEW_PAIR; v++) sum[v][r] = gfma(x, w[v], sum[v][r]);
                }
            }
    }
    LVN_UNROLL
    for (int v = 0; v < FEW_PAIR; v++) {
        LVN_UNROLL
        for (int r = 0; r < rows; r++) few_store(f, r, j + v * GL, sum[v][r], GL);
    }
}
#endif

/* C of n columns, at most GL, from j on. */
LVN_INLINE void few_columns_at(const struct few *f, int64_t j, int64_t n, const int rows, const bool bf16)
{
    const int steps = STEPS_OF(bf16);
    const bool contiguous = f->b_row == 1 && (!bf16 || f->b_col % 2 == 0);
    gv sum[FEW];
    int64_t k = 0;
    LVN_UNROLL
    for (int r = 0; r < rows; r++) sum[r] = gset(0);
    for (; contiguous && n == GL && k + steps <= f->k; k += steps) {
        gv w[STEPS_OF(true)];
        transpose_steps(vat(f->b, j * f->b_col + k, bf16), f->b_col, w, bf16);
        /* Prefetch the next columns at this k, since the hardware prefetcher follows fewer than GL streams. */
        if (k % (bf16 ? 32 : 16) == 0)
            for (int l = 0; l < GL; l++) __builtin_prefetch(vat(f->b, (j + GL + l) * f->b_col + k, bf16), 0, 2);
        LVN_UNROLL
        for (int s = 0; s < steps; s++) {
            LVN_UNROLL
            for (int r = 0; r < rows; r++) sum[r] = gfma(gset(f->a[r * f->a_row + (k + s) * f->a_col]), w[s], sum[r]);
        }
    }
    for (; k < f->k; k++) {
        gv w = few_gather(f, k, j, n, bf16);
        LVN_UNROLL
        for (int r = 0; r < rows; r++) sum[r] = gfma(gset(f->a[r * f->a_row + k * f->a_col]), w, sum[r]);
    }
    LVN_UNROLL
    for (int r = 0; r < rows; r++) few_store(f, r, j, sum[r], n);
}

/* b_row == 1, or any strides */
LVN_INLINE void few_by_columns(const struct few *f, const int rows, const bool bf16)
{
    int64_t j = 0;
#if defined(__AVX512F__)
    for (; rows > 4 && j + FEW_PAIR * GL <= f->n && few_has_lines(f, bf16); j += FEW_PAIR * GL)
        few_columns_by_lines(f, j, rows, bf16);
#endif
    for (; j < f->n; j += GL) few_columns_at(f, j, f->n - j < GL ? f->n - j : GL, rows, bf16);
}

typedef void few_product(const struct few *f);
#define FEW_PRODUCT(rows)                                                                                              \
    static void few_rows_##rows(const struct few *f)                                                                   \
    {                                                                                                                  \
        few_by_rows(f, rows, false);                                                                                   \
    }                                                                                                                  \
    static void few_columns_##rows(const struct few *f)                                                                \
    {                                                                                                                  \
        few_by_columns(f, rows, false);                                                                                \
    }                                                                                                                  \
    static void few_rows_bf16_##rows(const struct few *f)                                                              \
    {                                                                                                                  \
        few_by_rows(f, rows, true);                                                                                    \
    }                                                                                                                  \
    static void few_columns_bf16_##rows(const struct few *f)                                                           \
    {                                                                                                                  \
        few_by_columns(f, rows, true);                                                                                 \
    }
#define FEW_ENTRY(rows) {{few_columns_##rows, few_columns_bf16_##rows}, {few_rows_##rows, few_rows_bf16_##rows}},
#define FEW_EACH(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
FEW_EACH(FEW_PRODUCT)
static few_product *const few_products[FEW][2][2] = {FEW_EACH(FEW_ENTRY)};

/* Outer product (K = 1): rows [i, i1) and n columns from j on. */
static void outer_run(const struct lvn_gemm *g, int64_t i, int64_t i1, int64_t j, int64_t n)
{
    const float *a = g->a, *b = (const float *)g->b + j, *bias = g->bias ? g->bias + j : NULL;
    for (; i < i1; i++) {
        const gv x = gset(a[i * g->a_row]);
        float *c = g->c + i * g->c_row + j;
        const float *start = g->add ? c : bias;
        int64_t k = 0;
        for (; k + GL <= n; k += GL) {
            const gv y = gfma(x, gload(b + k), gset(0));
            gstore(c + k, start ? y + gload(start + k) : y + gset(0));
        }
        if (k == n) continue;
        const gv y = gfma(x, gload_n(b + k, n - k), gset(0));
        gstore_n(c + k, start ? y + gload_n(start + k, n - k) : y + gset(0), n - k);
    }
}

static void few_run(const struct few *f, int64_t rows, bool bf16)
{
    few_products[rows - 1][f->b_col == 1][bf16](f);
}

#endif
