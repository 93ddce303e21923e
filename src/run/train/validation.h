/* validation.h - loss and metrics on validation data, between steps.
 *
 * The trainer runs it; the C API evaluates a split with it. trainer.val_check_interval and trainer.limit_val_batches
 * determine how often and on which batches. All ranks compute their rows of each batch, and one sum over ranks gives
 * the mean over all labels; dropout is off. `levin evaluate` has a separate loop (inference/evaluation.h). */
#ifndef LVN_VALIDATION_H
#define LVN_VALIDATION_H

#include "data/loader.h"
#include "engine/train_programs.h"

struct levin_settings;

struct lvn_validation {
    bool on; /* validation data exists, and settings request validation */
    struct lvn_loader loader;
    int64_t every;              /* steps between validations; 0: only at the end of the run */
    int64_t batches;            /* 0: all */
    struct lvn_samples samples; /* this rank's rows of a batch */
    double *sums;               /* losses [batches][micro-batches of all ranks], the same of text if a metric
                                   needs it, then counts, of metrics last */
    int64_t n_sums;
    int64_t labels;                 /* of the last run, over all ranks; 0: its loss and metrics are NaN */
    const double *counts;           /* of the last run, for metrics; in `sums`. NULL: none yet */
    double value[LVN_TASK_METRICS]; /* of the task's metrics, of the last run */
    /* Called by all ranks after each batch, also by one that has failed: it may be collective. NULL: none. */
    enum lvn_status (*progress)(void *context, int64_t done, int64_t all);
    void *context; /* for progress() */
};

/* data: of the run; train: the loader of its steps. Allocates nothing. Always release it. */
enum lvn_status lvn_validation_open(struct lvn_validation *v, const struct levin_settings *s,
                                    const struct lvn_loader *train, const struct lvn_dataset *data) LVN_CHECKED;
/* A whole split of the data, for lvn_validation_run(). ARG: the data has no such split. Always release it. */
enum lvn_status lvn_validation_open_part(struct lvn_validation *v, const struct lvn_loader *train,
                                         const struct lvn_dataset *data, enum lvn_split_id part) LVN_CHECKED;
/* Allocate buffers, once the training is planned. */
enum lvn_status lvn_validation_allocate(struct lvn_validation *v,
                                        const struct lvn_train_programs *programs) LVN_CHECKED;
void lvn_validation_release(struct lvn_validation *v);
/* All ranks: *loss gets the mean loss, v->value the metrics. */
enum lvn_status lvn_validation_run(struct lvn_validation *v, struct lvn_train_programs *programs,
                                   double *loss) LVN_CHECKED;
/* All ranks: run this many batches (< 0: all) and drop the result, to find errors early. */
enum lvn_status lvn_validation_try(struct lvn_validation *v, struct lvn_train_programs *programs,
                                   int64_t batches) LVN_CHECKED;

#endif
