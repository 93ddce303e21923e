/* simd.h - sixteen floats at a time, on every instruction set.
 *
 * A src/ops/NAME.cpu.c is compiled once per instruction set (generic, AVX2, AVX-512). All of them see the same vector of
 * sixteen lanes: the compiler splits it where registers are narrower. So sums over lanes have the same order, and results
 * the same bits, on AVX2 and AVX-512. Multiplication and addition are contracted only where vfma() says so
 * (-ffp-contract=off).
 *
 * Uses the vector extensions of GCC and clang; intrinsics only where a lane loop would not become one instruction. */
#ifndef LVN_SIMD_H
#define LVN_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* The name of this file's symbol for the instruction set that it is being compiled for: NAME_avx512. */
#define LVN_PASTE_(a, b) a##_##b
#define LVN_PASTE(a, b) LVN_PASTE_(a, b)
#define LVN_ISA_NAME(name) LVN_PASTE(name, LVN_ISA_SUFFIX)

enum { LVN_LANES = 16 };
typedef float vf __attribute__((vector_size(64)));
typedef int32_t vi __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));

/* Vectors of 64 bytes are passed between inline functions only; the ABI warning does not apply. */
#pragma GCC diagnostic ignored "-Wpsabi"
#define LVN_INLINE static inline __attribute__((always_inline, unused))

LVN_INLINE vf vload(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}

LVN_INLINE void vstore(float *p, vf v)
{
    memcpy(p, &v, sizeof v);
}

LVN_INLINE vf vset(float x)
{
    return (vf){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

LVN_INLINE vi viota(void)
{
    return (vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
}

/* The first n (0..16) elements; the other lanes are zero and their memory is not touched. */
LVN_INLINE vf vload_n(const float *p, int64_t n)
{
#if defined(__AVX512F__)
    return (vf)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    vf v = {0};
    memcpy(&v, p, (size_t)n * sizeof(float));
    return v;
#endif
}

LVN_INLINE void vstore_n(float *p, vf v, int64_t n)
{
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    memcpy(p, &v, (size_t)n * sizeof(float));
#endif
}

/* a * b + c with one rounding, on every instruction set. */
LVN_INLINE vf vfma(vf a, vf b, vf c)
{
#if defined(__AVX512F__)
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    union {
        vf v;
        __m256 h[2];
    } x = {a}, y = {b}, z = {c};
    z.h[0] = _mm256_fmadd_ps(x.h[0], y.h[0], z.h[0]);
    z.h[1] = _mm256_fmadd_ps(x.h[1], y.h[1], z.h[1]);
    return z.v;
#else
    for (int i = 0; i < LVN_LANES; i++) c[i] = fmaf(a[i], b[i], c[i]);
    return c;
#endif
}

/* On AVX2 GCC takes comparisons of such wide vectors apart, lane by lane; here they are done by halves. */
#if defined(__AVX2__) && !defined(__AVX512F__)
#define LVN_BY_HALVES(result, type, member, a, b, expression)                                                          \
    union {                                                                                                            \
        type v;                                                                                                        \
        member h[2];                                                                                                   \
    } x_ = {a}, y_ = {b};                                                                                              \
    union {                                                                                                            \
        result v;                                                                                                      \
        __m256i h[2];                                                                                                  \
    } z_;                                                                                                              \
    for (int i = 0; i < 2; i++) {                                                                                      \
        const member x = x_.h[i], y = y_.h[i];                                                                         \
        z_.h[i] = (__m256i)(expression);                                                                               \
    }                                                                                                                  \
    return z_.v
#endif

/* a > b, lane by lane: -1 where it holds, else 0. */
LVN_INLINE vi vgreater(vf a, vf b)
{
#if defined(LVN_BY_HALVES)
    LVN_BY_HALVES(vi, vf, __m256, a, b, _mm256_cmp_ps(x, y, _CMP_GT_OQ));
#else
    return a > b;
#endif
}

LVN_INLINE vi vgreater_int(vi a, vi b)
{
#if defined(LVN_BY_HALVES)
    LVN_BY_HALVES(vi, vi, __m256i, a, b, _mm256_cmpgt_epi32(x, y));
#else
    return a > b;
#endif
}

/* condition ? a : b, lane by lane; the condition is a comparison of vectors (0 or -1). */
LVN_INLINE vf vselect(vi condition, vf a, vf b)
{
    return (vf)(((vi)a & condition) | ((vi)b & ~condition));
}

/* The larger one; b where either is not a number. */
LVN_INLINE vf vmax(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(LVN_BY_HALVES)
    LVN_BY_HALVES(vf, vf, __m256, a, b, _mm256_max_ps(x, y));
#else
    return vselect(a > b, a, b);
#endif
}

LVN_INLINE vf vmin(vf a, vf b)
{
#if defined(__AVX512F__)
    return (vf)_mm512_min_ps((__m512)a, (__m512)b);
#elif defined(LVN_BY_HALVES)
    LVN_BY_HALVES(vf, vf, __m256, a, b, _mm256_min_ps(x, y));
#else
    return vselect(a < b, a, b);
#endif
}

/* Sum of the lanes in a fixed order: halves are folded onto each other. */
LVN_INLINE float vsum(vf v)
{
    float x[LVN_LANES];
    memcpy(x, &v, sizeof x);
    for (int half = LVN_LANES / 2; half >= 1; half /= 2)
        for (int i = 0; i < half; i++) x[i] += x[i + half];
    return x[0];
}

LVN_INLINE float vmax_lane(vf v)
{
    float x[LVN_LANES];
    memcpy(x, &v, sizeof x);
    for (int half = LVN_LANES / 2; half >= 1; half /= 2)
        for (int i = 0; i < half; i++) x[i] = x[i] > x[i + half] ? x[i] : x[i + half];
    return x[0];
}

#endif
