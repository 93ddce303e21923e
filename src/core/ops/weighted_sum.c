/* weighted_sum.c - y = a x + factor b z, where a and b are learned scalars: a residual connection with weights.
 *
 * x, z (...) of one shape; a (1), or absent, which means 1; b (1). The gradients of a and b are sums over all
 * elements. */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_each_pair(s));
    if (s->has[2]) LVN_TRY(lvn_shape_vector(s, "weight of the first input", 2, 1));
    LVN_TRY(lvn_shape_vector(s, "weight of the second input", 3, 1));
    LVN_CHECK(isfinite(s->attr->weighted_sum.factor), ARG, "weighted_sum: factor is %g; it must be finite",
              s->attr->weighted_sum.factor);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const real *x = call->in[0].p, *z = call->in[1].p, *a = call->in[2].p, *b = call->in[3].p;
    real *y = call->out[0].p;
    const double wx = a ? *a : 1, wz = call->attr->weighted_sum.factor * *b;
    for (int64_t i = 0, n = lvn_desc_count(call->out[0].desc); i < n; i++) y[i] = (real)(wx * x[i] + wz * z[i]);
}

static void backward(const struct lvn_call *call)
{
    const real *x = call->in[0].p, *z = call->in[1].p, *a = call->in[2].p, *b = call->in[3].p, *dy = call->dout[0].p;
    real *dx = call->din[0].p, *dz = call->din[1].p, *da = call->din[2].p, *db = call->din[3].p;
    const double factor = call->attr->weighted_sum.factor, wx = a ? *a : 1, wz = factor * *b;
    double sum_x = 0, sum_z = 0;
    for (int64_t i = 0, n = lvn_desc_count(call->dout[0].desc); i < n; i++) {
        const double d = dy[i];
        sum_x += d * x[i], sum_z += d * z[i];
        if (dx) lvn_put(&dx[i], call->add[0], wx * d);
        if (dz) lvn_put(&dz[i], call->add[1], wz * d);
    }
    if (da) lvn_put(da, call->add[2], sum_x);
    if (db) lvn_put(db, call->add[3], factor * sum_z);
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_weighted_sum(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *z,
                                        struct levin_tensor *a, struct levin_tensor *b, double factor)
{
    return lvn_node_append(g, LVN_OP_weighted_sum, &(union lvn_attr){.weighted_sum = {factor}},
                           (struct levin_tensor *[]){x, z, a, b}, 4);
}
#endif

LVN_OPERATION(weighted_sum, shape, forward, backward, .n_in = 4, .n_in_min = 2, .n_out = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_IN(2) | LVN_READS_IN(3));
