/* trainer_private.h - struct lvn_trainer: the training loop in parts, by phase.
 *
 * lvn_train() (trainer.c) runs all of them in one call; a program that makes its steps itself (api/api_run.c) calls
 * them one by one. trainer_setup.c is everything before the first step (its parts: trainer_resume.c,
 * trainer_scalars.c, and trainer_notes.c for notes to the user), trainer.c is the rest. All ranks make the same calls.
 * The memory of the model is lvn_model_state, a program bound to it lvn_session, the programs that the loop runs
 * lvn_train_programs. */
#ifndef LVN_TRAINER_PRIVATE_H
#define LVN_TRAINER_PRIVATE_H

#include "base/text.h"
#include "data/prefetch.h"
#include "engine/train_programs.h"
#include "model_io/adapters.h"
#include "model_io/carried_files.h"
#include "model_io/model_setup.h"
#include "schedules/schedule.h"
#include "train/callback.h"
#include "train/due.h"
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

/* State determined by settings, data and the run's folder, before anything is planned. */
struct lvn_trainer_opened {
    struct lvn_model_setup setup;         /* data, sizes of the model, pretrained weights */
    struct lvn_model_config trained;      /* of the checkpoint if resuming, otherwise zeros */
    struct lvn_adapter_base adapter_base; /* with lora.rank, on rank 0: the model of the adapters */
    struct lvn_carried_files carried;     /* files of model.init's folder, on rank 0 */
    struct lvn_loader train_loader;
    struct lvn_validation validation; /* its buffers are allocated with the plan */
    uint64_t fingerprint;             /* of the data */
    uint64_t shards_hash;             /* of the tokens in shards, if ranks compare it; else 0 */
    int64_t last_step;                /* last step of the run; INT64_MAX: only time ends it */
    struct lvn_schedule schedule;     /* of the learning rate */
    struct lvn_run_dir run_dir;       /* rank 0's */
    struct lvn_checkpoint checkpoint; /* rank 0's, if resuming */
    bool run_dir_open;                /* on rank 0 */
    bool checkpoint_open;             /* on rank 0 */
    bool resuming;                    /* from a checkpoint, on all ranks */
    struct lvn_snapshot snapshot;     /* the checkpoint's progress */
};

/* The plan and its allocations. */
struct lvn_trainer_planned {
    struct lvn_train_programs programs;
    struct lvn_prefetch *prefetcher; /* this rank's rows of the next batches */
    struct lvn_step_statistics statistics;
    struct lvn_text choices;                    /* on rank 0: the device's (struct lvn_tuning_ops) */
    char metric_name[2 * LVN_TASK_METRICS][48]; /* of the metrics' scalars */
};

/* State that changes between the first and the last step. */
struct lvn_trainer_running {
    struct lvn_saver saver;
    bool started;                        /* START was announced */
    bool noted_unlabeled;                /* a step without labels was reported */
    int64_t bad_shards[LVN_MIX_SOURCES]; /* reported damaged shards of each source; see lvn_dataset_bad_shard() */
    bool noted_unlabeled_val;            /* a validation without labels was reported */
    bool done;                           /* a resumed run had nothing left to do */
    bool batch_missing;                  /* a rank could not read the batch of the next step */
    enum lvn_status read_status;         /* this rank's status of reading it; the error is saved */
    int64_t step;                        /* finished steps */
    int64_t first_step;                  /* finished steps when this process began */
    int64_t validated_step;              /* of the last validation; -1: none */
    unsigned due;                        /* after the last step and not done yet: a set of enum lvn_due */
    int64_t labels;                      /* labels that count in the batch that was fed, over all ranks */
    struct lvn_scalar *loss_scale;       /* in context.event; NULL: no loss scaling */
    double epoch_start_time;             /* lvn_seconds() */
    double validation_start;             /* lvn_seconds() */
    int64_t agrees_at;                   /* batch of this validation after which ranks exchange requests next */
    double memory_time;                  /* lvn_seconds() when memory was last read */
    int64_t memory_bytes;                /* resident, when last read */
    int64_t peak_bytes;                  /* highest resident, when last read */
    char end_reason[220];
};

/* Requests of any rank since the last step, combined over ranks; all ranks carry them out. */
struct lvn_trainer_requested {
    bool stop;        /* lvn_train_options.stop */
    bool requeue;     /* the run is to continue later: LVN_STOP_REQUEUE */
    bool time_is_up;  /* trainer.max_time */
    unsigned control; /* enum lvn_control, of callbacks */
};

struct lvn_trainer {
    struct levin_settings *settings;
    const struct lvn_train_options *options;
    struct lvn_ranks *ranks;
    struct lvn_callbacks callbacks;
    struct lvn_callback_context context; /* for callbacks; its event is also sent to listeners */
    char text[1200];                     /* for one message */
    struct lvn_trainer_opened opened;
    struct lvn_trainer_planned planned;
    struct lvn_trainer_running running;
    struct lvn_trainer_requested requested;
};

/* --- trainer_setup.c --- */

/* Open, plan, allocate and load, and describe the run in trainer->context; all ranks return the same status. */
enum lvn_status lvn_trainer_set_up(struct lvn_trainer *trainer) LVN_CHECKED;
/* Release the prefetcher and the buffers of statistics and validation. */
void lvn_trainer_release_rows(struct lvn_trainer *trainer);
/* Feed this rank's rows of step `step`; *labels: number of labels that count. */
enum lvn_status lvn_trainer_load_batch(struct lvn_trainer *trainer, int64_t step, int64_t *labels) LVN_CHECKED;

/* --- trainer_resume.c --- */

/* Open the run to resume before its data, because labels must have the classes of its model. */
enum lvn_status lvn_trainer_open_run_so_far(struct lvn_trainer *trainer) LVN_CHECKED;
/* Open the folder of a new run; check the run to resume. All ranks get the progress of rank 0's checkpoint. */
enum lvn_status lvn_trainer_open_run(struct lvn_trainer *trainer) LVN_CHECKED;

/* --- trainer_scalars.c --- */

/* Set the properties of the run in its event, and declare its scalars. */
void lvn_trainer_describe(struct lvn_trainer *trainer);

/* --- trainer_notes.c --- */

/* Notify listeners of surprising effects of the settings, on the data and on the plan. */
void lvn_trainer_note_data(struct lvn_trainer *trainer);
void lvn_trainer_note_plan(struct lvn_trainer *trainer);
/* Report the damaged shards that have been found since the last call (data.skip_bad_shards). */
void lvn_trainer_note_shards(struct lvn_trainer *trainer);

/* --- trainer.c --- */

/* Everything before the first step, unless trainer->running.done is set. Always close it. */
enum lvn_status lvn_trainer_open(struct lvn_trainer *trainer, struct levin_settings *s,
                                 const struct lvn_train_options *o) LVN_CHECKED;
/* A step, and the validation, checkpoint and events that are due after it. */
enum lvn_status lvn_trainer_step(struct lvn_trainer *trainer) LVN_CHECKED;
/* Do what is due after the last step, and what callbacks have requested. */
enum lvn_status lvn_trainer_do_due(struct lvn_trainer *trainer) LVN_CHECKED;
/* Why the run ends after the steps that were made; NULL: it continues. */
const char *lvn_trainer_end_reason(const struct lvn_trainer *trainer);
/* Only if trainer->opened.validation.on; the values are scalars of trainer->context.event. */
enum lvn_status lvn_trainer_validate(struct lvn_trainer *trainer) LVN_CHECKED;
/* Save, and wait until it is written. *saved: false if that failed; listeners have then been notified of the reason. */
enum lvn_status lvn_trainer_save(struct lvn_trainer *trainer, bool *saved) LVN_CHECKED;
/* Save the last checkpoint and send the event END. STOPPED: a stop was requested. */
enum lvn_status lvn_trainer_end(struct lvn_trainer *trainer, const char *reason) LVN_CHECKED;
/* Release everything. Returns `status`, the status of the run, unless closing fails. `result` may be NULL. */
enum lvn_status lvn_trainer_close(struct lvn_trainer *trainer, enum lvn_status status,
                                  struct lvn_train_result *result) LVN_CHECKED;

#endif
