/* linear_cross_entropy.c - a head and its loss without the logits of all rows in memory; made by the fuse pass.
 *
 * x (...,C), w (C,V) if attr.in_out, else (V,C), b (V) or absent, labels (...) int32, attr.ignore: as in cross_entropy.
 * attr.softcap: a logit z becomes c tanh(z / c); 0: it is unchanged.
 * out[0]: the sum of the losses, fp64 (1); saved: out[1] the loss of each row. A logit is used once in forward and
 * three times in backward. So backward computes everything, losses too, chunk by chunk of the logits, and forward does
 * not run in training. Here a chunk is one row. */
#include "ops/cross_entropy.h"
#include "ops/linear.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    int64_t V = 0;
    LVN_TRY(lvn_shape_linear(s, s->attr->linear_cross_entropy.in_out, &V));
    LVN_CHECK(s->attr->linear_cross_entropy.softcap >= 0, ARG, "%s: the soft cap is %g: give a number above 0, or 0",
              s->op, s->attr->linear_cross_entropy.softcap);
    int64_t rows = lvn_desc_rows(&s->in[0]);
    LVN_TRY(lvn_shape_integers(s, "labels", 3, rows));
    s->out[0] = LVN_DESC(LVN_F64, 1);
    s->out[1] = LVN_DESC(s->real, rows);
    return LVN_OK;
}

static struct lvn_matmul matmul(const struct lvn_call *call)
{
    return lvn_matmul_make(lvn_desc_rows(call->in[0].desc), call->in[1].desc, call->attr->linear_cross_entropy.in_out);
}

/* Write the loss of row r, add it to the sum, and write its logits to scratch. Returns the logsumexp. An ignored row
 * has loss 0 and no logits. */
static double row_loss(const struct lvn_call *call, const struct lvn_matmul *m, int64_t r)
{
    const real *x = call->in[0].p;
    const int32_t *labels = call->in[3].p;
    real *logits = call->scratch, *loss = call->out[1].p;
    double *total = call->out[0].p;
    loss[r] = 0;
    if (lvn_label_ignored(labels[r], call->attr->linear_cross_entropy.ignore)) return 0;
    lvn_matmul_row(m, x + r * m->K, call->in[1].p, call->in[2].p, logits);
    const double cap = call->attr->linear_cross_entropy.softcap;
    for (int64_t v = 0; cap > 0 && v < m->N; v++) logits[v] = (real)(cap * tanh(logits[v] / cap));
    double logsumexp = lvn_logsumexp(logits, m->N);
    loss[r] = (real)(logsumexp - logits[labels[r]]);
    *total += loss[r];
    return logsumexp;
}

static void forward(const struct lvn_call *call)
{
    struct lvn_matmul m = matmul(call);
    *(double *)call->out[0].p = 0;
    for (int64_t r = 0; r < m.R; r++) row_loss(call, &m, r);
}

static void backward(const struct lvn_call *call)
{
    struct lvn_matmul m = matmul(call);
    const real *x = call->in[0].p;                                         /* (R,C) */
    const int32_t *labels = call->in[3].p;                                 /* (R) */
    real *dx = call->din[0].p, *dw = call->din[1].p, *db = call->din[2].p; /* each may be NULL */
    real *dlogits = call->scratch; /* (V): first the logits, then their gradient */
    for (int i = 0; i < 3; i++) lvn_start_sum(call, i);
    *(double *)call->out[0].p = 0;
    for (int64_t r = 0; r < m.R; r++) {
        double logsumexp = row_loss(call, &m, r);
        if (lvn_label_ignored(labels[r], call->attr->linear_cross_entropy.ignore)) continue;
        const double cap = call->attr->linear_cross_entropy.softcap;
        for (int64_t v = 0; v < m.N; v++) {
            const double capped = cap > 0 ? dlogits[v] / cap : 0; /* the derivative of c tanh(z / c) is 1 - tanh^2 */
            dlogits[v] = (real)(lvn_cross_entropy_gradient(dlogits, logsumexp, labels[r], v, call->step->grad_scale) *
                                (1 - capped * capped));
        }
        if (dx) lvn_matmul_row_dx(&m, dlogits, call->in[1].p, dx + r * m.K, true);
        for (int64_t v = 0; v < m.N; v++) {
            if (db) db[v] += dlogits[v];
            for (int64_t k = 0; dw && k < m.K; k++) dw[k * m.wk + v * m.wn] += x[r * m.K + k] * dlogits[v];
        }
    }
}

static int64_t scratch(const struct lvn_call *call)
{
    return matmul(call).N * (int64_t)sizeof(real);
}

/* Backward computes the logits as well. */
static double flops(const struct lvn_call *call)
{
    struct lvn_matmul m = matmul(call);
    double logits = 2.0 * (double)m.R * (double)m.K * (double)m.N;
    return lvn_matmul_flops(call, &m) + (call->phase == LVN_BACKWARD ? logits : 0);
}

LVN_OPERATION(linear_cross_entropy, shape, forward, backward, .n_in = 4, .n_in_min = 2, .n_out = 1, .n_saved = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_IN(2) | LVN_READS_IN(3),
              .low_precision_ok = LVN_READS_IN(0) | LVN_READS_IN(1), .rounded_ok = LVN_READS_IN(2),
              .forward_in_backward = true, .flops = flops, .spec.scratch = scratch);
