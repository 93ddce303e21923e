/* schedule.c - every learning-rate schedule, their table, and the code that they share; see schedule.h.
 *
 * A new schedule is a function here, a row of the table, and rows of schedules.def if it has options. */
#include "schedules/schedule.h"

static const double pi = 3.14159265358979323846;

/* A number of steps, or if it is below 1 their fraction of `all` steps, rounded up as Hugging Face's warmup_ratio. */
static int64_t steps_of(double steps, int64_t all)
{
    return steps < 1 ? (int64_t)ceil(steps * (double)all) : (int64_t)steps;
}

static enum lvn_status check_steps(const char *key, double steps)
{
    LVN_CHECK(steps < 1 || steps == floor(steps), ARG,
              "%s (%.15g) must be a whole number of steps, or a share of them below 1", key, steps);
    return LVN_OK;
}

/* Progress r is 0 at the end of the warm-up and 1 at decay_steps. */

static double constant(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    (void)at;
    return o->lr;
}

static double linear(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    return o->lr + (o->min_lr - o->lr) * at->progress;
}

/* min_lr + (lr - min_lr) (1 + cos(pi r)) / 2.
 *
 * Loshchilov, Hutter: "SGDR: Stochastic gradient descent with warm restarts" (2017), without restarts. */
static double cosine(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    return o->min_lr + 0.5 * (1.0 + cos(pi * at->progress)) * (o->lr - o->min_lr);
}

/* lr (min_lr / lr)^r. `levin bench` does not check the schedule; without min_lr it gets a constant rate. */
static double exponential(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    return o->min_lr > 0.0 && o->lr > 0.0 ? o->lr * pow(o->min_lr / o->lr, at->progress) : o->lr;
}

static enum lvn_status check_exponential(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    (void)at;
    LVN_CHECK(o->min_lr > 0, ARG,
              "schedule.kind: exponential falls to schedule.min_lr, which must be above 0; give for example a tenth of "
              "optimizer.lr");
    return LVN_OK;
}

#define LVN_X(name, word) name,
enum decay_type { LVN_CHOICES_schedule_wsd_decay_type(LVN_X) };
#undef LVN_X

/* The first step of the decay. */
static int64_t wsd_first(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    const int64_t first = at->end - steps_of(o->wsd_decay_steps, at->end);
    return first < at->warmup ? at->warmup : first;
}

/* Warm-up, stable phase, decay: lr until the last wsd_decay_steps before decay_steps, then down to min_lr. Hugging
 * Face's warmup_stable_decay:
 *
 *     min_lr + (lr - min_lr) f(q), q from 0 at the first step of the decay to 1 at decay_steps
 *     f(q) = (1 + cos(pi q)) / 2, 1 - q or 1 - sqrt(q), by wsd_decay_type
 *
 * Hu et al.: "MiniCPM" (2024); Haegele et al.: "Scaling laws and compute-optimal training beyond fixed training
 * durations" (2024), for 1 - sqrt(q). */
static double wsd(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    const int64_t first = wsd_first(o, at);
    if (at->step < first) return o->lr;
    const double q = (double)(at->step - first) / (double)(at->end - first);
    double factor = 1.0 - q;
    switch ((enum decay_type)o->wsd_decay_type) {
    case SCHEDULE_WSD_LINEAR:
        break;
    case SCHEDULE_WSD_COSINE:
        factor = 0.5 * (1.0 + cos(pi * q));
        break;
    case SCHEDULE_WSD_SQRT:
        factor = 1.0 - sqrt(q);
        break;
    }
    return o->min_lr + factor * (o->lr - o->min_lr);
}

static enum lvn_status check_wsd(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at)
{
    const int64_t steps = steps_of(o->wsd_decay_steps, at->end);
    LVN_TRY(check_steps("schedule.wsd_decay_steps", o->wsd_decay_steps));
    LVN_CHECK(o->wsd_decay_steps > 0, ARG,
              "schedule.wsd_decay_steps is 0, and schedule.kind: wsd falls in these steps; give a number of them, or a "
              "share below 1");
    LVN_CHECK(!at->end || at->warmup + steps <= at->end, ARG,
              "schedule.warmup_steps (%" PRId64 " steps) and schedule.wsd_decay_steps (%" PRId64
              ") are more than schedule.decay_steps (%" PRId64 "); use fewer, or train for longer",
              at->warmup, steps, at->end);
    return LVN_OK;
}

const struct lvn_schedule_kind lvn_schedules[] = {
    {.name = "constant", .help = "it does not fall", .lr = constant},
    {.name = "linear", .help = "along a straight line", .falls = true, .lr = linear},
    {.name = "cosine", .help = "along half a cosine", .falls = true, .lr = cosine},
    {.name = "exponential",
     .help = "by the same factor in each step",
     .falls = true,
     .lr = exponential,
     .check = check_exponential},
    {.name = "wsd",
     .help = "warm-up, stable, decay: only in the last wsd_decay_steps",
     .falls = true,
     .lr = wsd,
     .check = check_wsd},
    {0}};

const struct lvn_schedule_kind *lvn_schedule_find(const char *name)
{
    for (const struct lvn_schedule_kind *k = lvn_schedules; k->name; k++)
        if (!strcmp(k->name, name)) return k;
    return NULL;
}

/* The steps of the warm-up for messages: "9", or "0.5, so 10 steps". */
static void warmup_text(const struct lvn_schedule_options *o, int64_t warmup, char *text, size_t capacity)
{
    if (o->warmup_steps > 0 && o->warmup_steps < 1)
        snprintf(text, capacity, "%.15g, so %" PRId64 " steps", o->warmup_steps, warmup);
    else
        snprintf(text, capacity, "%" PRId64, warmup);
}

static enum lvn_status check_fall(const struct lvn_schedule_kind *kind, const struct lvn_schedule_options *o,
                                  int64_t max_steps, bool epochs)
{
    char text[80];
    const bool known = max_steps > 0 || o->warmup_steps >= 1; /* the length of the warm-up */
    struct lvn_schedule_point at = {.warmup = known ? steps_of(o->warmup_steps, max_steps) : 0, .end = o->decay_steps};
    warmup_text(o, at.warmup, text, sizeof text);
    LVN_CHECK(at.end || max_steps > 0 || epochs, ARG,
              "schedule.kind: %s needs a step at which it ends; give schedule.decay_steps, trainer.max_steps or "
              "trainer.max_epochs",
              kind->name);
    LVN_CHECK(!at.end || at.warmup <= at.end, ARG,
              "schedule.warmup_steps (%s) ends after schedule.decay_steps (%" PRId64
              "); use fewer, or decay for longer",
              text, at.end);
    LVN_CHECK(o->min_lr <= o->lr, ARG,
              "schedule.min_lr (%g) is above optimizer.lr (%g), but the rate falls from optimizer.lr to "
              "schedule.min_lr; exchange them or use schedule.kind: constant",
              o->min_lr, o->lr);
    return kind->check ? kind->check(o, &at) : LVN_OK;
}

enum lvn_status lvn_schedule_check(const struct lvn_schedule_options *o, int64_t max_steps, bool epochs)
{
    const struct lvn_schedule_kind *kind = lvn_schedule_find(o->kind);
    const bool share = o->warmup_steps > 0 && o->warmup_steps < 1;
    LVN_TRY(check_steps("schedule.warmup_steps", o->warmup_steps));
    LVN_CHECK(!share || max_steps > 0 || epochs, ARG,
              "schedule.warmup_steps (%.15g) is a share of the run's steps, and their number is not known: give "
              "trainer.max_steps or trainer.max_epochs, or a whole number of steps",
              o->warmup_steps);
    return kind->falls ? check_fall(kind, o, max_steps, epochs) : LVN_OK;
}

void lvn_schedule_init(struct lvn_schedule *out, const struct lvn_schedule_options *o, int64_t max_steps)
{
    *out = (struct lvn_schedule){.kind = lvn_schedule_find(o->kind),
                                 .options = *o,
                                 .warmup = steps_of(o->warmup_steps, max_steps),
                                 .end = o->decay_steps > 0 ? o->decay_steps : max_steps};
}

int64_t lvn_schedule_fall(const struct lvn_schedule *s)
{
    const struct lvn_schedule_point at = {.warmup = s->warmup, .end = s->end};
    if (s->kind->lr == wsd) return wsd_first(&s->options, &at);
    return s->kind->falls ? s->warmup : s->end;
}

double lvn_schedule_lr(const struct lvn_schedule *s, int64_t step)
{
    const struct lvn_schedule_options *o = &s->options;
    struct lvn_schedule_point at = {.step = step, .warmup = s->warmup, .end = s->end};
    if (step < s->warmup) return o->lr * (double)(step + 1) / (double)(s->warmup + 1);
    if (!s->kind->falls) return s->kind->lr(o, &at);
    if (step >= s->end) return o->min_lr;
    at.progress = (double)(step - s->warmup) / (double)(s->end - s->warmup);
    return s->kind->lr(o, &at);
}
