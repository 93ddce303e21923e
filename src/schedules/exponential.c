/* exponential.c - the schedule that falls by equal factors: lr (min_lr / lr)^r, r from 0 at the end of the warm-up to 1
 * at decay_steps. */
#include <math.h>

#include "schedules/schedule.h"

/* `levin bench` does not check the schedule; without a min_lr the rate stays as it is there. */
static double lr(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    return o->min_lr > 0.0 && o->lr > 0.0 ? o->lr * pow(o->min_lr / o->lr, at->progress) : o->lr;
}

static enum lvn_status check(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    (void)at;
    LVN_CHECK(o->min_lr > 0, ARG,
              "schedule.kind: exponential falls to schedule.min_lr, which must be above 0; give for example a tenth of "
              "optimizer.lr");
    return LVN_OK;
}

const struct lvn_schedule_kind lvn_schedule_exponential = {
    .name = "exponential", .falls = true, .lr = lr, .check = check};
