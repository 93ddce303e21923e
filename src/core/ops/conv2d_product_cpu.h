/* conv2d_product_cpu.h - products of a matrix with shifted views of the planes of a convolution's input; for
 * conv2d_cpu.h, which explains the method. */
#ifndef LVN_CONV2D_PRODUCT_CPU_H
#define LVN_CONV2D_PRODUCT_CPU_H

#include "backend/cpu/simd.h"
#include "ops/conv2d.h"

#if defined(__AVX512F__)
enum { CONV_ROWS = 8, CONV_VECTORS = 3, CONV_DW_VECTORS = 2, CONV_DW_COLUMNS = 12 }; /* 24 registers of sums */
#else
enum { CONV_ROWS = 6, CONV_VECTORS = 1, CONV_DW_VECTORS = 1, CONV_DW_COLUMNS = 6 }; /* 12 registers of 8 */
#endif
enum {
    CONV_KC = 512, /* maximum length of a block of k */
};

LVN_INLINE int64_t conv_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* --- out (M,P) = w (K,M) times shifted views of s --- */

struct conv_product {
    const float *w; /* packed: groups of CONV_ROWS rows, (K, CONV_ROWS) each */
    const float *s; /* row k is s + offset[k] */
    const int64_t *offset;
    int64_t K;
    int64_t P;
    float *out;    /* (M,P); a whole group of rows is written */
    int64_t pitch; /* of out's rows, in floats */
};

LVN_INLINE void conv_tile(const struct conv_product *g, int64_t group, int64_t k0, int64_t k1, int64_t p,
                          const int vectors, const int64_t lanes)
{
    const float *w = g->w + group * g->K * CONV_ROWS, *s = g->s + p;
    float *out = g->out + group * CONV_ROWS * g->pitch + p;
    struct vacc sum[CONV_ROWS][CONV_VECTORS];
    for (int r = 0; r < CONV_ROWS; r++)
        for (int v = 0; v < vectors; v++) sum[r][v] = vacc_set(vset(0));
    for (int64_t k = k0; k < k1; k++) {
        vf x[CONV_VECTORS];
        for (int v = 0; v < vectors; v++)
            x[v] = lanes == LVN_LANES ? vload(s + g->offset[k] + v * LVN_LANES) : vload_n(s + g->offset[k], lanes);
        for (int r = 0; r < CONV_ROWS; r++) {
            const vf weight = vset(w[k * CONV_ROWS + r]);
            for (int v = 0; v < vectors; v++) sum[r][v] = vacc_fma(sum[r][v], weight, x[v]);
        }
    }
    for (int r = 0; r < CONV_ROWS; r++)
        for (int v = 0; v < vectors; v++) {
            float *to = out + r * g->pitch + v * LVN_LANES;
            vf y = vacc_get(sum[r][v]);
            vstore(to, k0 ? vload(to) + y : y); /* rows of `out` are whole vectors */
        }
}

/* The product, for groups [begin, end) of rows. */
static inline void conv_multiply(const struct conv_product *g, int64_t begin, int64_t end)
{
    for (int64_t k = 0; k < g->K; k += CONV_KC) {
        int64_t k1 = k + CONV_KC < g->K ? k + CONV_KC : g->K, p = 0;
        for (; p + CONV_VECTORS * LVN_LANES <= g->P; p += CONV_VECTORS * LVN_LANES)
            for (int64_t m = begin; m < end; m++) conv_tile(g, m, k, k1, p, CONV_VECTORS, LVN_LANES);
        for (; p + LVN_LANES <= g->P; p += LVN_LANES)
            for (int64_t m = begin; m < end; m++) conv_tile(g, m, k, k1, p, 1, LVN_LANES);
        for (int64_t m = begin; p < g->P && m < end; m++) conv_tile(g, m, k, k1, p, 1, g->P - p);
    }
}

#endif
