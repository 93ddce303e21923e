/* conv2d_plain.h - the plain kernels of conv2d and conv2d_relu; see conv2d.h for the definition. */
#ifndef LVN_CONV2D_PLAIN_H
#define LVN_CONV2D_PLAIN_H

#include "ops/conv2d.h"
#include "ops/real.h"

/* Index in x of the element that kernel entry (u,v) multiplies for element (oi,oj) of y; -1: padding. plane: n * C +
 * channel. */
static inline int64_t lvn_conv2d_under(const struct lvn_conv2d *c, int64_t plane, int64_t oi, int64_t oj, int64_t u,
                                       int64_t v)
{
    int64_t i = oi * c->stride + u - c->padding, j = oj * c->stride + v - c->padding;
    return i < 0 || i >= c->H || j < 0 || j >= c->W ? -1 : (plane * c->H + i) * c->W + j;
}

/* Element (n,o,oi,oj) of y, without bias. */
static inline double lvn_conv2d_at(const struct lvn_conv2d *c, const real *x, const real *w, int64_t n, int64_t o,
                                   int64_t oi, int64_t oj)
{
    double sum = 0;
    for (int64_t k = 0; k < c->C * c->KH * c->KW; k++) {
        int64_t channel = k / (c->KH * c->KW), u = k / c->KW % c->KH, v = k % c->KW;
        int64_t at = lvn_conv2d_under(c, n * c->C + channel, oi, oj, u, v);
        if (at >= 0) sum += (double)x[at] * w[o * c->C * c->KH * c->KW + k];
    }
    return sum;
}

static inline void lvn_conv2d_forward(const struct lvn_conv2d *c, const struct lvn_call *call, bool relu)
{
    const real *x = call->in[0].p, *w = call->in[1].p, *b = call->in[2].p;
    real *y = call->out[0].p;
    for (int64_t e = 0; e < c->N * c->O * c->OH * c->OW; e++) {
        int64_t oj = e % c->OW, oi = e / c->OW % c->OH, o = e / (c->OW * c->OH) % c->O, n = e / (c->OW * c->OH * c->O);
        double sum = lvn_conv2d_at(c, x, w, n, o, oi, oj) + (b ? (double)b[o] : 0);
        y[e] = (real)(relu && 0 > sum ? 0 : sum);
    }
}

/* Add the contributions of element e of dy to the gradients of x, w and b. */
static inline void lvn_conv2d_spread(const struct lvn_conv2d *c, const struct lvn_call *call, int64_t e, double dy)
{
    const real *x = call->in[0].p, *w = call->in[1].p;
    real *dx = call->din[0].p, *dw = call->din[1].p, *db = call->din[2].p;
    int64_t oj = e % c->OW, oi = e / c->OW % c->OH, o = e / (c->OW * c->OH) % c->O, n = e / (c->OW * c->OH * c->O);
    if (db) db[o] += (real)dy;
    for (int64_t k = 0; k < c->C * c->KH * c->KW; k++) {
        int64_t channel = k / (c->KH * c->KW), u = k / c->KW % c->KH, v = k % c->KW;
        int64_t at = lvn_conv2d_under(c, n * c->C + channel, oi, oj, u, v);
        if (at < 0) continue;
        if (dx) dx[at] += (real)(dy * w[o * c->C * c->KH * c->KW + k]);
        if (dw) dw[o * c->C * c->KH * c->KW + k] += (real)(dy * x[at]);
    }
}

static inline void lvn_conv2d_backward(const struct lvn_conv2d *c, const struct lvn_call *call, bool relu)
{
    const real *dy = call->dout[0].p, *y = call->out[0].p;
    for (int i = 0; i < 3; i++) lvn_start_sum(call, i);
    for (int64_t e = 0; e < c->N * c->O * c->OH * c->OW; e++)
        if (!relu || y[e] > 0) lvn_conv2d_spread(c, call, e, (double)dy[e]);
}

#endif
