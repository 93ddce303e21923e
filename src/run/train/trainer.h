/* trainer.h - trains a model from settings: the training loop in one call.
 *
 * `levin train` and the C API call it. lvn_train() opens the data, plans, creates or resumes the run's folder, and
 * loops: batch, step, metrics, validation, checkpoint. Progress is sent to listeners (events.h); nothing is printed.
 * For a program that makes its steps itself, the parts of the loop are in struct lvn_trainer (trainer_private.h). */
#ifndef LVN_TRAINER_H
#define LVN_TRAINER_H

#include <signal.h>

#include "models/model.h"
#include "settings/settings.h"
#include "train/events.h"
#include "train/run_dir.h"

struct lvn_callback;
struct lvn_ranks;

/* Set by a signal handler, through `stop`. REQUEUE: the batch system's time limit is near; the run is to continue when
 * it grants more time. */
enum lvn_stop { LVN_STOP_NONE, LVN_STOP_REQUESTED, LVN_STOP_REQUEUE };

struct lvn_train_options {
    struct lvn_ranks *ranks;
    enum lvn_run_mode mode;
    const char *launch;                  /* id of the levin launch that started the ranks; NULL: none (run_dir.h) */
    const struct lvn_model *model;       /* a program's custom model; NULL: model.kind of the settings */
    const struct lvn_callback *callback; /* a program's callback, called last; NULL: none */
    const struct lvn_listener *listeners;
    int n_listeners;
    /* enum lvn_stop: if it is not NONE on any rank, all ranks save after the step and end. NULL: never */
    const volatile sig_atomic_t *stop;
    /* Set to 1 on every rank when the loop starts to read `stop`; before that nothing would be saved. NULL: not set */
    volatile sig_atomic_t *looping;
};

struct lvn_train_result {
    int64_t step;                   /* finished steps */
    int64_t unlabeled;              /* steps whose batch had no label, which changed nothing */
    double loss;                    /* of the last step; NaN: no step was made, or it had no label */
    double val_loss;                /* latest; NaN: none */
    double best_val_loss;           /* lowest; NaN: none */
    double start_val_loss;          /* before the first step; NaN: unknown */
    bool already_done;              /* a resumed run had nothing left to do and changed nothing */
    bool finished;                  /* all steps of trainer.max_steps and trainer.max_epochs are done */
    bool by_callback;               /* a callback, such as early stopping, ended the run */
    char end_reason[240];           /* reason of the end; already_done: a callback's reason not to continue, or "" */
    bool requeue;                   /* stopped by LVN_STOP_REQUEUE, on any rank */
    char run_dir[LVN_RUN_DIR_TEXT]; /* "": none */
};

/* Train with settings that lvn_settings_finish() completed with all parts. OK: a limit was reached; STOPPED: stopped on
 * request, after saving. `result` may be NULL. */
enum lvn_status lvn_train(struct levin_settings *s, const struct lvn_train_options *o,
                          struct lvn_train_result *result) LVN_CHECKED;

#endif
