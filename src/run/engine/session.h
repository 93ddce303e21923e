/* session.h - a program bound to a model state: one graph, planned for one set of shapes, with its inputs and results.
 *
 * A training step, an evaluation batch and a decoding step are sessions. The trainer's come from train_programs.h;
 * sampler, evaluation and tests create theirs here. A session belongs to its model state, which allocates and frees it
 * (model_state.h). The caller decides which sessions a run needs and which inputs they get. */
#ifndef LVN_SESSION_H
#define LVN_SESSION_H

#include "engine/model_state.h"

struct lvn_collective_runner;

struct lvn_session_options {
    const struct lvn_fields *fields; /* of the samples */
    int64_t B;                       /* samples of a micro-batch */
    int64_t n_micro_batches;         /* maximum micro-batches of a run; 0: 1 */
    const struct lvn_task *task;     /* NULL: only the prediction */
    bool prediction;                 /* make the prediction an output; always true without a task */
    bool train;
    bool deterministic; /* sum micro-batches as a tree */
    enum lvn_recompute recompute;
    bool round_once;                           /* keep rounded copies of parameters (struct lvn_plan_options) */
    const struct lvn_optimizer *optimizer;     /* NULL with train: gradients only */
    const struct lvn_collectives *collectives; /* for a session that trains; NULL: it has none, or they do nothing */
    int64_t first_leaf;                        /* index of micro-batch 0 in the global batch */
    int64_t n_leaves;                          /* micro-batches of the global batch; 0: only those of this session */
    int64_t max_B;                             /* B of the rank with the most samples; 0: this rank's */
    int64_t max_micro_batches;                 /* its n_micro_batches; 0: this rank's */
    int64_t cache_length;                      /* > 0: decode with a key/value cache of this many tokens */
    int64_t cache_tokens;                      /* maximum new tokens per run */
    const struct lvn_session *caches;          /* an earlier session whose caches this one uses; NULL: its own */
    int64_t cache_batch;                       /* with caches: index of their rows, in batches of B */
    const struct lvn_session *longer; /* an earlier, otherwise equal session for longer samples; this one uses its
                                         inputs and its types of gradients; NULL: none */
};

/* Host copies of results that are in device memory. */
enum { LVN_STAGING_RESULT, LVN_STAGING_PREDICTION, LVN_STAGING_LOSSES, LVN_STAGING_COUNT };

struct lvn_session {
    struct lvn_model_state *model_state;
    struct lvn_session_options options;
    struct lvn_collective_runner *gathers; /* collectives of a session that does not train, if parameters are sharded */
    struct levin_graph *graph;
    struct lvn_task_graph outputs;
    struct lvn_program *program;
    struct lvn_step step_args; /* set by the caller before a run */
    struct lvn_result result;  /* of the last run */
    double *micro_losses;      /* [n_micro_batches] sums of the last run */
    double *counts;            /* [lvn_task_counts(&outputs)] for metrics, of the last run */
    struct lvn_binding binding;
    struct lvn_bound *bound;
    struct lvn_memory *inputs[LVN_MAX_FIELDS]; /* (n_micro_batches*B, field) */
    int field[LVN_MAX_FIELDS];                 /* [input] index of its field in a batch */
    int64_t n_partial_sums;                    /* of a step's gradient (struct lvn_plan_options) */
    struct lvn_memory **caches;                /* keys and values */
    void *staging[LVN_STAGING_COUNT];          /* for results that the host cannot access */
    void (*before_update)(void *context);      /* called once per run, before parameters and state change; NULL: none */
    void *context;                             /* of before_update */
    enum lvn_status status;                    /* of the last run; a run that failed updated nothing */
};

/* Build the graph and plan the program. Allocates no buffers: lvn_model_state_allocate() does. */
enum lvn_status lvn_session_new(struct lvn_session **out, struct lvn_model_state *n,
                                const struct lvn_session_options *o) LVN_CHECKED;
/* Free a session; for model_state.c, which owns all sessions. */
void lvn_session_free(struct lvn_session *session);
/* Before binding: prepare its collectives, if it needs any; all ranks then run the session together. */
enum lvn_status lvn_session_prepare_gathers(struct lvn_session *session) LVN_CHECKED;
/* Return the functions that run the collectives of its program; NULL: do nothing. */
const struct lvn_collectives *lvn_session_collectives(const struct lvn_session *session);
/* Write rows [row, row + b->rows) of the inputs of the next run. The batch has the fields of the options. */
enum lvn_status lvn_session_feed(struct lvn_session *session, int64_t row, const struct lvn_samples *b) LVN_CHECKED;
/* Run micro-batches 0..n-1 and the update, if the session has one. Returns the sum of the losses of all labels that are
 * not ignored (0 without a loss), summed over micro-batches as a tree. The caller sets step_args.grad_scale etc. */
double lvn_session_run(struct lvn_session *session, int64_t n_micro_batches);
/* Run in two parts, between which a device computes and the next batch may be fed. */
void lvn_session_launch(struct lvn_session *session, int64_t n_micro_batches);
double lvn_session_finish(struct lvn_session *session, int64_t n_micro_batches);
/* Run once with the caller's hooks and collectives; returns the status instead of the loss. */
enum lvn_status lvn_session_run_as(struct lvn_session *session, const struct lvn_execution *execution) LVN_CHECKED;
/* Run again and check every value that an instruction writes. Returns the name of the first one that is not finite, or
 * NULL. Writes gradients, but changes no parameter. */
const char *lvn_session_find_nonfinite(struct lvn_session *session, int64_t n_micro_batches);
/* Outputs of the last micro-batch of the last run. */
const float *lvn_session_prediction(struct lvn_session *session); /* shape: outputs.prediction->desc */
const float *lvn_session_losses(struct lvn_session *session);     /* per label or per sample */

/* If the session has a metric of text: compute its sums, after a run of one micro-batch on these samples. */
enum lvn_status lvn_session_text_sums(struct lvn_session *session, const struct lvn_samples *b,
                                      struct lvn_text_sums *out) LVN_CHECKED;

/* Sum of x[0..n-1] as a binary tree, split at the largest power of two below n. */
double lvn_tree_sum(const double *x, int64_t n);

#endif
