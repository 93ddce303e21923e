/* validation.h - loss and metrics on data that is not trained on, in between steps.
 *
 * Which batches, and how often, follows from trainer.val_check_interval and trainer.limit_val_batches. All ranks
 * compute their rows of each batch, and one sum over ranks gives the mean over all labels; dropout is off. */
#ifndef LVN_VALIDATION_H
#define LVN_VALIDATION_H

#include "data/loader.h"
#include "engine/train_programs.h"

struct lvn_validation {
    bool on; /* there is something to validate on, and it is asked for */
    struct lvn_loader loader;
    int64_t every;              /* steps; 0: at the end of the run only */
    int64_t batches;            /* 0: all */
    struct lvn_samples samples; /* this rank's rows of a batch */
    double *sums;               /* losses [batches][micro-batches of all ranks], then what is counted, metrics last */
    int64_t n_sums;
    double value[LVN_TASK_METRICS]; /* of the task's metrics, the last time */
};

/* data: of the run; train: the loader of its steps. Release it always. */
enum lvn_status lvn_validation_open(struct lvn_validation *v, const struct lvn_settings *s,
                                    const struct lvn_loader *train, const struct lvn_dataset *data) LVN_CHECKED;
/* All of one part of the data, once, for lvn_validation_run(). ARG where there is none such. Release it always. */
enum lvn_status lvn_validation_open_part(struct lvn_validation *v, const struct lvn_loader *train,
                                         const struct lvn_dataset *data, enum lvn_split_id part) LVN_CHECKED;
/* Once the training is planned. */
enum lvn_status lvn_validation_allocate(struct lvn_validation *v, const struct lvn_train_programs *g) LVN_CHECKED;
void lvn_validation_release(struct lvn_validation *v);
/* All ranks: the mean loss, and the metrics' values. */
enum lvn_status lvn_validation_run(struct lvn_validation *v, struct lvn_train_programs *g, double *loss) LVN_CHECKED;
/* All ranks: the same on so many batches (< 0: all), for the failures that there may be. */
enum lvn_status lvn_validation_try(struct lvn_validation *v, struct lvn_train_programs *g, int64_t batches) LVN_CHECKED;

#endif
