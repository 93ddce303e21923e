/* grad_norm_cpu.h - sums of squares of the gradient's blocks on CPUs, for grad_norm.cpu.c and grad_squares.cpu.c, in
 * the summation order, and with the bits, of grad_norm.c. */
#ifndef LVN_GRAD_NORM_CPU_H
#define LVN_GRAD_NORM_CPU_H

#include "backend/cpu/simd_bf16.h"
#include "base/threads.h"
#include "ops/grad_norm.h"

/* The sixteen partial sums of a block, in vectors that stay in registers (see struct vacc in simd.h). */
#if defined(__AVX512F__)
enum { PART = 8 };
#elif defined(__AVX__)
enum { PART = 4 };
#else
enum { PART = 2 };
#endif
enum { PARTS = LVN_LANES / PART };
typedef double vd __attribute__((vector_size(8 * PART)));
typedef float vslice __attribute__((vector_size(4 * PART)));
struct sums {
    vd p[PARTS];
};

/* Convert to double. GCC converts sixteen lanes of AVX-512 in two parts, which is less than half as fast. */
LVN_INLINE vd to_double(vslice x)
{
#if defined(__AVX512F__)
    return (vd)_mm512_cvtps_pd((__m256)x);
#else
    return __builtin_convertvector(x, vd);
#endif
}

/* The square of a float is exact in double, so a fused multiply-add gives the same bits. */
LVN_INLINE struct sums add_squares(struct sums s, const float *g)
{
    for (int i = 0; i < PARTS; i++) {
        vslice x;
        memcpy(&x, g + PART * i, sizeof x);
        vd y = to_double(x);
        s.p[i] += y * y;
    }
    return s;
}

LVN_INLINE struct sums add_range(struct sums s, const void *gradient, const bool bf16, int64_t n)
{
    int64_t i = 0;
    if (bf16) {
        for (; i < n; i += LVN_LANES) {
            float x[LVN_LANES];
            vstore(x, vread_n(gradient, i, n - i < LVN_LANES ? n - i : LVN_LANES, true));
            s = add_squares(s, x);
        }
    }
    const float *g = gradient;
    for (; i + LVN_LANES <= n; i += LVN_LANES) {
        __builtin_prefetch(g + i + 1024); /* also beyond the block, since the next one follows */
        s = add_squares(s, g + i);
    }
    if (i < n) {
        float rest[LVN_LANES] = {0};
        memcpy(rest, g + i, (size_t)(n - i) * sizeof *g);
        s = add_squares(s, rest);
    }
    return s;
}

LVN_INLINE double sums_fold(struct sums s)
{
    double lane[LVN_LANES];
    memcpy(lane, &s, sizeof lane);
    return lvn_norm_fold(lane);
}

/* The sums of squares of blocks [b, end) of n elements, fp32 or bf16. */
static inline void norm_blocks(const struct lvn_arg *g, int64_t n, double *sums, int64_t b, int64_t end)
{
    const bool bf16 = g->desc->dtype == LVN_BF16;
    for (; b < end; b++) {
        const void *block = vat(g->p, b * LVN_NORM_BLOCK, bf16);
        const int64_t length = lvn_norm_block_length(n, b);
        sums[b] = sums_fold(bf16 ? add_range((struct sums){0}, block, true, length)
                                 : add_range((struct sums){0}, block, false, length));
    }
}

#endif
