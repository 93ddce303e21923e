/* gemm_bf16.h - matrix multiplication of bf16 with fp32 sums, on Intel's matrix units (AMX) or with the dot products of
 * AVX512-BF16. gemm.cpu.c calls bf16_run().
 *
 * Operands that are bf16, or may be rounded to it, consist of one part. On AMX other fp32 values are split exactly into
 * three bf16 values of 8 significant bits: x = x1 + x2 + x3, where x1 is x rounded, x2 the rounded remainder, and x3
 * the final remainder. Six of the nine products of two such sums are computed; the omitted ones (x2 y3, x3 y2, x3 y3)
 * are below 2^-24 of x y, the error of rounding x y to fp32. Sums are fp32, and each block of K is added to them once.
 * So the result is as accurate as with fused multiply-adds (test_gemm compares both with double), and AMX, sixteen
 * times as fast on bf16 as vectors are on fp32, is still more than twice as fast. Dot products are at most twice as
 * fast, so AVX512-BF16 does not split fp32.
 *
 * Differences from vector instructions: values below 2^-126 count as 0, so values below 2^-104 lose bits of their third
 * part, and below 2^-110 all of it; values above 3.39e38 (the largest bf16), including infinity, give NaN.
 *
 * C is divided into blocks of 32 x 32, four tiles of 16 x 16. Operands are packed as tiles, part by part
 * (gemm_bf16_pack.h). A thread processes strips of B that fill half of the L2 cache, and k in blocks, and packs 32 rows
 * of A for each pass along the strip, unless they can be read in place. gemm_bf16_amx.h or gemm_bf16_dot.h multiply a
 * block. Without a place for C, K is one block, and a block of C is finished in the L1 cache.
 *
 * For the split see Henry, Tang, Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for
 * higher-precision computations", ARITH 2019. */
#ifndef LVN_GEMM_BF16_H
#define LVN_GEMM_BF16_H

#include <immintrin.h>

#include "backend/cpu/blocks_cpu.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_bf16_pack.h"
#if defined(LVN_AMX)
#include "backend/cpu/gemm_bf16_amx.h"
#else
#include "backend/cpu/gemm_bf16_dot.h"
#endif
#include "base/threads.h"

enum {
    BF16_NC = 16 * BF16_SIDE, /* maximum columns of a strip */
};

static inline int64_t bf16_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* --- blocks --- */

/* Split operands represent fp32 values, and AMX rounds its running sum six times per step. So each block of K starts
 * from zero and is added once to the previous sum. */
static bool bf16_is_split(int parts)
{
    return parts > 1;
}

/* Compute through `buffer` (BF16_SIDE, BF16_SIDE): for a block at the edge of C, or one that is added to a sum. */
static void bf16_block_buffered(struct bf16_a a, const char *b, int64_t steps, const float *from, int64_t from_row,
                                float *c, int64_t c_row, int64_t rows, int64_t columns, float *buffer, int parts)
{
    const float *initial = from && !bf16_is_split(parts) ? buffer : NULL, *addend = bf16_is_split(parts) ? from : NULL;
    for (int64_t i = 0; initial && i < rows; i++)
        memcpy(buffer + i * BF16_SIDE, from + i * from_row, (size_t)columns * sizeof *buffer);
    bf16_block_by_size(a, b, steps, initial, BF16_SIDE * 4, buffer, BF16_SIDE * 4, rows > 16, columns > 16, parts);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j += LVN_LANES) {
            int64_t n = bf16_min(LVN_LANES, columns - j);
            vf sum = vload(buffer + i * BF16_SIDE + j);
            if (addend) sum += vload_n(addend + i * from_row + j, n);
            vstore_n(c + i * c_row + j, sum, n);
        }
}

/* --- one thread's part --- */

static inline int64_t bf16_ceil(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* n divided evenly into parts of at most `max`, multiples of BF16_SIDE. A function of n only. */
static int64_t bf16_even(int64_t n, int64_t max)
{
    int64_t parts = (n + max - 1) / max;
    return bf16_ceil((n + parts - 1) / parts, BF16_SIDE);
}

static bool bf16_fits(const struct lvn_gemm *g)
{
    return (g->bf16 || BF16_SPLITS) && g->m >= BF16_MIN && g->n >= BF16_MIN && g->k >= BF16_MIN &&
           (g->a_row == 1 || g->a_col == 1) && (g->b_row == 1 || g->b_col == 1);
}

static int bf16_parts_of(const struct lvn_gemm *g)
{
    return g->bf16 ? 1 : BF16_PARTS;
}

/* Are `rows` rows of A read in place? Only if they are so short that a block of them stays in the L1 cache. */
static bool bf16_in_place(const struct lvn_gemm *g, int64_t rows)
{
    return g->bf16 && g->a_bf16 && g->a_col == 1 && g->k % BF16_K == 0 && g->a_row <= 512 && rows % 16 == 0;
}

/* Longest block of K; longer than bf16_kc() in narrower strips. */
static int64_t bf16_longest(int parts)
{
    return parts == 1 ? 2 * bf16_kc(parts) : bf16_kc(parts);
}

/* Without a C, K must be one block, whose sums stay in the tiles. */
static bool bf16_buffers(const struct lvn_gemm *g)
{
    return g->bf16 && !g->add && g->k <= bf16_longest(1);
}

/* Sufficient for smaller sizes too, since callers plan for the largest one. */
static int64_t bf16_scratch(const struct lvn_gemm *g)
{
    int parts = bf16_parts_of(g);
    int64_t steps = bf16_min(bf16_ceil(g->k, BF16_K), bf16_longest(parts)) / BF16_K;
    int64_t all = bf16_ceil(g->n, BF16_SIDE) / BF16_SIDE * steps;
    int64_t strip = BF16_NC / BF16_SIDE * bf16_kc(parts) / BF16_K;
    return (bf16_min(all, strip) + steps) * bf16_step(parts) + BF16_SIDE * BF16_SIDE * 4;
}

/* Pack BF16_SIDE columns of B that are in packed blocks, which are widened some steps at a time. */
static void bf16_pack_blocks(const struct lvn_gemm *g, int64_t j, int64_t n, int64_t k0, int64_t k, char *out,
                             int parts)
{
    enum { STEP = 64 };
    float wide[BF16_SIDE * STEP];
    const bool columns = blocks_are_columns(g);
    const struct bf16_operand b = {wide, columns ? STEP : 1, columns ? 1 : BF16_SIDE, false, true};
    for (int64_t i = 0, steps; i < k; i += steps, out += steps / BF16_K * bf16_step(parts)) {
        steps = bf16_min(STEP, k - i);
        blocks_widen_part(g, k0 + i, steps, j, n, columns ? STEP : BF16_SIDE, wide);
        bf16_pack(&b, 0, n, 0, steps, out, parts);
    }
}

/* Are blocks below the diagonal left out? */
static bool bf16_mirrored(const struct lvn_gemm *g)
{
    return g->symmetric && !g->c;
}

/* Columns [*j, *end) of a thread. */
static void bf16_columns(const struct lvn_gemm *g, int part, int parts, int64_t *j, int64_t *end)
{
    if (bf16_mirrored(g)) { /* equal areas above the diagonal */
        *j = bf16_ceil((int64_t)((double)g->n * sqrt((double)part / parts)), BF16_SIDE);
        *end = bf16_ceil((int64_t)((double)g->n * sqrt((double)(part + 1) / parts)), BF16_SIDE);
        if (part + 1 == parts || *end > g->n) *end = g->n;
        if (*j > *end) *j = *end;
    } else {
        lvn_thread_range(g->n, BF16_SIDE, part, parts, j, end);
    }
}

/* A block of C without a place: computed in `buffer` (BF16_SIDE, BF16_SIDE), from which finish() reads it. */
static void bf16_block_finished(const struct lvn_gemm *g, struct bf16_a a, const char *b, int64_t steps, int64_t i,
                                int64_t rows, int64_t j, int64_t columns, float *buffer)
{
    float bias[BF16_SIDE];
    const float *from = g->bias ? g->bias + j : NULL;
    if (from && columns % 16) from = memcpy(bias, from, (size_t)columns * sizeof *bias);
    bf16_block_by_size(a, b, steps, from, 0, buffer, BF16_SIDE * 4, rows > 16, columns > 16, 1);
    g->finish(g, buffer, BF16_SIDE, i, rows, j, columns);
}

static void bf16_rows(const struct lvn_gemm *g, struct bf16_a a, const char *b, int64_t i, int64_t rows, int64_t j,
                      int64_t n, int64_t k0, int64_t k, float *buffer)
{
    const int parts = bf16_parts_of(g);
    int64_t steps = (k + BF16_K - 1) / BF16_K;
    for (int64_t x = 0; x < n; x += BF16_SIDE, b += steps * bf16_step(parts)) {
        if (bf16_mirrored(g) && j + x < i) continue;
        int64_t columns = bf16_min(BF16_SIDE, n - x);
        if (!g->c) {
            bf16_block_finished(g, a, b, steps, i, rows, j + x, columns, buffer);
            continue;
        }
        float *c = g->c + i * g->c_row + j + x;
        const float *from = c;
        int64_t from_row = g->c_row;
        if (k0 == 0 && !g->add) {
            from = g->bias ? g->bias + j + x : NULL;
            from_row = 0;
        }
        if (rows % 16 || columns % 16 || (from && bf16_is_split(parts)))
            bf16_block_buffered(a, b, steps, from, from_row, c, g->c_row, rows, columns, buffer, parts);
        else
            bf16_block_by_size(a, b, steps, from, from_row * 4, c, g->c_row * 4, rows > 16, columns > 16, parts);
    }
}

/* Estimated cycles of the busiest thread for one step of k, if `rows` threads divide the rows. */
static double bf16_cost(const struct lvn_gemm *g, int rows, int columns)
{
    double m = (double)bf16_ceil((g->m + rows - 1) / rows, BF16_SIDE),
           n = (double)bf16_ceil((g->n + columns - 1) / columns, 16);
    double strips = (double)bf16_ceil((int64_t)n, BF16_NC) / BF16_NC;
    double block = bf16_cycles(bf16_parts_of(g));
    return m * n * block / 1024 + n * (g->b_col == 1 ? 0.4 : 0.6) + strips * m * (g->a_col == 1 ? 0.4 : 0.6);
}

static void bf16_run(const struct lvn_gemm *g, char *scratch, int thread, int n_threads)
{
    int by_rows = 1;
    for (int r = 2; r <= n_threads && !bf16_mirrored(g); r++)
        if (n_threads % r == 0 && bf16_cost(g, r, n_threads / r) < bf16_cost(g, by_rows, n_threads / by_rows))
            by_rows = r;
    int by_columns = n_threads / by_rows;
    int64_t i0, i1, j0, j1;
    lvn_thread_range(g->m, BF16_SIDE, thread / by_columns, by_rows, &i0, &i1);
    bf16_columns(g, thread % by_columns, by_columns, &j0, &j1);
    if (i0 == i1 || j0 == j1) return;
    const struct bf16_operand a = {g->a, g->a_row, g->a_col, g->a_bf16, false},
                              b = {g->b, g->b_col, g->b_row, g->b_bf16, true};
    const int parts = bf16_parts_of(g);
    const int64_t kc = bf16_kc(parts), block = g->c ? bf16_even(g->k, kc) : bf16_ceil(g->k, BF16_K);
    const int64_t strip = bf16_even(j1 - j0, block <= kc ? BF16_NC : BF16_NC * kc / block / BF16_SIDE * BF16_SIDE);
    float *buffer = (float *)scratch;
    char *packed_a = scratch + BF16_SIDE * BF16_SIDE * 4, *packed_b = packed_a + block / BF16_K * bf16_step(parts);
    pairs_begin();
    for (int64_t j = j0; j < j1; j += strip) {
        int64_t n = bf16_min(strip, j1 - j);
        for (int64_t k0 = 0; k0 < g->k; k0 += block) {
            int64_t k = bf16_min(block, g->k - k0), bytes = (k + BF16_K - 1) / BF16_K * bf16_step(parts);
            for (int64_t x = 0; x < n; x += BF16_SIDE) {
                const int64_t columns = bf16_min(BF16_SIDE, n - x);
                char *to = packed_b + x / BF16_SIDE * bytes;
                if (lvn_dtype_is_packed(g->b_blocks.dtype))
                    bf16_pack_blocks(g, j + x, columns, k0, k, to, parts);
                else
                    bf16_pack(&b, j + x, columns, k0, k, to, parts);
            }
            for (int64_t i = i0; i < i1; i += BF16_SIDE) {
                int64_t rows = bf16_min(BF16_SIDE, i1 - i);
                if (bf16_mirrored(g) && i >= j + n) break;
                struct bf16_a own = {packed_a, 64, bf16_step(parts)};
                if (bf16_in_place(g, rows))
                    own = (struct bf16_a){(const char *)((const uint16_t *)g->a + i * g->a_row + k0), g->a_row * 2, 64};
                else
                    bf16_pack(&a, i, rows, k0, k, packed_a, parts);
                bf16_rows(g, own, packed_b, i, rows, j, n, k0, k, buffer);
                if (k0 + k == g->k && g->finish && g->c) g->finish(g, g->c + i * g->c_row + j, g->c_row, i, rows, j, n);
            }
        }
    }
    pairs_end();
}

#endif
