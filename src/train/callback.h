/* callback.h - the interface of callbacks: code that runs at events between the steps of a training.
 *
 * The trainer calls them; it calls the list of those that are on through lvn_callbacks. A callback is a file in
 * train/callbacks that ends in a struct lvn_callback, and its line in callbacks.def; the rows of its options, if it has
 * any, are in NAME.def, which settings/options.def includes. All callbacks are called on all ranks alike, at the events
 * START, STEP, VALIDATION, CHECKPOINT, EPOCH and END, in the order of the table. A callback may
 *
 *   read        the event's facts and scalars, which are equal on all ranks, except times and memory
 *   exchange    data with the other ranks, since all are called at the same place
 *   request     to stop, save or validate, by control flags: one rank's request is carried out by all ranks
 *   keep state  `save` writes it into every checkpoint, `load` gets it back when the run continues
 *
 * A logger is a callback that writes on rank 0 alone. Callbacks are in the same room as the loop: they use its
 * settings, ranks and model state, and it calls them. */
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

/* Control flags, named as in Hugging Face's TrainerControl. They are or-ed over ranks at the next exchange: at once
 * after VALIDATION and EPOCH, with the next step's statistics after the other events. */
enum lvn_control {
    LVN_CONTROL_SHOULD_TRAINING_STOP = 1,
    LVN_CONTROL_SHOULD_SAVE = 2,
    LVN_CONTROL_SHOULD_EVALUATE = 4,
};

/* What a callback sees of the run, and the control flags that it sets. */
struct lvn_callback_context {
    struct lvn_event event; /* a callback may set fields for those after it, as utilisation does */
    const struct lvn_settings *settings;
    struct lvn_ranks *ranks;
    const struct lvn_model_state *model_state;
    const struct lvn_run_dir *dir;         /* on rank 0, if the run has a folder; else NULL */
    struct lvn_codec codec;                /* text <-> ids */
    const struct lvn_task_graph *task;     /* what steps measure */
    double loss_sum;                       /* of the last step, over all ranks: the sum of the losses */
    int64_t labels;                        /* of the last step, over all ranks: labels or numbers in that sum */
    const double *counts;                  /* [lvn_task_counts(task)] of the last step, over all ranks: for metrics */
    const struct lvn_task_graph *val_task; /* what validations measure */
    const double *val_counts;              /* [lvn_task_counts(val_task)] of the last one; NULL: none yet */
    const struct lvn_model_config *config; /* of the model: names of classes */
    const struct lvn_callbacks *callbacks; /* that are on; NULL: none */
    int train_metrics;                     /* index of the scalar train_loss; those of the task's metrics follow */
    double start_time;                     /* lvn_seconds() when the loop began in this process */
    int64_t resumed_step;                  /* steps that the run had when it was continued; -1: it is new */
    struct lvn_checkpoint_score score;     /* of a checkpoint made at step scored_step; of others only its name */
    int64_t scored_step;
    unsigned control;      /* enum lvn_control, or-ed: this rank's requests */
    char stop_reason[200]; /* with SHOULD_TRAINING_STOP: the text of END */
    const struct lvn_listener *listeners;
    int n_listeners;
};

struct lvn_callback {
    const char *name;
    int64_t bytes;              /* of its state, which is all zero before `open` */
    const char *output;         /* the file or folder that it writes in the run's folder; NULL: none */
    const char *output_pattern; /* if that is a folder: pattern of its files' names, which no other program writes */
    bool in_fast_dev_run;       /* it is on in trainer.fast_dev_run, too */
    /* Each function may be NULL. */
    /* Do the settings turn it on? NULL: always; loggers have a switch in the table. */
    bool (*enabled)(const struct lvn_settings *s);
    /* Refuse settings that contradict each other. */
    enum lvn_status (*check)(const struct lvn_settings *s);
    /* While the training is planned: make sessions on n. */
    enum lvn_status (*plan)(void *state, struct lvn_model_state *n, int64_t block_size, int rank);
    /* The sessions of `plan` are dropped: another plan follows, or none. */
    void (*forget)(void *state);
    /* The run is planned and nothing is written yet: refuse what does not fit it, with the same status on all ranks. */
    enum lvn_status (*open)(void *state, struct lvn_callback_context *m);
    /* An event. A failure ends the run, and is the same on all ranks: what can fail on one rank ends with an agreement,
     * or is reported (lvn_callback_warn()) while the run continues. */
    enum lvn_status (*call)(void *state, struct lvn_callback_context *m);
    /* On rank 0, between two calls: a note or a sample (m->event), also before `open`. It cannot fail. */
    void (*note)(void *state, struct lvn_callback_context *m);
    /* A checkpoint begins: files must hold everything up to its step. */
    void (*flush)(void *state, struct lvn_callback_context *m);
    void (*save)(const void *state, json_t *json);
    /* After open, if the checkpoint has a state of this callback. */
    enum lvn_status (*load)(void *state, struct lvn_callback_context *m, const json_t *json);
    void (*close)(void *state);
};

/* --- for callbacks --- */

/* Send an event with a text to the listeners of rank 0, LVN_EVENT_SAMPLE and LVN_EVENT_NOTE to callbacks too (`note`).
 */
void lvn_callback_notify(struct lvn_callback_context *m, enum lvn_event_kind kind, const char *text);
/* Report a failure that does not end the run: "SUBJECT: the error; the run goes on". Clears the error record. */
void lvn_callback_warn(struct lvn_callback_context *m, const char *subject);
/* The path of a file in the run's folder. Returns `path`. */
enum { LVN_CALLBACK_PATH_TEXT = 1200 };
const char *lvn_callback_path(const struct lvn_callback_context *m, const char *name,
                              char path[LVN_CALLBACK_PATH_TEXT]);
/* Set SHOULD_TRAINING_STOP on this rank, with the reason that END reports. */
void lvn_callback_request_stop(struct lvn_callback_context *m, const char *format, ...) LVN_PRINTF(2, 3);

/* --- for the trainer: the list of callbacks that are on --- */

enum {
#define LVN_CALLBACK(name) LVN_CALLBACK_##name,
#define LVN_LOGGER(name, ...) LVN_CALLBACK_##name,
#include "settings/options_each.h"
    LVN_CALLBACKS
};

struct lvn_callbacks {
    const struct lvn_callback *callback[LVN_CALLBACKS + 1]; /* the last may be the program's own */
    void *state[LVN_CALLBACKS + 1];
    int n;
};

/* The output of the i-th callback of the table; NULL: none. */
const char *lvn_callbacks_output(int i);
/* The pattern of the files in the output folder `name`; NULL: it is a file. */
const char *lvn_callbacks_output_pattern(const char *name);
/* The callbacks that the settings turn on, and after them `last`, the program's (NULL: none). Release it always. */
enum lvn_status lvn_callbacks_init(struct lvn_callbacks *c, const struct lvn_settings *s,
                                   const struct lvn_callback *last) LVN_CHECKED;
void lvn_callbacks_release(struct lvn_callbacks *c);
/* Plans the sessions of all callbacks, for lvn_train_programs_plan(). c must outlive it. */
struct lvn_session_planner lvn_callbacks_planner(struct lvn_callbacks *c);
/* Open all, then load `json`, the text of lvn_callbacks_save(); "": none. */
enum lvn_status lvn_callbacks_open(struct lvn_callbacks *c, struct lvn_callback_context *m,
                                   const char *json) LVN_CHECKED;
/* All ranks: set kind and text of m->event and pass it to all callbacks in order. */
enum lvn_status lvn_callbacks_call(struct lvn_callbacks *c, struct lvn_callback_context *m, enum lvn_event_kind kind,
                                   const char *text) LVN_CHECKED;
/* Flush all, and write their states as JSON; "" if there are none. */
enum lvn_status lvn_callbacks_save(const struct lvn_callbacks *c, struct lvn_callback_context *m,
                                   char json[LVN_SNAPSHOT_CALLBACKS]) LVN_CHECKED;

#endif
