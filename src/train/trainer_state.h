/* trainer_state.h - what the files of the trainer share: trainer.c (the loop), trainer_setup.c (all before it) and
 * trainer_between.c (between steps). */
#ifndef LVN_TRAINER_STATE_H
#define LVN_TRAINER_STATE_H

#include "data/loader.h"
#include "train/metrics.h"
#include "train/model_setup.h"
#include "train/saver.h"
#include "train/snapshot.h"
#include "train/tally.h"
#include "train/trainer.h"
#include "train/training.h"

struct trainer {
    struct lvn_settings *s;
    const struct lvn_train_options *o;
    struct lvn_ranks *ranks;
    struct lvn_model_setup setup; /* data, model sizes, where the weights come from */
    struct lvn_loader train, val;
    bool has_val;
    struct lvn_training training;
    struct lvn_tally tally;
    double *val_losses;     /* [batches][micro-batches of all ranks], then how many labels count */
    struct lvn_run_dir dir; /* rank 0's alone, as are the files in it */
    struct lvn_checkpoint from;
    bool goes_on;           /* from a checkpoint, on all ranks */
    struct lvn_snapshot at; /* where that stood */
    struct lvn_metrics metrics;
    bool dir_open, from_open, metrics_warned;
    int64_t val_every, val_batches; /* steps; batches, 0: all */
    int64_t step, last_step;        /* finished; where to end */
    int64_t first_step;             /* finished when this process began */
    int64_t saved_step, validated_step;
    struct lvn_saver saver;       /* rank 0's */
    bool saving;                  /* on all ranks: step saved_step is being saved, and not all know how that ended */
    bool save_failed;             /* rank 0: it is known here, and told */
    double first_loss, last_loss; /* running means over the steps of this process, for the verdict at its end */
    int64_t labels;               /* that count in the batch which is loaded, over all ranks */
    bool stop, again, over; /* some rank was asked to stop; so that the run goes on later; trainer.max_time is over */
    uint64_t fingerprint;
    double started, epoch_started, memory_looked;
    int64_t memory, peak; /* bytes, when memory was last looked at */
    double matmul_rate;   /* FLOP/s that all ranks together reach; 0: not measured */
    struct lvn_event e;
    char text[1200];
};

/* Tell the listeners: on rank 0, the others keep still. */
void lvn_trainer_tell(struct trainer *t, enum lvn_event_kind kind, const char *text);
/* A failure that does not end the run. */
void lvn_trainer_note_failure(struct trainer *t, const char *what);
/* Whether this rank was asked to stop or its time is over, for ranks to add up; and what came of that. */
void lvn_trainer_count_flags(const struct trainer *t, double *count);
void lvn_trainer_read_flags(struct trainer *t, const double *count);

/* Between steps: on all ranks together. */
enum lvn_status lvn_trainer_validate(struct trainer *t) LVN_CHECKED;
/* Rank 0 begins to save, and training may go on meanwhile. A failure is told when it happens, and the run goes on with
 * its former checkpoints. */
enum lvn_status lvn_trainer_save(struct trainer *t) LVN_CHECKED;
/* The same to the end: all know whether it is saved. */
enum lvn_status lvn_trainer_save_now(struct trainer *t, bool *saved) LVN_CHECKED;
/* Rank 0, between steps: tell what came of what was begun, once that is known. With `wait`, when it is. */
void lvn_trainer_look_after_saving(struct trainer *t, bool wait);
void lvn_trainer_sample(struct trainer *t);
/* Step t->step + 1 gave numbers that are not finite, and changed nothing: save what there is and say where they came
 * from. Always fails: NONFINITE, unless something worse happened. */
enum lvn_status lvn_trainer_explain_nonfinite(struct trainer *t, double loss) LVN_CHECKED;

/* Open, plan, allocate and load, and describe the run in t->e; all ranks leave it with the same status. */
enum lvn_status lvn_trainer_set_up(struct trainer *t) LVN_CHECKED;
/* Load this rank's rows of step `step`, and count their labels. */
enum lvn_status lvn_trainer_load_batch(struct trainer *t, int64_t step, int64_t *labels) LVN_CHECKED;

#endif
