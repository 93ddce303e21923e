/* conv2d.h - sizes and shape rule of two-dimensional convolution, for all kernels of conv2d and conv2d_relu.
 *
 * As in every framework it is a correlation: y[n,o,i,j] = b[o] + sum over c,u,v of w[o,c,u,v] x[n,c,i s + u - p,j s + v
 * - p], with stride s and p rows and columns of zeros around x. x (N,C,H,W), w (O,C,KH,KW), b (O) or absent,
 * y (N,O,OH,OW), OH = (H + 2 p - KH) / s + 1 rounded down. */
#ifndef LVN_CONV2D_H
#define LVN_CONV2D_H

#include "graph/op.h"

struct lvn_conv2d {
    int64_t N, C, H, W; /* of x */
    int64_t O, KH, KW;  /* of w */
    int64_t OH, OW;     /* of y */
    int64_t stride, padding;
};

static inline struct lvn_conv2d lvn_conv2d_make(const struct lvn_desc *x, const struct lvn_desc *w, int64_t stride,
                                                int64_t padding)
{
    struct lvn_conv2d c = {.N = x->dim[0],
                           .C = x->dim[1],
                           .H = x->dim[2],
                           .W = x->dim[3],
                           .O = w->dim[0],
                           .KH = w->dim[2],
                           .KW = w->dim[3],
                           .stride = stride,
                           .padding = padding};
    c.OH = (c.H + 2 * padding - c.KH) / stride + 1;
    c.OW = (c.W + 2 * padding - c.KW) / stride + 1;
    return c;
}

/* The shape rule: inputs x, weight, bias; output y. SHAPE, ARG. */
enum lvn_status lvn_conv2d_shape(struct lvn_shapes *s, int64_t stride, int64_t padding) LVN_CHECKED;

static inline double lvn_conv2d_flops(const struct lvn_call *call, const struct lvn_conv2d *c)
{
    double one = 2.0 * (double)(c->N * c->O * c->OH * c->OW) * (double)(c->C * c->KH * c->KW);
    if (call->phase != LVN_BACKWARD) return one;
    return one * ((call->din[0].desc != NULL) + (call->din[1].desc != NULL));
}

#endif
