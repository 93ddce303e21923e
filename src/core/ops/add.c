/* add.c - y = a + b of equal shape: the residual connection.
 *
 * Both gradients equal the output's, which the differentiate pass reuses (passes_gradient); it appends an addition if
 * an input has an earlier contribution. */
#include "ops/real.h"
#include "ops/shape.h"

static void forward(const struct lvn_call *call)
{
    const real *a = call->in[0].p, *b = call->in[1].p;
    real *y = call->out[0].p;
    int64_t n = lvn_desc_count(call->out[0].desc);
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static void backward(const struct lvn_call *call)
{
    const real *dy = call->dout[0].p;
    int64_t n = lvn_desc_count(call->dout[0].desc);
    for (int k = 0; k < 2; k++) {
        real *d = call->din[k].p;
        for (int64_t i = 0; d && i < n; i++) lvn_put(&d[i], call->add[k], dy[i]);
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_add(struct levin_graph *g, struct levin_tensor *a, struct levin_tensor *b)
{
    return lvn_node_append_pair(g, LVN_OP_add, LVN_OP_add_rows, a, b);
}
#endif

LVN_OPERATION(add, lvn_shape_each_pair, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1,
              .in_place = 1u << 0 | 1u << 1, .passes_gradient = true);
