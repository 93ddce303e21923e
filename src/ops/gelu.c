/* gelu.c - y = x * Phi(x), the exact GELU; see gelu.h. x, y of any shape. */
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
struct lvn_tensor *lvn_gelu(struct lvn_graph *g, struct lvn_tensor *x)
{
    return lvn_node_append(g, LVN_OP_gelu, &(union lvn_attr){0}, (struct lvn_tensor *[]){x}, 1);
}
#endif

LVN_OPERATION(gelu, lvn_shape_each, forward, backward, .n_in = 1, .n_in_min = 1, .n_out = 1, .reads = LVN_READS_IN(0),
              .in_place = 1u << 0);
