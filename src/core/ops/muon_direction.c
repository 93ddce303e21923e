/* muon_direction.c - the direction of a Muon step: Nesterov momentum, element by element. orthogonalize transforms the
 * directions of a whole matrix, and muon_step applies the result.
 *
 * in[0] the gradient (n); out[0] the direction x, out[1] the momentum m, both (n), updated in place. Nothing changes if
 * result->clip_scale is 0.
 *
 *     g = g * scale
 *     g = min(max(g, -clip_value), clip_value)      if clip_value is not 0
 *     m = fma(1 - momentum, g - m, m)
 *     m = 0 if |m| is subnormal
 *     x = fma(momentum, m - g, g)
 *
 * As torch.optim.Muon, whose momentum is constant. nanochat's rises and falls (ops/muon.h). */
#include "ops/muon.h"
#include "ops/update.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(update_shape(s, 1));
    LVN_CHECK(s->attr->muon_direction.momentum >= 0 && s->attr->muon_direction.momentum < 1, ARG,
              "%s: momentum is %g; it must be at least 0 and below 1", s->op, s->attr->muon_direction.momentum);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const struct lvn_update *u = &call->attr->update;
    const real *grad = call->in[0].p;
    real *x = call->out[0].p, *momentum = call->out[1].p;
    const real scale = (real)call->result->clip_scale, clip = (real)u->clip_value;
    const double mu = muon_momentum(call);
    if (scale == 0) return;
    update_sum(call, false);
    for (int64_t i = 0, n = lvn_desc_count(call->in[0].desc); i < n; i++) {
        const real g = update_gradient(grad[i], scale, clip);
        real m = fma((real)(1 - mu), g - momentum[i], momentum[i]);
        if (fabs(m) < LVN_REAL_MIN) m = 0;
        momentum[i] = m;
        x[i] = fma((real)mu, m - g, g);
    }
    update_sum(call, true);
}

LVN_OPERATION(muon_direction, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 2,
              .n_saved = 1, .low_precision_ok = LVN_READS_IN(0) | LVN_READS_OUT(1));
