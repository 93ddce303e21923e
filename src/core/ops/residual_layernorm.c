/* residual_layernorm.c - a residual connection with dropout, then layernorm; created by the fuse pass.
 *
 *     s = a + dropout(b, p)
 *     y = layernorm(s, gamma, beta)
 *
 * a, b (samples,...,C), gamma (C), beta (C) or absent. Outputs: out[0] = s, read by the next residual connection,
 * out[1] = y; in backward the gradient of one of them may be absent. Saved: out[2] mean, out[3] rstd (rows). s may
 * overwrite a, and da the gradient of s; y can be restored from s and the saved values.
 *
 *     da = ds + (layernorm's gradient of dy),  db = mask * da
 *
 * Without dropout da and db are equal, and the differentiate pass requests only da if possible (same_gradient). */
#include "ops/dropout.h"
#include "ops/layernorm.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_pair(s));
    LVN_TRY(lvn_shape_dropout(s, s->attr->residual_layernorm.p));
    int64_t C = s->in[0].dim[s->in[0].rank - 1];
    LVN_TRY(lvn_shape_vector(s, "gamma", 2, C));
    if (s->has[3]) LVN_TRY(lvn_shape_vector(s, "beta", 3, C));
    double eps = s->attr->residual_layernorm.eps;
    LVN_CHECK(eps > 0, ARG, "residual_layernorm: eps is %g; it must be above 0", eps);
    s->out[0] = s->out[1] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    s->out[2] = s->out[3] = LVN_DESC(s->real, lvn_desc_rows(&s->in[0]));
    return LVN_OK;
}

static void restore(const struct lvn_call *call)
{
    const real *s = call->out[0].p, *gamma = call->in[2].p, *beta = call->in[3].p; /* (R,C), (C), (C) */
    const real *mean = call->out[2].p, *rstd = call->out[3].p;                     /* (R) */
    real *y = call->out[1].p;                                                      /* (R,C) */
    int64_t C = call->in[2].desc->dim[0], R = lvn_desc_rows(call->out[1].desc);
    for (int64_t r = 0; r < R; r++) lvn_layernorm_row(s + r * C, mean[r], rstd[r], gamma, beta, C, y + r * C);
}

static void forward(const struct lvn_call *call)
{
    const real *a = call->in[0].p, *b = call->in[1].p;                        /* (R,C) */
    real *s = call->out[0].p, *mean = call->out[2].p, *rstd = call->out[3].p; /* (R,C), (R), (R) */
    int64_t C = call->in[2].desc->dim[0], R = lvn_desc_rows(call->out[0].desc);
    struct lvn_dropout d = lvn_dropout_make(call, call->out[0].desc, call->attr->residual_layernorm.p);
    for (int64_t r = 0; r < R; r++) {
        for (int64_t c = 0; c < C; c++)
            s[r * C + c] = (real)(a[r * C + c] + b[r * C + c] * lvn_dropout_factor(&d, r, c));
        lvn_layernorm_moments(s + r * C, C, call->attr->residual_layernorm.eps, &mean[r], &rstd[r]);
    }
    restore(call);
}

static void backward(const struct lvn_call *call)
{
    const real *s = call->out[0].p, *gamma = call->in[2].p;    /* (R,C), (C) */
    const real *mean = call->out[2].p, *rstd = call->out[3].p; /* (R) */
    const real *ds = call->dout[0].p, *dy = call->dout[1].p;   /* (R,C), either may be NULL */
    real *da = call->din[0].p, *db = call->din[1].p, *dgamma = call->din[2].p, *dbeta = call->din[3].p;
    int64_t C = call->in[2].desc->dim[0], R = lvn_desc_rows(call->out[0].desc);
    struct lvn_dropout d = lvn_dropout_make(call, call->out[0].desc, call->attr->residual_layernorm.p);
    for (int64_t r = 0; r < R; r++) {
        struct lvn_layernorm_means m = {0, 0};
        if (dy) m = lvn_layernorm_row_means(s + r * C, dy + r * C, mean[r], rstd[r], gamma, C);
        for (int64_t c = 0, i = r * C; c < C; c++, i++) {
            double xhat = ((double)s[i] - mean[r]) * rstd[r], sum = ds ? ds[i] : 0;
            if (dy) sum += rstd[r] * ((double)dy[i] * gamma[c] - m.g - xhat * m.gx);
            if (da) lvn_put(&da[i], call->add[0], sum);
            if (db) lvn_put(&db[i], call->add[1], sum * lvn_dropout_factor(&d, r, c));
        }
    }
    if (dy && (dgamma || dbeta))
        lvn_layernorm_backward_vectors(s, dy, mean, rstd, R, C, dgamma, call->add[2], dbeta, call->add[3]);
    for (int64_t c = 0; !dy && c < C; c++) {
        if (dgamma) lvn_put(&dgamma[c], call->add[2], 0);
        if (dbeta) lvn_put(&dbeta[c], call->add[3], 0);
    }
}

static bool same_gradient(const union lvn_attr *attr)
{
    return lvn_dropout_threshold(attr->residual_layernorm.p) == 0;
}

LVN_OPERATION(residual_layernorm, shape, forward, backward, .n_in = 4, .n_in_min = 3, .n_out = 2, .n_saved = 2,
              .reads = LVN_READS_OUT(0) | LVN_READS_IN(2) | LVN_READS_OUT(2) | LVN_READS_OUT(3),
              .restores = LVN_READS_OUT(0) | LVN_READS_IN(2) | LVN_READS_IN(3) | LVN_READS_OUT(2) | LVN_READS_OUT(3),
              .low_precision_ok = LVN_READS_IN(1) | LVN_READS_OUT(1), .in_place = 1u << 0,
              .same_gradient = same_gradient, .spec.restore = restore);
