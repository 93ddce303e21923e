/* constant.c - the schedule that stays at optimizer.lr after the warm-up. */
#include "schedules/schedule.h"

static double lr(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    (void)at;
    return o->lr;
}

const struct lvn_schedule_kind lvn_schedule_constant = {.name = "constant", .help = "not at all", .lr = lr};
