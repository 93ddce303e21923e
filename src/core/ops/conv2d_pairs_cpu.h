/* conv2d_pairs_cpu.h - Winograd's algorithm for kernels of three rows: pairs of rows of output by four products with
 * kernels of one row, instead of six; for conv2d_cpu.h.
 *
 * With the rows d0..d3 of the input that two rows y0, y1 of the output depend on, and the rows g0..g2 of the kernel:
 *
 *     m0 = (d0 - d2) * g0                     m1 = (d1 + d2) * (g0 + g1 + g2) / 2
 *     m3 = (d1 - d3) * g2                     m2 = (d2 - d1) * (g0 - g1 + g2) / 2
 *     y0 = m0 + m1 + m2                       y1 = m1 - m2 - m3
 *
 * where * is a convolution by a kernel of one row, summed over channels. Backward computes the gradients of m from
 * those of y, and the gradients of the four kernels from those of m and the four transformed inputs. The error is a
 * little larger than that of plain convolution: about that of twice as many summands.
 *
 * Source: Winograd, "Arithmetic complexity of computations", 1980, F(2,3); Lavin, Gray, "Fast algorithms for
 * convolutional neural networks", 2016. */
#ifndef LVN_CONV2D_PAIRS_CPU_H
#define LVN_CONV2D_PAIRS_CPU_H

#include "ops/conv2d_product_cpu.h"

/* How a convolution is divided into products. */
struct conv_plan {
    int banks;    /* products: 1, or 4 of pairs of rows */
    int64_t taps; /* rows of a product's kernel */
};

/* Pairs only with enough channels: else the transforms cost more than the products save. */
LVN_INLINE struct conv_plan conv_plan_make(const struct lvn_conv2d *c)
{
    enum { MIN_CHANNELS = 8 };
    const bool pairs = c->KH == 3 && c->C >= MIN_CHANNELS && c->O >= MIN_CHANNELS;
    return pairs ? (struct conv_plan){4, 1} : (struct conv_plan){1, c->KH};
}

/* Rows of output of one bank, for `rows` rows of output. */
LVN_INLINE int64_t conv_bank_rows(const struct conv_plan *w, int64_t rows)
{
    return w->banks == 1 ? rows : (rows + 1) / 2;
}

/* An entry of a bank's kernel, from three entries of a column, `down` apart. */
LVN_INLINE float conv_bank_weight(int bank, const float *g, int64_t down)
{
    const float ends = g[0] + g[2 * down];
    return bank == 0 ? g[0] : bank == 1 ? (ends + g[down]) / 2 : bank == 2 ? (ends - g[down]) / 2 : g[2 * down];
}

/* Backward: row u of the kernel's gradient, from those of the banks, `step` apart. */
LVN_INLINE double conv_bank_gradient(int64_t u, const double *m, int64_t step)
{
    const double plus = m[step] + m[2 * step], minus = m[step] - m[2 * step];
    return u == 0 ? m[0] + plus / 2 : u == 1 ? minus / 2 : m[3 * step] + plus / 2;
}

/* Transform a plane (rows,width) to the inputs of the four banks, (pairs,width) each, `step` apart. If the second row
 * of the last pair is beyond the output, the plane's last row replaces the missing one; no output depends on it. */
LVN_INLINE void conv_bank_inputs(const float *plane, int64_t rows, int64_t width, int64_t pairs, int64_t step,
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

/* Elements [at, at + n) of dy, n <= 16, 0 where ReLU's output y is not positive. y NULL: without ReLU. */
LVN_INLINE vf conv_slope(const float *dy, const float *y, int64_t at, int64_t n)
{
    const vf v = vload_n(dy + at, n);
    return y ? vselect(vgreater(vload_n(y + at, n), vset(0)), v, vset(0)) : v;
}

/* --- the products of all banks, as one --- */

struct conv_banks {
    struct conv_product product; /* of the first bank */
    struct conv_plan plan;
    int64_t channels;   /* of the planes */
    int64_t rows;       /* of the planes */
    int64_t width;      /* of the planes */
    int64_t bank_rows;  /* rows of output of a bank */
    float *transformed; /* inputs of several banks: (banks,channels,bank_rows,width) */
    int64_t weights;    /* distance of the banks' weights, in floats */
    int64_t out;        /* distance of the banks' outputs, in floats */
};

/* Transform the plane of channel k. */
LVN_INLINE void conv_transform(const struct conv_banks *b, const float *plane, int64_t k)
{
    const int64_t one = b->bank_rows * b->width;
    conv_bank_inputs(plane, b->rows, b->width, b->bank_rows, b->channels * one, b->transformed + k * one);
}

/* The products of all banks, for groups [begin, end) of rows. s: the planes, which several banks do not read. */
LVN_INLINE void conv_multiply_banks(const struct conv_banks *b, const float *s, int64_t begin, int64_t end)
{
    struct conv_product g = b->product;
    g.s = b->plan.banks == 1 ? s : b->transformed;
    for (int bank = 0; bank < b->plan.banks; bank++) {
        conv_multiply(&g, begin, end);
        g.s += b->channels * b->bank_rows * b->width;
        g.w += b->weights;
        g.out += b->out;
    }
}

/* Elements [j, j + n) of row i of the wide output of channel m, n <= 16. */
LVN_INLINE vf conv_output(const struct conv_banks *b, int64_t m, int64_t i, int64_t j, int64_t n)
{
    const float *p = b->product.out + m * b->product.pitch + j;
    if (b->plan.banks == 1) return vload_n(p + i * b->width, n);
    p += i / 2 * b->width;
    const vf m1 = vload_n(p + b->out, n), m2 = vload_n(p + 2 * b->out, n);
    return i % 2 ? m1 - m2 - vload_n(p + 3 * b->out, n) : vload_n(p, n) + m1 + m2;
}

#endif
