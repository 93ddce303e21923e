/* model_state.h - a model in memory, and what runs it.
 *
 * A network owns the flat buffers of parameters, gradients and optimizer state, and one arena. A runner is a graph
 * planned for one set of shapes: a training step, an evaluation batch, a decoding step. Runners share all of the
 * network's memory; the arena is as large as the largest of them needs.
 *
 * Everything is planned before anything is allocated: make the network, make its runners, look at the sizes, then
 * lvn_model_state_allocate(). One thread calls; the team works inside lvn_session_run(). */
#ifndef LVN_MODEL_STATE_H
#define LVN_MODEL_STATE_H

#include "backend/backend.h"
#include "host/machine.h"
#include "tasks/task.h"

struct lvn_session;

struct lvn_model_state {
    struct lvn_model_config config;
    struct lvn_params *params;
    enum lvn_dtype real;
    struct lvn_device *device;
    enum lvn_precision precision;
    enum lvn_dtype weights;   /* of parameters */
    enum lvn_dtype gradients; /* of theirs, once a runner that trains was made */
    enum lvn_dtype state;     /* of the optimizer's moments */
    int threads, processes;
    int64_t bytes[LVN_BUFFER_COUNT]; /* planned sizes of PARAM, GRAD (all slots), STATE0, STATE1, SCALE, ARENA */
    struct lvn_memory *memory[LVN_BUFFER_COUNT]; /* NULL until allocated, or of 0 bytes */
    int moments;                                 /* that the optimizer keeps, on this rank or on others: 0, 1 or 2 */
    struct lvn_session **runners;
    int n_runners;
};

struct lvn_model_state_options {
    const struct lvn_backend *backend; /* NULL: cpu */
    int device;                        /* number of one of its devices */
    bool tf32;                         /* products of fp32 may be in TF32, where it has that */
    enum lvn_dtype real;               /* fp32, or fp64 where the backend has it */
    enum lvn_precision precision;
    int threads;          /* 0: lvn_threads_default() */
    enum lvn_decay decay; /* which parameters decay */
    const char *freeze;   /* patterns over names of parameters that stay as they are; NULL or "": none */
    int processes;        /* that share this machine's memory equally; 0: one */
};

enum lvn_status lvn_model_state_new(struct lvn_model_state **out, const struct lvn_model_config *c,
                                    const struct lvn_model_state_options *o) LVN_CHECKED;
void lvn_model_state_free(struct lvn_model_state *n); /* NULL: nothing; frees the runners too */
/* Forget the runners, so that others can be planned and allocated for. Parameters and optimizer state stay. */
void lvn_model_state_drop_sessions(struct lvn_model_state *n);
/* Bytes of the shared buffers that are allocated. */
int64_t lvn_model_state_allocated_bytes(const struct lvn_model_state *n);
/* Bytes of the buffers of all runners made so far, inputs and kept states included: what lvn_model_state_allocate()
 * takes.
 */
int64_t lvn_model_state_bytes(const struct lvn_model_state *n);
/* What of that is for batches that are written beside a step, on a device of this backend. */
int64_t lvn_model_state_async_bytes(const struct lvn_model_state *n, const struct lvn_backend *on);
/* Bytes that are free for all of it: of the device's own memory, or this process's part of the machine's; 0: not known.
 */
int64_t lvn_model_state_available(const struct lvn_model_state *n);
/* Is what is not allocated yet free, as far as that is known? */
bool lvn_model_state_fits(const struct lvn_model_state *n);
/* MEMORY: what the network takes, by buffer, what is free, and then the advice. */
enum lvn_status lvn_model_state_refuse(const struct lvn_model_state *n, const char *advice) LVN_CHECKED;
/* What runners have besides the shared buffers: batches and what comes of them; caches; their programs, with the calls
 * that these are bound to. */
struct lvn_session_bytes {
    int64_t batches, caches, programs;
};
struct lvn_session_bytes lvn_model_state_session_bytes(const struct lvn_model_state *n);
/* Floating-point operations a second that the device reaches in matrix products of this precision; 0: not measured. */
enum lvn_status lvn_model_state_rate(const struct lvn_model_state *n, double *flops_per_s) LVN_CHECKED;
/* Allocate what the runners need and is not there yet; after the last runner was made. MEMORY with a sentence when this
 * machine's memory does not hold it: said before anything is taken. */
enum lvn_status lvn_model_state_allocate(struct lvn_model_state *n) LVN_CHECKED;
/* A parameter's values, of n->weights, from the device and to it. */
enum lvn_status lvn_model_state_read(const struct lvn_model_state *n, const struct lvn_param *p, void *to) LVN_CHECKED;
enum lvn_status lvn_model_state_write(const struct lvn_model_state *n, const struct lvn_param *p,
                                      const void *from) LVN_CHECKED;
/* The scale of the loss, once allocated; all zero where the loss is not scaled. A scale of 0 is not set. */
enum lvn_status lvn_model_state_scaling(const struct lvn_model_state *n, struct lvn_scaling *to) LVN_CHECKED;
enum lvn_status lvn_model_state_set_scaling(const struct lvn_model_state *n,
                                            const struct lvn_scaling *from) LVN_CHECKED;
/* Initial values, a function of (seed, name) alone, rounded to n->weights: of all parameters, or of adapters alone. */
enum lvn_status lvn_model_state_init_values(const struct lvn_model_state *n, uint64_t seed,
                                            bool adapters_only) LVN_CHECKED;

struct lvn_session_options {
    const struct lvn_fields *fields; /* of the samples */
    int64_t B;                       /* samples of a micro-batch */
    int64_t n_micro;                 /* micro-batches that one run may have at most; 0: 1 */
    const struct lvn_task *task;     /* NULL: the prediction alone */
    bool prediction;                 /* the prediction is an output; without a task it always is */
    bool answers;                    /* with the metrics of data whose samples have right answers */
    bool train;
    bool deterministic; /* sum micro-batches as a tree */
    enum lvn_recompute recompute;
    const struct lvn_optimizer *optimizer; /* NULL with train: gradients only */
    const struct lvn_sharding *sharding;   /* NULL: one rank; outlives the runner */
    const struct lvn_collectives *collectives;
    int64_t first_leaf,
        n_leaves;             /* number of micro-batch 0 in the global batch, and how many that has; 0, 0: all here */
    int64_t max_B, max_micro; /* of the rank that has most samples, where that may be another one; 0, 0: this one */
    int64_t cache_length;     /* > 0: decode with a key/value cache of so many positions */
    const struct lvn_session *caches; /* made before, whose caches this one works on; NULL: it has its own */
    int64_t cache_batch;              /* with caches: which rows of them, counted in batches of B */
    const struct lvn_session *longer; /* made before, the same for longer samples: whose inputs this one works on, and
                                        what it decided on types of gradients; NULL: none */
};

enum { LVN_CAPACITY_RESULT, LVN_CAPACITY_PREDICTION, LVN_CAPACITY_LOSSES, LVN_ROOMS };

struct lvn_session {
    struct lvn_model_state *network;
    struct lvn_session_options options;
    struct lvn_graph *graph;
    struct lvn_task_graph outputs;
    struct lvn_program *program;
    struct lvn_step step;
    struct lvn_result result; /* of the last run, and: */
    double *micro_losses;     /* (n_micro): sums */
    double *counts;           /* for metrics: lvn_task_counts(&outputs) */
    struct lvn_binding binding;
    struct lvn_bound *bound;
    struct lvn_memory *inputs[LVN_MAX_FIELDS]; /* (n_micro*B, field) */
    int field[LVN_MAX_FIELDS];                 /* which field of a batch is input k */
    int64_t pieces;                            /* into which gradients are summed */
    struct lvn_memory **caches;
    void *capacity[LVN_ROOMS]; /* for what is read of memory that the processor does not see */
    void (*before_update)(
        void *context); /* called once a run, when parameters and state are about to change; or NULL */
    void *context;
    enum lvn_status status; /* of the last run; where it failed nothing was updated */
};

enum lvn_status lvn_session_new(struct lvn_session **out, struct lvn_model_state *n,
                                const struct lvn_session_options *o) LVN_CHECKED;
/* Samples for the next run: rows [row, row + b->rows) of its inputs. The batch has the fields of the options. */
enum lvn_status lvn_session_feed(struct lvn_session *t, int64_t row, const struct lvn_samples *b) LVN_CHECKED;
/* Run micro-batches 0..n-1 and the update, if the runner has one. Returns the sum of the losses of all labels that are
 * not ignored (0 without a loss), summed over micro-batches as a tree. step.grad_scale etc. are the caller's to set. */
double lvn_session_run(struct lvn_session *t, int64_t n_micro);
/* The same in two parts: a device works meanwhile, and the next batch may be fed. */
void lvn_session_launch(struct lvn_session *t, int64_t n_micro);
double lvn_session_finish(struct lvn_session *t, int64_t n_micro);
/* The same, with hooks and collectives of one's own. */
enum lvn_status lvn_session_run_as(struct lvn_session *t, const struct lvn_execution *how) LVN_CHECKED;
/* Run again with a look at every value that an instruction writes: the name of the first that holds a number that is
 * not finite, or NULL. Gradients are written, but no parameter changes. */
const char *lvn_session_find_nonfinite(struct lvn_session *t, int64_t n_micro);
/* Outputs of the last micro-batch of the last run. */
const float *lvn_session_prediction(struct lvn_session *t); /* as outputs.prediction->desc */
const float *lvn_session_losses(struct lvn_session *t);     /* of each label, or of each sample */

/* Sum of x[0..n-1] as a binary tree, split at the largest power of two below n. */
double lvn_tree_sum(const double *x, int64_t n);

#endif
