/* residual_rmsnorm.c - a residual connection with dropout, then RMS normalization; created by the fuse pass.
 *
 *     s = a + dropout(b, p)
 *     y = rmsnorm(s, gamma)
 *
 * a, b (samples,...,C), gamma (C) or absent, with the offset of rmsnorm.c. Outputs: out[0] = s, read by the next
 * residual connection, out[1] = y; in backward the gradient of one of them may be absent. Saved: out[2] rstd (rows). s
 * may overwrite a, and da the gradient of s; y can be restored from s and rstd. Gradients are those of
 * residual_layernorm.c, with a mean of 0. */
#include "ops/dropout.h"
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_pair(s));
    LVN_TRY(lvn_shape_dropout(s, s->attr->residual_rmsnorm.p));
    if (s->has[2]) LVN_TRY(lvn_shape_vector(s, "gamma", 2, s->in[0].dim[s->in[0].rank - 1]));
    LVN_CHECK(s->attr->residual_rmsnorm.eps > 0, ARG, "residual_rmsnorm: eps is %g; it must be above 0",
              s->attr->residual_rmsnorm.eps);
    s->out[0] = s->out[1] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    s->out[2] = LVN_DESC(s->real, lvn_desc_rows(&s->in[0]));
    return LVN_OK;
}

static int64_t columns(const struct lvn_call *call)
{
    return call->out[0].desc->dim[call->out[0].desc->rank - 1];
}

/* The factor of column c. */
static double weight(const struct lvn_call *call, int64_t c)
{
    const real *gamma = call->in[2].p;
    return gamma ? gamma[c] + call->attr->residual_rmsnorm.offset : 1;
}

static void restore(const struct lvn_call *call)
{
    const real *s = call->out[0].p, *rstd = call->out[2].p; /* (R,C), (R) */
    real *y = call->out[1].p;                               /* (R,C) */
    int64_t C = columns(call), R = lvn_desc_rows(call->out[1].desc);
    for (int64_t r = 0; r < R; r++)
        for (int64_t c = 0; c < C; c++) y[r * C + c] = s[r * C + c] * rstd[r] * (real)weight(call, c);
}

static void forward(const struct lvn_call *call)
{
    const real *a = call->in[0].p, *b = call->in[1].p; /* (R,C) */
    real *s = call->out[0].p, *rstd = call->out[2].p;  /* (R,C), (R) */
    int64_t C = columns(call), R = lvn_desc_rows(call->out[0].desc);
    struct lvn_dropout d = lvn_dropout_make(call, call->out[0].desc, call->attr->residual_rmsnorm.p);
    for (int64_t r = 0; r < R; r++) {
        double squares = 0;
        for (int64_t c = 0, i = r * C; c < C; c++, i++) {
            s[i] = (real)(a[i] + b[i] * lvn_dropout_factor(&d, r, c));
            squares += (double)s[i] * s[i];
        }
        rstd[r] = (real)(1 / sqrt(squares / (double)C + call->attr->residual_rmsnorm.eps));
    }
    restore(call);
}

static void backward(const struct lvn_call *call)
{
    const real *s = call->out[0].p, *rstd = call->out[2].p;  /* (R,C), (R) */
    const real *ds = call->dout[0].p, *dy = call->dout[1].p; /* (R,C), either may be NULL */
    real *da = call->din[0].p, *db = call->din[1].p, *dgamma = call->din[2].p;
    int64_t C = columns(call), R = lvn_desc_rows(call->out[0].desc);
    struct lvn_dropout d = lvn_dropout_make(call, call->out[0].desc, call->attr->residual_rmsnorm.p);
    for (int64_t c = 0; dgamma && c < C; c++) {
        double sum = 0;
        for (int64_t r = 0; dy && r < R; r++) sum += (double)dy[r * C + c] * s[r * C + c] * rstd[r];
        lvn_put(&dgamma[c], call->add[2], sum);
    }
    for (int64_t r = 0; r < R; r++) {
        const real *sr = s + r * C, *dyr = dy ? dy + r * C : NULL;
        double mean = 0; /* of dy * weight * s * rstd */
        for (int64_t c = 0; dy && c < C; c++) mean += dyr[c] * weight(call, c) * sr[c] * rstd[r] / (double)C;
        for (int64_t c = 0, i = r * C; c < C; c++, i++) {
            double sum = ds ? ds[i] : 0;
            if (dy) sum += rstd[r] * (dyr[c] * weight(call, c) - sr[c] * rstd[r] * mean);
            if (da) lvn_put(&da[i], call->add[0], sum);
            if (db) lvn_put(&db[i], call->add[1], sum * lvn_dropout_factor(&d, r, c));
        }
    }
}

static bool same_gradient(const union lvn_attr *attr)
{
    return lvn_dropout_threshold(attr->residual_rmsnorm.p) == 0;
}

LVN_OPERATION(residual_rmsnorm, shape, forward, backward, .n_in = 3, .n_in_min = 2, .n_out = 2, .n_saved = 1,
              .reads = LVN_READS_OUT(0) | LVN_READS_IN(2) | LVN_READS_OUT(2),
              .restores = LVN_READS_OUT(0) | LVN_READS_IN(2) | LVN_READS_OUT(2),
              .low_precision_ok = LVN_READS_IN(1) | LVN_READS_OUT(1), .in_place = 1u << 0,
              .same_gradient = same_gradient, .spec.restore = restore);
