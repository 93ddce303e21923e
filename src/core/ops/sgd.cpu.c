/* sgd.cpu.c - SGD on CPUs, with the bits of sgd.c, in one pass over gradient, parameters and momentum. */
#include "ops/update_cpu.h"

struct constants {
    float scale; /* clip factor of the norm */
    float clip;  /* of values; 0: off */
    float decay;
    float momentum;
    float lr;
};

LVN_INLINE void update(const void *constants, vf g, vf *p, vf moment[LVN_MAX_MOMENTS])
{
    const struct constants *k = constants;
    (void)moment;
    g = update_gradient(g, k->scale, k->clip);
    if (k->decay != 0) g = vfma(vset(k->decay), *p, g);
    *p = vfma(vset(-k->lr), g, *p);
}

LVN_INLINE void update_with_momentum(const void *constants, vf g, vf *p, vf moment[LVN_MAX_MOMENTS])
{
    const struct constants *k = constants;
    g = update_gradient(g, k->scale, k->clip);
    if (k->decay != 0) g = vfma(vset(k->decay), *p, g);
    moment[0] = vfma(vset(k->momentum), moment[0], g);
    *p = vfma(vset(-k->lr), moment[0], *p);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct lvn_update *u = &call->attr->update;
    const struct constants k = {
        .scale = (float)call->result->clip_scale,
        .clip = (float)u->clip_value,
        .decay = (float)u->weight_decay,
        .momentum = (float)call->attr->sgd.momentum,
        .lr = (float)(call->step->lr * u->lr_scale),
    };
    if (k.momentum != 0)
        update_all(update_with_momentum, &k, 1, false, call, thread, n_threads);
    else
        update_all(update, &k, 0, false, call, thread, n_threads);
}

LVN_CPU_OPERATION(sgd, .forward = forward);
