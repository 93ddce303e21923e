/* swiglu.c - y = gate * sigmoid(gate) * up: a linear layer's output, gated by the SiLU of another's.
 *
 * gate, up, y of one shape. With s = sigmoid(gate): dup = dy gate s, dgate = dy up s (1 + gate (1 - s)).
 * (Shazeer: "GLU variants improve transformer", 2020.) */
#include "ops/real.h"
#include "ops/shape.h"

static void forward(const struct lvn_call *call)
{
    const real *gate = call->in[0].p, *up = call->in[1].p;
    real *y = call->out[0].p;
    int64_t n = lvn_desc_count(call->out[0].desc);
    for (int64_t i = 0; i < n; i++) y[i] = (real)(gate[i] / (1 + exp(-(double)gate[i])) * up[i]);
}

static void backward(const struct lvn_call *call)
{
    const real *gate = call->in[0].p, *up = call->in[1].p, *dy = call->dout[0].p;
    real *dgate = call->din[0].p, *dup = call->din[1].p;
    int64_t n = lvn_desc_count(call->dout[0].desc);
    for (int64_t i = 0; i < n; i++) {
        double x = gate[i], s = 1 / (1 + exp(-x)), u = up[i], d = dy[i]; /* dgate may overwrite dy: read first */
        if (dgate) lvn_put(&dgate[i], call->add[0], d * u * s * (1 + x * (1 - s)));
        if (dup) lvn_put(&dup[i], call->add[1], d * x * s);
    }
}

#ifndef LVN_REAL_DOUBLE
struct lvn_tensor *lvn_swiglu(struct lvn_graph *g, struct lvn_tensor *gate, struct lvn_tensor *up)
{
    return lvn_node_append(g, LVN_OP_swiglu, &(union lvn_attr){0}, (struct lvn_tensor *[]){gate, up}, 2);
}
#endif

LVN_OPERATION(swiglu, lvn_shape_each_pair, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1), .restores = LVN_READS_IN(0) | LVN_READS_IN(1),
              .low_precision_ok = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(0), .in_place = 1u << 0 | 1u << 1,
              .spec.restore = forward);
