/* tile.h - multiplications of small blocks in the cache, and their preparation: transposing, summing over lanes.
 * Attention (src/core/ops) and gemm_bf16_dot.h use it.
 *
 * A block of C is divided into tiles of m rows and 16 nv columns whose sums stay in registers; each step over k loads a
 * row of B and broadcasts a column of A. Each element of C is one chain of fused multiply-adds over ascending k,
 * whatever the shape of its tile, so instruction sets with other registers give the same bits. */
#ifndef LVN_TILE_H
#define LVN_TILE_H

#include <stdbool.h>

#include "backend/cpu/simd.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { TILE_BLOCK = 64 }; /* leading dimension of A: blocks of scores are at most 64 x 64 */

/* One register. */
#if defined(__AVX512F__)
typedef __m512 vt;
enum { TILE_LANES = 16 };
#define VT_LOAD(p) _mm512_loadu_ps(p)
#define VT_STORE(p, v) _mm512_storeu_ps(p, v)
#define VT_SET(x) _mm512_set1_ps(x)
#define VT_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#elif defined(__FMA__)
typedef __m256 vt;
enum { TILE_LANES = 8 };
#define VT_LOAD(p) _mm256_loadu_ps(p)
#define VT_STORE(p, v) _mm256_storeu_ps(p, v)
#define VT_SET(x) _mm256_set1_ps(x)
#define VT_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#elif defined(__aarch64__)
typedef float32x4_t vt;
enum { TILE_LANES = 4 };
#define VT_LOAD(p) vld1q_f32(p)
#define VT_STORE(p, v) vst1q_f32(p, v)
#define VT_SET(x) vdupq_n_f32(x)
#define VT_FMA(a, b, c) vfmaq_f32(c, a, b)
#else
typedef float vt __attribute__((vector_size(16)));
enum { TILE_LANES = 4 };
LVN_INLINE vt VT_LOAD(const float *p)
{
    vt v;
    memcpy(&v, p, sizeof v);
    return v;
}
LVN_INLINE void VT_STORE(float *p, vt v)
{
    memcpy(p, &v, sizeof v);
}
LVN_INLINE vt VT_SET(float x)
{
    return (vt){x, x, x, x};
}
LVN_INLINE vt VT_FMA(vt a, vt b, vt c)
{
    for (int i = 0; i < 4; i++) c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}
#endif

/* C (m x 16 nv) = A B, or += if `add` is set. A is m x k with element (i, l) at a[i*a_row + l*a_col]. */
LVN_INLINE void tile(int m, int nv, int a_row, int a_col, int64_t k, const float *a, const float *b, int64_t ldb,
                     float *c, int64_t ldc, bool add)
{
    enum { MAX = 16 / TILE_LANES * 4 };
    const int n = nv * (16 / TILE_LANES);
    vt sum[14][MAX];
    LVN_UNROLL for (int i = 0; i < m; i++) LVN_UNROLL for (int j = 0; j < n; j++) sum[i][j] = VT_SET(0);
    for (int64_t l = 0; l < k; l++, a += a_col, b += ldb) {
        vt row[MAX];
        LVN_UNROLL for (int j = 0; j < n; j++) row[j] = VT_LOAD(b + j * TILE_LANES);
        LVN_UNROLL for (int i = 0; i < m; i++)
        {
            const vt x = VT_SET(a[i * a_row]);
            LVN_UNROLL for (int j = 0; j < n; j++) sum[i][j] = VT_FMA(x, row[j], sum[i][j]);
        }
    }
    if (add) {
        LVN_UNROLL for (int i = 0; i < m; i++) LVN_UNROLL for (int j = 0; j < n; j++)
            VT_STORE(c + i * ldc + j * TILE_LANES, VT_LOAD(c + i * ldc + j * TILE_LANES) + sum[i][j]);
    } else {
        LVN_UNROLL for (int i = 0; i < m; i++) LVN_UNROLL for (int j = 0; j < n; j++)
            VT_STORE(c + i * ldc + j * TILE_LANES, sum[i][j]);
    }
}

/* One function per tile shape and orientation of A: in _t the columns of A are contiguous (a_row 1), in _n its rows. */
typedef void tile_function(int64_t k, const float *a, const float *b, int64_t ldb, float *c, int64_t ldc, bool add);
#define TILE_FUNCTION(m, nv)                                                                                           \
    static void tile_t_##m##_##nv(int64_t k, const float *a, const float *b, int64_t ldb, float *c, int64_t ldc,       \
                                  bool add)                                                                            \
    {                                                                                                                  \
        tile(m, nv, 1, TILE_BLOCK, k, a, b, ldb, c, ldc, add);                                                         \
    }                                                                                                                  \
    static void tile_n_##m##_##nv(int64_t k, const float *a, const float *b, int64_t ldb, float *c, int64_t ldc,       \
                                  bool add)                                                                            \
    {                                                                                                                  \
        tile(m, nv, TILE_BLOCK, 1, k, a, b, ldb, c, ldc, add);                                                         \
    }
#define TILE_ENTRY(m, nv)                                                                                              \
    {                                                                                                                  \
        m,                                                                                                             \
        {                                                                                                              \
            tile_n_##m##_##nv, tile_t_##m##_##nv                                                                       \
        }                                                                                                              \
    }
struct tile_shape {
    int rows;
    tile_function *function[2]; /* [a_row == 1] */
};

/* Shapes by number of vectors, from the most rows to one row. */
#if defined(__AVX512F__)
enum { TILE_MAX_VECTORS = 4 };
TILE_FUNCTION(14, 1)
TILE_FUNCTION(8, 1)
TILE_FUNCTION(4, 1)
TILE_FUNCTION(2, 1)
TILE_FUNCTION(1, 1)
TILE_FUNCTION(12, 2)
TILE_FUNCTION(8, 2)
TILE_FUNCTION(4, 2)
TILE_FUNCTION(2, 2)
TILE_FUNCTION(1, 2)
TILE_FUNCTION(8, 3)
TILE_FUNCTION(4, 3)
TILE_FUNCTION(2, 3)
TILE_FUNCTION(1, 3)
TILE_FUNCTION(6, 4)
TILE_FUNCTION(4, 4)
TILE_FUNCTION(2, 4)
TILE_FUNCTION(1, 4)
static const struct tile_shape tile_shapes[TILE_MAX_VECTORS + 1][6] = {
    [1] = {TILE_ENTRY(14, 1), TILE_ENTRY(8, 1), TILE_ENTRY(4, 1), TILE_ENTRY(2, 1), TILE_ENTRY(1, 1)},
    [2] = {TILE_ENTRY(12, 2), TILE_ENTRY(8, 2), TILE_ENTRY(4, 2), TILE_ENTRY(2, 2), TILE_ENTRY(1, 2)},
    [3] = {TILE_ENTRY(8, 3), TILE_ENTRY(4, 3), TILE_ENTRY(2, 3), TILE_ENTRY(1, 3)},
    [4] = {TILE_ENTRY(6, 4), TILE_ENTRY(4, 4), TILE_ENTRY(2, 4), TILE_ENTRY(1, 4)},
};
#elif defined(__FMA__) || defined(__aarch64__)
enum { TILE_MAX_VECTORS = 1 };
TILE_FUNCTION(6, 1)
TILE_FUNCTION(4, 1)
TILE_FUNCTION(2, 1)
TILE_FUNCTION(1, 1)
static const struct tile_shape tile_shapes[TILE_MAX_VECTORS + 1][6] = {
    [1] = {TILE_ENTRY(6, 1), TILE_ENTRY(4, 1), TILE_ENTRY(2, 1), TILE_ENTRY(1, 1)}};
#else
enum { TILE_MAX_VECTORS = 1 };
TILE_FUNCTION(4, 1)
TILE_FUNCTION(2, 1)
TILE_FUNCTION(1, 1)
static const struct tile_shape tile_shapes[TILE_MAX_VECTORS + 1][6] = {
    [1] = {TILE_ENTRY(4, 1), TILE_ENTRY(2, 1), TILE_ENTRY(1, 1)}};
#endif

/* Number of vectors of columns of the next tile, if `left` remain. Five are divided into 3 + 2, since a tile of one
 * vector uses the multipliers badly. */
LVN_INLINE int64_t tile_vectors(int64_t left)
{
    return left == 5 && TILE_MAX_VECTORS == 4 ? 3 : left < TILE_MAX_VECTORS ? left : TILE_MAX_VECTORS;
}

/* Transpose `from` into `to`: to[c*TILE_BLOCK + r] = factor * from[r*stride + c] for r < rows and c < columns; the
 * rows up to the next multiple of 16 are filled with zeros. */
static inline void tile_transpose(int64_t rows, int64_t columns, const float *from, int64_t stride, float factor,
                                  float *to);

#if defined(__AVX2__)
LVN_INLINE void transpose8(__m256 x[8])
{
    __m256 a[8], b[8];
    LVN_UNROLL for (int i = 0; i < 8; i += 2)
    {
        a[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    LVN_UNROLL for (int i = 0; i < 8; i += 4) LVN_UNROLL for (int j = 0; j < 2; j++)
    {
        b[i + 2 * j] = _mm256_shuffle_ps(a[i + j], a[i + j + 2], 0x44);
        b[i + 2 * j + 1] = _mm256_shuffle_ps(a[i + j], a[i + j + 2], 0xEE);
    }
    LVN_UNROLL for (int i = 0; i < 4; i++)
    {
        x[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        x[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}
#endif

static inline void tile_transpose(int64_t rows, int64_t columns, const float *from, int64_t stride, float factor,
                                  float *to)
{
    int64_t r = 0;
#if defined(__AVX2__)
    for (; r + 8 <= rows; r += 8) {
        int64_t c = 0;
        for (; c + 8 <= columns; c += 8) {
            __m256 x[8];
            LVN_UNROLL for (int i = 0; i < 8; i++) x[i] = _mm256_loadu_ps(from + (r + i) * stride + c);
            transpose8(x);
            LVN_UNROLL for (int i = 0; i < 8; i++)
                _mm256_storeu_ps(to + (c + i) * TILE_BLOCK + r, x[i] * _mm256_set1_ps(factor));
        }
        for (; c < columns; c++)
            for (int i = 0; i < 8; i++) to[c * TILE_BLOCK + r + i] = factor * from[(r + i) * stride + c];
    }
#endif
    for (; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) to[c * TILE_BLOCK + r] = factor * from[r * stride + c];
    for (; r % LVN_LANES; r++)
        for (int64_t c = 0; c < columns; c++) to[c * TILE_BLOCK + r] = 0;
}

/* Lane i of the result is the sum over the lanes of x[i]. */
LVN_INLINE vf vsum_each(const vf x[16])
{
    union {
        vf v;
        float f[16];
#if defined(__AVX2__)
        __m256 h[2];
#endif
    } in, out;
#if defined(__AVX2__)
    for (int half = 0; half < 2; half++) {
        __m256 y[8];
        LVN_UNROLL for (int i = 0; i < 8; i++)
        {
            in.v = x[half * 8 + i];
            y[i] = in.h[0] + in.h[1];
        }
        transpose8(y);
        out.h[half] = ((y[0] + y[4]) + (y[2] + y[6])) + ((y[1] + y[5]) + (y[3] + y[7]));
    }
#else
    for (int i = 0; i < 16; i++) {
        in.v = x[i];
        float y[8];
        for (int j = 0; j < 8; j++) y[j] = in.f[j] + in.f[j + 8];
        out.f[i] = ((y[0] + y[4]) + (y[2] + y[6])) + ((y[1] + y[5]) + (y[3] + y[7]));
    }
#endif
    return out.v;
}

#endif
