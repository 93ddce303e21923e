/* parameters.h - the parameters of a model state by name: for each tensor a window on the elements that this rank
 * holds.
 *
 * All code outside of engine, passes and backends reads and changes parameters through it: loading, broadcast,
 * snapshots, the comparison of replicas, export, adapters. A window says which elements these are, which ranks hold the
 * others, and where the processor sees them, or that it does not. Two windows need not lie in one memory, nor side by
 * side. Left out: how buffers are laid out and allocated (graph/params.h, model_state.h), and who owns what when the
 * ranks share the work (passes/shard.h). */
#ifndef LVN_PARAMETERS_H
#define LVN_PARAMETERS_H

#include "engine/model_state.h"

struct lvn_ranks;

/* What there is of a parameter. */
enum lvn_parameters_of {
    LVN_PARAMETER_VALUES,
    LVN_PARAMETER_GRADIENTS, /* of trainable parameters: the sum that the last run left */
    LVN_PARAMETER_MOMENTS    /* of trainable parameters: moment 0 of the optimizer; moment k is MOMENTS + k */
};

struct lvn_parameter_window {
    const struct lvn_param *param; /* its name is that in Hugging Face's files, its block the first that declares it */
    struct lvn_desc desc;          /* the shape of the whole tensor, and the type of its elements here */
    int64_t first;                 /* of the tensor's elements in row-major order: the first one that this rank holds */
    int64_t count;                 /* elements that this rank holds; 0: none */
    int64_t bytes;                 /* of these elements */
    /* Ranks [first_owner, end_owner) hold a part each, in their order, and with trainer.fsdp_size those of every other
     * group as well; without shards: [0, size), and each holds all */
    int first_owner, end_owner;
    void *host; /* the elements; NULL: they are not in host memory: use the functions below */
    /* For these functions: */
    const struct lvn_model_state *collected; /* the tensor is on its owners, or gathered; NULL: it is in `memory` */
    enum lvn_parameters_of of;
    struct lvn_memory *memory;
    int64_t at;       /* bytes from its start */
    bool of_snapshot; /* reads are of the device's snapshot */
};

/* An iterator over all parameters, in the order of their declaration; of gradients and moments, over those that are
 * trained. Set the first two fields; the model state must be allocated. */
struct lvn_parameters {
    const struct lvn_model_state *model_state;
    enum lvn_parameters_of of;
    int next; /* number of the parameter that the next call looks at */
};
/* False: there are no more. */
bool lvn_parameters_next(struct lvn_parameters *i, struct lvn_parameter_window *w);
/* The window on one parameter. */
struct lvn_parameter_window lvn_parameters_at(const struct lvn_model_state *n, enum lvn_parameters_of of,
                                              const struct lvn_param *p);
/* Has this parameter such values, gradients or moments? A frozen one has values alone, and some optimizers keep fewer
 * moments of matrices; the elements of a moment that a parameter has not are never touched. */
bool lvn_parameters_has(const struct lvn_model_state *n, enum lvn_parameters_of of, const struct lvn_param *p);
/* Whether each rank holds a part of every tensor only. */
bool lvn_parameters_sharded(const struct lvn_model_state *n, enum lvn_parameters_of of);
/* Planned bytes on this rank, with the gaps of the layout; MOMENTS: of all moments; GRADIENTS: of all buffers. */
int64_t lvn_parameters_bytes(const struct lvn_model_state *n, enum lvn_parameters_of of);
/* Whether lvn_model_state_allocate() has given the parameters memory. */
bool lvn_parameters_allocated(const struct lvn_model_state *n);

/* --- the elements of a window --- */

/* Copy all of them from the device and to it. */
enum lvn_status lvn_parameter_read(const struct lvn_parameter_window *w, void *to) LVN_CHECKED;
enum lvn_status lvn_parameter_write(const struct lvn_parameter_window *w, const void *from) LVN_CHECKED;
/* A view for reading: in place, or copied into `buffer` [bytes]. NULL: the copy failed, and the error is recorded. */
const void *lvn_parameter_view(const struct lvn_parameter_window *w, void *buffer);
/* For reading and writing in place or in a copy, which is read first if `fill` is set, and written if it is closed with
 * `write_back`. Close it even if opening failed. */
enum lvn_status lvn_parameter_open(const struct lvn_parameter_window *w, struct lvn_window *out, bool fill) LVN_CHECKED;
enum lvn_status lvn_parameter_close(const struct lvn_parameter_window *w, struct lvn_window *opened,
                                    bool write_back) LVN_CHECKED;

/* --- whole tensors, where they are in shards --- */

/* All ranks: from here to lvn_parameters_end_collecting() rank 0 alone works. Its windows are on whole tensors, of all
 * that is in shards: reading collects a tensor from its owners, writing sends it to them. So no rank needs memory for
 * more than its shards and one tensor. The other ranks call lvn_parameters_end_collecting() at once, in which they
 * answer rank 0 until it calls it too. */
void lvn_parameters_begin_collecting(const struct lvn_model_state *n);
/* The error of communication, if any. Without shards nothing is sent. */
enum lvn_status lvn_parameters_end_collecting(const struct lvn_model_state *n) LVN_CHECKED;
/* Whether anything is in shards. */
bool lvn_parameters_any_sharded(const struct lvn_model_state *n);

/* The elements of a parameter that a rank holds, from *first on; returns how many. */
int64_t lvn_parameters_held_by(const struct lvn_model_state *n, enum lvn_parameters_of of, const struct lvn_param *p,
                               int rank, int64_t *first);
/* The window on what this rank holds, also while tensors are collected or gathered. */
struct lvn_parameter_window lvn_parameters_held(const struct lvn_model_state *n, enum lvn_parameters_of of,
                                                const struct lvn_param *p);
/* For shard_files.h. From here to the end windows are on whole tensors, on any rank, of all that is in shards. Only
 * those of the list, which the caller has gathered, can be read. */
struct lvn_parameter_gathered {
    enum lvn_parameters_of of;
    const struct lvn_param *param;
    const void *values;
};
void lvn_parameters_begin_gathering(const struct lvn_model_state *n);
void lvn_parameters_set_gathered(const struct lvn_model_state *n, const struct lvn_parameter_gathered *list, int count);
void lvn_parameters_end_gathering(const struct lvn_model_state *n);

/* For model_state.c. */
struct lvn_parameter_exchange {
    bool collecting, gathering;
    enum lvn_status status; /* the first error of communication */
    const struct lvn_parameter_gathered *gathered;
    int n_gathered;
};

/* --- values --- */

/* All ranks: rank 0's values to all, unless each has its shards: rank 0 collecting has sent those. */
enum lvn_status lvn_parameters_broadcast(const struct lvn_model_state *n, struct lvn_ranks *ranks) LVN_CHECKED;
/* Initial values of all parameters, or of adapters alone: a function of (seed, name), rounded to n->weights. */
enum lvn_status lvn_parameters_init_values(const struct lvn_model_state *n, uint64_t seed,
                                           bool adapters_only) LVN_CHECKED;

#endif
