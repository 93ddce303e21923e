/* rsqrt.c - the schedule that falls with the root of the step: lr / sqrt(1 + steps behind the warm-up). */
#include <math.h>

#include "schedules/schedule.h"

static double lr(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    return o->lr / sqrt(1.0 + (double)(at->step - at->warmup));
}

const struct lvn_schedule_kind lvn_schedule_rsqrt = {.name = "rsqrt", .help = "with the root of the step", .lr = lr};
