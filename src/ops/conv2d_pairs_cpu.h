/* conv2d_pairs_cpu.h - two rows of output at once from kernels of three rows, in four products of one row where six
 * stood; for conv2d_cpu.h.
 *
 * Of the rows d0..d3 of the input that two rows y0, y1 of the output see, and the rows g0..g2 of the kernel:
 *
 *     m0 = (d0 - d2) * g0                     m1 = (d1 + d2) * (g0 + g1 + g2) / 2
 *     m3 = (d1 - d3) * g2                     m2 = (d2 - d1) * (g0 - g1 + g2) / 2
 *     y0 = m0 + m1 + m2                       y1 = m1 - m2 - m3
 *
 * where * is a convolution by a kernel of one row, summed over channels. The gradient goes the same way back: of m from
 * those of y, of the four kernels from that of m and the four sums of x. Sums and halves round a little more than plain
 * convolutions: about as if twice as many numbers were added.
 *
 * Source: Winograd, "Arithmetic complexity of computations", 1980, F(2,3); Lavin, Gray, "Fast algorithms for
 * convolutional neural networks", 2016. */
#ifndef LVN_CONV2D_PAIRS_CPU_H
#define LVN_CONV2D_PAIRS_CPU_H

#include "ops/conv2d_product_cpu.h"

/* How a convolution is cut into products. */
struct conv_way {
    int banks;    /* products: 1, or 4 of pairs of rows */
    int64_t taps; /* rows of the kernel that a product has */
};

/* Where few channels meet, the products are small and the sums before and after them are not. */
LVN_INLINE struct conv_way conv_way_make(const struct lvn_conv2d *c)
{
    enum { MIN_CHANNELS = 8 };
    const bool pairs = c->stride == 1 && c->KH == 3 && c->C >= MIN_CHANNELS && c->O >= MIN_CHANNELS;
    return pairs ? (struct conv_way){4, 1} : (struct conv_way){1, c->KH};
}

/* Rows that one product makes of `rows` rows of output. */
LVN_INLINE int64_t conv_bank_rows(const struct conv_way *w, int64_t rows)
{
    return w->banks == 1 ? rows : (rows + 1) / 2;
}

/* The kernel of a bank, of three entries `down` apart. */
LVN_INLINE float conv_bank_weight(int bank, const float *g, int64_t down)
{
    const float ends = g[0] + g[2 * down];
    return bank == 0 ? g[0] : bank == 1 ? (ends + g[down]) / 2 : bank == 2 ? (ends - g[down]) / 2 : g[2 * down];
}

/* And back: entry u of the kernel's gradient, of those of the banks, `step` apart. */
LVN_INLINE double conv_bank_gradient(int64_t u, const double *m, int64_t step)
{
    const double plus = m[step] + m[2 * step], minus = m[step] - m[2 * step];
    return u == 0 ? m[0] + plus / 2 : u == 1 ? minus / 2 : m[3 * step] + plus / 2;
}

/* What the banks see of a plane (rows,width): (pairs,width) each, `step` apart. The last pair's second row may be
 * beyond the output; then the last row of the plane stands for the one that is not there, and counts in no output. */
LVN_INLINE void conv_bank_planes(const float *plane, int64_t rows, int64_t width, int64_t pairs, int64_t step,
                                 float *to)
{
    const float *end = to + pairs * width;
    for (int64_t i = 0; i < pairs; i++, to += width) {
        const float *d = plane + 2 * i * width, *last = 2 * i + 3 < rows ? d + 3 * width : d + 2 * width;
        for (int64_t j = 0; j < width; j += LVN_LANES) {
            const int64_t n = width - j < LVN_LANES ? width - j : LVN_LANES;
            const vf d0 = vload_n(d + j, n), d1 = vload_n(d + width + j, n), d2 = vload_n(d + 2 * width + j, n);
            vstore_over(to + j, d0 - d2, n, end);
            vstore_over(to + step + j, d1 + d2, n, end + step);
            vstore_over(to + 2 * step + j, d2 - d1, n, end + 2 * step);
            vstore_over(to + 3 * step + j, d1 - vload_n(last + j, n), n, end + 3 * step);
        }
    }
}

/* Elements [at, at + n) of dy, n <= 16, of which only what y lets through counts (y NULL: all). */
LVN_INLINE vf conv_slope(const float *dy, const float *y, int64_t at, int64_t n)
{
    const vf v = vload_n(dy + at, n);
    return y ? vselect(vgreater(vload_n(y + at, n), vset(0)), v, vset(0)) : v;
}

/* --- the products of all banks, as one --- */

struct conv_banks {
    struct conv_product product; /* of the first bank */
    struct conv_way way;
    int64_t channels, rows, width; /* of the planes */
    int64_t bank_rows;             /* of output */
    float *seen;                   /* what the banks see, where there are several: (banks,channels,bank_rows,width) */
    int64_t weights, out;          /* floats from one bank's to the next one's */
};

/* Channel k of what the banks see. */
LVN_INLINE void conv_see(const struct conv_banks *b, const float *plane, int64_t k)
{
    const int64_t one = b->bank_rows * b->width;
    conv_bank_planes(plane, b->rows, b->width, b->bank_rows, b->channels * one, b->seen + k * one);
}

/* Groups [begin, end) of rows, of the planes at s, or, where there are several banks, of what they see. */
LVN_INLINE void conv_multiply_banks(const struct conv_banks *b, const float *s, int64_t begin, int64_t end)
{
    struct conv_product g = b->product;
    g.s = b->way.banks == 1 ? s : b->seen;
    for (int bank = 0; bank < b->way.banks; bank++) {
        conv_multiply(&g, begin, end);
        g.s += b->channels * b->bank_rows * b->width;
        g.w += b->weights;
        g.out += b->out;
    }
}

/* Elements [j, j + n) of row i of the wide output of channel m, n <= 16. */
LVN_INLINE vf conv_wide(const struct conv_banks *b, int64_t m, int64_t i, int64_t j, int64_t n)
{
    const float *p = b->product.out + m * b->product.pitch + j;
    if (b->way.banks == 1) return vload_n(p + i * b->width, n);
    p += i / 2 * b->width;
    const vf m1 = vload_n(p + b->out, n), m2 = vload_n(p + 2 * b->out, n);
    return i % 2 ? m1 - m2 - vload_n(p + 3 * b->out, n) : vload_n(p, n) + m1 + m2;
}

#endif
