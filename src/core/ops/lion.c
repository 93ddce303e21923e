/* lion.c - one step of Lion over a flat range of parameters: each moves by the learning rate, against the sign of an
 * interpolation of gradient and momentum.
 *
 * in[0] the gradient; out[0] the parameters, out[1] the momentum m: all (n), updated in place. Nothing changes if
 * result->clip_scale is 0.
 *
 * Chen et al.: "Symbolic discovery of optimization algorithms" (2023), algorithm 2. The order of operations is part of
 * the definition, as in adamw.c:
 *
 *     g = g * scale
 *     g = min(max(g, -clip_value), clip_value)      if clip_value is not 0
 *     c = fma(1 - beta1, g - m, m)
 *     p = p * keep - lr * sign(c)                   sign(0) = 0
 *     m = fma(1 - beta2, g - m, m)
 *     m = 0 if |m| is subnormal
 *
 * keep = 1 - lr * weight_decay, computed in double and rounded once. */
#include "ops/update.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(update_shape(s, 1));
    return update_betas(s, s->attr->lion.beta1, s->attr->lion.beta2);
}

static void forward(const struct lvn_call *call)
{
    if (call->result->clip_scale == 0) return;
    update_sum(call, false);
    const struct lvn_update *u = &call->attr->update;
    const real *grad = call->in[0].p;
    real *param = call->out[0].p, *momentum = call->out[1].p;
    const int64_t n = lvn_desc_count(call->in[0].desc);
    const double step_size = call->step->lr * u->lr_scale;
    const real scale = (real)call->result->clip_scale, clip = (real)u->clip_value, lr = (real)step_size;
    const real keep = (real)(1 - step_size * u->weight_decay);
    const real one_minus_beta1 = (real)(1 - call->attr->lion.beta1),
               one_minus_beta2 = (real)(1 - call->attr->lion.beta2);
    for (int64_t i = 0; i < n; i++) {
        real m = momentum[i], g = update_gradient(grad[i], scale, clip);
        const real c = fma(one_minus_beta1, g - m, m);
        param[i] = param[i] * keep - (c > 0 ? lr : c < 0 ? -lr : 0);
        m = fma(one_minus_beta2, g - m, m);
        momentum[i] = fabs(m) < LVN_REAL_MIN ? 0 : m;
    }
    update_sum(call, true);
}

LVN_OPERATION(lion, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 2, .n_saved = 1,
              .low_precision_ok = LVN_READS_IN(0) | LVN_READS_OUT(0) | LVN_READS_OUT(1));
