/* muon_step.c - the Muon step: parameters move by the learning rate along an orthogonal matrix.
 *
 * in[0] elements of the matrix X (n); out[0] the parameters (n), updated in place. Nothing changes if
 * result->clip_scale is 0.
 *
 *     p = p * (1 - lr * weight_decay) - lr * ratio * X
 *
 * ratio, the step relative to the learning rate, depends on the shape of the matrix (optimizers/optimizer.c). */
#include "ops/update.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    return update_shape(s, 0);
}

static void forward(const struct lvn_call *call)
{
    const struct lvn_update *u = &call->attr->update;
    const real *x = call->in[0].p;
    real *p = call->out[0].p;
    const double step_size = call->step->lr * u->lr_scale;
    const real keep = (real)(1 - step_size * u->weight_decay), lr = (real)(step_size * call->attr->muon_step.ratio);
    if (call->result->clip_scale == 0) return;
    update_sum(call, false);
    for (int64_t i = 0, n = lvn_desc_count(call->in[0].desc); i < n; i++) p[i] = p[i] * keep - lr * x[i];
    update_sum(call, true);
}

LVN_OPERATION(muon_step, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 1, .n_saved = 1,
              .low_precision_ok = LVN_READS_OUT(0));
