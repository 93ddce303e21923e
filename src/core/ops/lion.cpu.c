/* lion.cpu.c - Lion on CPUs, with the bits of lion.c, in one pass over gradient, parameters and momentum. */
#include "ops/update_cpu.h"

struct constants {
    float scale; /* clip factor of the norm */
    float clip;  /* of values; 0: off */
    float keep;
    float one_minus_beta1;
    float one_minus_beta2;
    float lr;
};

LVN_INLINE void update(const void *constants, vf g, vf *p, vf moment[LVN_MAX_MOMENTS])
{
    const struct constants *k = constants;
    const vf m = moment[0], zero = vset(0);
    g = update_gradient(g, k->scale, k->clip);
    const vf c = vfma(vset(k->one_minus_beta1), g - m, m);
    const vf down = vselect(vgreater(c, zero), vset(k->lr), zero), up = vselect(vgreater(zero, c), vset(-k->lr), zero);
    *p = *p * k->keep - (down + up);
    moment[0] = vnormal(vfma(vset(k->one_minus_beta2), g - m, m));
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct lvn_update *u = &call->attr->update;
    const double lr = call->step->lr * u->lr_scale;
    const struct constants k = {
        .scale = (float)call->result->clip_scale,
        .clip = (float)u->clip_value,
        .keep = (float)(1 - lr * u->weight_decay),
        .one_minus_beta1 = (float)(1 - call->attr->lion.beta1),
        .one_minus_beta2 = (float)(1 - call->attr->lion.beta2),
        .lr = (float)lr,
    };
    update_all(update, &k, 1, true, call, thread, n_threads);
}

LVN_CPU_OPERATION(lion, .forward = forward);
