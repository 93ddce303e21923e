/* muon_step.cpu.c - the step of Muon on CPUs, a vector at a time. */
#include "ops/update_cpu.h"

struct step {
    float keep, lr;
};

/* The update loop passes x in place of the gradient. */
LVN_INLINE void step(const void *constants, vf x, vf *p, vf moment[LVN_MAX_MOMENTS])
{
    const struct step *k = constants;
    (void)moment;
    *p = *p * k->keep - x * k->lr;
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct lvn_update *u = &call->attr->update;
    const double lr = call->step->lr * u->lr_scale;
    const struct step k = {(float)(1 - lr * u->weight_decay), (float)(lr * call->attr->muon_step.ratio)};
    update_all(step, &k, 0, false, call, thread, n_threads);
}

LVN_CPU_OPERATION(muon_step, .forward = forward);
