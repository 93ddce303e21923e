/* rmsnorm.c - RMS normalization: rows divided by the root of their mean square, then scaled.
 *
 *     y = x * rstd * (gamma + offset),  rstd = 1 / sqrt(mean(x^2) + eps)
 *
 * x, y (...,C), gamma (C); offset is 0, or 1 in models whose weights are near 0 (Gemma). Without gamma, y = x * rstd.
 * Saved: rstd (rows). (Zhang, Sennrich: "Root mean square layer normalization", 2019.) */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "input", 0, 1));
    if (s->has[1]) LVN_TRY(lvn_shape_vector(s, "gamma", 1, s->in[0].dim[s->in[0].rank - 1]));
    LVN_CHECK(s->attr->rmsnorm.eps > 0, ARG, "rmsnorm: eps is %g; it must be above 0", s->attr->rmsnorm.eps);
    LVN_CHECK(isfinite(s->attr->rmsnorm.offset), ARG, "rmsnorm: offset is %g; it must be finite",
              s->attr->rmsnorm.offset);
    s->out[0] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    s->out[1] = LVN_DESC(s->real, lvn_desc_rows(&s->in[0]));
    return LVN_OK;
}

static int64_t columns(const struct lvn_call *call)
{
    return call->in[0].desc->dim[call->in[0].desc->rank - 1];
}

/* The factor of column c. */
static double weight(const struct lvn_call *call, int64_t c)
{
    const real *gamma = call->in[1].p;
    return gamma ? gamma[c] + call->attr->rmsnorm.offset : 1;
}

static void restore(const struct lvn_call *call)
{
    const real *x = call->in[0].p, *rstd = call->out[1].p; /* (R,C), (R) */
    real *y = call->out[0].p;                              /* (R,C) */
    int64_t R = lvn_desc_rows(call->out[0].desc), C = columns(call);
    for (int64_t r = 0; r < R; r++)
        for (int64_t c = 0; c < C; c++) y[r * C + c] = x[r * C + c] * rstd[r] * (real)weight(call, c);
}

static void forward(const struct lvn_call *call)
{
    const real *x = call->in[0].p;
    real *rstd = call->out[1].p;
    int64_t R = lvn_desc_rows(call->out[0].desc), C = columns(call);
    for (int64_t r = 0; r < R; r++) {
        double squares = 0;
        for (int64_t c = 0; c < C; c++) squares += (double)x[r * C + c] * x[r * C + c];
        rstd[r] = (real)(1 / sqrt(squares / (double)C + call->attr->rmsnorm.eps));
    }
    restore(call);
}

static void backward(const struct lvn_call *call)
{
    const real *x = call->in[0].p, *dy = call->dout[0].p, *rstd = call->out[1].p; /* (R,C), (R,C), (R) */
    real *dx = call->din[0].p, *dgamma = call->din[1].p;
    int64_t R = lvn_desc_rows(call->dout[0].desc), C = columns(call);
    for (int64_t c = 0; dgamma && c < C; c++) {
        double sum = 0;
        for (int64_t r = 0; r < R; r++) sum += (double)dy[r * C + c] * x[r * C + c] * rstd[r];
        lvn_put(&dgamma[c], call->add[1], sum);
    }
    for (int64_t r = 0; dx && r < R; r++) {
        const real *xr = x + r * C, *dyr = dy + r * C;
        double mean = 0; /* of dy * weight * x * rstd */
        for (int64_t c = 0; c < C; c++) mean += dyr[c] * weight(call, c) * xr[c] * rstd[r] / (double)C;
        for (int64_t c = 0; c < C; c++)
            lvn_put(&dx[r * C + c], call->add[0], rstd[r] * (dyr[c] * weight(call, c) - xr[c] * rstd[r] * mean));
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_rmsnorm(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *gamma,
                                   double eps, double offset)
{
    return lvn_node_append(g, LVN_OP_rmsnorm, &(union lvn_attr){.rmsnorm = {.eps = eps, .offset = offset}},
                           (struct levin_tensor *[]){x, gamma}, 2);
}
#endif

LVN_OPERATION(rmsnorm, shape, forward, backward, .n_in = 2, .n_in_min = 1, .n_out = 1, .n_saved = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(1),
              .restores = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(1), .low_precision_ok = LVN_READS_OUT(0),
              .spec.restore = restore);
