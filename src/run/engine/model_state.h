/* model_state.h - the memory of one model on one device: parameters, gradients, optimizer state and one arena.
 *
 * Trainer, sampler, evaluation and `levin bench` create one. It runs nothing: programs bound to it are sessions
 * (session.h); the set of sessions of a training is lvn_train_programs (train_programs.h); the loop over steps is
 * struct lvn_trainer (train/trainer_private.h).
 *
 * Everything is planned before anything is allocated: create the model state, create its sessions, compare their sizes
 * with the memory, then call lvn_model_state_allocate(). All sessions share the buffers; the arena has the size that
 * the largest session needs. parameters.h gives access to the contents by name. One thread makes all calls; the thread
 * team works inside lvn_session_run(). */
#ifndef LVN_MODEL_STATE_H
#define LVN_MODEL_STATE_H

#include "backend/backend.h"
#include "host/machine.h"
#include "tasks/task.h"

struct lvn_session;
struct lvn_parameter_sums;
struct lvn_parameter_exchange;
struct lvn_ranks;

struct lvn_model_state {
    struct lvn_model_config config;
    struct lvn_params *params;
    enum lvn_dtype real; /* F32, or F64 in tests */
    struct lvn_device *device;
    enum lvn_precision precision;
    enum lvn_dtype weights;          /* of parameters */
    enum lvn_dtype gradients;        /* of gradients; set by the first session that trains */
    enum lvn_dtype state;            /* of the optimizer's moments */
    int threads;                     /* size of the team */
    int processes;                   /* number that share the machine's memory equally */
    int64_t machine_bytes;           /* memory of the machine; 0: what is free here */
    int64_t bytes[LVN_BUFFER_COUNT]; /* planned: PARAM, PACKED, GRAD (all buffers), STATE0, STATE1, LINES, ARENA */
    struct lvn_memory *memory[LVN_BUFFER_COUNT]; /* NULL: not allocated yet, or 0 bytes */
    int moments;                                 /* of the optimizer, on this rank or on others: 0, 1 or 2 */
    int matrix_moments;                          /* of these, those of matrices (lvn_param_is_block_matrix()) */
    bool lines;                                  /* matrices have a moment of each line, as their second one */
    struct lvn_sharding sharding;                /* set by lvn_model_state_share(); size 0: one rank */
    struct lvn_ranks *ranks;                     /* that share the model; NULL: one rank, or planned only */
    struct lvn_parameter_exchange *exchange;     /* for parameters.c, owned */
    struct lvn_parameter_sums *sums;             /* to compare replicas of several ranks, owned; NULL: none */
    struct lvn_session **sessions;               /* [n_sessions], owned */
    int n_sessions;
    bool of_snapshot; /* reads are from the device's snapshot, see lvn_model_state_of_snapshot() */
};

struct lvn_model_state_options {
    const struct lvn_backend *backend; /* NULL: cpu */
    int device;                        /* index among the backend's devices */
    bool tf32;                         /* fp32 matrix multiplications may use TF32 if the device supports it */
    bool tunes;                        /* lvn_train_programs_tune() follows */
    enum lvn_dtype real;               /* F32; F64 if the backend supports it */
    enum lvn_precision precision;
    enum lvn_dtype quantize; /* type of packed blocks in which frozen linear layers are stored; F32: none */
    int threads;             /* 0: lvn_threads_default() */
    enum lvn_decay decay;    /* which parameters decay */
    const char *freeze;      /* patterns of names of parameters that are not trained; NULL or "": none */
    const char *groups;      /* optimizer.groups; NULL or "": none */
    const char *optimizer;   /* optimizer.kind, for groups */
    double lr;               /* optimizer.lr, for groups */
    int processes;           /* that share the machine's memory equally; 0: one */
    int64_t machine_bytes;   /* memory for them when planning for another machine; 0: what is free here */
};

enum lvn_status lvn_model_state_new(struct lvn_model_state **out, const struct lvn_model_config *c,
                                    const struct lvn_model_state_options *o) LVN_CHECKED;
/* Share the model among ranks; call it before sessions are created. ranks: NULL: only planned. */
void lvn_model_state_share(struct lvn_model_state *n, const struct lvn_sharding *sharding, struct lvn_ranks *ranks);
void lvn_model_state_free(struct lvn_model_state *n); /* frees the sessions too; does nothing if n is NULL */
/* Free the sessions, so that others can be planned and allocated. Parameters and optimizer state stay. */
void lvn_model_state_drop_sessions(struct lvn_model_state *n);
/* Bytes of the shared buffers that are allocated. */
int64_t lvn_model_state_allocated_bytes(const struct lvn_model_state *n);
/* Bytes that lvn_model_state_allocate() allocates: the shared buffers, and inputs and caches of all sessions so far. */
int64_t lvn_model_state_bytes(const struct lvn_model_state *n);
/* Of these, the bytes for batches that are written while a step runs (double buffers), on a device of this backend. */
int64_t lvn_model_state_async_bytes(const struct lvn_model_state *n, const struct lvn_backend *backend);
/* This rank's part of the device's memory that was free before anything was allocated, or this process's part of the
 * machine's free memory; 0: unknown. */
int64_t lvn_model_state_available(const struct lvn_model_state *n);
/* Does this memory, as far as it is known, suffice? On the machine: for the buffers that are not allocated yet. */
bool lvn_model_state_fits(const struct lvn_model_state *n);
/* Always returns MEMORY: the message lists the model's memory by buffer and the free memory, and ends with `advice`. */
enum lvn_status lvn_model_state_refuse(const struct lvn_model_state *n, const char *advice) LVN_CHECKED;
/* Bytes of all sessions outside the shared buffers. */
struct lvn_session_bytes {
    int64_t batches;  /* inputs and results */
    int64_t caches;   /* keys and values */
    int64_t programs; /* the programs, with the calls to which they are bound */
};
struct lvn_session_bytes lvn_model_state_session_bytes(const struct lvn_model_state *n);
/* FLOP/s that the device reaches in matrix multiplications of this precision; 0: not measured. */
enum lvn_status lvn_model_state_rate(const struct lvn_model_state *n, double *flops_per_s) LVN_CHECKED;
/* Allocate what the sessions need and is not allocated yet; call it after the last session was created. MEMORY, before
 * anything is allocated: this machine's memory is too small. */
enum lvn_status lvn_model_state_allocate(struct lvn_model_state *n) LVN_CHECKED;
/* A read-only view of the model as it is in the device's snapshot (lvn_device_snapshot()), for one other thread, valid
 * as long as n. Nothing to free. */
struct lvn_model_state lvn_model_state_of_snapshot(const struct lvn_model_state *n);
/* The state of loss scaling, after allocation; all zero without loss scaling. Setting a scale of 0 does nothing. */
enum lvn_status lvn_model_state_scaling(const struct lvn_model_state *n, struct lvn_scaling *to) LVN_CHECKED;
enum lvn_status lvn_model_state_set_scaling(const struct lvn_model_state *n,
                                            const struct lvn_scaling *from) LVN_CHECKED;

#endif
