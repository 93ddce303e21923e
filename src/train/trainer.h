/* trainer.h - the training loop.
 *
 * lvn_train() opens the data, plans, makes or continues the run's folder, and loops: batch, step, metrics, validation,
 * checkpoint. What happens is told to listeners (events.h); nothing is printed. */
#ifndef LVN_TRAINER_H
#define LVN_TRAINER_H

#include <signal.h>

#include "models/model.h"
#include "train/events.h"
#include "train/run_dir.h"
#include "train/settings.h"

struct lvn_ranks;

struct lvn_train_options {
    struct lvn_ranks *ranks; /* who takes part */
    enum lvn_run_mode mode;
    const struct lvn_model *model; /* a program's own; NULL: settings' model.kind */
    const struct lvn_listener *listeners;
    int n_listeners;
    const volatile sig_atomic_t *stop; /* when it becomes non-zero the run saves at the next step and ends; or NULL */
};

struct lvn_train_result {
    int64_t step;                   /* finished steps */
    double loss;                    /* of the last step; NaN: none was made */
    double val_loss, best_val_loss; /* NaN: none */
    bool already_done;              /* a resumed run had nothing left to do: nothing was changed */
    char run_dir[1024];
};

/* Train as the settings say (lvn_settings_finish()ed with all parts). OK: the limits are reached; STOPPED: stopped on
 * request, after saving. `result` may be NULL. */
enum lvn_status lvn_train(struct lvn_settings *s, const struct lvn_train_options *o,
                          struct lvn_train_result *result) LVN_CHECKED;

#endif
