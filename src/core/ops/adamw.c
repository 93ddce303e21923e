/* adamw.c - one step of AdamW, or of Adam with L2 regularization (attr.coupled), over a flat range of parameters.
 *
 * in[0] the gradient; out[0] the parameters, out[1] the first moment m, out[2] the second moment v: all (n), updated in
 * place. Nothing changes if result->clip_scale is 0.
 *
 * Loshchilov, Hutter: "Decoupled weight decay regularization" (2019), in the form of torch.optim.AdamW. The order of
 * operations is part of the definition: every kernel must give these bits. Each operation of a line rounds once, fma()
 * once in total; t = step + 1, minus the steps that changed nothing; constants as in adamw.h:
 *
 *     g = g * scale
 *     g = min(max(g, -clip_value), clip_value)      if clip_value is not 0
 *     g = fma(l2, p, g)                             if l2 is not 0
 *     p = p * keep
 *     m = fma(1 - beta1, g - m, m)
 *     v = fma((1 - beta2) * g, g, beta2 * v)
 *     m = 0 if |m| is subnormal; the same for v
 *     p = fma(-step_size, m / fma(sqrt(v), root, eps), p)
 *
 * root = 1 / sqrt(1 - beta2^t), step_size = lr / (1 - beta1^t), keep = 1 - lr * weight_decay, all rounded to the type
 * of the parameters first. Moments of parameters whose gradient stays zero (after a ReLU that is always off) would
 * decay to subnormal values, which CPUs divide and multiply many times more slowly. */
#include "ops/adamw.h"

#include "ops/update.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(update_shape(s, 2));
    return update_betas(s, s->attr->adamw.beta1, s->attr->adamw.beta2);
}

static void forward(const struct lvn_call *call)
{
    if (call->result->clip_scale == 0) return;
    update_sum(call, false);
    const real *grad = call->in[0].p;
    real *param = call->out[0].p, *first = call->out[1].p, *second = call->out[2].p;
    int64_t n = lvn_desc_count(call->in[0].desc);
    struct lvn_adamw_constants k = lvn_adamw_constants_make(call);
    const real scale = (real)k.scale, clip = (real)k.clip_value, l2 = (real)k.l2, keep = (real)k.keep;
    const real one_minus_beta1 = (real)k.one_minus_beta1, beta2 = (real)k.beta2;
    const real one_minus_beta2 = (real)k.one_minus_beta2;
    const real root = (real)k.root, eps = (real)k.eps, step_size = (real)k.step_size;
    for (int64_t i = 0; i < n; i++) {
        real p = param[i], m = first[i], v = second[i], g = update_gradient(grad[i], scale, clip);
        if (l2 != 0) g = fma(l2, p, g);
        p = p * keep;
        m = fma(one_minus_beta1, g - m, m);
        v = fma(one_minus_beta2 * g, g, beta2 * v);
        m = fabs(m) < LVN_REAL_MIN ? 0 : m;
        v = v < LVN_REAL_MIN ? 0 : v;
        p = fma(-step_size, m / fma(sqrt(v), root, eps), p);
        param[i] = p;
        first[i] = m;
        second[i] = v;
    }
    update_sum(call, true);
}

LVN_OPERATION(adamw, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 3, .n_saved = 1,
              .low_precision_ok = LVN_READS_IN(0) | LVN_READS_OUT(0) | LVN_READS_OUT(1) | LVN_READS_OUT(2));
