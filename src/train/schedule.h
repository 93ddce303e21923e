/* schedule.h - the learning rate as a function of the step.
 *
 * The trainer calls it before each step. It has no state: a run that continues computes the same rates. */
#ifndef LVN_SCHEDULE_H
#define LVN_SCHEDULE_H

#include <stdint.h>

struct lvn_settings;

/* The learning rate of iteration `step`, counted from 0, in a run of `max_steps` (for schedule.decay_steps = 0):
 *
 *   warm-up      lr (step + 1) / (warmup + 1)
 *   linear       from lr down to min_lr at decay_steps, then min_lr
 *   cosine       min_lr + (lr - min_lr) (1 + cos(pi r)) / 2, r from 0 at the end of the warm-up to 1 at decay_steps
 *   exponential  lr (min_lr / lr)^r */
double lvn_schedule_lr(const struct lvn_settings *s, int64_t step, int64_t max_steps);

#endif
