/* mul.c - y = a * b for operands of the same shape (mul_rows.c: of different shapes). The fuse_chains pass makes it a
 * step of a chain (chain.c), which has the fast kernels. */
#include "ops/real.h"
#include "ops/shape.h"

static void forward(const struct lvn_call *call)
{
    const real *a = call->in[0].p, *b = call->in[1].p;
    real *y = call->out[0].p;
    int64_t n = lvn_desc_count(call->out[0].desc);
    for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}

static void backward(const struct lvn_call *call)
{
    const real *a = call->in[0].p, *b = call->in[1].p, *dy = call->dout[0].p;
    real *da = call->din[0].p, *db = call->din[1].p;
    int64_t n = lvn_desc_count(call->dout[0].desc);
    for (int64_t i = 0; i < n; i++) {
        double d = dy[i]; /* da may overwrite dy: read first */
        if (da) lvn_put(&da[i], call->add[0], d * b[i]);
        if (db) lvn_put(&db[i], call->add[1], d * a[i]);
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_mul(struct levin_graph *g, struct levin_tensor *a, struct levin_tensor *b)
{
    return lvn_node_append_pair(g, LVN_OP_mul, LVN_OP_mul_rows, a, b);
}
#endif

LVN_OPERATION(mul, lvn_shape_each_pair, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1), .in_place = 1u << 0 | 1u << 1);
