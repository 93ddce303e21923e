/* muon_step.cpu.c - the step of Muon on CPUs, a vector at a time. */
#include "ops/muon.h"
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

LVN_INLINE void cautious_step(const void *constants, vf x, vf *p, vf moment[LVN_MAX_MOMENTS])
{
    const struct step *k = constants;
    (void)moment;
    *p = *p * vselect(vgreater(vset(0), x * *p), vset(1), vset(k->keep)) - x * k->lr;
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    double lr, shrink;
    muon_rates(call, &lr, &shrink);
    const struct step k = {(float)(1 - shrink), (float)lr};
    if (call->attr->muon_step.cautious)
        update_all(cautious_step, &k, 0, false, call, thread, n_threads);
    else
        update_all(step, &k, 0, false, call, thread, n_threads);
}

LVN_CPU_OPERATION(muon_step, .forward = forward);
