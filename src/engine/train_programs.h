/* train_programs.h - the runners of a training run, planned from settings: what `train` runs, `bench` times and `plan`
 * shows.
 *
 * The global batch is divided over ranks. Where the micro-batch is given (trainer.micro_batch_size, or by
 * trainer.deterministic), it is the unit: each rank takes a contiguous range of them, and ranges need not be equally
 * long. Otherwise the unit is a row, and a rank cuts its rows only where memory wants it. How many units a rank takes
 * is its share: as many as the others or one more, or what is given (shares.h). */
#ifndef LVN_TRAIN_PROGRAMS_H
#define LVN_TRAIN_PROGRAMS_H

#include "engine/model_state.h"
#include "engine/reduction.h"

struct lvn_settings;

/* What plans further sessions on the model of a training: callbacks that generate samples, for instance. */
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
    int64_t block_size;           /* what a sample counts for in rates: its tokens, where it has some; else 1 */
    struct lvn_ranks *ranks;      /* NULL: planned only */
    int64_t *begin;               /* [ranks + 1] units of the global batch at which the ranks' shares begin */
    int64_t first_row, rows;      /* of the global batch, that this rank computes */
    int64_t micro, accumulation;  /* sequences run at once; micro-batches of a step on this rank */
    int64_t *leaf;                /* [ranks + 1] number of each rank's first micro-batch among all */
    int64_t n_micro;              /* micro-batches of a step on all ranks */
    int64_t pieces;               /* how many parts memory wants a rank's rows in, at least */
    int64_t wanted, capacity;     /* bytes of this rank's share, and how many are free; 0: not known */
    bool too_much;                /* memory does not hold the share, and does hold the model */
    enum lvn_recompute recompute; /* AUTO became BLOCKS where memory wants that */
    struct lvn_reduction reduction;
    struct lvn_optimizer optimizer;
    struct lvn_model_state *network;
    struct lvn_session *step, *eval; /* of the last step; eval: NULL without validation */
    /* Where fields are ragged, one of each for every planned length, on the same memory; else one. */
    struct lvn_session *steps[LVN_LENGTHS], *evals[LVN_LENGTHS];
    struct lvn_session *next; /* that was fed: of the step to come */
    int64_t length[LVN_LENGTHS];
    struct lvn_fields fields_of[LVN_LENGTHS];
    int n_lengths; /* 0: nothing is ragged */
    struct lvn_session_planner planner;
};

struct lvn_train_programs_options {
    struct lvn_ranks *ranks;         /* NULL: plan rank 0 of `size`, to look at */
    int size;                        /* where ranks is NULL; 0: 1 */
    int of_host;                     /* where ranks is NULL: how many of them share this machine; 0: 1 */
    const struct lvn_fields *fields; /* of the data */
    const struct lvn_task *task;
    bool validate;
    struct lvn_session_planner planner; /* all zero: none */
    int64_t pieces;       /* parts of a rank's rows, as in the run that is continued; 0: as memory wants it */
    const int64_t *share; /* [ranks] units of each; NULL: equal ones */
};

/* Plan for the whole share of a rank at once, or, where this machine's memory does not hold it and the micro-batch is
 * not given, for the largest parts that it holds; where that does not help either, and trainer.recompute is auto, with
 * the forward of blocks run again. Ranks agree on both. Allocates no buffers: lvn_train_programs_allocate() does.
 * Release it always. */
enum lvn_status lvn_train_programs_plan(struct lvn_train_programs *t, const struct lvn_settings *s,
                                        const struct lvn_model_config *c,
                                        const struct lvn_train_programs_options *o) LVN_CHECKED;
/* The same anew, with other shares, for a training whose network is allocated. What the ranks have of parameters and
 * optimizer stays; runners are new, and want lvn_model_state_allocate(). */
enum lvn_status lvn_train_programs_replan(struct lvn_train_programs *t,
                                          const struct lvn_train_programs_options *o) LVN_CHECKED;
void lvn_train_programs_release(struct lvn_train_programs *t);
/* The runner, of `runners` of t, for samples as long as these. */
struct lvn_session *lvn_train_programs_runner(const struct lvn_train_programs *t, struct lvn_session *const *runners,
                                              const struct lvn_samples *b);
/* This rank's rows for the next step; *labels: how many count. */
enum lvn_status lvn_train_programs_feed(struct lvn_train_programs *t, const struct lvn_samples *b,
                                        int64_t *labels) LVN_CHECKED;
/* One optimizer step on what was fed: this rank's rows. `step` counts from 0; `labels`: how many count in the
 * global batch. Losses of this rank's micro-batches are in t->step->micro_losses, the norm of the whole gradient
 * in t->step->result.grad_norm; where that is not finite no parameter has changed. Fails when communication does. */
enum lvn_status lvn_train_programs_step(struct lvn_train_programs *t, int64_t step, double lr,
                                        int64_t labels) LVN_CHECKED;
/* The same in two parts: between them a device works, and the next batch may be fed. The second tells how it went. */
void lvn_train_programs_launch(struct lvn_train_programs *t, int64_t step, double lr, int64_t labels);
enum lvn_status lvn_train_programs_finish(struct lvn_train_programs *t) LVN_CHECKED;
/* The first part of that, for callers that run the program by themselves: what changes with the step. */
void lvn_train_programs_prepare(struct lvn_train_programs *t, int64_t step, double lr, int64_t labels);

/* All ranks, when step `step`, on the batch that is loaded, gave numbers that are not finite: the lowest rank that
 * finds where they came from says so. `kept`: what became of the weights, for the sentence. Always fails. */
enum lvn_status lvn_train_programs_explain_nonfinite(struct lvn_train_programs *t, int64_t step, double loss,
                                                     const char *kept) LVN_CHECKED;

#endif
