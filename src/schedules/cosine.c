/* cosine.c - the schedule that falls along half a period of the cosine:
 * min_lr + (lr - min_lr) (1 + cos(pi r)) / 2, r from 0 at the end of the warm-up to 1 at decay_steps.
 *
 * Loshchilov, Hutter: "SGDR: Stochastic gradient descent with warm restarts" (2017), without restarts. */
#include <math.h>

#include "schedules/schedule.h"

static double lr(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    const double pi = 3.14159265358979323846;
    return o->min_lr + 0.5 * (1.0 + cos(pi * at->progress)) * (o->lr - o->min_lr);
}

const struct lvn_schedule_kind lvn_schedule_cosine = {.name = "cosine", .falls = true, .lr = lr};
