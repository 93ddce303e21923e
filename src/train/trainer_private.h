/* trainer_private.h - struct trainer: the training loop in parts, by phase of life.
 *
 * lvn_train() (trainer.c) goes through all of them in one call; a program that makes its steps itself (api/api_run.c)
 * calls them one by one. trainer_setup.c is everything before the first step, trainer_load_balance.c changes load
 * weights, trainer.c is the rest. All ranks call alike. The memory of the model is lvn_model_state, a program bound to
 * it lvn_session, the programs that the loop runs lvn_train_programs. */
#ifndef LVN_TRAINER_PRIVATE_H
#define LVN_TRAINER_PRIVATE_H

#include "data/prefetch.h"
#include "engine/load_balance.h"
#include "engine/train_programs.h"
#include "model_io/adapters.h"
#include "model_io/model_setup.h"
#include "schedules/schedule.h"
#include "train/callback.h"
#include "train/saver.h"
#include "train/snapshot.h"
#include "train/step_statistics.h"
#include "train/trainer.h"
#include "train/validation.h"

/* Indices of the scalars of every run. The metrics of its task follow: of validation, then of training. */
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

/* What settings, data and the run's folder determine, before anything is planned. */
struct trainer_opened {
    struct lvn_model_setup setup;         /* data, sizes of the model, pretrained weights */
    struct lvn_adapter_base adapter_base; /* with lora.rank, on rank 0: the model of the adapters */
    struct lvn_loader train_loader;
    struct lvn_validation validation; /* its buffers are allocated with the plan */
    uint64_t fingerprint;             /* of the data */
    int64_t last_step;                /* at which the run ends; INT64_MAX: only time ends it */
    struct lvn_schedule schedule;     /* of the learning rate */
    struct lvn_run_dir run_dir;       /* rank 0's */
    struct lvn_checkpoint checkpoint; /* rank 0's, if resuming */
    bool run_dir_open;                /* on rank 0 */
    bool checkpoint_open;             /* on rank 0 */
    bool resuming;                    /* from a checkpoint, on all ranks */
    struct lvn_snapshot snapshot;     /* the checkpoint's progress; its load_weights are the run's current ones */
};

/* The plan, and what is allocated by it. All of it may be made again between two steps (trainer.share measured). */
struct trainer_planned {
    struct lvn_train_programs programs;
    struct lvn_train_programs_options options; /* with which programs were planned */
    struct lvn_prefetch *prefetcher;           /* this rank's rows of the next batches */
    struct lvn_step_statistics statistics;
    bool weighted;           /* ranks compute load_weights, not equal parts */
    int64_t *load_weights;   /* [ranks] units of each; NULL without trainer.share measured */
    int64_t *faster_weights; /* [ranks] the next ones; NULL as above */
    double *rank_seconds;    /* [ranks] of a step, or speeds while measuring; NULL as above */
    struct lvn_load_balance load_balance;
    char metric_name[2 * LVN_TASK_METRICS][48]; /* of the metrics' scalars */
};

/* What changes between the first and the last step. */
struct trainer_running {
    struct lvn_saver saver;
    bool started;                  /* START was announced */
    bool done;                     /* a resumed run had nothing left to do */
    int64_t step;                  /* finished steps */
    int64_t first_step;            /* finished when this process began */
    int64_t validated_step;        /* of the last validation; -1: none */
    int64_t labels;                /* that count in the batch that was fed, over all ranks */
    struct lvn_scalar *loss_scale; /* in context.event; NULL: the loss is not scaled */
    double epoch_start_time;       /* lvn_seconds() */
    double memory_time;            /* lvn_seconds() when memory was last read */
    int64_t memory_bytes;          /* resident, when last read */
    int64_t peak_bytes;            /* highest resident, when last read */
    char end_reason[220];
};

/* What some rank requested since the last step, or-ed over ranks: all ranks carry it out. */
struct trainer_requested {
    bool stop;        /* lvn_train_options.stop */
    bool requeue;     /* the run is to continue later: LVN_STOP_REQUEUE */
    bool time_is_up;  /* trainer.max_time */
    unsigned control; /* enum lvn_control, of callbacks */
};

struct trainer {
    struct lvn_settings *settings;
    const struct lvn_train_options *options;
    struct lvn_ranks *ranks;
    struct lvn_callbacks callbacks;
    struct lvn_callback_context context; /* of callbacks; its event goes to listeners, too */
    char text[1200];                     /* for one message */
    struct trainer_opened opened;
    struct trainer_planned planned;
    struct trainer_running running;
    struct trainer_requested requested;
};

/* --- trainer_setup.c --- */

/* Open, plan, allocate and load, and describe the run in t->context; all ranks return the same status. */
enum lvn_status lvn_trainer_set_up(struct trainer *t) LVN_CHECKED;
/* Allocate what depends on which rows this rank computes, once the training is planned; release it before it is planned
 * again. */
enum lvn_status lvn_trainer_allocate(struct trainer *t) LVN_CHECKED;
void lvn_trainer_release_rows(struct trainer *t);
/* Feed this rank's rows of step `step`; *labels: how many of them count. */
enum lvn_status lvn_trainer_load_batch(struct trainer *t, int64_t step, int64_t *labels) LVN_CHECKED;

/* --- trainer_parameters.c --- */

/* Load weights from the checkpoint, or from model.init and lora.init; or make initial ones. */
enum lvn_status lvn_trainer_load_parameters(struct trainer *t) LVN_CHECKED;

/* --- trainer_load_balance.c --- */

/* Set the load weights with which the run begins, if they are given or stored. */
enum lvn_status lvn_trainer_load_weights_init(struct trainer *t) LVN_CHECKED;
/* Plan the training with them. */
enum lvn_status lvn_trainer_plan(struct trainer *t) LVN_CHECKED;
/* Otherwise measure speeds on the first batch, which is loaded, and plan again. */
enum lvn_status lvn_trainer_load_weights_measure(struct trainer *t) LVN_CHECKED;
/* After each step: plan with other load weights if speeds have changed. */
enum lvn_status lvn_trainer_load_weights_step(struct trainer *t) LVN_CHECKED;
void lvn_trainer_load_weights_release(struct trainer *t);

/* --- trainer.c --- */

/* Everything before the first step, if t->running.done is false. Close it always. */
enum lvn_status lvn_trainer_open(struct trainer *t, struct lvn_settings *s,
                                 const struct lvn_train_options *o) LVN_CHECKED;
/* A step, and the validation, checkpoint and events that are due after it. *end_reason: why the run ends now, or NULL.
 */
enum lvn_status lvn_trainer_step(struct trainer *t, const char **end_reason) LVN_CHECKED;
/* Only if t->opened.validation.on; the values are scalars of t->context.event. */
enum lvn_status lvn_trainer_validate(struct trainer *t) LVN_CHECKED;
/* Save, and wait until it is written. *saved: false if that failed; then listeners have been told the reason. */
enum lvn_status lvn_trainer_save(struct trainer *t, bool *saved) LVN_CHECKED;
/* Save the last checkpoint and send the event END. STOPPED if the run was asked to stop. */
enum lvn_status lvn_trainer_end(struct trainer *t, const char *reason) LVN_CHECKED;
/* Release everything; returns `status`, how the run went, unless closing fails. `result` may be NULL. */
enum lvn_status lvn_trainer_close(struct trainer *t, enum lvn_status status,
                                  struct lvn_train_result *result) LVN_CHECKED;

#endif
