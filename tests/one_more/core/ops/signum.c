/* signum.c - one step by the sign of the momentum, over a flat range of parameters.
 *
 * in[0] the gradient; out[0] the parameters, out[1] the momentum m: all (n), updated in place. Bernstein et al.:
 * "signSGD: compressed optimisation for non-convex problems" (2018). */
#include "ops/update.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    return update_shape(s, 1);
}

static void forward(const struct lvn_call *call)
{
    if (call->result->clip_scale == 0) return;
    const struct lvn_update *u = &call->attr->update;
    const real *grad = call->in[0].p;
    real *param = call->out[0].p, *momentum = call->out[1].p;
    const real lr = (real)(call->step->lr * u->lr_scale), scale = (real)call->result->clip_scale;
    const real one_minus_beta = (real)(1 - call->attr->signum.beta);
    for (int64_t i = 0; i < lvn_desc_count(call->in[0].desc); i++) {
        momentum[i] =
            fma(one_minus_beta, update_gradient(grad[i], scale, (real)u->clip_value) - momentum[i], momentum[i]);
        param[i] -= momentum[i] > 0 ? lr : momentum[i] < 0 ? -lr : 0;
    }
}

LVN_OPERATION(signum, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 2);
