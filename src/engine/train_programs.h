/* train_programs.h - the programs that a training needs, planned from settings: a step and an evaluation session, one
 * of each for every planned length, on one model state; with the division of the batch and the collectives.
 *
 * `train` runs them, `bench` times them, `plan` shows them. The memory is lvn_model_state, one bound program is
 * lvn_session; batches, learning rates and checkpoints belong to the loop, struct trainer (train/trainer_private.h).
 *
 * The global batch is divided over ranks into contiguous ranges. If the micro-batch is given (trainer.micro_batch_size,
 * or by trainer.deterministic), it is the unit. Otherwise a row is the unit, and a rank cuts its rows into
 * micro-batches only if memory requires it. Each rank takes as many units as the others or one more, or its load weight
 * (load_balance.h). */
#ifndef LVN_TRAIN_PROGRAMS_H
#define LVN_TRAIN_PROGRAMS_H

#include "engine/reduction.h"
#include "engine/session.h"

struct lvn_settings;

/* Plans further sessions on the model state of a training, such as those of callbacks that generate samples. */
struct lvn_session_planner {
    void *context;
    /* Add sessions to n. block_size: tokens of a window; rank: this process's. NULL: nothing is added. */
    enum lvn_status (*plan)(void *context, struct lvn_model_state *n, int64_t block_size, int rank);
    /* The plan is dropped: another one follows, or none. */
    void (*forget)(void *context);
};

struct lvn_train_programs {
    const struct lvn_settings *settings;
    struct lvn_fields fields;     /* of a sample */
    int64_t block_size;           /* what a sample counts for in rates: its tokens, if it has any; else 1 */
    struct lvn_ranks *ranks;      /* NULL: planned only */
    int64_t *first_unit;          /* [ranks + 1] units of the global batch at which the ranks' ranges begin */
    int64_t first_row;            /* of the global batch, on this rank */
    int64_t rows;                 /* of the global batch, on this rank */
    int64_t micro_batch;          /* sequences that are computed at once */
    int64_t accumulation;         /* micro-batches of a step on this rank */
    int64_t *leaf;                /* [ranks + 1] index of each rank's first micro-batch in the global batch */
    int64_t n_micro;              /* micro-batches of a step on all ranks */
    int64_t min_micro;            /* least micro-batches of a rank that its memory requires */
    int64_t needed_bytes;         /* by this rank's rows */
    int64_t free_bytes;           /* 0: not known */
    bool exceeds_memory;          /* the model fits into memory, the activations of this rank's rows do not */
    enum lvn_recompute recompute; /* AUTO became CHEAP or BLOCKS if memory requires that */
    unsigned shards;              /* set of enum lvn_shards: of the strategy, or with auto what memory requires */
    int64_t whole_bytes;          /* with auto, if something is sharded: by this rank without that; 0: less than free */
    struct lvn_reduction reduction;
    struct lvn_optimizer optimizer;
    struct lvn_model_state *model_state;
    struct lvn_session *step_session;               /* of the last step */
    struct lvn_session *eval_session;               /* NULL: no validation */
    struct lvn_session *next_session;               /* of the coming step: the one that was fed */
    struct lvn_session *step_sessions[LVN_LENGTHS]; /* [n_lengths], by planned length, on the same memory; else [1] */
    struct lvn_session *eval_sessions[LVN_LENGTHS]; /* the same */
    int64_t length[LVN_LENGTHS];                    /* [n_lengths] planned lengths, in tokens */
    struct lvn_fields fields_of_length[LVN_LENGTHS];
    int n_lengths; /* 0: all samples have the same length */
    struct lvn_session_planner planner;
};

struct lvn_train_programs_options {
    struct lvn_ranks *ranks;         /* NULL: plan rank 0 of `size`, for display */
    int size;                        /* if ranks is NULL; 0: 1 */
    int local_size;                  /* if ranks is NULL: how many of them share a machine; 0: 1 */
    int64_t machine_bytes;           /* of that machine's memory; 0: what is free on this one */
    const struct lvn_fields *fields; /* of the data */
    const struct lvn_task *task;
    bool validate;
    struct lvn_session_planner planner; /* all zero: none */
    int64_t min_micro;                  /* of the run that is continued; 0: as memory requires */
    const int64_t *load_weights;        /* [ranks] units of each; NULL: equal ones */
};

/* Plan each rank's rows as one micro-batch; or, if this machine's memory is too small for that and the micro-batch is
 * not given, as the largest micro-batches that fit; if that does not help and trainer.strategy is auto, with the
 * optimizer's state in shards, then with gradients and parameters too; and if that does not help either and
 * trainer.recompute is auto, with recomputed blocks. Ranks agree on all of these. Allocates no buffers:
 * lvn_train_programs_allocate() (memory_advice.h) does. Release it always. */
enum lvn_status lvn_train_programs_plan(struct lvn_train_programs *t, const struct lvn_settings *s,
                                        const struct lvn_model_config *c,
                                        const struct lvn_train_programs_options *o) LVN_CHECKED;
/* Plan again with other load weights, for a training whose model state is allocated. Parameters and optimizer state
 * stay; sessions are new, and need lvn_model_state_allocate(). */
enum lvn_status lvn_train_programs_replan(struct lvn_train_programs *t,
                                          const struct lvn_train_programs_options *o) LVN_CHECKED;
void lvn_train_programs_release(struct lvn_train_programs *t);
/* The session of `sessions` (t->step_sessions or t->eval_sessions) for samples of this length. */
struct lvn_session *lvn_train_programs_session(const struct lvn_train_programs *t, struct lvn_session *const *sessions,
                                               const struct lvn_samples *b);
/* Write this rank's rows for the next step; *labels: how many of them count. */
enum lvn_status lvn_train_programs_feed(struct lvn_train_programs *t, const struct lvn_samples *b,
                                        int64_t *labels) LVN_CHECKED;
/* One optimizer step on the rows that were fed. `step` counts from 0; `labels`: how many count in the global batch.
 * Afterwards t->step_session->micro_losses holds the losses of this rank's micro-batches,
 * t->step_session->result.grad_norm the norm of the whole gradient; if the norm is not finite no parameter has changed.
 * COMM when communication fails. */
enum lvn_status lvn_train_programs_step(struct lvn_train_programs *t, int64_t step, double lr,
                                        int64_t labels) LVN_CHECKED;
/* The same in two parts: a device computes between them, and the next batch may be fed. finish() returns the status. */
void lvn_train_programs_launch(struct lvn_train_programs *t, int64_t step, double lr, int64_t labels);
enum lvn_status lvn_train_programs_finish(struct lvn_train_programs *t) LVN_CHECKED;
/* Set the step's arguments alone, for callers that run the session themselves. launch() calls it. */
void lvn_train_programs_prepare(struct lvn_train_programs *t, int64_t step, double lr, int64_t labels);

/* All ranks, when step `step` on the batch that was fed gave numbers that are not finite: the lowest rank that finds
 * their origin names it. `outcome`: what became of the weights, for the sentence. Always fails. */
enum lvn_status lvn_train_programs_explain_nonfinite(struct lvn_train_programs *t, int64_t step, double loss,
                                                     const char *outcome) LVN_CHECKED;

#endif
