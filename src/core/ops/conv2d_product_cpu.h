/* conv2d_product_cpu.h - the planes of a convolution's input, and products of a matrix with shifted views of them; for
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

/* --- planes: a sample with its padding, split by the stride --- */

struct conv_planes {
    int64_t stride;
    int64_t padding;
    int64_t rows;    /* of one plane */
    int64_t width;   /* of one plane */
    int64_t size;    /* rows * width */
    int64_t channel; /* size of stride * stride planes */
    bool as_is;      /* the plane is x itself: no copy */
};

LVN_INLINE struct conv_planes conv_planes_make(const struct lvn_conv2d *c)
{
    struct conv_planes p = {.stride = c->stride, .padding = c->padding, .as_is = c->stride == 1 && c->padding == 0};
    p.rows = (c->H + 2 * c->padding + c->stride - 1) / c->stride;
    p.width = (c->W + 2 * c->padding + c->stride - 1) / c->stride;
    p.size = p.rows * p.width;
    p.channel = p.size * c->stride * c->stride;
    return p;
}

/* Offset in a channel's planes of the element under entry (u,v) of the kernel, for the first element of the output. */
LVN_INLINE int64_t conv_plane_offset(const struct conv_planes *p, int64_t u, int64_t v)
{
    int64_t s = p->stride;
    return (u % s * s + v % s) * p->size + u / s * p->width + v / s;
}

/* Copy channel x (H,W) to its planes. */
static inline void conv_split(const struct lvn_conv2d *c, const struct conv_planes *p, const float *x, float *to)
{
    for (int64_t a = 0; a < p->stride; a++)
        for (int64_t b = 0; b < p->stride; b++, to += p->size)
            for (int64_t i = 0; i < p->rows; i++)
                for (int64_t j = 0; j < p->width; j++) {
                    int64_t h = i * p->stride + a - p->padding, w = j * p->stride + b - p->padding;
                    bool inside = h >= 0 && h < c->H && w >= 0 && w < c->W;
                    to[i * p->width + j] = inside ? x[h * c->W + w] : 0;
                }
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
