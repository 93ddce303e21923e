/* trainer.h - the training loop.
 *
 * lvn_train() opens the data, plans, makes or continues the run's folder, and loops: batch, step, metrics, validation,
 * checkpoint. What happens is told to listeners (events.h); nothing is printed. */
#ifndef LVN_TRAINER_H
#define LVN_TRAINER_H

#include <signal.h>

#include "models/model.h"
#include "settings/settings.h"
#include "train/events.h"
#include "train/run_dir.h"

struct lvn_callback;
struct lvn_ranks;

/* What a signal handler writes where `stop` points. AGAIN: the time that a batch system granted is over, and the run is
 * to go on when it grants more. */
enum lvn_stop { LVN_STOP_NOT, LVN_STOP_ASKED, LVN_STOP_AGAIN };

struct lvn_train_options {
    struct lvn_ranks *ranks; /* who takes part */
    enum lvn_run_mode mode;
    const char *launch;                  /* the levin launch that started the ranks; NULL: none (run_dir.h) */
    const struct lvn_model *model;       /* a program's own; NULL: settings' model.kind */
    const struct lvn_callback *callback; /* a program's own, called last; NULL: none */
    const struct lvn_listener *listeners;
    int n_listeners;
    /* enum lvn_stop: when it is no longer NOT on any rank, all save at the next step and end; or NULL */
    const volatile sig_atomic_t *stop;
    /* Set, on every rank, when the loop begins to look at `stop`; before that nothing would be saved. Or NULL */
    volatile sig_atomic_t *looping;
};

struct lvn_train_result {
    int64_t step;                   /* finished steps */
    double loss;                    /* of the last step; NaN: none was made */
    double val_loss, best_val_loss; /* NaN: none */
    double start_val_loss;          /* before the first step; NaN: not known */
    bool already_done;              /* a resumed run had nothing left to do: nothing was changed */
    char why[240];                  /* it ended; already_done: what a callback has against going on, or "" */
    bool again;                     /* stopped by LVN_STOP_AGAIN, on any rank */
    char run_dir[LVN_RUN_DIR_TEXT]; /* "": nothing is kept */
};

/* Train as the settings say (lvn_settings_finish()ed with all parts). OK: the limits are reached; STOPPED: stopped on
 * request, after saving. `result` may be NULL. */
enum lvn_status lvn_train(struct lvn_settings *s, const struct lvn_train_options *o,
                          struct lvn_train_result *result) LVN_CHECKED;

#endif
