/* scale.c - y = x * factor. x, y of any shape; it is used on small tensors, so CPUs have no fast kernel for it. */
#include "ops/real.h"
#include "ops/shape.h"

static void forward(const struct lvn_call *call)
{
    const real *x = call->in[0].p;
    real *y = call->out[0].p, factor = (real)call->attr->scale.factor;
    int64_t n = lvn_desc_count(call->out[0].desc);
    for (int64_t i = 0; i < n; i++) y[i] = x[i] * factor;
}

static void backward(const struct lvn_call *call)
{
    const real *dy = call->dout[0].p;
    real *dx = call->din[0].p, factor = (real)call->attr->scale.factor;
    int64_t n = lvn_desc_count(call->dout[0].desc);
    for (int64_t i = 0; dx && i < n; i++) lvn_put(&dx[i], call->add[0], dy[i] * factor);
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_scale(struct levin_graph *g, struct levin_tensor *x, double factor)
{
    return lvn_node_append(g, LVN_OP_scale, &(union lvn_attr){.scale = {.factor = factor}},
                           (struct levin_tensor *[]){x}, 1);
}
#endif

LVN_OPERATION(scale, lvn_shape_each, forward, backward, .n_in = 1, .n_in_min = 1, .n_out = 1, .in_place = 1u << 0);
