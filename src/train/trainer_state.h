/* trainer_state.h - a run in pieces: what lvn_train() goes through in one call, and a program that holds a run
 * (c_api.c) piece by piece. trainer_setup.c is all before the first step, trainer.c the rest. All ranks call alike.
 */
#ifndef LVN_TRAINER_STATE_H
#define LVN_TRAINER_STATE_H

#include "data/prefetch.h"
#include "engine/shares.h"
#include "engine/train_programs.h"
#include "model_io/adapters.h"
#include "model_io/model_setup.h"
#include "train/callback.h"
#include "train/saver.h"
#include "train/snapshot.h"
#include "train/step_statistics.h"
#include "train/trainer.h"
#include "train/validation.h"

/* The scalars of every run; the metrics of its task follow, of validation, then of training. */
enum {
    SCALAR_LOSS,
    SCALAR_GRAD_NORM,
    SCALAR_LR,
    SCALAR_TOKENS_PER_S,
    SCALAR_EPOCH,
    SCALAR_TIME,
    SCALAR_MEMORY,
    SCALAR_VAL_LOSS,
    SCALAR_METRIC
};

struct trainer {
    struct lvn_settings *s;
    const struct lvn_train_options *o;
    struct lvn_ranks *ranks;
    struct lvn_model_setup setup; /* data, model sizes, where the weights come from */
    struct lvn_adapter_base base; /* with lora.rank, on rank 0: its model */
    struct lvn_loader train;
    struct lvn_validation validation;
    char metric[2 * LVN_TASK_METRICS][48]; /* names of the metrics' scalars */
    struct lvn_train_programs training;
    struct lvn_train_programs_options plan; /* that it was planned with */
    bool shared;                            /* in the shares that follow, not equally */
    int64_t *share, *better;                /* [ranks] units of each; others; NULL without trainer.share measured */
    double *seconds;                        /* [ranks] of a step */
    struct lvn_load_balance watch;
    struct lvn_prefetch *ahead; /* this rank's rows of the next batches */
    struct lvn_step_statistics tally;
    struct lvn_run_dir dir; /* rank 0's alone, as are the files in it */
    struct lvn_checkpoint from;
    bool goes_on;           /* from a checkpoint, on all ranks */
    struct lvn_snapshot at; /* where that stood */
    bool dir_open, from_open;
    struct lvn_callbacks callbacks;
    struct lvn_callback_context m; /* what they see; the event of it goes to listeners, too */
    int64_t step, last_step;       /* finished; where to end */
    int64_t schedule_steps;        /* over which the learning rate goes its way */
    int64_t first_step;            /* finished when this process began */
    int64_t validated_step;
    struct lvn_scalar *scaling; /* of t->m.event: the scale of the loss; NULL: it has none */
    struct lvn_saver saver;
    int64_t labels;         /* that count in the batch which is loaded, over all ranks */
    bool started, done;     /* there were events; nothing is left to do in the run that goes on */
    bool stop, again, over; /* some rank was asked to stop; so that the run goes on later; trainer.max_time is over */
    unsigned orders;        /* enum lvn_control: what callbacks of some rank wish, which all obey */
    uint64_t fingerprint;
    double epoch_started, memory_looked;
    int64_t memory, peak; /* bytes, when memory was last looked at */
    char text[1200], why[220];
};

/* Open, plan, allocate and load, and describe the run in t->m; all ranks leave it with the same status. */
enum lvn_status lvn_trainer_set_up(struct trainer *t) LVN_CHECKED;
/* trainer_shares.c: which shares the run begins with, where these are known; the plan; where they are not known, as
 * measured on the first batch, which is loaded; after each step, others, where speeds have changed. */
enum lvn_status lvn_trainer_shares_begin(struct trainer *t) LVN_CHECKED;
enum lvn_status lvn_trainer_plan(struct trainer *t) LVN_CHECKED;
enum lvn_status lvn_trainer_shares_measure(struct trainer *t) LVN_CHECKED;
enum lvn_status lvn_trainer_shares_step(struct trainer *t) LVN_CHECKED;
void lvn_trainer_shares_release(struct trainer *t);
/* What depends on which rows this rank computes: once the training is planned; before it is planned again. */
enum lvn_status lvn_trainer_allocate(struct trainer *t) LVN_CHECKED;
void lvn_trainer_release_rows(struct trainer *t);
/* Load this rank's rows of step `step`, and count their labels. */
enum lvn_status lvn_trainer_load_batch(struct trainer *t, int64_t step, int64_t *labels) LVN_CHECKED;

/* All until the first step, where t->done is false. Close it always. */
enum lvn_status lvn_trainer_open(struct trainer *t, struct lvn_settings *s,
                                 const struct lvn_train_options *o) LVN_CHECKED;
/* A step, and what is due after it. *why: the reason for which the run ends now, or NULL. */
enum lvn_status lvn_trainer_step(struct trainer *t, const char **why) LVN_CHECKED;
/* Only where t->validation.on; the values are scalars of t->m.event. */
enum lvn_status lvn_trainer_validate(struct trainer *t) LVN_CHECKED;
/* Save, and wait for the end of it. *saved: false where it could not be; then the callbacks have been told why. */
enum lvn_status lvn_trainer_save(struct trainer *t, bool *saved) LVN_CHECKED;
/* The last checkpoint and the last event. STOPPED where somebody asked for the end. */
enum lvn_status lvn_trainer_end(struct trainer *t, const char *why) LVN_CHECKED;
/* Release everything; `status`: how the run went, which it gives back unless closing fails. `result` may be NULL. */
enum lvn_status lvn_trainer_close(struct trainer *t, enum lvn_status status,
                                  struct lvn_train_result *result) LVN_CHECKED;

#endif
