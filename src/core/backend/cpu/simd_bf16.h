/* simd_bf16.h - vectors of sixteen values that are bf16 in memory and fp32 in registers, on every instruction set.
 *
 * bf16 is the upper half of fp32. Reading shifts; writing rounds to nearest, ties to even; NaN stays NaN. Functions
 * whose last argument is `bf16` read and write either type. Callers pass a constant, so each kernel is compiled for
 * both. */
#ifndef LVN_SIMD_BF16_H
#define LVN_SIMD_BF16_H

#include <stdbool.h>

#include "backend/cpu/simd.h"

typedef uint16_t vh __attribute__((vector_size(32)));

LVN_INLINE_LONG vf vf_of_bf16(vh h)
{
#if defined(__AVX512F__)
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#else
    return (vf)(__builtin_convertvector(h, vu) << 16);
#endif
}

LVN_INLINE_LONG vh bf16_of_vf(vf x)
{
#if defined(__AVX512BF16__)
    return (vh)_mm512_cvtneps_pbh((__m512)x);
#else
    vu u = (vu)x, rounded = (u + 0x7fffu + (u >> 16 & 1u)) >> 16, quiet = u >> 16 | 0x40u;
    vu number = (vu)((u & 0x7fffffffu) <= (vu){0} + 0x7f800000u);
    vu out = (rounded & number) | (quiet & ~number);
#if defined(__AVX512F__)
    return (vh)_mm512_cvtepi32_epi16((__m512i)out);
#else
    return __builtin_convertvector(out, vh);
#endif
#endif
}

/* Stochastic rounding, up or down at random, so that the mean is x. Each lane of `bits` has 16 random bits; its upper
 * half is ignored. Infinity stays infinity, NaN stays NaN, and values within 2^-8 of the largest one may become
 * infinity.
 */
LVN_INLINE_LONG vh bf16_at_random(vf x, vu bits)
{
    vu u = (vu)x, rounded = (u + (bits & 0xffffu)) >> 16, quiet = u >> 16 | 0x40u;
    vu number = (vu)((u & 0x7fffffffu) <= (vu){0} + 0x7f800000u);
    vu out = (rounded & number) | (quiet & ~number);
#if defined(__AVX512F__)
    return (vh)_mm512_cvtepi32_epi16((__m512i)out);
#else
    return __builtin_convertvector(out, vh);
#endif
}

LVN_INLINE vh vload_bf16(const uint16_t *p)
{
    vh h;
    memcpy(&h, p, sizeof h);
    return h;
}

LVN_INLINE vh vload_bf16_n(const uint16_t *p, int64_t n)
{
#if defined(__AVX512F__)
    return (vh)_mm256_maskz_loadu_epi16((__mmask16)((1u << n) - 1), p);
#else
    vh h = {0};
    memcpy(&h, p, (size_t)n * sizeof *p);
    return h;
#endif
}

LVN_INLINE void vstore_bf16(uint16_t *p, vh h)
{
    memcpy(p, &h, sizeof h);
}

LVN_INLINE void vstore_bf16_n(uint16_t *p, vh h, int64_t n)
{
#if defined(__AVX512F__)
    _mm256_mask_storeu_epi16(p, (__mmask16)((1u << n) - 1), (__m256i)h);
#else
    memcpy(p, &h, (size_t)n * sizeof *p);
#endif
}

/* Address of element i of an array of either type. */
LVN_INLINE void *vat(const void *p, int64_t i, const bool bf16)
{
    return bf16 ? (void *)((uint16_t *)(uintptr_t)p + i) : (void *)((float *)(uintptr_t)p + i);
}

LVN_INLINE vf vread(const void *p, int64_t i, const bool bf16)
{
    return bf16 ? vf_of_bf16(vload_bf16(vat(p, i, true))) : vload(vat(p, i, false));
}

LVN_INLINE vf vread_n(const void *p, int64_t i, int64_t n, const bool bf16)
{
    return bf16 ? vf_of_bf16(vload_bf16_n(vat(p, i, true), n)) : vload_n(vat(p, i, false), n);
}

LVN_INLINE void vwrite(void *p, int64_t i, vf x, const bool bf16)
{
    if (bf16)
        vstore_bf16(vat(p, i, true), bf16_of_vf(x));
    else
        vstore(vat(p, i, false), x);
}

LVN_INLINE void vwrite_n(void *p, int64_t i, vf x, int64_t n, const bool bf16)
{
    if (bf16)
        vstore_bf16_n(vat(p, i, true), bf16_of_vf(x), n);
    else
        vstore_n(vat(p, i, false), x, n);
}

/* Convert n values between the types, which need not be constants here. */
static inline void vconvert(const void *from, bool from_bf16, void *to, bool to_bf16, int64_t n)
{
#define LVN_CONVERT(f, t)                                                                                              \
    if (from_bf16 == (f) && to_bf16 == (t)) {                                                                          \
        int64_t i = 0;                                                                                                 \
        for (; i + LVN_LANES <= n; i += LVN_LANES) vwrite(to, i, vread(from, i, f), t);                                \
        if (i < n) vwrite_n(to, i, vread_n(from, i, n - i, f), n - i, t);                                              \
    }
    LVN_CONVERT(false, false)
    LVN_CONVERT(false, true)
    LVN_CONVERT(true, false)
    LVN_CONVERT(true, true)
#undef LVN_CONVERT
}

#endif
