/* sgd.c - one step of gradient descent with momentum over a flat range of parameters.
 *
 * in[0] the gradient; out[0] the parameters, out[1] the momentum b (absent if attr.momentum is 0): all (n), updated
 * in place. Nothing changes if result->clip_scale is 0.
 *
 * Like torch.optim.SGD without dampening; the order of operations is part of the definition, as in adamw.c:
 *
 *     g = g * scale
 *     g = min(max(g, -clip_value), clip_value)      if clip_value is not 0
 *     g = fma(weight_decay, p, g)                   if weight_decay is not 0
 *     b = fma(momentum, b, g)                       if momentum is not 0, else b = g
 *     p = fma(-lr, b, p)
 *
 * In the first step the momentum is zero, which gives b = g. */
#include "ops/update.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(update_shape(s, 1));
    LVN_CHECK(s->attr->sgd.momentum >= 0 && s->attr->sgd.momentum < 1, ARG,
              "sgd: momentum is %g; it must be at least 0 and below 1", s->attr->sgd.momentum);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    if (call->result->clip_scale == 0) return;
    update_sum(call, false);
    const real *grad = call->in[0].p;
    real *param = call->out[0].p, *buffer = call->out[1].p;
    int64_t n = lvn_desc_count(call->in[0].desc);
    const real scale = (real)call->result->clip_scale, clip = (real)call->attr->update.clip_value;
    const real decay = (real)call->attr->update.weight_decay, momentum = (real)call->attr->sgd.momentum;
    const real lr = (real)(call->step->lr * call->attr->update.lr_scale);
    for (int64_t i = 0; i < n; i++) {
        real g = update_gradient(grad[i], scale, clip);
        if (decay != 0) g = fma(decay, param[i], g);
        if (momentum != 0) buffer[i] = g = fma(momentum, buffer[i], g);
        param[i] = fma(-lr, g, param[i]);
    }
    update_sum(call, true);
}

LVN_OPERATION(sgd, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 2, .n_saved = 1,
              .low_precision_ok = LVN_READS_IN(0) | LVN_READS_OUT(0));
