/* gemm_few_blocks.h - matrix multiplications of few rows with columns in packed blocks (packed/packed.h): generating
 * text with weights in 4 to 8 bits. gemm.cpu.c calls few_blocks_run().
 *
 * Reading B dominates, so its values are decoded in registers and used there for all rows. Sixteen lanes are steps of k
 * of one column, because the bytes of a column are contiguous in k. Each lane sums one sixteenth of the steps of a
 * block of K, and the lanes are added at its end. So bits depend neither on threads nor on the number of rows, and are
 * the same on AVX2 and AVX-512. They differ from those of widened values, which processors without AVX2 use, in the
 * order of the sum; for int8 the factor of a column is also multiplied after the sum. On AMX, multiplications whose
 * operands may be rounded to bf16 are computed by gemm_few_amx.h if that is faster (few_amx_fits()). */
#ifndef LVN_GEMM_FEW_BLOCKS_H
#define LVN_GEMM_FEW_BLOCKS_H

#include "backend/cpu/blocks_cpu.h"
#include "backend/cpu/few_units.h"
#include "backend/cpu/gemm_few.h"
#include "backend/cpu/simd.h"

#if defined(__AVX2__)
enum {
    FEW_KC = 1024,   /* maximum steps of a block of K */
    FEW_PART = 8192, /* numbers of A that are packed at a time, in the L1 cache */
    FEW_COLUMNS = 8, /* maximum columns at a time */
};

static bool few_blocks_fit(const struct lvn_gemm *g)
{
    return lvn_dtype_is_packed(g->b_blocks.dtype) && blocks_are_columns(g) && g->k % FEW_UNIT == 0;
}

/* Steps [k0, k0 + k) of a multiplication. */
struct few_blocks {
    const struct lvn_gemm *g;
    struct lvn_nf4 nf4; /* of B in nf4 */
    int64_t k0, k;
    int64_t block;  /* steps of a block of K */
    const float *a; /* for each vector of 16 steps, in the order in which they are decoded: (rows,16) */
};

/* sum[column][row] += a unit of each column. Each vector of A is used for all columns as soon as it is loaded, because
 * several of them would need too many registers. */
LVN_INLINE void few_add(struct few_unit u[FEW_COLUMNS], const float *a, const int columns, const int rows,
                        struct vacc sum[FEW_COLUMNS][FEW], const int type)
{
    LVN_UNROLL
    for (int v = 0; v < FEW_VECTORS; v++) {
        vf x[FEW_COLUMNS];
        LVN_UNROLL
        for (int c = 0; c < columns; c++) x[c] = few_vector(&u[c], v, type);
        LVN_UNROLL
        for (int r = 0; r < rows; r++) {
            vf y = vload(a + (v * rows + r) * LVN_LANES);
#if defined(__AVX512F__)
            if (columns > 1) __asm__("" : "+v"(y)); /* GCC would load it again for each column */
#endif
            LVN_UNROLL
            for (int c = 0; c < columns; c++) sum[c][r] = vacc_fma(sum[c][r], y, x[c]);
        }
    }
}

/* The sums of the lanes of each vector, (rows,columns): those of vsum(), bit for bit. */
LVN_INLINE void few_totals(const struct vacc sum[FEW_COLUMNS][FEW], const int columns, const int rows,
                           float total[FEW_COLUMNS * FEW])
{
#if defined(__AVX512F__)
    if (columns * rows >= 4 && columns * rows <= LVN_LANES) {
        __m512 x[LVN_LANES];
        LVN_UNROLL
        for (int i = 0; i < LVN_LANES; i++)
            x[i] = i < columns * rows ? (__m512)vacc_get(sum[i % columns][i / columns]) : _mm512_setzero_ps();
        /* Add the 128-bit parts of each x, so that part k of x[i] is the sum of x[i + 4 k]; then add its elements. */
        LVN_UNROLL
        for (int i = 0; i < 8; i++) {
            const int at = i / 4 * 8 + i % 4;
            x[at] = _mm512_add_ps(_mm512_shuffle_f32x4(x[at], x[at + 4], 0x44),
                                  _mm512_shuffle_f32x4(x[at], x[at + 4], 0xee));
        }
        LVN_UNROLL
        for (int i = 0; i < 4; i++)
            x[i] =
                _mm512_add_ps(_mm512_shuffle_f32x4(x[i], x[i + 8], 0x88), _mm512_shuffle_f32x4(x[i], x[i + 8], 0xdd));
        LVN_UNROLL
        for (int i = 0; i < 4; i += 2)
            x[i] = _mm512_add_ps(_mm512_shuffle_ps(x[i], x[i + 1], 0x44), _mm512_shuffle_ps(x[i], x[i + 1], 0xee));
        x[0] = _mm512_add_ps(_mm512_shuffle_ps(x[0], x[2], 0x88), _mm512_shuffle_ps(x[0], x[2], 0xdd));
        _mm512_storeu_ps(total, x[0]);
        return;
    }
#endif
    for (int c = 0; c < columns; c++)
        for (int r = 0; r < rows; r++) total[r * columns + c] = vsum(vacc_get(sum[c][r]));
}

/* Add totals (rows,columns), of which n columns exist, to C; `first`: C has no value yet. */
LVN_INLINE void few_blocks_store(const struct few_blocks *f, int64_t j, int64_t n, bool first, const float *total,
                                 const int columns, const bool scaled)
{
    static const float zeros[FEW_COLUMNS];
    const struct lvn_gemm *g = f->g;
    const float *scale = scaled ? lvn_int8_factors(&g->b_blocks, g->b) + j : NULL;
    float *c = g->c + j;
    first = first && !g->add;
    const float *start = !first ? c : g->bias ? g->bias + j : zeros;
    for (int64_t r = 0; r < g->m; r++, c += g->c_row, total += columns, start += first ? 0 : g->c_row)
        for (int64_t i = 0; i < n; i++)
            c[i] = (scaled ? total[i] * scale[i] * (float)(1.0 / 127.0) : total[i]) + start[i];
}

/* Compute `columns` columns of C from j on, of which n exist, for the block of K that begins `at` steps after k0. */
LVN_INLINE void few_block(const struct few_blocks *f, int64_t at, int64_t j, int64_t n, const int columns,
                          const int rows, const int type)
{
    const bool nf4 = type == LVN_NF4, ggml = type >= LVN_Q8_0;
    const struct lvn_gemm *g = f->g;
    const int64_t k0 = f->k0 + at, k = f->k - at < f->block ? f->k - at : f->block, row = few_bytes(g->k, type);
    const float *a = f->a + at * rows;
    const uint8_t *p[FEW_COLUMNS];
    float factor[FEW_COLUMNS][FEW_KC / FEW_UNIT], total[FEW_COLUMNS * FEW];
    struct few_chunk chunk[FEW_COLUMNS];
    struct vacc sum[FEW_COLUMNS][FEW];
    const vf code = nf4 ? vload(f->nf4.code) : __builtin_convertvector(viota() - (type == LVN_Q4_0 ? 8 : 0), vf);
    LVN_UNROLL
    for (int c = 0; c < columns; c++) {
        const int64_t column = j + (c < n ? c : n - 1);
        p[c] = (nf4 ? f->nf4.value : (const uint8_t *)g->b) + column * row + few_bytes(k0, type);
        if (nf4) few_factors(&f->nf4, (column * g->k + k0) / FEW_UNIT, k / FEW_UNIT, factor[c]);
        chunk[c].p = p[c];
        LVN_UNROLL
        for (int r = 0; r < rows; r++) sum[c][r] = vacc_set(vset(0));
    }
    for (int64_t i = 0; i < k; i += FEW_UNIT) {
        struct few_unit unit[FEW_COLUMNS];
        LVN_UNROLL
        for (int c = 0; c < columns; c++) {
            if (ggml && i % GGML_CHUNK == 0)
                few_chunk_begin(&chunk[c], p[c] + few_bytes(i, type), k - i < GGML_CHUNK ? k - i : GGML_CHUNK,
                                columns * row, type);
            if (!ggml && i % (nf4 ? 128 : 64) == 0) /* the next columns at this k */
                __builtin_prefetch(p[c] + few_bytes(i, type) + columns * row);
            few_begin(&unit[c], &chunk[c], code, nf4 ? factor[c][i / FEW_UNIT] : 0, i, type);
        }
        few_add(unit, a + i * rows, columns, rows, sum, type);
    }
    few_totals(sum, columns, rows, total);
    few_blocks_store(f, j, n < columns ? n : columns, k0 == 0, total, columns, type == LVN_INT8_ROWS);
}

LVN_INLINE void few_columns_of(const struct few_blocks *f, int64_t j, int64_t end, const int columns, const int rows,
                               const int type)
{
    for (; j < end; j += columns)
        for (int64_t at = 0; at < f->k; at += f->block) few_block(f, at, j, end - j, columns, rows, type);
}

/* FEW_AT_ONCE: columns at a time; FEW_ROWS: maximum rows at a time. More would exceed the registers for sums. */
#if defined(__AVX512F__)
#define FEW_AT_ONCE(rows) (rows == 1 ? 6 : 2)
#define FEW_EIGHT(X, name) X(name, 8)
enum { FEW_ROWS = 8 };
#else
#define FEW_AT_ONCE(rows) 1
#define FEW_EIGHT(X, name)
enum { FEW_ROWS = 4 };
#endif
typedef void few_blocks_product(const struct few_blocks *f, int64_t j, int64_t end);
#define FEW_BLOCKS_OF(name, rows)                                                                                      \
    static void few_##name##_##rows(const struct few_blocks *f, int64_t j, int64_t end)                                \
    {                                                                                                                  \
        few_columns_of(f, j, end, FEW_AT_ONCE(rows), rows, LVN_##name);                                                \
    }
#define FEW_BLOCKS(name) FEW_BLOCKS_OF(name, 1) FEW_BLOCKS_OF(name, 4) FEW_EIGHT(FEW_BLOCKS_OF, name)
#define FEW_BLOCKS_NAME(name, rows) few_##name##_##rows
#define FEW_BLOCKS_ROW(name) [LVN_##name] = {few_##name##_1, few_##name##_4, FEW_EIGHT(FEW_BLOCKS_NAME, name)},
#define FEW_GGML(name, function, id, values, bytes, write, file_type) FEW_BLOCKS(name)
#define FEW_GGML_ROW(name, function, id, values, bytes, write, file_type) FEW_BLOCKS_ROW(name)
FEW_BLOCKS(NF4)
FEW_BLOCKS(INT8_ROWS)
LVN_GGML_MAP(FEW_GGML)
static few_blocks_product *const few_blocks_products[LVN_DTYPE_END][3] = {FEW_BLOCKS_ROW(NF4) FEW_BLOCKS_ROW(INT8_ROWS)
                                                                              LVN_GGML_MAP(FEW_GGML_ROW)};

/* Reorder 64 steps of A as those of nf4 are decoded: vector v has the steps whose index is v modulo 4. */
LVN_INLINE void few_deal(const float *a, float *to, int64_t distance)
{
#if defined(__AVX512F__)
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 0, 0, 0, 0, 0, 0, 0);
    __m512 x[FEW_VECTORS];
    for (int v = 0; v < FEW_VECTORS; v++) x[v] = _mm512_loadu_ps(a + v * LVN_LANES);
    for (int v = 0; v < FEW_VECTORS; v++) {
        const __m512i index = _mm512_add_epi32(first, _mm512_set1_epi32(v));
        _mm512_storeu_ps(to + v * distance, _mm512_shuffle_f32x4(_mm512_permutex2var_ps(x[0], index, x[1]),
                                                                 _mm512_permutex2var_ps(x[2], index, x[3]), 0x44));
    }
#else
    for (int v = 0; v < FEW_VECTORS; v++)
        for (int lane = 0; lane < LVN_LANES; lane++) to[v * distance + lane] = a[lane * FEW_VECTORS + v];
#endif
}

/* Pack steps [k0, k0 + k) of A; rows that do not exist are zero. */
static void few_pack_a(const struct lvn_gemm *g, int64_t rows, int64_t k0, int64_t k, float *to)
{
    const int type = (int)g->b_blocks.dtype;
    const int64_t distance = rows * LVN_LANES;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < k; i += FEW_UNIT) {
            float unit[FEW_UNIT] = {0}, *out = to + i * rows + r * LVN_LANES;
            const float *a = (const float *)g->a + r * g->a_row + (k0 + i) * g->a_col;
            for (int64_t s = 0; (g->a_col != 1 || r >= g->m) && s < FEW_UNIT; s++)
                unit[s] = r < g->m ? a[s * g->a_col] : 0;
            if (g->a_col != 1 || r >= g->m) a = unit;
            if (lvn_dtype_is_nf4(g->b_blocks.dtype)) {
                few_deal(a, out, distance);
                continue;
            }
            for (int v = 0; v < FEW_VECTORS; v++) {
                const int step = type == LVN_Q4_K ? v % 2 * GGML_GROUP + v / 2 * LVN_LANES : v * LVN_LANES;
                vstore(out + v * distance, vload(a + step));
            }
        }
}

/* Compute all rows, at most FEW_ROWS, of columns [j, end). */
static void few_blocks_rows(const struct lvn_gemm *g, int64_t j, int64_t end)
{
    float a[FEW_PART] __attribute__((aligned(64)));
    const enum lvn_dtype type = lvn_dtype_is_nf4(g->b_blocks.dtype) ? LVN_NF4 : g->b_blocks.dtype;
    const int which = g->m == 1 ? 0 : g->m <= 4 ? 1 : 2, rows = which == 0 ? 1 : which * 4;
    const int64_t step = g->k % GGML_CHUNK ? FEW_UNIT : GGML_CHUNK, units = g->k / step,
                  blocks = (g->k + FEW_KC - 1) / FEW_KC;
    struct few_blocks f = {.g = g, .a = a, .block = (units + blocks - 1) / blocks * step};
    const int64_t part = FEW_PART / rows / f.block * f.block;
    if (type == LVN_NF4) f.nf4 = lvn_nf4_of(&g->b_blocks, g->b);
    for (f.k0 = 0; f.k0 < g->k; f.k0 += part) {
        f.k = part < g->k - f.k0 ? part : g->k - f.k0;
        few_pack_a(g, rows, f.k0, f.k, a);
        few_blocks_products[type][which](&f, j, end);
    }
}

static void few_blocks_run(const struct lvn_gemm *g, int64_t j, int64_t end)
{
    for (int64_t i = 0; i < g->m; i += FEW_ROWS) {
        struct lvn_gemm rows = *g;
        rows.m = g->m - i < FEW_ROWS ? g->m - i : FEW_ROWS;
        rows.a = (const float *)g->a + i * g->a_row;
        rows.c += i * g->c_row;
        few_blocks_rows(&rows, j, end);
    }
}
#endif

#endif
