/* adamw.h - the constants of one AdamW step, for all of its kernels.
 *
 * They are computed in double and rounded once. Powers are computed by repeated squaring instead of the C library,
 * whose last bit may depend on the CPU. */
#ifndef LVN_ADAMW_H
#define LVN_ADAMW_H

#include "graph/op.h"

/* x^n, n >= 0. */
static inline double lvn_power(double x, int64_t n)
{
    double y = 1;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1) y *= x;
    return y;
}

/* Each F(name):
 *   scale            factor of the gradient: the norm's clip factor
 *   clip_value       the scaled gradient is clipped to [-clip_value, clip_value]; 0: off
 *   l2               coupled weight decay: l2 * parameter is added to the gradient; 0: off
 *   keep             decoupled weight decay: factor of the parameter, 1 - lr * weight_decay; 1: off
 *   one_minus_beta1  1 - beta1
 *   one_minus_beta2  1 - beta2
 *   root             1 / sqrt(1 - beta2^t)
 *   step_size        lr / (1 - beta1^t) */
#define LVN_ADAMW_CONSTANTS(F)                                                                                         \
    F(scale) F(clip_value) F(l2) F(keep) F(one_minus_beta1) F(beta2) F(one_minus_beta2) F(root) F(eps) F(step_size)

struct lvn_adamw_constants {
#define LVN_ADAMW_CONSTANT(name) double name;
    LVN_ADAMW_CONSTANTS(LVN_ADAMW_CONSTANT)
#undef LVN_ADAMW_CONSTANT
};

static inline struct lvn_adamw_constants lvn_adamw_constants_make(const struct lvn_call *call)
{
    const struct lvn_step *step = call->step;
    const struct lvn_update *u = &call->attr->update;
    double beta1 = call->attr->adamw.beta1, beta2 = call->attr->adamw.beta2, decay = u->weight_decay;
    double lr = step->lr * u->lr_scale;
    bool coupled = call->attr->adamw.coupled;
    int64_t t = step->step + 1 - step->unlabeled - (int64_t)call->result->scaling.skipped;
    return (struct lvn_adamw_constants){
        .scale = call->result->clip_scale,
        .clip_value = u->clip_value,
        .l2 = coupled ? decay : 0,
        .keep = coupled ? 1 : 1 - lr * decay,
        .one_minus_beta1 = 1 - beta1,
        .beta2 = beta2,
        .one_minus_beta2 = 1 - beta2,
        .root = 1 / sqrt(1 - lvn_power(beta2, t)),
        .eps = call->attr->adamw.eps,
        .step_size = lr / (1 - lvn_power(beta1, t)),
    };
}

#endif
