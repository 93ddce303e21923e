/* gelu.c - the exact GELU, y = x * Phi(x); see gelu.h. x, y of any shape. */
#include "ops/gelu.h"

static void forward(const struct lvn_call *call)
{
    lvn_gelu_forward(call, false);
}

static void backward(const struct lvn_call *call)
{
    lvn_gelu_backward(call, false);
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_gelu(struct levin_graph *g, struct levin_tensor *x)
{
    return lvn_node_append(g, LVN_OP_gelu, &(union lvn_attr){0}, (struct levin_tensor *[]){x}, 1);
}
#endif

LVN_OPERATION(gelu, lvn_shape_each, forward, backward, .n_in = 1, .n_in_min = 1, .n_out = 1, .reads = LVN_READS_IN(0),
              .in_place = 1u << 0);
