/* conv2d_plain.h - the plain kernels of conv2d and conv2d_relu; see conv2d.h for the definition. */
#ifndef LVN_CONV2D_PLAIN_H
#define LVN_CONV2D_PLAIN_H

#include "ops/conv2d.h"
#include "ops/real.h"

/* Element (n,o,oi,oj) of y, without bias. */
static inline double lvn_conv2d_at(const struct lvn_conv2d *c, const real *x, const real *w, int64_t n, int64_t o,
                                   int64_t oi, int64_t oj)
{
    double sum = 0;
    for (int64_t k = 0; k < c->C * c->KH * c->KW; k++) {
        int64_t channel = k / (c->KH * c->KW), u = k / c->KW % c->KH, v = k % c->KW;
        sum += (double)x[((n * c->C + channel) * c->H + oi + u) * c->W + oj + v] * w[o * c->C * c->KH * c->KW + k];
    }
    return sum;
}

static inline void lvn_conv2d_forward(const struct lvn_call *call, bool relu)
{
    const struct lvn_conv2d sizes = lvn_conv2d_of(call), *c = &sizes;
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
        int64_t at = ((n * c->C + channel) * c->H + oi + u) * c->W + oj + v;
        if (dx) dx[at] += (real)(dy * w[o * c->C * c->KH * c->KW + k]);
        if (dw) dw[o * c->C * c->KH * c->KW + k] += (real)(dy * x[at]);
    }
}

static inline void lvn_conv2d_backward(const struct lvn_call *call, bool relu)
{
    const struct lvn_conv2d sizes = lvn_conv2d_of(call), *c = &sizes;
    const real *dy = call->dout[0].p, *y = call->out[0].p;
    for (int i = 0; i < 3; i++) lvn_start_sum(call, i);
    for (int64_t e = 0; e < c->N * c->O * c->OH * c->OW; e++)
        if (!relu || y[e] > 0) lvn_conv2d_spread(c, call, e, (double)dy[e]);
}

static inline double lvn_conv2d_flops(const struct lvn_call *call)
{
    const struct lvn_conv2d c = lvn_conv2d_of(call);
    double one = 2.0 * (double)(c.N * c.O * c.OH * c.OW) * (double)(c.C * c.KH * c.KW);
    if (call->phase != LVN_BACKWARD) return one;
    return one * ((call->din[0].desc != NULL) + (call->din[1].desc != NULL));
}

/* The plain kernels of conv2d and, with `relu`, of conv2d_relu. */
#define LVN_CONV2D_KERNELS(relu)                                                                                       \
    static void forward(const struct lvn_call *call)                                                                   \
    {                                                                                                                  \
        lvn_conv2d_forward(call, relu);                                                                                \
    }                                                                                                                  \
    static void backward(const struct lvn_call *call)                                                                  \
    {                                                                                                                  \
        lvn_conv2d_backward(call, relu);                                                                               \
    }

#endif
