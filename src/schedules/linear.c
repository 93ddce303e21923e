/* linear.c - the schedule that falls from optimizer.lr to min_lr by equal amounts. */
#include "schedules/schedule.h"

static double lr(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    return o->lr + (o->min_lr - o->lr) * at->progress;
}

const struct lvn_schedule_kind lvn_schedule_linear = {.name = "linear", .falls = true, .lr = lr};
