/* squared_error.c - the sum of (prediction - target)^2: the loss of regression and reconstruction.
 *
 * prediction, target: equal shape (rows,...). out[0]: the sum over all elements, fp64 (1); saved: out[1] the sum of
 * each row (rows). Gradients are scaled by step->grad_scale, one over the number of elements of the global batch, so
 * that they are those of the mean. Padding rows (step->end_row) are ignored. */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_pair(s));
    s->out[0] = LVN_DESC(LVN_F64, 1);
    s->out[1] = LVN_DESC(s->real, s->in[0].dim[0]);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const real *p = call->in[0].p, *t = call->in[1].p;
    double *total = call->out[0].p;
    real *loss = call->out[1].p; /* (R) */
    int64_t rows = call->in[0].desc->dim[0], n = lvn_desc_count(call->in[0].desc) / rows;
    int64_t valid = lvn_step_rows(call->step, rows);
    *total = 0;
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = r * n; r < valid && i < (r + 1) * n; i++) sum += ((double)p[i] - t[i]) * ((double)p[i] - t[i]);
        loss[r] = (real)sum;
        *total += loss[r];
    }
}

static void backward(const struct lvn_call *call)
{
    const real *p = call->in[0].p, *t = call->in[1].p;
    real *dp = call->din[0].p, *dt = call->din[1].p;
    int64_t n = lvn_desc_count(call->in[0].desc), rows = call->in[0].desc->dim[0];
    int64_t valid = lvn_step_rows(call->step, rows) * (n / rows);
    for (int64_t i = 0; i < n; i++) {
        double slope = i < valid ? 2 * ((double)p[i] - t[i]) * call->step->grad_scale : 0;
        if (dp) lvn_put(&dp[i], call->add[0], slope);
        if (dt) lvn_put(&dt[i], call->add[1], -slope);
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_squared_error(struct levin_graph *g, struct levin_tensor *prediction,
                                         struct levin_tensor *target)
{
    return lvn_node_append(g, LVN_OP_squared_error, &(union lvn_attr){0}, (struct levin_tensor *[]){prediction, target},
                           2);
}
#endif

LVN_OPERATION(squared_error, shape, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1, .n_saved = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1));
