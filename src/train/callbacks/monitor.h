/* monitor.h - watching one scalar of a run: which way is better, and what was the best so far.
 *
 * It is looked at after each validation (not the one before the first step), and in runs without any at the end of each
 * epoch. */
#ifndef LVN_MONITOR_H
#define LVN_MONITOR_H

#include "train/callback.h"

/* The words of a `mode` option, in this order. */
enum lvn_monitor_mode { LVN_MONITOR_AUTO, LVN_MONITOR_MIN, LVN_MONITOR_MAX };

enum lvn_monitor_mode lvn_checkpoint_mode_of(enum lvn_checkpoint_mode word);
enum lvn_monitor_mode lvn_early_stopping_mode_of(enum lvn_early_stopping_mode word);

struct lvn_monitor {
    const char *name;
    int scalar;               /* -1: nothing is watched */
    enum lvn_event_kind when; /* it is looked at */
    bool higher;              /* is better */
    double best;              /* NaN: none yet */
};

/* part: whose options, "checkpoint"; mode: 0, 1, 2. ARG where this run does not compute such a scalar, or does not say
 * which way is better; `usual`: but the name is only the default, and then nothing is watched. */
enum lvn_status lvn_monitor_open(struct lvn_monitor *w, const char *part, const char *name, enum lvn_monitor_mode mode,
                                 bool usual, const struct lvn_event *e) LVN_CHECKED;
/* Is this event one to look at it? */
bool lvn_monitor_is_due(const struct lvn_monitor *w, const struct lvn_event *e);
/* Is the value better than the best by more than min_delta? Then it is the best now. Not finite: never. */
bool lvn_monitor_improves(struct lvn_monitor *w, const struct lvn_event *e, double min_delta);
/* The best, of this scalar and this way; that of another is not taken back. */
void lvn_monitor_save(const struct lvn_monitor *w, json_t *state);
bool lvn_monitor_load(struct lvn_monitor *w, const json_t *state);

#endif
