/* network.h - a model in memory, and the tasks that run on it.
 *
 * A network owns the flat buffers of parameters, gradients and optimizer state, and one arena. A task is a graph
 * planned for one set of shapes: a training step, an evaluation batch, a decoding step. Tasks share all of the
 * network's memory; the arena is as large as the largest of them needs.
 *
 * Everything is planned before anything is allocated: make the network, make its tasks, look at the sizes, then
 * lvn_network_allocate(). One thread calls; the team works inside lvn_task_run(). */
#ifndef LVN_NETWORK_H
#define LVN_NETWORK_H

#include "models/model.h"
#include "passes/program.h"

struct lvn_task;

struct lvn_network {
    struct lvn_model_config config;
    struct lvn_params *params;
    enum lvn_dtype real;
    const struct lvn_kernels *kernels;
    enum lvn_precision precision;
    enum lvn_dtype weights; /* of parameters and their gradients */
    enum lvn_dtype state;   /* of the optimizer's moments */
    int threads, processes;
    int64_t bytes[LVN_BUFFER_COUNT]; /* planned sizes of PARAM, GRAD (all slots), STATE0, STATE1, ARENA */
    void *buffer[LVN_BUFFER_COUNT];  /* NULL until allocated, or of 0 bytes */
    int moments;                     /* that the optimizer keeps, on this rank or on others: 0, 1 or 2 */
    struct lvn_task **tasks;
    int n_tasks;
};

struct lvn_network_options {
    enum lvn_dtype real; /* fp32, or fp64 with the plain kernels */
    enum lvn_precision precision;
    int threads;          /* 0: lvn_threads_default() */
    enum lvn_decay decay; /* which parameters decay */
    const char *freeze;   /* patterns over names of parameters that stay as they are; NULL or "": none */
    int processes;        /* that share this machine's memory equally; 0: one */
};

enum lvn_status lvn_network_new(struct lvn_network **out, const struct lvn_model_config *c,
                                const struct lvn_network_options *o) LVN_CHECKED;
void lvn_network_free(struct lvn_network *n); /* NULL: nothing; frees the tasks too */
/* Bytes of the buffers of all tasks made so far, inputs and kept states included: what lvn_network_allocate() takes. */
int64_t lvn_network_bytes(const struct lvn_network *n);
/* Allocate what the tasks need; once, after the last task was made. MEMORY with a sentence when this machine's memory
 * does not hold it: said before anything is taken. */
enum lvn_status lvn_network_allocate(struct lvn_network *n) LVN_CHECKED;
/* The parameters' flat values, of n->weights; a parameter's own. */
void *lvn_network_values(const struct lvn_network *n);
void *lvn_network_value(const struct lvn_network *n, const struct lvn_param *p);
/* Initial values, a function of (seed, name) alone, rounded to n->weights: of all parameters, or of adapters alone. */
enum lvn_status lvn_network_init_values(const struct lvn_network *n, uint64_t seed, bool adapters_only) LVN_CHECKED;

struct lvn_task_options {
    int64_t B, T;    /* samples of a micro-batch, tokens of a sample */
    int64_t n_micro; /* micro-batches that one run may have at most; 0: 1 */
    bool with_loss;  /* labels are an input, the loss an output */
    bool logits;     /* the logits are an output */
    bool train;
    bool deterministic; /* sum micro-batches as a tree */
    enum lvn_recompute recompute;
    const struct lvn_optimizer *optimizer; /* NULL with train: gradients only */
    const struct lvn_sharding *sharding;   /* NULL: one rank; outlives the task */
    const struct lvn_collectives *collectives;
    int64_t first_leaf,
        n_leaves;         /* number of micro-batch 0 in the global batch, and how many that has; 0, 0: all here */
    int64_t cache_length; /* > 0: decode with a key/value cache of so many positions */
};

struct lvn_task {
    struct lvn_network *network;
    struct lvn_task_options options;
    struct lvn_graph *graph;
    struct lvn_model_graph model;
    struct lvn_program *program;
    struct lvn_step step;
    int32_t *ids, *labels; /* (n_micro*B, T): the caller fills them; labels NULL without a loss */
    double *micro_losses;  /* (n_micro): sums of the last run */
    struct lvn_binding binding;
    void *inputs[2];
    void **kept;
    int grad_slots;
    int64_t slot_bytes;
    int64_t running; /* micro-batches of the run now in progress */
    void (*before_update)(
        void *context); /* called once a run, when parameters and state are about to change; or NULL */
    void *context;
    bool failed; /* a collective of the last run did, and recorded why; nothing was updated */
};

enum lvn_status lvn_task_new(struct lvn_task **out, struct lvn_network *n,
                             const struct lvn_task_options *o) LVN_CHECKED;
/* Run micro-batches 0..n-1 and the update, if the task has one. Returns the sum of the losses of all labels that are
 * not ignored (0 without a loss), summed over micro-batches as a tree. step.grad_scale etc. are the caller's to set. */
double lvn_task_run(struct lvn_task *t, int64_t n_micro);
/* Run again with a look at every value that an instruction writes: the name of the first that holds a number that is
 * not finite, or NULL. Gradients are written, but no parameter changes. */
const char *lvn_task_find_nonfinite(struct lvn_task *t, int64_t n_micro);
/* Outputs of the last micro-batch of the last run. */
const float *lvn_task_logits(const struct lvn_task *t); /* (B,T,V) */
const float *lvn_task_losses(const struct lvn_task *t); /* (B*T) */

/* Sum of x[0..n-1] as a binary tree, split at the largest power of two below n. */
double lvn_tree_sum(const double *x, int64_t n);

#endif
