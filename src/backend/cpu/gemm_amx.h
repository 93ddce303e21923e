/* gemm_amx.h - fp32 products on the matrix unit of Intel processors (AMX), which multiplies bf16.
 *
 * Each fp32 number is split, without loss, into three bf16 numbers of 8 significant bits: x = x1 + x2 + x3, where x1 is
 * x rounded, x2 the rest rounded, x3 what is left. Of the nine products of two such sums six are taken; those left out
 * (x2 y3, x3 y2, x3 y3) are below 2^-24 of x y, which is what rounding x y to fp32 costs. Sums are kept in fp32. So the
 * result is as near to the exact one as that of fused multiply-adds (test_gemm holds both against double), and the
 * unit, sixteen times as fast on bf16 as vectors are on fp32, is still more than twice as fast.
 *
 * What differs: the unit takes numbers below 2^-126 for 0, so the third part of numbers below 2^-110 is lost; numbers
 * above 3.38e38 overflow; infinity gives NaN.
 *
 * C is cut into blocks of 32 x 32, four tiles of 16 x 16. Operands are packed as tiles, part by part: A's tile is 16
 * rows of 32 steps of k, B's is 16 pairs of steps of k for 16 columns. What lies the other way round in memory is
 * packed as pairs and transposed, 16 x 16 pairs at a time. A thread walks over strips of B that fill half of the second
 * cache, over k in blocks, and packs 32 rows of A for each walk along the strip.
 *
 * The split: Henry, Tang, Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for higher-precision
 * computations", ARITH 2019. The unit: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter
 * 18 (Intel AMX). */
#ifndef LVN_GEMM_AMX_H
#define LVN_GEMM_AMX_H

#include <immintrin.h>
#include <string.h>

#include "backend/cpu/gemm.h"
#include "base/threads.h"

enum {
    AMX_SIDE = 32,           /* of a block of C */
    AMX_K = 32,              /* steps of k of a tile */
    AMX_TILE = 1024,         /* bytes */
    AMX_PARTS = 3,           /* bf16 numbers of an fp32 one */
    AMX_STEP = 2 * 3 * 1024, /* bytes of a packed step: parts of both tiles of a side */
    AMX_KC = 384,            /* most steps of k of a block */
    AMX_NC = 16 * AMX_SIDE,  /* most columns of a strip */
    AMX_LEAST = 16,          /* rows, columns, steps of k: smaller products are not worth it */
};

/* Three registers of 16 numbers whose upper halves are bf16: the parts of x. */
struct amx_parts {
    __m512i part[AMX_PARTS];
};

static inline struct amx_parts amx_split(__m512 x)
{
    const __m512i half = _mm512_set1_epi32(0x8000), mask = _mm512_set1_epi32((int)0xffff0000);
    struct amx_parts s;
    s.part[0] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), mask);
    x = _mm512_sub_ps(x, _mm512_castsi512_ps(s.part[0]));
    s.part[1] = _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), mask);
    s.part[2] = _mm512_castps_si512(_mm512_sub_ps(x, _mm512_castsi512_ps(s.part[1])));
    return s;
}

/* --- packing: 16 lines of 32 numbers as one tile of each part ---
 * A line is a row of A or a column of B. `out` is the first part's tile; the other parts lie 2 AMX_TILE apart. */

/* Neighbours in k: two halves of a line become one row of 32 bf16. */
static inline void amx_line(const float *p, int64_t k, __m512i row[AMX_PARTS])
{
    const __m512i upper =
        _mm512_setr_epi32(0x30001, 0x70005, 0xb0009, 0xf000d, 0x130011, 0x170015, 0x1b0019, 0x1f001d, 0x230021,
                          0x270025, 0x2b0029, 0x2f002d, 0x330031, 0x370035, 0x3b0039, 0x3f003d);
    struct amx_parts a, b;
    if (__builtin_expect(k >= AMX_K, 1)) {
        a = amx_split(_mm512_loadu_ps(p));
        b = amx_split(_mm512_loadu_ps(p + 16));
    } else {
        a = amx_split(_mm512_maskz_loadu_ps((__mmask16)(k >= 16 ? 0xffff : (1u << k) - 1), p));
        b = amx_split(_mm512_maskz_loadu_ps((__mmask16)(k > 16 ? (1u << (k - 16)) - 1 : 0), p + 16));
    }
    for (int s = 0; s < AMX_PARTS; s++) row[s] = _mm512_permutex2var_epi16(a.part[s], upper, b.part[s]);
}

/* Neighbours in lines: steps k and k + 1 of 16 lines become one row of 16 pairs. */
static inline void amx_pair(const float *p, int64_t distance, int64_t k, int64_t lines, __m512i row[AMX_PARTS])
{
    __mmask16 mask = (__mmask16)(lines >= 16 ? 0xffff : (1u << lines) - 1);
    struct amx_parts a = amx_split(_mm512_maskz_loadu_ps(k > 0 ? mask : 0, p));
    struct amx_parts b = amx_split(_mm512_maskz_loadu_ps(k > 1 ? mask : 0, k > 1 ? p + distance : p));
    for (int s = 0; s < AMX_PARTS; s++) /* the third part may have bits below its upper half when it is not a number */
        row[s] = _mm512_mask_blend_epi16(0xaaaaaaaau, _mm512_srli_epi32(a.part[s], 16), b.part[s]);
}

/* 16 x 16 pairs: rows become columns. */
static inline void amx_transpose(__m512i r[16])
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

/* One operand as the unit sees it: lines (rows of A, columns of B) along k. */
struct amx_operand {
    const float *p;
    int64_t line, step; /* distances of lines and of steps of k; one of them is 1 */
    bool pairs;         /* tiles hold rows of pairs (B), not lines (A) */
};

/* The rows of one tile of one step, all parts: `lines` and `k` are how many there are; the rest is zero. Packing waits
 * for memory, so what the next step will read is asked for now. */
static inline void amx_pack_tile(const struct amx_operand *o, const float *p, int64_t lines, int64_t k, char *out,
                                 const bool along_k)
{
    __m512i row[AMX_PARTS], tile[16];
    const float *next = p + AMX_K * o->step;
    const int64_t apart = along_k ? o->line : 2 * o->step;
    for (int i = 0; i < 16; i++, p += apart, next += apart) {
        __builtin_prefetch(next);
        __builtin_prefetch(next + (along_k ? 16 : o->step));
        if (along_k)
            amx_line(i < lines ? p : o->p, i < lines ? k : 0, row);
        else
            amx_pair(2 * i < k ? p : o->p, o->step, k - 2 * i, lines, row);
        for (int s = 0; s < AMX_PARTS; s++) _mm512_store_si512(out + s * 2 * AMX_TILE + i * 64, row[s]);
    }
    for (int s = 0; along_k == o->pairs && s < AMX_PARTS; s++, out += 2 * AMX_TILE) {
        for (int i = 0; i < 16; i++) tile[i] = _mm512_load_si512(out + i * 64);
        amx_transpose(tile);
        for (int i = 0; i < 16; i++) _mm512_store_si512(out + i * 64, tile[i]);
    }
}

/* A block's side: up to 32 lines from `line`, `k` steps from k0, as steps of AMX_STEP bytes. */
static void amx_pack(const struct amx_operand *o, int64_t line, int64_t lines, int64_t k0, int64_t k, char *out)
{
    for (int64_t s = 0; s < k; s += AMX_K, out += AMX_STEP)
        for (int64_t half = 0; half < 2 && half * 16 < lines; half++) {
            const float *p = o->p + (line + half * 16) * o->line + (k0 + s) * o->step;
            if (o->step == 1)
                amx_pack_tile(o, p, lines - half * 16, k - s, out + half * AMX_TILE, true);
            else
                amx_pack_tile(o, p, lines - half * 16, k - s, out + half * AMX_TILE, false);
        }
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
                             int64_t c_row, const bool two_rows, const bool two_columns)
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
    for (int lines = two_rows ? AMX_SIDE : 16; steps > 0; steps--, a += AMX_STEP, b += AMX_STEP) {
        for (int i = 0; i < FETCH && lines > 0; i++, lines--, fetch += c_row) {
            __builtin_prefetch(fetch, 1);
            if (two_columns) __builtin_prefetch(fetch + 64, 1);
        }
        AMX_A(0);
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
                              float *c, int64_t c_row, bool two_rows, bool two_columns)
{
    if (two_rows && two_columns)
        amx_block(a, b, steps, from, from_row, c, c_row, true, true);
    else if (two_rows)
        amx_block(a, b, steps, from, from_row, c, c_row, true, false);
    else if (two_columns)
        amx_block(a, b, steps, from, from_row, c, c_row, false, true);
    else
        amx_block(a, b, steps, from, from_row, c, c_row, false, false);
}

static inline int64_t amx_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* A block at the edge of C goes by way of `edge` (AMX_SIDE, AMX_SIDE). */
static void amx_edge(const char *a, const char *b, int64_t steps, const float *from, int64_t from_row, float *c,
                     int64_t c_row, int64_t rows, int64_t columns, float *edge)
{
    for (int64_t i = 0; from && i < rows; i++)
        memcpy(edge + i * AMX_SIDE, from + i * from_row, (size_t)columns * sizeof *edge);
    amx_block_by_size(a, b, steps, from ? edge : NULL, AMX_SIDE * 4, edge, AMX_SIDE * 4, rows > 16, columns > 16);
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

static int64_t amx_scratch(const struct lvn_gemm *g)
{
    int64_t steps = amx_even(g->k, AMX_KC) / AMX_K, blocks = amx_even(g->n, AMX_NC) / AMX_SIDE;
    return (blocks + 1) * steps * AMX_STEP + AMX_SIDE * AMX_SIDE * 4;
}

static void amx_rows(const struct lvn_gemm *g, const char *a, const char *b, int64_t i, int64_t rows, int64_t j,
                     int64_t n, int64_t k0, int64_t k, float *edge)
{
    int64_t steps = (k + AMX_K - 1) / AMX_K;
    for (int64_t x = 0; x < n; x += AMX_SIDE, b += steps * AMX_STEP) {
        int64_t columns = amx_min(AMX_SIDE, n - x);
        float *c = g->c + i * g->c_row + j + x;
        const float *from = c;
        int64_t from_row = g->c_row;
        if (k0 == 0 && !g->add) {
            from = g->bias ? g->bias + j + x : NULL;
            from_row = 0;
        }
        if (rows % 16 || columns % 16)
            amx_edge(a, b, steps, from, from_row, c, g->c_row, rows, columns, edge);
        else
            amx_block_by_size(a, b, steps, from, from_row * 4, c, g->c_row * 4, rows > 16, columns > 16);
    }
}

/* Cycles, roughly, of the busiest thread for one step of k, when `rows` threads share the rows. */
static double amx_cost(const struct lvn_gemm *g, int rows, int columns)
{
    double m = (double)amx_ceil((g->m + rows - 1) / rows, AMX_SIDE),
           n = (double)amx_ceil((g->n + columns - 1) / columns, 16);
    double strips = (double)amx_ceil((int64_t)n, AMX_NC) / AMX_NC;
    return m * n * 12 / 1024 + n * (g->b_col == 1 ? 0.4 : 0.6) + strips * m * (g->a_col == 1 ? 0.4 : 0.6);
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
    const struct amx_operand a = {g->a, g->a_row, g->a_col, false}, b = {g->b, g->b_col, g->b_row, true};
    int64_t block = amx_even(g->k, AMX_KC), strip = amx_even(j1 - j0, AMX_NC);
    float *edge = (float *)scratch;
    char *packed_a = scratch + AMX_SIDE * AMX_SIDE * 4, *packed_b = packed_a + block / AMX_K * AMX_STEP;
    _tile_loadconfig(&config);
    for (int64_t j = j0; j < j1; j += strip) {
        int64_t n = amx_min(strip, j1 - j);
        for (int64_t k0 = 0; k0 < g->k; k0 += block) {
            int64_t k = amx_min(block, g->k - k0), bytes = (k + AMX_K - 1) / AMX_K * AMX_STEP;
            for (int64_t x = 0; x < n; x += AMX_SIDE)
                amx_pack(&b, j + x, amx_min(AMX_SIDE, n - x), k0, k, packed_b + x / AMX_SIDE * bytes);
            for (int64_t i = i0; i < i1; i += AMX_SIDE) {
                int64_t rows = amx_min(AMX_SIDE, i1 - i);
                amx_pack(&a, i, rows, k0, k, packed_a);
                amx_rows(g, packed_a, packed_b, i, rows, j, n, k0, k, edge);
                if (k0 + k == g->k && g->finish) g->finish(g, i, rows, j, n);
            }
        }
    }
    _tile_release();
}

#endif
