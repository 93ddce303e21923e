/* conv2d.h - sizes and shape rule of two-dimensional convolution, for all kernels of conv2d and conv2d_relu.
 *
 * As in every framework it is a correlation: y[n,o,i,j] = b[o] + sum over c,u,v of w[o,c,u,v] x[n,c,i + u,j + v].
 * x (N,C,H,W), w (O,C,KH,KW), b (O) or absent, y (N,O,OH,OW), OH = H - KH + 1. There is no stride and no padding. */
#ifndef LVN_CONV2D_H
#define LVN_CONV2D_H

#include "graph/op.h"

struct lvn_conv2d {
    int64_t N, C, H, W; /* of x */
    int64_t O, KH, KW;  /* of w */
    int64_t OH, OW;     /* of y */
};

static inline struct lvn_conv2d lvn_conv2d_make(const struct lvn_desc *x, const struct lvn_desc *w)
{
    struct lvn_conv2d c = {.N = x->dim[0],
                           .C = x->dim[1],
                           .H = x->dim[2],
                           .W = x->dim[3],
                           .O = w->dim[0],
                           .KH = w->dim[2],
                           .KW = w->dim[3]};
    c.OH = c.H - c.KH + 1;
    c.OW = c.W - c.KW + 1;
    return c;
}

static inline struct lvn_conv2d lvn_conv2d_of(const struct lvn_call *call)
{
    return lvn_conv2d_make(call->in[0].desc, call->in[1].desc);
}

/* The shape rule: inputs x, weight, bias; output y. SHAPE. */
enum lvn_status lvn_conv2d_shape(struct lvn_shapes *s) LVN_CHECKED;

#endif
