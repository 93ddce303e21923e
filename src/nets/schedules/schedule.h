/* schedule.h - the learning rate as a function of the step, and the table of schedules.
 *
 * A schedule is a function and a row of the table in schedule.c. Settings check the options of a schedule
 * (options/choices.h fills them); the training loop, `levin plan` and `levin bench` compute its rates. A rate depends
 * on options and step alone, so a resumed run computes the same rates. */
#ifndef LVN_SCHEDULE_H
#define LVN_SCHEDULE_H

#include "base/status.h"

/* The options of the part `schedule`, one field for each row of schedules.def, and the peak rate. */
struct lvn_schedule_options {
    double lr; /* optimizer.lr */
#define LVN_ROWS_AS_MEMBERS
#define LVN_ROWS "schedules/schedules.def"
#include "base/options/rows_each.h"
};

/* A step after the warm-up. */
struct lvn_schedule_point {
    int64_t step;    /* from 0; in [warmup, end) for a schedule that falls */
    int64_t warmup;  /* steps of the warm-up */
    int64_t end;     /* at which the rate is min_lr; 0: not known yet (only in check) */
    double progress; /* (step - warmup) / (end - warmup), from 0 to 1; 0 if nothing falls */
};

struct lvn_schedule_kind {
    const char *name; /* schedule.kind */
    const char *help; /* how the rate falls, for help; NULL: its name says that */
    bool falls;       /* from lr to min_lr at an end, which must be known, and is min_lr from there on */
    double (*lr)(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at);
    /* ARG: options that it cannot take, beyond what lvn_schedule_check() refuses for all that fall. NULL: none. Of the
     * point, warmup and end are set. */
    enum lvn_status (*check)(const struct lvn_schedule_options *o, const struct lvn_schedule_point *at);
};

/* All schedules; the last row has no name. */
extern const struct lvn_schedule_kind lvn_schedules[];
/* By name; NULL: there is none. */
const struct lvn_schedule_kind *lvn_schedule_find(const char *name);

/* ARG, if options contradict each other or the end is not known. max_steps: trainer.max_steps; 0: no such limit.
 * epochs: trainer.max_epochs limits the run, so the number of steps is known once its data are open. */
enum lvn_status lvn_schedule_check(const struct lvn_schedule_options *o, int64_t max_steps, bool epochs) LVN_CHECKED;

/* The schedule of a run. */
struct lvn_schedule {
    const struct lvn_schedule_kind *kind;
    struct lvn_schedule_options options;
    int64_t warmup; /* steps */
    int64_t end;    /* step at which the rate is min_lr */
};
/* max_steps: of the run; where schedule.decay_steps is 0 it is the end. The options have passed lvn_schedule_check().
 */
void lvn_schedule_init(struct lvn_schedule *out, const struct lvn_schedule_options *o, int64_t max_steps);
/* The step from which on the rate falls; the last one if it does not. */
int64_t lvn_schedule_fall(const struct lvn_schedule *s);
/* The learning rate of a step, counted from 0: in the warm-up lr (step + 1) / (warmup + 1), then the schedule's, from
 * its end on min_lr. */
double lvn_schedule_lr(const struct lvn_schedule *s, int64_t step);

#endif
