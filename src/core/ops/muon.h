/* muon.h - the values of Muon that change from step to step; see muon_direction.c and muon_step.c. */
#ifndef LVN_MUON_H
#define LVN_MUON_H

#include "graph/op.h"

/* first_momentum at step 0, momentum from step `rise` on, and from step `fall` on down to last_momentum at `end`. */
static inline double muon_momentum(const struct lvn_call *call)
{
    const double momentum = call->attr->muon_direction.momentum, first = call->attr->muon_direction.first_momentum;
    const double last = call->attr->muon_direction.last_momentum;
    const int64_t rise = call->attr->muon_direction.rise, fall = call->attr->muon_direction.fall;
    const int64_t end = call->attr->muon_direction.end, step = call->step->step;
    if (step < rise) return first + (momentum - first) * (double)step / (double)rise;
    if (step < fall || fall >= end) return momentum;
    const double done = step < end ? (double)(step - fall) / (double)(end - fall) : 1;
    return momentum + (last - momentum) * done;
}

/* Learning rate of a matrix, and by how much its parameters shrink. decay_end: weight decay falls as a cosine to 0. */
static inline void muon_rates(const struct lvn_call *call, double *lr, double *shrink)
{
    static const double pi = 3.14159265358979323846;
    const struct lvn_update *u = &call->attr->update;
    const int64_t end = call->attr->muon_step.decay_end, step = call->step->step;
    const double rate = call->step->lr * u->lr_scale;
    const double factor = !end ? 1 : step < end ? 0.5 * (1 + cos(pi * (double)step / (double)end)) : 0;
    *lr = rate * call->attr->muon_step.ratio;
    *shrink = (call->attr->muon_step.cautious ? *lr : rate) * u->weight_decay * factor;
}

#endif
