/* schedule.c - see schedule.h: the table of schedules, and what all of them have in common. */
#include "schedules/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LVN_SCHEDULE(name) extern const struct lvn_schedule_kind lvn_schedule_##name;
#include "schedules/schedules_each.h"

static const struct lvn_schedule_kind *const schedules[] = {
#define LVN_SCHEDULE(name) &lvn_schedule_##name,
#include "schedules/schedules_each.h"
    NULL};

const struct lvn_schedule_kind *const *lvn_schedules(void)
{
    return schedules;
}

const struct lvn_schedule_kind *lvn_schedule_find(const char *name)
{
    for (int i = 0; schedules[i]; i++)
        if (!strcmp(schedules[i]->name, name)) return schedules[i];
    return NULL;
}

int64_t lvn_schedule_steps(double steps, int64_t all)
{
    return steps < 1 ? (int64_t)ceil(steps * (double)all) : (int64_t)steps;
}

enum lvn_status lvn_schedule_check_steps(const char *key, double steps)
{
    LVN_CHECK(steps < 1 || steps == floor(steps), ARG,
              "%s (%.15g) must be a whole number of steps, or a share of them below 1", key, steps);
    return LVN_OK;
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
    struct lvn_schedule_point at = {.warmup = known ? lvn_schedule_steps(o->warmup_steps, max_steps) : 0,
                                    .end = o->decay_steps};
    warmup_text(o, at.warmup, text, sizeof text);
    LVN_CHECK(at.end || max_steps > 0 || epochs, ARG,
              "schedule.kind: %s needs a step at which it ends; give schedule.decay_steps, trainer.max_steps or "
              "trainer.max_epochs",
              kind->name);
    LVN_CHECK(!at.end || at.warmup <= at.end, ARG,
              "schedule.warmup_steps (%s) ends after schedule.decay_steps (%" PRId64
              "); take fewer, or decay for longer",
              text, at.end);
    LVN_CHECK(o->min_lr <= o->lr, ARG,
              "schedule.min_lr (%g) is above optimizer.lr (%g), but the rate falls from optimizer.lr to "
              "schedule.min_lr; exchange them or take schedule.kind: constant",
              o->min_lr, o->lr);
    return kind->check ? kind->check(o, &at) : LVN_OK;
}

enum lvn_status lvn_schedule_check(const struct lvn_schedule_options *o, int64_t max_steps, bool epochs)
{
    const struct lvn_schedule_kind *kind = lvn_schedule_find(o->kind);
    const bool share = o->warmup_steps > 0 && o->warmup_steps < 1;
    LVN_TRY(lvn_schedule_check_steps("schedule.warmup_steps", o->warmup_steps));
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
                                 .warmup = lvn_schedule_steps(o->warmup_steps, max_steps),
                                 .end = o->decay_steps > 0 ? o->decay_steps : max_steps};
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
