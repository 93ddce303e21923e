/* simd.h - vectors of sixteen floats, on every instruction set. The kernels of src/core/ops/NAME.cpu.c use it.
 *
 * A src/core/ops/NAME.cpu.c is compiled once per instruction set (generic, AVX2, AVX-512). All of them use the same
 * vector of sixteen lanes, which the compiler splits if registers are narrower. So sums over lanes have the same order,
 * and results the same bits, on AVX2 and AVX-512. Multiplication and addition are contracted only in vfma()
 * (-ffp-contract=off).
 *
 * This file uses the vector extensions of GCC and clang, and intrinsics where a loop over lanes would not become one
 * instruction. */
#ifndef LVN_SIMD_H
#define LVN_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "host/isa.h"

enum { LVN_LANES = 16 };
typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));

/* LVN_UNROLL fully unrolls a loop with constant bounds, so that arrays become registers. With sanitizers, which add
 * branches to each access, inlined and unrolled kernels would take a minute to compile. */
#if defined(LVN_SANITIZED)
#define LVN_INLINE static inline __attribute__((unused))
#define LVN_UNROLL
#else
#define LVN_INLINE static inline __attribute__((always_inline, unused))
#if defined(__clang__)
#define LVN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define LVN_UNROLL _Pragma("GCC unroll 16")
#endif
#endif

/* Functions of many instructions. On x86 processors without AVX2, where a vector takes four registers and speed matters
 * little, a file has one copy of each. */
#if defined(__x86_64__) && !defined(__AVX2__)
#define LVN_INLINE_LONG static __attribute__((noinline, unused))
#else
#define LVN_INLINE_LONG LVN_INLINE
#endif

#if defined(__AVX__)
/* The same vector as two registers of AVX2. */
union vhalves {
    vf v;
    __m256 h[2];
};
#endif

LVN_INLINE vf vload(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

LVN_INLINE void vstore(float *p, vf v)
{
#if defined(__AVX__) && !defined(__AVX512F__)
    union vhalves x = {v}; /* GCC copies the whole vector in pieces of eight bytes */
    _mm256_storeu_ps(p, x.h[0]);
    _mm256_storeu_ps(p + 8, x.h[1]);
#else
    memcpy(p, &v, sizeof v);
#endif
}

LVN_INLINE vf vset(float x)
{
    return (vf){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

LVN_INLINE vi viota(void)
{
    return (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

/* -1 in each lane where integer a > b, else 0; a - b must not overflow. */
LVN_INLINE vi vgreater_int(vi a, vi b)
{
    return (b - a) >> 31;
}

/* The first n (0..16) elements; the other lanes are zero, and their memory is not accessed. */
LVN_INLINE_LONG vf vload_n(const float *p, int64_t n)
{
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#elif defined(__AVX2__)
    union vhalves m = {(vf)vgreater_int((vi){0} + (int32_t)n, viota())}, x;
    x.h[0] = _mm256_maskload_ps(p, (__m256i)m.h[0]);
    x.h[1] = _mm256_maskload_ps(p + 8, (__m256i)m.h[1]);
    return x.v;
#else
    vf v = {0};
    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
#endif
}

LVN_INLINE_LONG void vstore_n(float *p, vf v, int64_t n)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#elif defined(__AVX2__)
    union vhalves m = {(vf)vgreater_int((vi){0} + (int32_t)n, viota())}, x = {v};
    _mm256_maskstore_ps(p, (__m256i)m.h[0], x.h[0]);
    _mm256_maskstore_ps(p + 8, (__m256i)m.h[1], x.h[1]);
#else
    memcpy(p, &v, (size_t)n * sizeof(float));
#endif
}

/* Store the first n elements. Later elements before `end` are overwritten with arbitrary values and must be stored
 * afterwards. This avoids a masked store, which takes several times as long as a full one. */
LVN_INLINE void vstore_over(float *p, vf v, int64_t n, const float *end)
{
    if (p + LVN_LANES <= end)
        vstore(p, v);
    else
        vstore_n(p, v, n);
}

/* a * b + c with one rounding, on every instruction set. */
LVN_INLINE_LONG vf vfma(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    union vhalves x = {a}, y = {b}, z = {c};
    z.h[0] = _mm256_fmadd_ps(x.h[0], y.h[0], z.h[0]);
    z.h[1] = _mm256_fmadd_ps(x.h[1], y.h[1], z.h[1]);
    return z.v;
#else
    for (int i = 0; i < LVN_LANES; i++) c[i] = fmaf(a[i], b[i], c[i]);
    return c;
#endif
}

/* Comparisons: -1 or 0 in each lane, 0 if either operand is NaN. The operators < and == are not used, because GCC
 * splits vectors wider than a register into single lanes for them. */
LVN_INLINE_LONG vi vgreater(vf a, vf b)
{
#if defined(__AVX512DQ__)
    return (vi)_mm512_movm_epi32(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ));
#elif defined(__AVX__)
    union vhalves x = {a}, y = {b};
    x.h[0] = _mm256_cmp_ps(x.h[0], y.h[0], _CMP_GT_OQ);
    x.h[1] = _mm256_cmp_ps(x.h[1], y.h[1], _CMP_GT_OQ);
    return (vi)x.v;
#else
    vi c;
    for (int i = 0; i < LVN_LANES; i++) c[i] = -(a[i] > b[i]);
    return c;
#endif
}

LVN_INLINE_LONG vi vequal(vf a, vf b)
{
#if defined(__AVX512DQ__)
    return (vi)_mm512_movm_epi32(_mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_EQ_OQ));
#elif defined(__AVX__)
    union vhalves x = {a}, y = {b};
    x.h[0] = _mm256_cmp_ps(x.h[0], y.h[0], _CMP_EQ_OQ);
    x.h[1] = _mm256_cmp_ps(x.h[1], y.h[1], _CMP_EQ_OQ);
    return (vi)x.v;
#else
    vi c;
    for (int i = 0; i < LVN_LANES; i++) c[i] = -(a[i] == b[i]);
    return c;
#endif
}

/* condition ? a : b, lane by lane; the condition is 0 or -1 in each lane. */
LVN_INLINE vf vselect(vi condition, vf a, vf b)
{
    return (vf)(((vi)a & condition) | ((vi)b & ~condition));
}

/* a, with subnormal lanes set to 0. */
LVN_INLINE vf vnormal(vf a)
{
    const vf magnitude = (vf)((vi)a & 0x7fffffff);
    return (vf)((vi)a & ~vgreater(vset(0x1p-126f), magnitude));
}

/* a > b ? a : b; so b if either is NaN. */
LVN_INLINE_LONG vf vmax(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    union vhalves x = {a}, y = {b};
    x.h[0] = _mm256_max_ps(x.h[0], y.h[0]);
    x.h[1] = _mm256_max_ps(x.h[1], y.h[1]);
    return x.v;
#else
    for (int i = 0; i < LVN_LANES; i++) a[i] = a[i] > b[i] ? a[i] : b[i];
    return a;
#endif
}

/* a < b ? a : b; so b if either is NaN. */
LVN_INLINE_LONG vf vmin(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
    union vhalves x = {a}, y = {b};
    x.h[0] = _mm256_min_ps(x.h[0], y.h[0]);
    x.h[1] = _mm256_min_ps(x.h[1], y.h[1]);
    return x.v;
#else
    for (int i = 0; i < LVN_LANES; i++) a[i] = a[i] < b[i] ? a[i] : b[i];
    return a;
#endif
}

/* Square root, correctly rounded. */
LVN_INLINE_LONG vf vsqrt(vf a)
{
#if defined(__AVX512F__)
    return (vf)_mm512_sqrt_ps((__m512)a);
#elif defined(__AVX__)
    union vhalves x = {a};
    x.h[0] = _mm256_sqrt_ps(x.h[0]);
    x.h[1] = _mm256_sqrt_ps(x.h[1]);
    return x.v;
#else
    for (int i = 0; i < LVN_LANES; i++) a[i] = sqrtf(a[i]);
    return a;
#endif
}

#if defined(__AVX512DQ__)
#define LVN_LOW_(v) _mm512_castps512_ps256((__m512)(v))
#define LVN_HIGH_(v) _mm512_extractf32x8_ps((__m512)(v), 1)
#elif defined(__AVX__)
#define LVN_LOW_(x) ((union vhalves){x}).h[0]
#define LVN_HIGH_(x) ((union vhalves){x}).h[1]
#endif
#if defined(__AVX__)
/* Lanes 0..7 are combined with lanes 8..15 by op, then 4 with 4, 2 with 2, 1 with 1. */
#define LVN_FOLD(v, op)                                                                                                \
    __m256 s_ = _mm256_##op##_ps(LVN_LOW_(v), LVN_HIGH_(v));                                                           \
    __m128 q_ = _mm_##op##_ps(_mm256_castps256_ps128(s_), _mm256_extractf128_ps(s_, 1));                               \
    q_ = _mm_##op##_ps(q_, _mm_movehl_ps(q_, q_));                                                                     \
    return _mm_cvtss_f32(_mm_##op##_ss(q_, _mm_movehdup_ps(q_)))
#endif

/* Sum of the lanes in a fixed order: halves are added to each other. */
LVN_INLINE_LONG float vsum(vf v)
{
#if defined(__AVX__)
    LVN_FOLD(v, add);
#else
    float x[LVN_LANES];
    memcpy(x, &v, sizeof x);
    for (int half = LVN_LANES / 2; half >= 1; half /= 2)
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
#endif
}

/* The largest lane, computed in the same order. */
LVN_INLINE_LONG float vmax_lane(vf v)
{
#if defined(__AVX__)
    LVN_FOLD(v, max);
#else
    float x[LVN_LANES];
    memcpy(x, &v, sizeof x);
    for (int half = LVN_LANES / 2; half >= 1; half /= 2)
        for (int i = 0; i < half; i++) x[i] = x[i] > x[i + half] ? x[i] : x[i + half];
    return x[0];
#endif
}

/* --- running sums ------------------------------------------------------------------------------------------------ */

/* A vector that is carried through the iterations of a loop. If registers are narrower than sixteen lanes, GCC keeps
 * such a `vf` in memory, at several times the cost; the parts of this struct stay in registers. */
#if defined(__AVX512F__)
typedef vf vpart;
#elif defined(__AVX__)
typedef __m256 vpart;
#else
typedef float vpart __attribute__((vector_size(16)));
#endif
enum { LVN_PARTS = sizeof(vf) / sizeof(vpart) };
struct vacc {
    vpart p[LVN_PARTS];
};
union vparts {
    vf v;
    vpart p[LVN_PARTS];
};

LVN_INLINE struct vacc vacc_set(vf v)
{
    union vparts x = {v};
    struct vacc a;
    for (int i = 0; i < LVN_PARTS; i++) a.p[i] = x.p[i];
    return a;
}

LVN_INLINE vf vacc_get(struct vacc a)
{
    union vparts x;
    for (int i = 0; i < LVN_PARTS; i++) x.p[i] = a.p[i];
    return x.v;
}

/* a += v */
LVN_INLINE struct vacc vacc_add(struct vacc a, vf v)
{
    union vparts x = {v};
    for (int i = 0; i < LVN_PARTS; i++) a.p[i] += x.p[i];
    return a;
}

/* Accumulator of long sums. A long sum consists of blocks of LVN_SUM_BLOCK terms: each block is summed in fp32 and
 * added here once in double. So its error does not grow with its length, and double costs almost nothing. */
enum { LVN_SUM_BLOCK = 32 };
struct vtotal {
    double lane[LVN_LANES];
};

LVN_INLINE_LONG void vtotal_add(struct vtotal *t, vf v)
{
    float x[LVN_LANES];
    memcpy(x, &v, sizeof x);
    for (int i = 0; i < LVN_LANES; i++) t->lane[i] += (double)x[i];
}

LVN_INLINE vf vtotal_get(const struct vtotal *t)
{
    float x[LVN_LANES];
    vf v;
    for (int i = 0; i < LVN_LANES; i++) x[i] = (float)t->lane[i];
    memcpy(&v, x, sizeof v);
    return v;
}

/* a += x * y, with one rounding */
LVN_INLINE struct vacc vacc_fma(struct vacc a, vf x, vf y)
{
    return vacc_set(vfma(x, y, vacc_get(a)));
}

/* The larger of a and v in each lane; v if either is NaN. */
LVN_INLINE struct vacc vacc_max(struct vacc a, vf v)
{
    return vacc_set(vmax(vacc_get(a), v));
}

#endif
