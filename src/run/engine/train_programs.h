/* train_programs.h - the programs that a training needs, planned from options: a step and an evaluation session, one
 * of each per planned length, on one model state; with the division of the batch and the collectives.
 *
 * `train` runs them, `bench` times them, `plan` shows them. The memory is lvn_model_state, one bound program is
 * lvn_session; batches, learning rates and checkpoints belong to the loop, struct lvn_trainer
 * (train/trainer_private.h).
 *
 * The global batch is divided over ranks into contiguous ranges. If the micro-batch is given (trainer.micro_batch_size,
 * or by trainer.deterministic), it is the unit. Otherwise a row is the unit, and a rank divides its rows into
 * micro-batches that are large enough to be fast, and smaller ones only if memory requires it. Each rank computes the
 * same number of units, or one more, or its share (shares.h). */
#ifndef LVN_TRAIN_PROGRAMS_H
#define LVN_TRAIN_PROGRAMS_H

#include "engine/collective_runner.h"
#include "engine/session.h"

struct lvn_values;

/* Plans further sessions on the model state of a training, such as those of callbacks that generate samples. */
struct lvn_session_planner {
    void *context;
    /* Add sessions to n. block_size: tokens of a window; rank: this process's. NULL: nothing is added. */
    enum lvn_status (*plan)(void *context, struct lvn_model_state *n, int64_t block_size, int rank);
    /* The plan is dropped; another one may follow. */
    void (*forget)(void *context);
};

struct lvn_train_programs {
    const struct lvn_values *values;
    struct lvn_fields fields;     /* of a sample */
    int64_t block_size;           /* weight of a sample in rates: its tokens, if it has any; else 1 */
    double fill;                  /* share of these tokens that are not padding, if known (packed rows) */
    struct lvn_ranks *ranks;      /* NULL: planned only */
    int64_t *first_unit;          /* [ranks + 1] units of the global batch at which the ranks' ranges begin */
    int64_t first_row;            /* of the global batch, on this rank */
    int64_t rows;                 /* of the global batch, on this rank */
    int64_t micro_batch;          /* sequences per micro-batch */
    int64_t accumulation;         /* micro-batches of a step on this rank */
    int64_t *leaf;                /* [ranks + 1] index of each rank's first micro-batch in the global batch */
    int64_t global_micro_batches; /* micro-batches of a step, on all ranks together */
    int64_t min_micro_batches;    /* minimum micro-batches of a rank, as required by memory */
    int64_t needed_bytes;         /* memory of this rank's rows */
    int64_t free_bytes;           /* 0: unknown */
    enum lvn_recompute recompute; /* AUTO becomes CHEAP or BLOCKS if memory requires it */
    bool round_once;              /* keep rounded copies of parameters, unless memory is short */
    unsigned shards;              /* set of enum lvn_shards: from the strategy, or with auto as memory requires */
    int64_t
        whole_bytes; /* with auto, if something is sharded: memory of this rank without sharding; 0: less than free */
    struct lvn_collective_runner collectives;
    struct lvn_optimizer optimizer;
    struct lvn_model_state *model_state;
    struct lvn_session *step_session;               /* of the last step */
    struct lvn_session *eval_session;               /* NULL: no validation */
    struct lvn_session *next_session;               /* of the next step, whose inputs were fed */
    struct lvn_session *step_sessions[LVN_LENGTHS]; /* [n_lengths], by planned length, on the same memory; else [1] */
    struct lvn_session *eval_sessions[LVN_LENGTHS]; /* the same */
    int64_t length[LVN_LENGTHS];                    /* [n_lengths] planned lengths, in tokens */
    struct lvn_fields fields_of_length[LVN_LENGTHS];
    int n_lengths;     /* 0: all samples have the same length */
    int64_t unlabeled; /* steps so far whose batch had no label, which changed nothing */
    struct lvn_session_planner planner;
};

struct lvn_train_programs_options {
    struct lvn_ranks *ranks;         /* NULL: plan rank 0 of `size`, for display */
    int size;                        /* if ranks is NULL; 0: 1 */
    int local_size;                  /* if ranks is NULL: number of them on one machine; 0: 1 */
    int64_t machine_bytes;           /* memory of that machine; 0: free memory of this one */
    const struct lvn_fields *fields; /* of the data */
    const struct lvn_task *task;
    double fill; /* lvn_dataset_fill() of the training data; 0: not known */
    bool validate;
    struct lvn_session_planner planner; /* all zero: none */
    int64_t min_micro_batches;          /* of the resumed run; 0: as memory requires */
};

/* Plan each rank's rows as one micro-batch, or as several that are as fast (lvn_backend.micro_batch_tokens). If this
 * machine's memory is too small for that and the micro-batch is not given, plan the largest micro-batches that fit; if
 * that does not help and trainer.strategy is auto, shard the optimizer state, then also gradients and parameters; if
 * that does not help either and trainer.recompute is auto, recompute blocks. Ranks agree on all of these. Allocates no
 * buffers: lvn_train_programs_allocate() (memory_advice.h) does. Always release it. */
enum lvn_status lvn_train_programs_plan(struct lvn_train_programs *programs, const struct lvn_values *v,
                                        const struct lvn_model_config *c,
                                        const struct lvn_train_programs_options *o) LVN_CHECKED;
/* All ranks, after the memory is allocated and before it has contents: choose the algorithms of the programs (struct
 * lvn_tuning_ops of backend/backend.h). Rank 0 uses the recorded choices (NULL or "": none), and chooses the others if
 * `measure`; the other ranks use its choices. *refused: recorded choices that could not be used, on rank 0. */
enum lvn_status lvn_train_programs_tune(struct lvn_train_programs *programs, const char *recorded, bool measure,
                                        int *refused) LVN_CHECKED;
void lvn_train_programs_release(struct lvn_train_programs *programs);
/* The session of `sessions` (step_sessions or eval_sessions) for samples of this length. */
struct lvn_session *lvn_train_programs_session(const struct lvn_train_programs *programs,
                                               struct lvn_session *const *sessions, const struct lvn_samples *b);
/* Write this rank's rows for the next step; *labels: number of labels that count. */
enum lvn_status lvn_train_programs_feed(struct lvn_train_programs *programs, const struct lvn_samples *b,
                                        int64_t *labels) LVN_CHECKED;
/* One optimizer step on the rows that were fed. `step` counts from 0; `labels`: number that count in the global batch.
 * Afterwards step_session->micro_losses holds the losses of this rank's micro-batches, and
 * step_session->result.grad_norm the norm of the whole gradient; if the norm is not finite, no parameter has changed.
 * COMM: communication failed. */
enum lvn_status lvn_train_programs_step(struct lvn_train_programs *programs, int64_t step, double lr,
                                        int64_t labels) LVN_CHECKED;
/* The same in two parts, between which a device computes and the next batch may be fed. finish() returns the status. */
void lvn_train_programs_launch(struct lvn_train_programs *programs, int64_t step, double lr, int64_t labels);
enum lvn_status lvn_train_programs_finish(struct lvn_train_programs *programs) LVN_CHECKED;
/* Set only the step's arguments, for callers that run the session themselves. launch() calls it. */
void lvn_train_programs_prepare(struct lvn_train_programs *programs, int64_t step, double lr, int64_t labels);

/* All ranks, after step `step` gave non-finite values: the lowest rank that finds their origin names it. `fed`: the
 * batch of the step was fed again. `outcome`: what happened to the weights, for the message. Always fails. */
enum lvn_status lvn_train_programs_explain_nonfinite(struct lvn_train_programs *programs, int64_t step, double loss,
                                                     bool fed, const char *outcome) LVN_CHECKED;

#endif
