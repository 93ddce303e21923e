/* schedule.c - see schedule.h. */
#include "train/schedule.h"

#include <math.h>

#include "settings/settings.h"

double lvn_schedule_lr(const struct lvn_settings *s, int64_t step, int64_t max_steps)
{
    const double lr = s->optimizer.lr, min = s->schedule.min_lr, pi = 3.14159265358979323846;
    const int64_t warmup = s->schedule.warmup_steps;
    const int64_t end = s->schedule.decay_steps > 0 ? s->schedule.decay_steps : max_steps;
    if (step < warmup) return lr * (double)(step + 1) / (double)(warmup + 1);
    if (s->schedule.kind == LVN_SCHEDULE_KIND_CONSTANT) return lr;
    if (step >= end) return min;
    const double r = (double)(step - warmup) / (double)(end - warmup);
    switch (s->schedule.kind) {
    case LVN_SCHEDULE_KIND_LINEAR:
        return lr + (min - lr) * r;
    case LVN_SCHEDULE_KIND_COSINE:
        return min + 0.5 * (1.0 + cos(pi * r)) * (lr - min);
    case LVN_SCHEDULE_KIND_EXPONENTIAL:
        return min > 0.0 && lr > 0.0 ? lr * pow(min / lr, r) : lr;
    default:
        return lr;
    }
}
