/* wsd.c - the schedule of warm-up, stable phase and decay: optimizer.lr until the last wsd_decay_steps before
 * decay_steps, then down to min_lr. Hugging Face's warmup_stable_decay:
 *
 *     min_lr + (lr - min_lr) f(r), r from 0 at the first step of the decay to 1 at decay_steps
 *     f(r) = (1 + cos(pi r)) / 2, 1 - r or 1 - sqrt(r), by wsd_decay_type
 *
 * Hu et al.: "MiniCPM" (2024); Haegele et al.: "Scaling laws and compute-optimal training beyond fixed training
 * durations" (2024), for 1 - sqrt(r). */
#include <inttypes.h>
#include <math.h>

#include "schedules/schedule.h"

#define LVN_X(name, word) name,
enum decay_type { LVN_CHOICES_schedule_wsd_decay_type(LVN_X) };
#undef LVN_X

static double lr(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    const double pi = 3.14159265358979323846;
    int64_t first = at->end - lvn_schedule_steps(o->wsd_decay_steps, at->end); /* of the decay */
    if (first < at->warmup) first = at->warmup;
    if (at->step < first) return o->lr;
    const double r = (double)(at->step - first) / (double)(at->end - first);
    double factor = 1.0 - r;
    switch ((enum decay_type)o->wsd_decay_type) {
    case SCHEDULE_WSD_LINEAR:
        break;
    case SCHEDULE_WSD_COSINE:
        factor = 0.5 * (1.0 + cos(pi * r));
        break;
    case SCHEDULE_WSD_SQRT:
        factor = 1.0 - sqrt(r);
        break;
    }
    return o->min_lr + factor * (o->lr - o->min_lr);
}

static enum lvn_status check(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    const int64_t steps = lvn_schedule_steps(o->wsd_decay_steps, at->end);
    LVN_TRY(lvn_schedule_check_steps("schedule.wsd_decay_steps", o->wsd_decay_steps));
    LVN_CHECK(o->wsd_decay_steps > 0, ARG,
              "schedule.wsd_decay_steps is 0, and schedule.kind: wsd falls in these steps; give a number of them, or a "
              "share below 1");
    LVN_CHECK(!at->end || at->warmup + steps <= at->end, ARG,
              "schedule.warmup_steps (%" PRId64 " steps) and schedule.wsd_decay_steps (%" PRId64
              ") are more than schedule.decay_steps (%" PRId64 "); take fewer, or train for longer",
              at->warmup, steps, at->end);
    return LVN_OK;
}

const struct lvn_schedule_kind lvn_schedule_wsd = {
    .name = "wsd",
    .help = "warm-up, stable, decay: only in the last wsd_decay_steps",
    .falls = true,
    .lr = lr,
    .check = check,
};
