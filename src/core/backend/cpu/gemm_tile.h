/* gemm_tile.h - the inner kernel of a matrix multiplication: a tile of C in registers. gemm.cpu.c calls it.
 *
 * A tile is up to MR rows by NV vectors of C. For each k it reads NV vectors of B (packed: the tile's columns are
 * contiguous, k by k), and broadcasts one element of A per row. MR x NV uses all registers: 8 x 3 of 32 registers on
 * AVX-512, 6 x 2 of 16 on AVX2. Other instructions compete with the multiply-adds and must be few: several steps of k
 * are one iteration of the loop, and if A is not packed, the addresses of its rows are a few pointers plus multiples of
 * the row stride. The empty asm keeps the compiler from creating one pointer per row.
 *
 * The idea of packing and register tiles: Goto, van de Geijn, "Anatomy of high-performance matrix multiplication",
 * ACM TOMS 34 (2008). */
#ifndef LVN_GEMM_TILE_H
#define LVN_GEMM_TILE_H

#include <stdbool.h>

#include "backend/cpu/simd.h"

#if defined(__AVX512F__)
typedef __m512 gv;
enum { GL = 16, MR = 8, NV = 3 };
#elif defined(__AVX2__)
typedef __m256 gv;
enum { GL = 8, MR = 6, NV = 2 };
#elif defined(__aarch64__)
#include <arm_neon.h>
typedef float32x4_t gv;
enum { GL = 4, MR = 6, NV = 3 };
#else
typedef float gv __attribute__((vector_size(16)));
enum { GL = 4, MR = 6, NV = 2 };
#endif
enum { NR = GL * NV };

LVN_INLINE gv gload(const float *p)
{
    gv v;
    memcpy(&v, p, sizeof v);
    return v;
}

LVN_INLINE void gstore(float *p, gv v)
{
    memcpy(p, &v, sizeof v);
}

LVN_INLINE gv gset(float x)
{
#if defined(__AVX512F__)
    return _mm512_set1_ps(x);
#elif defined(__AVX2__)
    return _mm256_set1_ps(x);
#else
    return (gv){x, x, x, x};
#endif
}

LVN_INLINE gv gfma(gv a, gv b, gv c)
{
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
    return _mm256_fmadd_ps(a, b, c);
#elif defined(__aarch64__)
    return vfmaq_f32(c, a, b);
#else
    return a * b + c;
#endif
}

#if defined(__AVX2__) && !defined(__AVX512F__)
/* -1 in the first n lanes. */
LVN_INLINE __m256i gmask(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif

/* The first n elements, 0 <= n <= GL; the others are zero. */
LVN_INLINE gv gload_n(const float *p, int64_t n)
{
#if defined(__AVX512F__)
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif defined(__AVX2__)
    return _mm256_maskload_ps(p, gmask(n));
#else
    float x[GL] = {0};
    for (int64_t i = 0; i < n; i++) x[i] = p[i];
    return gload(x);
#endif
}

LVN_INLINE void gstore_n(float *p, gv v, int64_t n)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), v);
#elif defined(__AVX2__)
    _mm256_maskstore_ps(p, gmask(n), v);
#else
    float x[GL];
    gstore(x, v);
    for (int64_t i = 0; i < n; i++) p[i] = x[i];
#endif
}

/* How a tile reads its operands. Packing alone is bound by memory, multiplying alone leaves memory idle. So the first
 * tile that reads a part of A or B reads it in place and packs it for later tiles. */
enum from_a {
    A_ROWS,   /* rows contiguous in k, a_row bytes apart */
    A_PACKED, /* (k, rows) */
    A_PACK,   /* (k, 2 MR), steps of k a_step floats apart; packed meanwhile, for this tile and the next one below it,
                 whose part of the cache lines would otherwise be evicted. MR rows only */
    A_KINDS
};
enum from_b {
    B_PACKED, /* (k, vectors * GL) */
    B_PACK,   /* (k, vectors * GL), steps of k b_step floats apart; packed meanwhile */
    B_KINDS
};

/* One tile: C = start + A B over one block of K. start is C itself, a row of zeros or the bias. */
struct tile {
    int64_t k;
    const float *a;
    int64_t a_row;             /* bytes */
    int64_t a_step;            /* floats */
    float *a_packed, *a_below; /* A_PACK: destinations for this tile and the next one */
    const float *b;
    int64_t b_step;
    float *b_packed; /* B_PACK: destination */
    float *c;
    int64_t c_row;
    const float *start;
    int64_t start_row;
    int64_t n; /* columns of C, at most vectors * GL */
};

enum { BASES = (MR + 2) / 3, UNROLL = 4, LOOKAHEAD = 10 };
#define OPAQUE(x) __asm__("" : "+r"(x))

/* State of the loop over k. */
struct tile_cursor {
    const char *p[BASES]; /* row r of A: p[r / 3] and 0, 1 or 2 rows; packed: p[0] */
    int64_t row;
    float *a_packed, *a_below;
    const float *b;
    float *b_packed;
};

/* Prefetch later steps of k of the operands that are being packed, which the hardware prefetcher misses. Prefetching
 * more of them would not help, since lines whose addresses differ by whole pages evict each other from the L1 cache. */
LVN_INLINE void tile_fetch(const struct tile *t, const struct tile_cursor *w, const int vectors,
                           const enum from_a from_a, const enum from_b from_b)
{
    if (from_a == A_PACK) __builtin_prefetch((const float *)w->p[0] + LOOKAHEAD * t->a_step);
    if (from_b == B_PACK) {
        LVN_UNROLL
        for (int v = 0; v < vectors; v++) __builtin_prefetch(w->b + LOOKAHEAD * t->b_step + v * GL);
    }
}

/* Step k of an iteration; rows, vectors, from_a, from_b and k are constants once this is inlined. */
LVN_INLINE void tile_step(const struct tile *t, struct tile_cursor *w, gv acc[MR][NV], const int rows,
                          const int vectors, const enum from_a from_a, const enum from_b from_b, const int k)
{
    gv b[NV];
    tile_fetch(t, w, vectors, from_a, from_b);
    const float *source = w->b + (from_b == B_PACKED ? k * vectors * GL : 0);
    LVN_UNROLL
    for (int v = 0; v < vectors; v++) b[v] = gload(source + v * GL);
    if (from_b == B_PACK) {
        LVN_UNROLL
        for (int v = 0; v < vectors; v++) gstore(w->b_packed + (k * vectors + v) * GL, b[v]);
        w->b += t->b_step;
    }
    const char *a = w->p[0] + (from_a == A_PACKED ? k * rows * 4 : 0);
    LVN_UNROLL
    for (int r = 0; r < rows; r++) {
        gv x = gset(*(const float *)(from_a == A_ROWS ? w->p[r / 3] + r % 3 * w->row + k * 4 : a + r * 4));
        LVN_UNROLL
        for (int v = 0; v < vectors; v++) acc[r][v] = gfma(x, b[v], acc[r][v]);
    }
    if (from_a == A_PACK) {
        memcpy(w->a_packed + k * MR, a, MR * sizeof(float));
        memcpy(w->a_below + k * MR, (const float *)a + MR, MR * sizeof(float));
        w->p[0] += t->a_step * 4;
    }
}

/* Advance by `k` steps. */
LVN_INLINE void tile_advance(struct tile_cursor *w, const int rows, const int vectors, const enum from_a from_a,
                             const enum from_b from_b, const int k)
{
    const int bases = from_a == A_ROWS ? (rows + 2) / 3 : from_a == A_PACKED ? 1 : 0;
    if (from_b == B_PACKED)
        w->b += k * vectors * GL;
    else
        w->b_packed += k * vectors * GL;
    if (from_a == A_PACK) w->a_packed += k * MR, w->a_below += k * MR;
    LVN_UNROLL
    for (int i = 0; i < bases; i++) {
        w->p[i] += 4 * k * (from_a == A_ROWS ? 1 : rows);
        OPAQUE(w->p[i]);
    }
}

LVN_INLINE void tile_store(const struct tile *t, int r, int v, gv acc)
{
    float *c = t->c + r * t->c_row + v * GL;
    const float *s = t->start + r * t->start_row + v * GL;
    int64_t n = t->n - v * GL;
    if (n >= GL)
        gstore(c, acc + gload(s));
    else
        gstore_n(c, acc + gload_n(s, n), n);
}

LVN_INLINE void tile_run(const struct tile *t, const int rows, const int vectors, const enum from_a from_a,
                         const enum from_b from_b)
{
    gv acc[MR][NV];
    struct tile_cursor w;
    w.row = t->a_row;
    w.a_packed = t->a_packed;
    w.a_below = t->a_below;
    w.b = t->b;
    w.b_packed = t->b_packed;
    LVN_UNROLL
    for (int r = 0; r < rows; r++) {
        LVN_UNROLL
        for (int v = 0; v < vectors; v++) {
            __builtin_prefetch(t->c + r * t->c_row + v * GL, 1);
            acc[r][v] = gset(0);
        }
    }
    const int bases = from_a == A_ROWS ? (rows + 2) / 3 : 1;
    LVN_UNROLL
    for (int i = 0; i < bases; i++) w.p[i] = (const char *)t->a + 3 * i * t->a_row;
    int64_t k = t->k;
    for (; k >= UNROLL; k -= UNROLL) {
        LVN_UNROLL
        for (int u = 0; u < UNROLL; u++) tile_step(t, &w, acc, rows, vectors, from_a, from_b, u);
        tile_advance(&w, rows, vectors, from_a, from_b, UNROLL);
    }
    for (; k > 0; k--) {
        tile_step(t, &w, acc, rows, vectors, from_a, from_b, 0);
        tile_advance(&w, rows, vectors, from_a, from_b, 1);
    }
    LVN_UNROLL
    for (int r = 0; r < rows; r++) LVN_UNROLL
    for (int v = 0; v < vectors; v++) tile_store(t, r, v, acc[r][v]);
}

#endif
