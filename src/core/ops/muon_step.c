/* muon_step.c - the Muon step: parameters move by the learning rate along an orthogonal matrix.
 *
 * in[0] elements of the matrix X (n); out[0] the parameters (n), updated in place. Nothing changes if
 * result->clip_scale is 0.
 *
 *     p = p * (1 - lr * weight_decay) - lr * ratio * X
 *
 * ratio, the step relative to the learning rate, depends on the shape of the matrix (optimizers/optimizer.c).
 *
 * cautious: weight decay is lr * ratio * weight_decay, and only where p and X have the same sign, so that it never
 * works against the step. decay_end: weight decay falls as a cosine (ops/muon.h). As in nanochat. */
#include "ops/muon.h"
#include "ops/update.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    return update_shape(s, 0);
}

static void forward(const struct lvn_call *call)
{
    const real *x = call->in[0].p;
    real *p = call->out[0].p;
    double rate, shrink;
    muon_rates(call, &rate, &shrink);
    const real keep = (real)(1 - shrink), lr = (real)rate;
    const bool cautious = call->attr->muon_step.cautious;
    if (call->result->clip_scale == 0) return;
    update_sum(call, false);
    for (int64_t i = 0, n = lvn_desc_count(call->in[0].desc); i < n; i++)
        p[i] = p[i] * (cautious && x[i] * p[i] < 0 ? 1 : keep) - lr * x[i];
    update_sum(call, true);
}

LVN_OPERATION(muon_step, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 1, .n_saved = 1,
              .low_precision_ok = LVN_READS_OUT(0));
