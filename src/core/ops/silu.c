/* silu.c - y = x * sigmoid(x), of any shape; dx = dy s (1 + x (1 - s)) with s = sigmoid(x).
 *
 * The fuse_chains pass makes it a step of a chain (chain.c), which has the fast kernels. */
#include "ops/real.h"
#include "ops/shape.h"

static void forward(const struct lvn_call *call)
{
    const real *x = call->in[0].p;
    real *y = call->out[0].p;
    int64_t n = lvn_desc_count(call->out[0].desc);
    for (int64_t i = 0; i < n; i++) y[i] = (real)(x[i] / (1 + exp(-(double)x[i])));
}

static void backward(const struct lvn_call *call)
{
    const real *x = call->in[0].p, *dy = call->dout[0].p;
    real *dx = call->din[0].p;
    int64_t n = lvn_desc_count(call->dout[0].desc);
    for (int64_t i = 0; dx && i < n; i++) {
        double v = x[i], s = 1 / (1 + exp(-v));
        lvn_put(&dx[i], call->add[0], dy[i] * s * (1 + v * (1 - s)));
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_silu(struct levin_graph *g, struct levin_tensor *x)
{
    return lvn_node_append(g, LVN_OP_silu, &(union lvn_attr){0}, (struct levin_tensor *[]){x}, 1);
}
#endif

LVN_OPERATION(silu, lvn_shape_each, forward, backward, .n_in = 1, .n_in_min = 1, .n_out = 1, .reads = LVN_READS_IN(0),
              .in_place = 1u << 0);
