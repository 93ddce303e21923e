/* softmax.c - y = exp(x) / sum(exp(x)) over the last dimension; dx = y (dy - sum(y dy)).
 *
 * x (...,C), y of the same shape. The row's maximum is subtracted first, so no exponential overflows. */
#include "ops/real.h"
#include "ops/shape.h"

static void forward(const struct lvn_call *call)
{
    const struct lvn_desc *d = call->out[0].desc;
    const int64_t R = lvn_desc_rows(d), C = d->dim[d->rank - 1];
    for (int64_t r = 0; r < R; r++) {
        const real *x = (const real *)call->in[0].p + r * C;
        real *y = (real *)call->out[0].p + r * C;
        const double max = x[lvn_largest(x, C)];
        double sum = 0;
        for (int64_t c = 0; c < C; c++) sum += exp(x[c] - max);
        for (int64_t c = 0; c < C; c++) y[c] = (real)(exp(x[c] - max) / sum);
    }
}

static void backward(const struct lvn_call *call)
{
    const struct lvn_desc *d = call->dout[0].desc;
    const int64_t R = lvn_desc_rows(d), C = d->dim[d->rank - 1];
    if (!call->din[0].p) return;
    for (int64_t r = 0; r < R; r++) {
        const real *y = (const real *)call->out[0].p + r * C, *dy = (const real *)call->dout[0].p + r * C;
        real *dx = (real *)call->din[0].p + r * C;
        double sum = 0;
        for (int64_t c = 0; c < C; c++) sum += (double)y[c] * dy[c];
        for (int64_t c = 0; c < C; c++) lvn_put(&dx[c], call->add[0], y[c] * (dy[c] - sum));
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_softmax(struct levin_graph *g, struct levin_tensor *x)
{
    return lvn_node_append(g, LVN_OP_softmax, &(union lvn_attr){0}, (struct levin_tensor *[]){x}, 1);
}
#endif

LVN_OPERATION(softmax, lvn_shape_each, forward, backward, .n_in = 1, .n_in_min = 1, .n_out = 1,
              .reads = LVN_READS_OUT(0), .in_place = 1u << 0);
