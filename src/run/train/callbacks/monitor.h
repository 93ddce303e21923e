/* monitor.h - compares one scalar of a run over time: its better direction, and the best value so far.
 *
 * The callbacks checkpoint and early_stopping own one each. The scalar is checked after each validation, except the one
 * before the first step, and in runs without validation at the end of each epoch. */
#ifndef LVN_MONITOR_H
#define LVN_MONITOR_H

#include "train/callback.h"

/* The values of a `mode` option, in this order. */
enum lvn_monitor_mode { LVN_MONITOR_AUTO, LVN_MONITOR_MIN, LVN_MONITOR_MAX };

enum lvn_monitor_mode lvn_checkpoint_mode_of(enum lvn_checkpoint_mode word);
enum lvn_monitor_mode lvn_early_stopping_mode_of(enum lvn_early_stopping_mode word);

struct lvn_monitor {
    const char *name;
    int scalar;                /* index; -1: nothing is monitored */
    enum lvn_event_kind event; /* event at which it is checked */
    bool higher;               /* higher is better */
    double best;               /* NaN: none yet */
};

/* part: the options' part, "checkpoint". ARG: this run does not compute the scalar, or its better direction is unknown;
 * but if the name is only the default (is_default), nothing is monitored then. */
enum lvn_status lvn_monitor_open(struct lvn_monitor *monitor, const char *part, const char *name,
                                 enum lvn_monitor_mode mode, bool is_default, const struct lvn_event *e) LVN_CHECKED;
/* Is the scalar checked at this event? */
bool lvn_monitor_is_due(const struct lvn_monitor *monitor, const struct lvn_event *e);
/* Is the value better than the best by more than min_delta? If so, it becomes the best. A non-finite value never is. */
bool lvn_monitor_improves(struct lvn_monitor *monitor, const struct lvn_event *e, double min_delta);
/* Store and load the best value. Loading ignores another scalar or direction, and returns false. */
void lvn_monitor_save(const struct lvn_monitor *monitor, json_t *json);
bool lvn_monitor_load(struct lvn_monitor *monitor, const json_t *json);

#endif
