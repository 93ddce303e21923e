/* callback.h - what acts, or only looks on, between the steps of a run.
 *
 * A callback is a file of this folder that ends in a struct lvn_callback, and its line in callbacks.def; the rows of
 * its options, if it has any, are NAME.def, which settings/options.def includes. It is called on all ranks alike, with
 * the events START, STEP, VALIDATION, CHECKPOINT, EPOCH and END, in the order of the table. It may
 *
 *   look        the event's facts and scalars are the same on all ranks, but for times and memory
 *   act         with the other ranks, since all are called at the same place
 *   wish        to stop, save or validate: one rank's wish is all ranks' order, see below
 *   remember    what `save` gives goes into every checkpoint, and comes back to `load` when the run goes on
 *
 * A logger is a callback that looks on rank 0 alone. The folder belongs to the room of training, whose settings, ranks
 * and network callbacks work with, and whose loop calls them: two rooms would have to include each other. */
#ifndef LVN_CALLBACK_H
#define LVN_CALLBACK_H

#include <jansson.h>

#include "data/codec.h"
#include "engine/model_state.h"
#include "engine/ranks.h"
#include "engine/train_programs.h"
#include "train/events.h"
#include "train/run_dir.h"
#include "train/snapshot.h"

/* Wishes are or-ed over ranks when these next exchange something: at once after VALIDATION and EPOCH, and with the next
 * step's tally after the other events. */
enum lvn_control { LVN_CONTROL_STOP = 1, LVN_CONTROL_SAVE = 2, LVN_CONTROL_VALIDATE = 4 };

/* What a callback sees of the run, and what it asks for. */
struct lvn_callback_context {
    struct lvn_event event; /* a callback may complete it for those behind it, as utilisation does */
    const struct lvn_settings *settings;
    struct lvn_ranks *ranks;
    const struct lvn_model_state *network;
    const struct lvn_run_dir *dir;     /* rank 0's, of a run that is kept; else NULL */
    struct lvn_codec codec;            /* text <-> ids */
    const struct lvn_task_graph *task; /* what steps measure, and of the last step, over all ranks: */
    double loss_sum;                   /* its loss, as a sum */
    int64_t labels;                    /* over so many labels or numbers */
    const double *counts;              /* of the metrics (lvn_task_counts(task)) */
    int train_metrics;                 /* the scalars of training: train_loss, then those of the task's metrics */
    double started;                    /* lvn_seconds() when the loop began in this process */
    int64_t resumed_at;                /* steps that the run had when it went on; -1: it is new */
    struct lvn_checkpoint_score score; /* of a checkpoint that is made at step scored_at; of others but the name */
    int64_t scored_at;
    unsigned requests; /* enum lvn_control, or-ed */
    char why[200];     /* with STOP: what END says */
    const struct lvn_listener *listeners;
    int n_listeners;
};

struct lvn_callback {
    const char *name;
    int64_t bytes;      /* of its own struct, all zero before `open` */
    const char *leaves; /* the file or folder that it leaves in the run's folder; NULL: none */
    const char *holds;  /* where that is a folder: a pattern of the names of its files, which no other program writes */
    bool in_fast_dev_run; /* it takes part in trainer.fast_dev_run, too */
    /* Each may be NULL. */
    bool (*wanted)(const struct lvn_settings *s); /* NULL: always; of loggers the table knows */
    /* Refuse settings that contradict each other. */
    enum lvn_status (*check)(const struct lvn_settings *s);
    /* While the network is planned: make runners on it. `forget`: another plan follows, or none. */
    enum lvn_status (*plan)(void *own, struct lvn_model_state *n, int64_t block_size, int rank);
    void (*forget)(void *own);
    /* The run is planned and nothing is written yet: refuse what does not fit it, the same on all ranks. */
    enum lvn_status (*open)(void *own, struct lvn_callback_context *m);
    /* An event. A failure ends the run, and is the same on all ranks; what only one may fail in is agreed on, or told
     * (lvn_callback_warn()) while the run goes on. */
    enum lvn_status (*call)(void *own, struct lvn_callback_context *m);
    void (*flush)(void *own, struct lvn_callback_context *m); /* a checkpoint begins: files hold all up to its step */
    void (*save)(const void *own, json_t *state);
    enum lvn_status (*load)(void *own, struct lvn_callback_context *m,
                            const json_t *state); /* after open, where there is one */
    void (*close)(void *own);
};

/* --- for callbacks --- */

/* Tell the listeners of rank 0: LVN_EVENT_SAMPLE, LVN_EVENT_NOTE. */
void lvn_callback_notify(struct lvn_callback_context *m, enum lvn_event_kind kind, const char *text);
/* A failure that does not end the run: "WHAT: the error; the run goes on". */
void lvn_callback_warn(struct lvn_callback_context *m, const char *what);
/* Into `path`: that of a file in the run's folder. */
enum { LVN_CALLBACK_PATH_TEXT = 1200 };
const char *lvn_callback_path(const struct lvn_callback_context *m, const char *name,
                              char path[LVN_CALLBACK_PATH_TEXT]);
/* This rank wishes to stop; the sentence for END. */
void lvn_callback_request_stop(struct lvn_callback_context *m, const char *format, ...) LVN_PRINTF(2, 3);

/* --- for the trainer: all that a run has on --- */

enum {
#define LVN_CALLBACK(name) LVN_CALLBACK_##name,
#define LVN_LOGGER(name, ...) LVN_CALLBACK_##name,
#include "settings/options_each.h"
    LVN_CALLBACKS
};

struct lvn_callbacks {
    const struct lvn_callback *is[LVN_CALLBACKS + 1];
    void *own[LVN_CALLBACKS + 1];
    int n;
};

/* What the i-th of the table leaves in a run's folder; NULL: nothing. */
const char *lvn_callbacks_leave(int i);
/* Of the one that leaves `name`: the pattern of the files in that folder; NULL: it is a file. */
const char *lvn_callbacks_hold(const char *name);
/* Those that the settings want, and behind them `last` (NULL: none), the program's. Release them always. */
enum lvn_status lvn_callbacks_init(struct lvn_callbacks *c, const struct lvn_settings *s,
                                   const struct lvn_callback *last) LVN_CHECKED;
void lvn_callbacks_release(struct lvn_callbacks *c);
/* What plans the sessions of all of them, for lvn_train_programs_plan(). c outlives it. */
struct lvn_session_planner lvn_callbacks_planner(struct lvn_callbacks *c);
/* `state`: what lvn_callbacks_save() wrote; "": nothing. */
enum lvn_status lvn_callbacks_open(struct lvn_callbacks *c, struct lvn_callback_context *m,
                                   const char *state) LVN_CHECKED;
/* All ranks: an event, with what m->event says already; to all callbacks in order, the listeners of rank 0 among them.
 */
enum lvn_status lvn_callbacks_call(struct lvn_callbacks *c, struct lvn_callback_context *m, enum lvn_event_kind kind,
                                   const char *text) LVN_CHECKED;
enum lvn_status lvn_callbacks_save(const struct lvn_callbacks *c, struct lvn_callback_context *m,
                                   char text[LVN_SNAPSHOT_CALLBACKS]) LVN_CHECKED;

#endif
