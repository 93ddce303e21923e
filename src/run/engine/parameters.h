/* parameters.h - access to the parameters of a model state by name: for each tensor a window on the elements that this
 * rank holds.
 *
 * All code outside of engine, passes and backends reads and changes parameters through it: loading, broadcast,
 * snapshots, the comparison of replicas, export, adapters. A window describes these elements, the ranks that hold the
 * others, and their host address, if any. Two windows may be in different memories and need not be adjacent. See
 * graph/params.h and model_state.h for layout and allocation of buffers, and passes/shard.h for ownership. */
#ifndef LVN_PARAMETERS_H
#define LVN_PARAMETERS_H

#include "engine/model_state.h"

struct lvn_ranks;

/* The values of a parameter that a window covers. */
enum lvn_parameters_of {
    LVN_PARAMETER_VALUES,
    LVN_PARAMETER_GRADIENTS, /* of trainable parameters: the sum of the last run */
    LVN_PARAMETER_MOMENTS    /* of trainable parameters: moment 0 of the optimizer; moment k is MOMENTS + k */
};

struct lvn_parameter_window {
    const struct lvn_param *param; /* has the name in Hugging Face files, and the block that declares it first */
    struct lvn_desc desc;          /* shape of the whole tensor, and type of its elements here */
    int64_t first;                 /* index of the first element that this rank holds, in row-major order */
    int64_t count;                 /* number of elements that this rank holds; in packed blocks: all */
    int64_t bytes;                 /* of these elements */
    /* Ranks [first_owner, end_owner) hold one part each, in order; with trainer.fsdp_size those of every other group as
     * well. Without shards it is [0, size), and each rank holds all. */
    int first_owner, end_owner;
    void *host; /* the elements; NULL: not in host memory, use the functions below */
    /* For these functions: */
    const struct lvn_model_state *collected; /* the tensor is on its owners or gathered; NULL: it is in `memory` */
    enum lvn_parameters_of of;
    struct lvn_memory *memory;
    int64_t at;       /* byte offset in it */
    bool of_snapshot; /* reads are from the device's snapshot */
};

/* An iterator over all parameters in the order of declaration; of gradients and moments, over trainable parameters. Set
 * the first two fields; the model state must be allocated. */
struct lvn_parameters {
    const struct lvn_model_state *model_state;
    enum lvn_parameters_of of;
    int next; /* number of the parameter that the next call considers */
};
/* False: no more. */
bool lvn_parameters_next(struct lvn_parameters *i, struct lvn_parameter_window *w);
/* The window on one parameter. */
struct lvn_parameter_window lvn_parameters_at(const struct lvn_model_state *n, enum lvn_parameters_of of,
                                              const struct lvn_param *p);
/* Does the parameter have such values, gradients or moments? A frozen one has only values, and some optimizers keep
 * fewer moments of matrices; elements of a moment that a parameter does not have are never touched. */
bool lvn_parameters_has(const struct lvn_model_state *n, enum lvn_parameters_of of, const struct lvn_param *p);
/* Does each rank hold only a part of every tensor? */
bool lvn_parameters_sharded(const struct lvn_model_state *n, enum lvn_parameters_of of);
/* Planned bytes on this rank, with the gaps of the layout; MOMENTS: of all moments; GRADIENTS: of all buffers. */
int64_t lvn_parameters_bytes(const struct lvn_model_state *n, enum lvn_parameters_of of);
/* Has lvn_model_state_allocate() allocated the parameters? */
bool lvn_parameters_allocated(const struct lvn_model_state *n);

/* --- the elements of a window --- */

/* Copy all of them from the device and to it. */
enum lvn_status lvn_parameter_read(const struct lvn_parameter_window *w, void *to) LVN_CHECKED;
enum lvn_status lvn_parameter_write(const struct lvn_parameter_window *w, const void *from) LVN_CHECKED;
/* A read-only view: in place, or copied to `buffer` [bytes]. NULL: the copy failed and recorded the error. */
const void *lvn_parameter_view(const struct lvn_parameter_window *w, void *buffer);
/* For reading and writing in place or in a copy, which is filled first if `fill` is set, and written back if it is
 * closed with `write_back`. Close it even if opening failed. */
enum lvn_status lvn_parameter_open(const struct lvn_parameter_window *w, struct lvn_window *out, bool fill) LVN_CHECKED;
enum lvn_status lvn_parameter_close(const struct lvn_parameter_window *w, struct lvn_window *opened,
                                    bool write_back) LVN_CHECKED;

/* Convert values in fp32 to the type of the window, at its opened memory `to`; packed blocks: quantizes the whole
 * tensor, which takes memory for a second copy of the values. */
enum lvn_status lvn_parameter_store(const struct lvn_model_state *n, const struct lvn_parameter_window *w,
                                    float *values, void *to) LVN_CHECKED;

/* --- whole tensors, if they are sharded --- */

/* All ranks. Until lvn_parameters_end_collecting() only rank 0 works. Its windows cover whole tensors of everything
 * that is sharded: reading collects a tensor from its owners, writing sends it to them. So no rank needs memory for
 * more than its shards and one tensor. The other ranks call lvn_parameters_end_collecting() immediately, in which they
 * answer rank 0 until it calls it too. */
void lvn_parameters_begin_collecting(const struct lvn_model_state *n);
/* Return the error of communication, if any. Without shards nothing is sent. */
enum lvn_status lvn_parameters_end_collecting(const struct lvn_model_state *n) LVN_CHECKED;
/* Is anything sharded? */
bool lvn_parameters_any_sharded(const struct lvn_model_state *n);

/* The elements of a parameter that a rank holds, from *first on; returns their number. */
int64_t lvn_parameters_held_by(const struct lvn_model_state *n, enum lvn_parameters_of of, const struct lvn_param *p,
                               int rank, int64_t *first);
/* The window on the elements that this rank holds, also while tensors are collected or gathered. */
struct lvn_parameter_window lvn_parameters_held(const struct lvn_model_state *n, enum lvn_parameters_of of,
                                                const struct lvn_param *p);
/* For shard_files.h. Until the end, windows cover whole tensors of everything that is sharded, on any rank. Only
 * tensors of the list, which the caller has gathered, can be read. */
struct lvn_parameter_gathered {
    enum lvn_parameters_of of;
    const struct lvn_param *param;
    const void *values;
};
void lvn_parameters_begin_gathering(const struct lvn_model_state *n);
void lvn_parameters_set_gathered(const struct lvn_model_state *n, const struct lvn_parameter_gathered *list, int count);
void lvn_parameters_end_gathering(const struct lvn_model_state *n);

/* Owned by model_state.c. */
struct lvn_parameter_exchange {
    bool collecting, gathering;
    enum lvn_status status; /* the first error of communication */
    const struct lvn_parameter_gathered *gathered;
    int n_gathered;
};

/* --- values --- */

/* All ranks: send rank 0's values to all, unless ranks have shards, which rank 0 has sent while collecting. */
enum lvn_status lvn_parameters_broadcast(const struct lvn_model_state *n, struct lvn_ranks *ranks) LVN_CHECKED;
/* Set the initial values of all parameters, or only of adapters: a function of (seed, name), rounded to n->weights. */
enum lvn_status lvn_parameters_init_values(const struct lvn_model_state *n, uint64_t seed,
                                           bool adapters_only) LVN_CHECKED;

#endif
