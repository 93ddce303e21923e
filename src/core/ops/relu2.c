/* relu2.c - y = max(x, 0)^2, the squared ReLU, of any shape. (So et al.: "Primer", 2021.)
 *
 * The fuse_chains pass makes it a step of a chain (chain.c), which has the fast kernels. */
#include "ops/real.h"
#include "ops/shape.h"

static void forward(const struct lvn_call *call)
{
    const real *x = call->in[0].p;
    real *y = call->out[0].p;
    int64_t n = lvn_desc_count(call->out[0].desc);
    for (int64_t i = 0; i < n; i++) y[i] = 0 > x[i] ? 0 : x[i] * x[i];
}

static void backward(const struct lvn_call *call)
{
    const real *x = call->in[0].p, *dy = call->dout[0].p;
    real *dx = call->din[0].p;
    int64_t n = lvn_desc_count(call->dout[0].desc);
    for (int64_t i = 0; dx && i < n; i++) lvn_put(&dx[i], call->add[0], x[i] > 0 ? 2 * (double)dy[i] * x[i] : 0);
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_relu2(struct levin_graph *g, struct levin_tensor *x)
{
    return lvn_node_append(g, LVN_OP_relu2, &(union lvn_attr){0}, (struct levin_tensor *[]){x}, 1);
}
#endif

LVN_OPERATION(relu2, lvn_shape_each, forward, backward, .n_in = 1, .n_in_min = 1, .n_out = 1, .reads = LVN_READS_IN(0),
              .in_place = 1u << 0);
