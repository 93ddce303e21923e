/* grad_norm_cpu.h - sums of squares of the gradient's blocks on CPUs, for grad_norm.cpu.c and grad_squares.cpu.c. The
 * order of the sum, and so its bits, are those of grad_norm.c. */
#ifndef LVN_GRAD_NORM_CPU_H
#define LVN_GRAD_NORM_CPU_H

#include "backend/cpu/simd_bf16.h"
#include "base/threads.h"
#include "ops/grad_norm.h"
#include "ops/outer.h"

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

/* Convert to double. GCC converts sixteen lanes of AVX-512 in two parts, which takes more than twice the time. */
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
        __builtin_prefetch(g + i + 1024); /* beyond the block too, since the next one follows */
        s = add_squares(s, g + i);
    }
    if (i < n) {
        float rest[LVN_LANES] = {0};
        memcpy(rest, g + i, (size_t)(n - i) * sizeof *g);
        s = add_squares(s, rest);
    }
    return s;
}

/* Add the squares of elements [i, end), which belong to the outer-product gradient o. */
LVN_INLINE struct sums add_outer(struct sums s, const struct outer *o, int64_t i, int64_t end)
{
    const float *down = o->down, *across = o->across;
    int64_t row = (i - o->begin) / o->columns, column = (i - o->begin) % o->columns;
    for (; i < end; row++, column = 0) {
        const vf x = vset(down[row]);
        for (; column < o->columns && i < end; column += LVN_LANES, i += LVN_LANES) {
            float g[LVN_LANES];
            vstore(g, x * vload(across + column) + vset(0));
            s = add_squares(s, g);
        }
    }
    return s;
}

LVN_INLINE double sums_fold(struct sums s)
{
    double lane[LVN_LANES];
    memcpy(lane, &s, sizeof lane);
    return lvn_norm_fold(lane);
}

/* The sum of squares of elements [i, end) of a gradient in fp32, some of which are outer products. */
static inline double norm_block(const struct outers *outers, const float *g, int64_t i, int64_t end)
{
    struct sums s = {0};
    for (int64_t next; i < end; i = next) {
        next = end;
        const struct outer *o = outer_at(outers, i, &next);
        s = o ? add_outer(s, o, i, next) : add_range(s, g + i, false, next - i);
    }
    return sums_fold(s);
}

/* The sums of squares of blocks [b, end) of n elements, fp32 or bf16. If there are outer products, all is fp32. */
static inline void norm_blocks(const struct lvn_arg *g, const struct outers *outers, int64_t n, double *sums, int64_t b,
                               int64_t end)
{
    const bool bf16 = g->desc->dtype == LVN_BF16;
    for (; b < end; b++) {
        const int64_t first = b * LVN_NORM_BLOCK, length = lvn_norm_block_length(n, b);
        sums[b] = bf16 ? sums_fold(add_range((struct sums){0}, vat(g->p, first, true), true, length))
                       : norm_block(outers, g->p, first, first + length);
    }
}

#endif
