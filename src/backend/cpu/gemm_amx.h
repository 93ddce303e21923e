/* gemm_amx.h - products on the matrix unit of Intel processors (AMX), which multiplies bf16 and adds in fp32.
 *
 * Operands that are bf16, or may be rounded to it, are one part each, and one product. Other fp32 numbers are split,
 * without loss, into three bf16 numbers of 8 significant bits: x = x1 + x2 + x3, where x1 is x rounded, x2 the rest
 * rounded, x3 what is left. Of the nine products of two such sums six are taken; those left out (x2 y3, x3 y2, x3 y3)
 * are below 2^-24 of x y, which is what rounding x y to fp32 costs. Sums are kept in fp32. So the result is as near to
 * the exact one as that of fused multiply-adds (test_gemm holds both against double), and the unit, sixteen times as
 * fast on bf16 as vectors are on fp32, is still more than twice as fast.
 *
 * What differs from vectors: the unit takes numbers below 2^-126 for 0, so the third part of numbers below 2^-110 is
 * lost; fp32 numbers above 3.38e38 overflow; infinity in three parts gives NaN.
 *
 * C is cut into blocks of 32 x 32, four tiles of 16 x 16. Operands are packed as tiles, part by part (gemm_amx_pack.h).
 * A thread walks over strips of B that fill half of the second cache, over k in blocks, and packs 32 rows of A for each
 * walk along the strip.
 *
 * The split: Henry, Tang, Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision
 * computations", ARITH 2019. The unit: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter
 * 18 (Intel AMX). */
#ifndef LVN_GEMM_AMX_H
#define LVN_GEMM_AMX_H

#include <immintrin.h>
#include <string.h>

#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_amx_pack.h"
#include "base/threads.h"

enum {
    AMX_NC = 16 * AMX_SIDE, /* most columns of a strip */
    AMX_LEAST = 16,         /* rows, columns, steps of k: smaller products are not worth it */
};

/* Most steps of k of a block: with AMX_NC columns about half of the second cache. */
static inline int64_t amx_kc(int parts)
{
    return parts == 1 ? 1024 : 384;
}

static inline int64_t amx_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int amx_parts_of(const struct lvn_gemm *g)
{
    return g->bf16 ? 1 : AMX_PARTS;
}

/* --- multiplying --- */

#define AMX_BARRIER() __asm__ volatile("" ::: "memory") /* tile loads are no memory accesses to the compiler */
#define AMX_A(part)                                                                                                    \
    _tile_loadd(4, a + (part)*2 * AMX_TILE, 64);                                                                       \
    if (two_rows) _tile_loadd(5, a + (part)*2 * AMX_TILE + AMX_TILE, 64)
#define AMX_B(part)                                                                                                    \
    _tile_loadd(6, b + (part)*2 * AMX_TILE, 64);                                                                       \
    if (two_columns) _tile_loadd(7, b + (part)*2 * AMX_TILE + AMX_TILE, 64)
#define AMX_MULTIPLY()                                                                                                 \
    _tile_dpbf16ps(0, 4, 6);                                                                                           \
    if (two_columns) _tile_dpbf16ps(1, 4, 7);                                                                          \
    if (two_rows) _tile_dpbf16ps(2, 5, 6);                                                                             \
    if (two_rows && two_columns) _tile_dpbf16ps(3, 5, 7)

/* Four tiles of C, at c (distance in bytes): start at `from` (NULL: zero; distance 0: the same row sixteen times), and
 * go through `steps` steps. The smaller products come first. */
static inline void amx_block(const char *a, const char *b, int64_t steps, const float *from, int64_t from_row, float *c,
                             int64_t c_row, const bool two_rows, const bool two_columns, const int parts)
{
    enum { FETCH = 4 }; /* rows of C a step, which are about to be written */
    AMX_BARRIER();
    if (from) {
        _tile_loadd(0, from, from_row);
        if (two_columns) _tile_loadd(1, from + 16, from_row);
        if (two_rows) _tile_loadd(2, (const char *)from + 16 * from_row, from_row);
        if (two_rows && two_columns) _tile_loadd(3, (const char *)from + 16 * from_row + 64, from_row);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    char *fetch = (char *)c;
    for (int lines = two_rows ? AMX_SIDE : 16; steps > 0; steps--, a += amx_step(parts), b += amx_step(parts)) {
        for (int i = 0; i < FETCH && lines > 0; i++, lines--, fetch += c_row) {
            __builtin_prefetch(fetch, 1);
            if (two_columns) __builtin_prefetch(fetch + 64, 1);
        }
        AMX_A(0);
        if (parts == 1) {
            AMX_B(0);
            AMX_MULTIPLY();
            continue;
        }
        AMX_B(2);
        AMX_MULTIPLY();
        AMX_B(1);
        AMX_MULTIPLY();
        AMX_A(1);
        AMX_MULTIPLY();
        AMX_B(0);
        AMX_MULTIPLY();
        AMX_A(2);
        AMX_MULTIPLY();
        AMX_A(0);
        AMX_MULTIPLY();
    }
    _tile_stored(0, c, c_row);
    if (two_columns) _tile_stored(1, c + 16, c_row);
    if (two_rows) _tile_stored(2, (char *)c + 16 * c_row, c_row);
    if (two_rows && two_columns) _tile_stored(3, (char *)c + 16 * c_row + 64, c_row);
    AMX_BARRIER();
}

static void amx_block_by_size(const char *a, const char *b, int64_t steps, const float *from, int64_t from_row,
                              float *c, int64_t c_row, bool two_rows, bool two_columns, int parts)
{
#define AMX_BLOCK(r, n, p)                                                                                             \
    if (two_rows == (r) && two_columns == (n) && parts == (p)) amx_block(a, b, steps, from, from_row, c, c_row, r, n, p)
    AMX_BLOCK(true, true, 1);
    AMX_BLOCK(true, false, 1);
    AMX_BLOCK(false, true, 1);
    AMX_BLOCK(false, false, 1);
    AMX_BLOCK(true, true, AMX_PARTS);
    AMX_BLOCK(true, false, AMX_PARTS);
    AMX_BLOCK(false, true, AMX_PARTS);
    AMX_BLOCK(false, false, AMX_PARTS);
#undef AMX_BLOCK
}

/* A block at the edge of C goes by way of `edge` (AMX_SIDE, AMX_SIDE). */
static void amx_edge(const char *a, const char *b, int64_t steps, const float *from, int64_t from_row, float *c,
                     int64_t c_row, int64_t rows, int64_t columns, float *edge, int parts)
{
    for (int64_t i = 0; from && i < rows; i++)
        memcpy(edge + i * AMX_SIDE, from + i * from_row, (size_t)columns * sizeof *edge);
    amx_block_by_size(a, b, steps, from ? edge : NULL, AMX_SIDE * 4, edge, AMX_SIDE * 4, rows > 16, columns > 16,
                      parts);
    for (int64_t i = 0; i < rows; i++) memcpy(c + i * c_row, edge + i * AMX_SIDE, (size_t)columns * sizeof *edge);
}

/* --- one thread's part --- */

static inline int64_t amx_ceil(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* n cut evenly into parts of at most `most`, multiples of AMX_SIDE. A function of n alone. */
static int64_t amx_even(int64_t n, int64_t most)
{
    int64_t parts = (n + most - 1) / most;
    return amx_ceil((n + parts - 1) / parts, AMX_SIDE);
}

static bool amx_fits(const struct lvn_gemm *g)
{
    return g->m >= AMX_LEAST && g->n >= AMX_LEAST && g->k >= AMX_LEAST && (g->a_row == 1 || g->a_col == 1) &&
           (g->b_row == 1 || g->b_col == 1);
}

/* As much as a smaller product wants, too: callers plan for the largest. */
static int64_t amx_scratch(const struct lvn_gemm *g)
{
    int parts = amx_parts_of(g);
    int64_t steps = amx_min(amx_ceil(g->k, AMX_K), amx_kc(parts)) / AMX_K;
    int64_t blocks = amx_min(amx_ceil(g->n, AMX_SIDE), AMX_NC) / AMX_SIDE;
    return (blocks + 1) * steps * amx_step(parts) + AMX_SIDE * AMX_SIDE * 4;
}

static void amx_rows(const struct lvn_gemm *g, const char *a, const char *b, int64_t i, int64_t rows, int64_t j,
                     int64_t n, int64_t k0, int64_t k, float *edge)
{
    const int parts = amx_parts_of(g);
    int64_t steps = (k + AMX_K - 1) / AMX_K;
    for (int64_t x = 0; x < n; x += AMX_SIDE, b += steps * amx_step(parts)) {
        int64_t columns = amx_min(AMX_SIDE, n - x);
        float *c = g->c + i * g->c_row + j + x;
        const float *from = c;
        int64_t from_row = g->c_row;
        if (k0 == 0 && !g->add) {
            from = g->bias ? g->bias + j + x : NULL;
            from_row = 0;
        }
        if (rows % 16 || columns % 16)
            amx_edge(a, b, steps, from, from_row, c, g->c_row, rows, columns, edge, parts);
        else
            amx_block_by_size(a, b, steps, from, from_row * 4, c, g->c_row * 4, rows > 16, columns > 16, parts);
    }
}

/* Cycles, roughly, of the busiest thread for one step of k, when `rows` threads share the rows. */
static double amx_cost(const struct lvn_gemm *g, int rows, int columns)
{
    double m = (double)amx_ceil((g->m + rows - 1) / rows, AMX_SIDE),
           n = (double)amx_ceil((g->n + columns - 1) / columns, 16);
    double strips = (double)amx_ceil((int64_t)n, AMX_NC) / AMX_NC;
    double tiles = amx_parts_of(g) == 1 ? 2 : 12;
    return m * n * tiles / 1024 + n * (g->b_col == 1 ? 0.4 : 0.6) + strips * m * (g->a_col == 1 ? 0.4 : 0.6);
}

static void amx_run(const struct lvn_gemm *g, char *scratch, int thread, int n_threads)
{
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    int by_rows = 1;
    for (int r = 2; r <= n_threads; r++)
        if (n_threads % r == 0 && amx_cost(g, r, n_threads / r) < amx_cost(g, by_rows, n_threads / by_rows))
            by_rows = r;
    int by_columns = n_threads / by_rows;
    int64_t i0, i1, j0, j1;
    lvn_share(g->m, AMX_SIDE, thread / by_columns, by_rows, &i0, &i1);
    lvn_share(g->n, AMX_SIDE, thread % by_columns, by_columns, &j0, &j1);
    if (i0 == i1 || j0 == j1) return;
    const struct amx_operand a = {g->a, g->a_row, g->a_col, g->a_half, false},
                             b = {g->b, g->b_col, g->b_row, g->b_half, true};
    const int parts = amx_parts_of(g);
    int64_t block = amx_even(g->k, amx_kc(parts)), strip = amx_even(j1 - j0, AMX_NC);
    float *edge = (float *)scratch;
    char *packed_a = scratch + AMX_SIDE * AMX_SIDE * 4, *packed_b = packed_a + block / AMX_K * amx_step(parts);
    _tile_loadconfig(&config);
    for (int64_t j = j0; j < j1; j += strip) {
        int64_t n = amx_min(strip, j1 - j);
        for (int64_t k0 = 0; k0 < g->k; k0 += block) {
            int64_t k = amx_min(block, g->k - k0), bytes = (k + AMX_K - 1) / AMX_K * amx_step(parts);
            for (int64_t x = 0; x < n; x += AMX_SIDE)
                amx_pack(&b, j + x, amx_min(AMX_SIDE, n - x), k0, k, packed_b + x / AMX_SIDE * bytes, parts);
            for (int64_t i = i0; i < i1; i += AMX_SIDE) {
                int64_t rows = amx_min(AMX_SIDE, i1 - i);
                amx_pack(&a, i, rows, k0, k, packed_a, parts);
                amx_rows(g, packed_a, packed_b, i, rows, j, n, k0, k, edge);
                if (k0 + k == g->k && g->finish) g->finish(g, i, rows, j, n);
            }
        }
    }
    _tile_release();
}

#endif
