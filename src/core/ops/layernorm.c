/* layernorm.c - layer normalization: rows with mean 0 and variance 1, scaled and shifted; see layernorm.h.
 *
 *     y = (x - mean) * rstd * gamma + beta,  rstd = 1 / sqrt(variance + eps)
 *
 * x, y (...,C), gamma (C), beta (C) or absent. Saved: mean, rstd (rows). */
#include "ops/layernorm.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "input", 0, 1));
    int64_t C = s->in[0].dim[s->in[0].rank - 1];
    LVN_TRY(lvn_shape_vector(s, "gamma", 1, C));
    if (s->has[2]) LVN_TRY(lvn_shape_vector(s, "beta", 2, C));
    LVN_CHECK(s->attr->layernorm.eps > 0, ARG, "layernorm: eps is %g; it must be above 0", s->attr->layernorm.eps);
    s->out[0] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    s->out[1] = s->out[2] = LVN_DESC(s->real, lvn_desc_rows(&s->in[0]));
    return LVN_OK;
}

static void restore(const struct lvn_call *call)
{
    const real *x = call->in[0].p, *gamma = call->in[1].p, *beta = call->in[2].p; /* (R,C), (C), (C) */
    const real *mean = call->out[1].p, *rstd = call->out[2].p;                    /* (R) */
    real *y = call->out[0].p;                                                     /* (R,C) */
    int64_t C = call->in[1].desc->dim[0], R = lvn_desc_rows(call->out[0].desc);
    for (int64_t r = 0; r < R; r++) lvn_layernorm_row(x + r * C, mean[r], rstd[r], gamma, beta, C, y + r * C);
}

static void forward(const struct lvn_call *call)
{
    const real *x = call->in[0].p;
    real *mean = call->out[1].p, *rstd = call->out[2].p;
    int64_t C = call->in[1].desc->dim[0], R = lvn_desc_rows(call->out[0].desc);
    for (int64_t r = 0; r < R; r++) lvn_layernorm_moments(x + r * C, C, call->attr->layernorm.eps, &mean[r], &rstd[r]);
    restore(call);
}

static void backward(const struct lvn_call *call)
{
    const real *x = call->in[0].p, *gamma = call->in[1].p, *dy = call->dout[0].p; /* (R,C), (C), (R,C) */
    const real *mean = call->out[1].p, *rstd = call->out[2].p;                    /* (R) */
    real *dx = call->din[0].p, *dgamma = call->din[1].p, *dbeta = call->din[2].p;
    int64_t C = call->in[1].desc->dim[0], R = lvn_desc_rows(call->dout[0].desc);
    if (dgamma || dbeta)
        lvn_layernorm_backward_vectors(x, dy, mean, rstd, R, C, dgamma, call->add[1], dbeta, call->add[2]);
    for (int64_t r = 0; dx && r < R; r++) {
        const real *xr = x + r * C, *dyr = dy + r * C;
        struct lvn_layernorm_means m = lvn_layernorm_row_means(xr, dyr, mean[r], rstd[r], gamma, C);
        for (int64_t c = 0; c < C; c++) {
            double xhat = ((double)xr[c] - mean[r]) * rstd[r];
            lvn_put(&dx[r * C + c], call->add[0], rstd[r] * ((double)dyr[c] * gamma[c] - m.g - xhat * m.gx));
        }
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_layernorm(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *gamma,
                                     struct levin_tensor *beta, double eps)
{
    return lvn_node_append(g, LVN_OP_layernorm, &(union lvn_attr){.layernorm = {.eps = eps}},
                           (struct levin_tensor *[]){x, gamma, beta}, 3);
}
#endif

LVN_OPERATION(layernorm, shape, forward, backward, .n_in = 3, .n_in_min = 2, .n_out = 1, .n_saved = 2,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(1) | LVN_READS_OUT(2),
              .restores = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_IN(2) | LVN_READS_OUT(1) | LVN_READS_OUT(2),
              .low_precision_ok = LVN_READS_OUT(0), .spec.restore = restore);
