/* callback.h - the interface of callbacks: code that runs at events between the steps of a training.
 *
 * The trainer calls them through lvn_callbacks, the list of enabled ones. A callback is a file in train/callbacks that
 * ends in a struct lvn_callback, and its line in callbacks.def; the rows of its options, if any, are in NAME.def, which
 * options/options.def includes. All ranks call all callbacks, at the events START, STEP, VALIDATION, CHECKPOINT, EPOCH
 * and END, in the order of the table. A callback may
 *
 *   read        the event's facts and scalars, which are equal on all ranks, except times and memory
 *   exchange    data with the other ranks, since all call it at the same point
 *   request     to stop, save or validate, by control flags; all ranks carry out a request of any rank
 *   keep state  `save` writes it into every checkpoint, `load` reads it when the run is resumed
 *
 * A logger is a callback that writes only on rank 0. Callbacks and the loop are in the same folder: callbacks use its
 * settings, ranks and model state. */
#ifndef LVN_CALLBACK_H
#define LVN_CALLBACK_H

#include <jansson.h>

#include "data/codec.h"
#include "engine/model_state.h"
#include "engine/ranks.h"
#include "engine/train_programs.h"
#include "settings/settings.h"
#include "train/events.h"
#include "train/run_dir.h"
#include "train/snapshot.h"

/* Control flags, named as in Hugging Face's TrainerControl. They are combined over ranks at the next exchange:
 * immediately after VALIDATION and EPOCH, with the next step's statistics after the other events. */
enum lvn_control {
    LVN_CONTROL_SHOULD_TRAINING_STOP = 1,
    LVN_CONTROL_SHOULD_SAVE = 2,
    LVN_CONTROL_SHOULD_EVALUATE = 4,
};

/* The state of the run for a callback, and the control flags that it sets. */
struct lvn_callback_context {
    struct lvn_event event; /* a callback may set fields for later callbacks, as utilization does */
    const struct levin_settings *settings;
    struct lvn_ranks *ranks;
    const struct lvn_model_state *model_state;
    const struct lvn_run_dir *dir;         /* on rank 0, if the run has a folder; else NULL */
    struct lvn_codec codec;                /* text <-> ids */
    const struct lvn_task_graph *task;     /* outputs of steps */
    double loss_sum;                       /* sum of the losses of the last step, over all ranks */
    int64_t labels;                        /* number of labels in that sum */
    const double *counts;                  /* [lvn_task_counts(task)] for metrics, of the last step, over all ranks */
    const struct lvn_task_graph *val_task; /* outputs of validations */
    const double *val_counts;              /* [lvn_task_counts(val_task)] of the last one; NULL: none yet */
    const struct lvn_model_config *config; /* of the model: names of classes */
    const struct lvn_callbacks *callbacks; /* enabled ones; NULL: none */
    int train_metrics;                     /* index of the scalar train_loss; those of the task's metrics follow */
    double start_time;                     /* lvn_seconds() when the loop began in this process */
    int64_t resumed_step;                  /* finished steps when the run was resumed; -1: the run is new */
    struct lvn_checkpoint_score score; /* of a checkpoint made at step scored_step; for others only its name is valid */
    int64_t scored_step;
    unsigned control;      /* enum lvn_control flags: this rank's requests */
    char stop_reason[200]; /* with SHOULD_TRAINING_STOP: the text of END */
    const struct lvn_listener *listeners;
    int n_listeners;
};

struct lvn_callback {
    const char *name;
    int64_t bytes;              /* of its state, which is all zero before `open` */
    const char *output;         /* file or folder that it writes in the run's folder; NULL: none */
    const char *output_pattern; /* for a folder: pattern of its file names, which no other program writes */
    bool in_fast_dev_run;       /* also enabled in trainer.fast_dev_run */
    /* Each function may be NULL. */
    /* Do the settings enable it? NULL: always; loggers have a switch in the table. */
    bool (*enabled)(const struct levin_settings *s);
    /* Refuse settings that contradict each other. */
    enum lvn_status (*check)(const struct levin_settings *s);
    /* While the training is planned: create sessions on n. */
    enum lvn_status (*plan)(void *state, struct lvn_model_state *n, int64_t block_size, int rank);
    /* The sessions of `plan` were dropped; another plan may follow. */
    void (*forget)(void *state);
    /* The run is planned and nothing is written yet: refuse settings that do not match it, with one status on all
     * ranks. */
    enum lvn_status (*open)(void *state, struct lvn_callback_context *context);
    /* An event. A failure ends the run and is the same on all ranks: an operation that can fail on one rank ends with
     * an agreement, or is reported (lvn_callback_warn()) while the run continues. */
    enum lvn_status (*call)(void *state, struct lvn_callback_context *context);
    /* On rank 0, between two calls, also before `open`: a note or a sample (context->event). It cannot fail. */
    void (*note)(void *state, struct lvn_callback_context *context);
    /* A checkpoint begins; files must contain everything up to its step. */
    void (*flush)(void *state, struct lvn_callback_context *context);
    void (*save)(const void *state, json_t *json);
    /* Called after `open` if the checkpoint has a state of this callback. */
    enum lvn_status (*load)(void *state, struct lvn_callback_context *context, const json_t *json);
    void (*close)(void *state);
};

/* --- for callbacks --- */

/* Send an event with a text to the listeners of rank 0, and LVN_EVENT_SAMPLE and LVN_EVENT_NOTE also to callbacks
 * (`note`).
 */
void lvn_callback_notify(struct lvn_callback_context *context, enum lvn_event_kind kind, const char *text);
/* Report a failure that does not end the run: "SUBJECT: the error; the run continues". Clears the error record. */
void lvn_callback_warn(struct lvn_callback_context *context, const char *subject);
/* The path of a file in the run's folder. Returns `path`. */
enum { LVN_CALLBACK_PATH_TEXT = 1200 };
const char *lvn_callback_path(const struct lvn_callback_context *context, const char *name,
                              char path[LVN_CALLBACK_PATH_TEXT]);
/* Set SHOULD_TRAINING_STOP on this rank, with the reason that END reports. */
void lvn_callback_request_stop(struct lvn_callback_context *context, const char *format, ...) LVN_PRINTF(2, 3);

/* --- for the trainer: the list of enabled callbacks --- */

enum {
#define LVN_CALLBACK(name) LVN_CALLBACK_##name,
#define LVN_LOGGER(name, ...) LVN_CALLBACK_##name,
#include "options/options_each.h"
    LVN_CALLBACKS
};

struct lvn_callbacks {
    const struct lvn_callback *callback[LVN_CALLBACKS + 1]; /* the last one may belong to the program */
    void *state[LVN_CALLBACKS + 1];
    int n;
};

/* The output of the i-th callback of the table; NULL: none. */
const char *lvn_callbacks_output(int i);
/* The file pattern of the output folder `name`; NULL: it is a file. */
const char *lvn_callbacks_output_pattern(const char *name);
/* The callbacks that the settings enable, followed by `last`, the program's (NULL: none). Always release it. */
enum lvn_status lvn_callbacks_init(struct lvn_callbacks *c, const struct levin_settings *s,
                                   const struct lvn_callback *last) LVN_CHECKED;
void lvn_callbacks_release(struct lvn_callbacks *c);
/* Return the planner of the sessions of all callbacks, for lvn_train_programs_plan(). c must outlive it. */
struct lvn_session_planner lvn_callbacks_planner(struct lvn_callbacks *c);
/* Open all, then load `json`, the text of lvn_callbacks_save(); "": none. */
enum lvn_status lvn_callbacks_open(struct lvn_callbacks *c, struct lvn_callback_context *context,
                                   const char *json) LVN_CHECKED;
/* All ranks: set kind and text of context->event, and pass it to all callbacks in order. */
enum lvn_status lvn_callbacks_call(struct lvn_callbacks *c, struct lvn_callback_context *context,
                                   enum lvn_event_kind kind, const char *text) LVN_CHECKED;
/* Flush all, and write their states as JSON; "" if there are none. */
enum lvn_status lvn_callbacks_save(const struct lvn_callbacks *c, struct lvn_callback_context *context,
                                   char json[LVN_SNAPSHOT_CALLBACKS]) LVN_CHECKED;

#endif
