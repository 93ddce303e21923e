/* gemm_few_amx.h - matrix multiplications of fewer than 16 rows on AMX, with operands that may be rounded to bf16:
 * generating text. B is bf16, or its columns are contiguous in k and in packed blocks (packed/packed.h). gemm.cpu.c
 * calls few_amx_run().
 *
 * AMX multiplies 16 columns of B by up to 16 rows of A: a column of B, contiguous in k, is a row of its first operand,
 * so B is read in memory order and is not transposed. bf16 is read in place. If rows of B in bf16 are contiguous
 * instead, BF16_K of them are interleaved, 32 columns at a time, and are the second operand; sums stay in the L1 or L2
 * cache. For one or two rows of A vectors are faster, and compute the bits of AMX. Blocks of 16 columns are decoded for
 * FEW_UNIT steps (nf4, int8) or FEW_AMX_STEPS steps (GGUF files), to rows of bf16 in the L1 cache; meanwhile AMX
 * multiplies the rows of previous steps, because its sums have a long latency. Columns of nf4 and int8 are contiguous
 * in memory, and the next ones are prefetched in the order of memory, which the hardware prefetcher then continues. The
 * values are those of lvn_blocks_read(), rounded once; for int8 the factor of a column is multiplied after the sum, so
 * its integers are exact. Steps are added in order, so bits depend neither on threads nor on the number of rows. With
 * fewer rows of A than few_amx_min_rows() the fp32 kernels of gemm_few_blocks.h and gemm_few.h are faster. */
#ifndef LVN_GEMM_FEW_AMX_H
#define LVN_GEMM_FEW_AMX_H

#include "host/isa.h"

#if defined(LVN_AMX)

#include "backend/cpu/blocks_cpu.h"
#include "backend/cpu/few_units.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_bf16_pack.h"
#include "packed/ggml_blocks.h"

enum {
    FEW_AMX_SIDE = 16,   /* rows of A, columns of B */
    FEW_AMX_STEPS = 256, /* steps of k that are decoded at a time: a chunk of GGUF files */
    FEW_AMX_TILES = FEW_AMX_STEPS / BF16_K,
    FEW_AMX_AHEAD = 8192, /* bytes by which packed columns after the next 16 are prefetched */
    FEW_AMX_LAG = 2,      /* nf4, int8: units that are decoded before the tiles of a unit are multiplied */
    FEW_AMX_RING = 4,     /* units whose tiles are kept */
    FEW_AMX_WIDE = 32,    /* columns of B in (in,out) that are multiplied at a time: a cache line */
    FEW_AMX_STRIP = 1024, /* columns whose sums are kept */
    FEW_AMX_DOT = 4,      /* steps of k that vectors multiply at a time */
};

struct few_amx {
    const struct lvn_gemm *g;
    const uint8_t *b;   /* the first byte of column 0 */
    struct lvn_nf4 nf4; /* of B in nf4 */
    const char *a;      /* tiles of A, one for each BF16_K steps */
    float *factor;      /* nf4: factors of the blocks of 16 columns, (16, K / FEW_UNIT) */
    char *rows;         /* decoded tiles of B, (2, FEW_AMX_TILES) */
};

/* For this k or a smaller one. */
static bool few_amx_may_read(const struct lvn_gemm *g)
{
    if (lvn_dtype_is_packed(g->b_blocks.dtype)) return g->bf16 && g->b_row == 1;
    return g->bf16 && g->b_bf16 && (g->b_row == 1 || g->b_col == 1);
}

/* Rows of A from which the unit is faster than vectors; most types of GGUF files take longer to decode to bf16. */
static int64_t few_amx_min_rows(const struct lvn_gemm *g)
{
    const enum lvn_dtype b = g->b_blocks.dtype;
    if (!lvn_dtype_is_packed(b)) return 1;
    return lvn_dtype_is_nf4(b) || b == LVN_INT8_ROWS || b == LVN_Q4_0 ? 2 : 5;
}

static bool few_amx_fits(const struct lvn_gemm *g)
{
    const int64_t step = lvn_dtype_is_packed(g->b_blocks.dtype) ? (int64_t)FEW_UNIT : (int64_t)BF16_K;
    return few_amx_may_read(g) && g->k % step == 0 && g->m >= few_amx_min_rows(g) && g->m < FEW_AMX_SIDE &&
           (g->a_row == 1 || g->a_col == 1);
}

static int64_t few_amx_a_bytes(const struct lvn_gemm *g)
{
    return (g->k + BF16_K - 1) / BF16_K * BF16_TILE;
}

/* Bytes of scratch, also sufficient for smaller sizes. */
static int64_t few_amx_scratch(const struct lvn_gemm *g)
{
    const int64_t factors = (FEW_AMX_SIDE * (g->k / FEW_UNIT + 1) + 15) / 16 * 64;
    if (g->b_row != 1) return 4 * BF16_TILE + few_amx_a_bytes(g) + FEW_AMX_SIDE * FEW_AMX_STRIP * 4;
    return few_amx_a_bytes(g) + factors + 2 * FEW_AMX_TILES * BF16_TILE;
}

/* Configure tiles 0 to 4, C and A, as m rows. */
static inline void few_amx_configure(int64_t m)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = (uint8_t)(i <= 4 ? m : 16);
    _tile_loadconfig(&config);
}

/* Multiply BF16_K steps of 16 columns by all rows. */
LVN_INLINE void few_amx_multiply(const char *b, int64_t b_row, const char *a)
{
    _tile_loadd(4, b, b_row);
    _tile_loadd(6, a, 64);
    _tile_dpbf16ps(0, 4, 6);
}

/* Decode a block of nf4, whose codes have the given values, to one row of each of two tiles. */
LVN_INLINE void few_amx_nf4(const uint8_t *p, __m512 value, char *to)
{
    typedef uint16_t vsteps __attribute__((vector_size(64)));
    const vsteps step = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                         16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};
    /* the fifth bit of an index is one of another code, so the table has each code twice */
    const __m512i table = (__m512i)_mm512_cvtne2ps_pbh(value, value);
    LVN_UNROLL
    for (int half = 0; half < 2; half++) {
        __m512i index = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(p + 16 * half)));
        index = _mm512_shuffle_epi8(index, (__m512i)(step / 2 | 0x8000)); /* the byte with two steps */
        index = _mm512_srlv_epi16(index, (__m512i)((1 - step % 2) * 4));
        _mm512_store_si512(to + half * BF16_TILE, _mm512_permutexvar_epi16(index, table));
    }
}

/* Decode FEW_UNIT values of int8, as integers, to one row of each of two tiles. */
LVN_INLINE void few_amx_int8(const uint8_t *p, char *to)
{
    LVN_UNROLL
    for (int half = 0; half < 2; half++) {
        const __m512 first = (__m512)ggml_numbers((const int8_t *)p + 32 * half),
                     last = (__m512)ggml_numbers((const int8_t *)p + 32 * half + 16);
        _mm512_store_si512(to + half * BF16_TILE, (__m512i)_mm512_cvtne2ps_pbh(last, first));
    }
}

/* Add the sums of n columns in nf4 or int8 from j on to tile 0. */
LVN_INLINE void few_amx_units(const struct few_amx *f, int64_t j, int64_t n, const int type)
{
    const bool nf4 = type == LVN_NF4;
    const int64_t units = f->g->k / FEW_UNIT, bytes = few_bytes(FEW_UNIT, type), row = units * bytes, first = j * units;
    const uint8_t *b = f->b + j * row;
    const __m512 code = nf4 ? _mm512_loadu_ps(f->nf4.code) : _mm512_setzero_ps();
    int64_t column[FEW_AMX_SIDE];
    for (int64_t c = 0; c < FEW_AMX_SIDE; c++) column[c] = c < n ? c : n - 1;
    for (int64_t i = 0; nf4 && i < n * units; i += LVN_LANES) /* a group has a multiple of 16 blocks */
        few_factors(&f->nf4, first + i, n * units - i < LVN_LANES ? n * units - i : LVN_LANES, f->factor + i);
    for (int64_t u = 0; u < units + FEW_AMX_LAG; u++) {
        char *rows = f->rows + u % FEW_AMX_RING * 2 * BF16_TILE;
        const uint8_t *next = b + FEW_AMX_SIDE * (row + u * bytes) + FEW_AMX_AHEAD;
        for (int64_t c = 0; u < units && c < FEW_AMX_SIDE; c += 4) {
            for (int64_t i = 0; i < FEW_AMX_SIDE / 4 * bytes; i += 64, next += 64) __builtin_prefetch(next, 0, 2);
            LVN_UNROLL
            for (int64_t i = c; i < c + 4; i++) {
                const uint8_t *p = b + column[i] * row + u * bytes;
                if (nf4)
                    few_amx_nf4(p, code * f->factor[column[i] * units + u], rows + i * 64);
                else
                    few_amx_int8(p, rows + i * 64);
            }
        }
        PAIRS_BARRIER();
        if (u < FEW_AMX_LAG) continue;
        for (int64_t t = 0; t < 2; t++)
            few_amx_multiply(f->rows + ((u - FEW_AMX_LAG) % FEW_AMX_RING * 2 + t) * BF16_TILE, 64,
                             f->a + ((u - FEW_AMX_LAG) * 2 + t) * BF16_TILE);
        PAIRS_BARRIER();
    }
}

/* Decode steps [k, k + steps) of a column of a GGUF file to one row of each tile. */
LVN_INLINE void few_amx_decode(const struct few_amx *f, int64_t column, int64_t k, int64_t steps, char *to,
                               const int type)
{
    const vf code = __builtin_convertvector(viota() - (type == LVN_Q4_0 ? 8 : 0), vf);
    const int64_t row = few_bytes(f->g->k, type);
    struct few_chunk chunk;
    few_chunk_begin(&chunk, f->b + column * row + few_bytes(k, type), steps, FEW_AMX_SIDE * row, type);
    for (int64_t i = 0; i < steps; i += FEW_UNIT, to += 2 * BF16_TILE) {
        struct few_unit unit;
        few_begin(&unit, &chunk, code, 0, i, type);
        _mm512_store_si512(to, few_bf16(&unit, 0, type));
        _mm512_store_si512(to + BF16_TILE, few_bf16(&unit, 1, type));
    }
}

/* Add the sums of n columns of a GGUF file from j on to tile 0. */
LVN_INLINE void few_amx_chunks(const struct few_amx *f, int64_t j, int64_t n, const int type)
{
    const int64_t K = f->g->k;
    const char *a = f->a;
    int64_t before = 0; /* number of tiles at `decoded`, which are not multiplied yet */
    char *rows = f->rows, *decoded = NULL;
    for (int64_t k = 0; k < K; k += FEW_AMX_STEPS) {
        const int64_t steps = K - k < FEW_AMX_STEPS ? K - k : FEW_AMX_STEPS;
        for (int64_t c = 0; c < FEW_AMX_SIDE; c++) {
            few_amx_decode(f, j + (c < n ? c : n - 1), k, steps, rows + c * 64, type);
            if (c % 2 == 0 || c / 2 >= before) continue;
            few_amx_multiply(decoded + c / 2 * BF16_TILE, 64, a + c / 2 * BF16_TILE);
        }
        PAIRS_BARRIER();
        a += before * BF16_TILE;
        before = steps / BF16_K;
        decoded = rows;
        rows = f->rows + (rows == f->rows) * FEW_AMX_TILES * BF16_TILE;
    }
    for (int64_t t = 0; t < before; t++) few_amx_multiply(decoded + t * BF16_TILE, 64, a + t * BF16_TILE);
}

LVN_INLINE void few_amx_blocks(const struct few_amx *f, int64_t j, int64_t n, const int type)
{
    if (type < LVN_Q8_0)
        few_amx_units(f, j, n, type);
    else
        few_amx_chunks(f, j, n, type);
}

/* --- B in bf16 whose rows are contiguous --- */

/* Interleave BF16_K rows of n columns, of which at most FEW_AMX_WIDE are used, to two tiles. Prefetches the next rows.
 */
LVN_INLINE void few_amx_interleave(const uint16_t *b, int64_t row, int64_t n, char *to)
{
    const __mmask32 mask = n >= FEW_AMX_WIDE ? 0xffffffffU : (1U << n) - 1;
    LVN_UNROLL
    for (int i = 0; i < BF16_K / 2; i++, b += 2 * row) {
        const __m512i x = _mm512_maskz_loadu_epi16(mask, b), y = _mm512_maskz_loadu_epi16(mask, b + row);
        __builtin_prefetch(b + BF16_K * row, 0, 2);
        __builtin_prefetch(b + (BF16_K + 1) * row, 0, 2);
        _mm512_store_si512(to + i * 64, pairs_interleave(x, y, false));
        _mm512_store_si512(to + BF16_TILE + i * 64, pairs_interleave(x, y, true));
    }
}

/* Add the products of BF16_K steps to the sums of FEW_AMX_WIDE columns. */
LVN_INLINE void few_amx_pair(const char *b, float *sums)
{
    _tile_loadd(0, sums, FEW_AMX_STRIP * 4);
    _tile_loadd(1, sums + 16, FEW_AMX_STRIP * 4);
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + BF16_TILE, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_stored(0, sums, FEW_AMX_STRIP * 4);
    _tile_stored(1, sums + 16, FEW_AMX_STRIP * 4);
}

/* Compute the sums of n columns from j on, at most FEW_AMX_STRIP. Columns are interleaved one step before they are
 * multiplied, because a tile that was just stored takes long to load. */
static void few_amx_strip(const struct few_amx *f, int64_t j, int64_t n, float *sums)
{
    const struct lvn_gemm *g = f->g;
    const uint16_t *b = (const uint16_t *)g->b + j;
    const int64_t lines = (n + FEW_AMX_WIDE - 1) / FEW_AMX_WIDE;
    memset(sums, 0, (size_t)(g->m * FEW_AMX_STRIP) * sizeof *sums);
    for (int64_t k = 0; k < g->k; k += BF16_K, b += BF16_K * g->b_row) {
        _tile_loadd(4, f->a + k / BF16_K * BF16_TILE, 64);
        for (int64_t c = 0; c <= lines; c++) {
            if (c < lines)
                few_amx_interleave(b + c * FEW_AMX_WIDE, g->b_row, n - c * FEW_AMX_WIDE,
                                   f->rows + c % 2 * 2 * BF16_TILE);
            PAIRS_BARRIER();
            if (c > 0) few_amx_pair(f->rows + (c - 1) % 2 * 2 * BF16_TILE, sums + (c - 1) * FEW_AMX_WIDE);
            PAIRS_BARRIER();
        }
    }
}

/* Write the sums, plus the bias or the previous values if they are added, to n columns of C from j on. */
static void few_amx_write(const struct lvn_gemm *g, const float *sums, int64_t row, int64_t j, int64_t n)
{
    for (int64_t r = 0; r < g->m; r++)
        for (int64_t i = 0; i < n; i += LVN_LANES) {
            const int64_t lanes = n - i < LVN_LANES ? n - i : LVN_LANES;
            float *c = g->c + r * g->c_row + j + i;
            vf x = vload(sums + r * row + i);
            if (g->add || g->bias) x += vload_n(g->add ? c : g->bias + j + i, lanes);
            vstore_n(c, x, lanes);
        }
}

/* Add FEW_AMX_DOT steps of k of one or two rows of A, from x on, to the sums (rows, 3, width) of n columns: the total,
 * and the sums of even and of odd steps, which are added to it at the end of BF16_K steps. */
LVN_INLINE void few_amx_dot(const uint16_t *b, int64_t row, const uint16_t *x, int64_t n, float *sums, int64_t width,
                            const int rows, const bool first, const bool last)
{
    __m512 a[2][FEW_AMX_DOT], w[FEW_AMX_DOT];
    LVN_UNROLL
    for (int r = 0; r < rows; r++) {
        LVN_UNROLL
        for (int s = 0; s < FEW_AMX_DOT; s++)
            a[r][s] = (__m512)_mm512_set1_epi32((int)((uint32_t)x[r * BF16_K + s] << 16));
    }
    for (int64_t j = 0; j < n; j += LVN_LANES) {
        LVN_UNROLL
        for (int s = 0; s < FEW_AMX_DOT; s++) {
            w[s] = bf16_load(b + s * row + j, bf16_first(n - j), true);
            __builtin_prefetch(b + (s + 4 * FEW_AMX_DOT) * row + j, 0, 2);
        }
        LVN_UNROLL
        for (int r = 0; r < rows; r++) {
            float *total = sums + 3 * r * width + j, *even = total + width, *odd = even + width;
            __m512 sum[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
            if (!first) sum[0] = _mm512_load_ps(even), sum[1] = _mm512_load_ps(odd);
            LVN_UNROLL
            for (int s = 0; s < FEW_AMX_DOT; s++) sum[s % 2] = _mm512_fmadd_ps(a[r][s], w[s], sum[s % 2]);
            if (last) {
                _mm512_store_ps(total, _mm512_add_ps(_mm512_load_ps(total), _mm512_add_ps(sum[0], sum[1])));
            } else {
                _mm512_store_ps(even, sum[0]);
                _mm512_store_ps(odd, sum[1]);
            }
        }
    }
}

/* The same as few_amx_strip() for one or two rows of A, for which vectors are faster, in the order of AMX. */
LVN_INLINE void few_amx_dots(const struct few_amx *f, int64_t j, int64_t n, float *sums, int64_t width, const int rows)
{
    const int64_t row = f->g->b_row;
    const uint16_t *b = (const uint16_t *)f->g->b + j;
    memset(sums, 0, (size_t)(3 * rows * width) * sizeof *sums);
    for (int64_t k = 0; k < f->g->k; k += BF16_K, b += BF16_K * row) {
        const uint16_t *x = (const uint16_t *)(f->a + k / BF16_K * BF16_TILE);
        few_amx_dot(b, row, x, n, sums, width, rows, true, false);
        for (int64_t s = FEW_AMX_DOT; s < BF16_K - FEW_AMX_DOT; s += FEW_AMX_DOT)
            few_amx_dot(b + s * row, row, x + s, n, sums, width, rows, false, false);
        few_amx_dot(b + (BF16_K - FEW_AMX_DOT) * row, row, x + BF16_K - FEW_AMX_DOT, n, sums, width, rows, false, true);
    }
}

static void few_amx_rows(const struct lvn_gemm *g, char *scratch, int64_t j, int64_t end)
{
    enum { FLUSH = 0x8040 }; /* denormal values are zero, as for AMX */
    const struct bf16_operand a = {g->a, g->a_row, g->a_col, g->a_bf16, false};
    char *tiles = scratch + 4 * BF16_TILE;
    float *sums = (float *)(tiles + few_amx_a_bytes(g));
    const struct few_amx f = {.g = g, .rows = scratch, .a = tiles};
    const unsigned control = _mm_getcsr();
    const int64_t strip = g->m <= 2 ? 2 * FEW_AMX_STRIP : FEW_AMX_STRIP;
    for (int64_t k = 0; k < g->k; k += BF16_K) bf16_pack(&a, 0, g->m, k, BF16_K, tiles + k / BF16_K * BF16_TILE, 1);
    if (g->m > 2) few_amx_configure(g->m);
    for (int64_t n; j < end; j += n) {
        n = end - j < strip ? end - j : strip;
        _mm_setcsr(control | FLUSH);
        if (g->m == 1)
            few_amx_dots(&f, j, n, sums, strip, 1);
        else if (g->m == 2)
            few_amx_dots(&f, j, n, sums, strip, 2);
        else
            few_amx_strip(&f, j, n, sums);
        _mm_setcsr(control);
        few_amx_write(g, sums, g->m <= 2 ? 3 * strip : strip, j, n);
    }
    if (g->m > 2) pairs_end();
}

/* --- B whose columns are contiguous --- */

/* Add the sums of n columns in bf16 from j on to tile 0. Sixteen columns are read in place. */
LVN_INLINE void few_amx_bf16(const struct few_amx *f, int64_t j, int64_t n)
{
    const int64_t distance = f->g->b_col * 2;
    const char *b = (const char *)f->b + j * distance;
    if (n < FEW_AMX_SIDE) {
        for (int64_t k = 0; k < f->g->k; k += BF16_K) {
            for (int64_t c = 0; c < FEW_AMX_SIDE; c++)
                memcpy(f->rows + c * 64, b + (c < n ? c : n - 1) * distance + k * 2, 64);
            PAIRS_BARRIER();
            few_amx_multiply(f->rows, 64, f->a + k / BF16_K * BF16_TILE);
            PAIRS_BARRIER();
        }
        return;
    }
    for (int64_t k = 0; k < f->g->k; k += BF16_K) {
        for (int64_t c = 0; c < FEW_AMX_SIDE; c++) /* the next columns at this k: hardware does not prefetch them */
            __builtin_prefetch(b + (FEW_AMX_SIDE + c) * distance + k * 2);
        few_amx_multiply(b + k * 2, distance, f->a + k / BF16_K * BF16_TILE);
    }
}

/* Write the sums in tile 0, plus the bias or the previous values if they are added, to n columns of C from j on. */
static void few_amx_store(const struct few_amx *f, int64_t j, int64_t n, bool scaled)
{
    const struct lvn_gemm *g = f->g;
    __m512i sum[FEW_AMX_SIDE]; /* of each column; then of each row */
    const __mmask16 mask = bf16_first(n);
    const __m512 factor = scaled ? _mm512_maskz_loadu_ps(mask, lvn_int8_factors(&g->b_blocks, g->b) + j) : (__m512){0};
    _tile_stored(0, sum, 64);
    PAIRS_BARRIER();
    pairs_transpose(sum);
    for (int64_t r = 0; r < g->m; r++) {
        float *c = g->c + r * g->c_row + j;
        __m512 x = (__m512)sum[r];
        if (scaled) x = _mm512_mul_ps(_mm512_mul_ps(x, factor), _mm512_set1_ps((float)(1.0 / 127.0)));
        if (g->add || g->bias) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(mask, g->add ? c : g->bias + j));
        _mm512_mask_storeu_ps(c, mask, x);
    }
}

#define FEW_AMX(name)                                                                                                  \
    static void few_amx_##name(const struct few_amx *f, int64_t j, int64_t n)                                          \
    {                                                                                                                  \
        few_amx_blocks(f, j, n, LVN_##name);                                                                           \
    }
#define FEW_AMX_ROW(name) [LVN_##name] = few_amx_##name,
#define FEW_AMX_GGML(name, ...) FEW_AMX(name)
#define FEW_AMX_GGML_ROW(name, ...) FEW_AMX_ROW(name)
FEW_AMX(NF4)
FEW_AMX(INT8_ROWS)
LVN_GGML_MAP(FEW_AMX_GGML)
static void (*const few_amx_products[LVN_DTYPE_END])(const struct few_amx *f, int64_t j, int64_t n) = {
    FEW_AMX_ROW(NF4) FEW_AMX_ROW(INT8_ROWS) LVN_GGML_MAP(FEW_AMX_GGML_ROW)};

static void few_amx_run(const struct lvn_gemm *g, char *scratch, int thread, int n_threads)
{
    const struct bf16_operand a = {g->a, g->a_row, g->a_col, g->a_bf16, true};
    const bool packed = lvn_dtype_is_packed(g->b_blocks.dtype), nf4 = packed && lvn_dtype_is_nf4(g->b_blocks.dtype);
    char *tiles = scratch + 2 * FEW_AMX_TILES * BF16_TILE;
    struct few_amx f = {.g = g, .b = g->b, .rows = scratch, .a = tiles};
    int64_t j, end;
    lvn_thread_range(g->n, g->b_row == 1 ? FEW_AMX_SIDE : FEW_AMX_WIDE, thread, n_threads, &j, &end);
    if (j == end) return;
    if (g->b_row != 1) {
        few_amx_rows(g, scratch, j, end);
        if (g->finish) g->finish(g, g->c + j, g->c_row, 0, g->m, j, end - j);
        return;
    }
    f.factor = (float *)(tiles + few_amx_a_bytes(g));
    if (nf4) f.nf4 = lvn_nf4_of(&g->b_blocks, g->b), f.b = f.nf4.value;
    for (int64_t k = 0; k < g->k; k += BF16_K) bf16_pack(&a, 0, g->m, k, BF16_K, tiles + k / BF16_K * BF16_TILE, 1);
    pairs_begin();
    const int64_t j0 = j;
    for (; j < end; j += FEW_AMX_SIDE) {
        const int64_t n = end - j < FEW_AMX_SIDE ? end - j : FEW_AMX_SIDE;
        PAIRS_BARRIER();
        _tile_zero(0);
        if (packed)
            few_amx_products[nf4 ? LVN_NF4 : g->b_blocks.dtype](&f, j, n);
        else
            few_amx_bf16(&f, j, n);
        few_amx_store(&f, j, n, g->b_blocks.dtype == LVN_INT8_ROWS);
    }
    pairs_end();
    if (g->finish) g->finish(g, g->c + j0, g->c_row, 0, g->m, j0, end - j0);
}

#endif

#endif
