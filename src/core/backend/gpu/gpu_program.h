/* gpu_program.h - a program as a list of kernel launches: the part that the backends opencl and cuda share.
 *
 * lvn_gpu_choose() asks an operation's host half (kernel_launch.h) for the launches of an instruction.
 * lvn_gpu_bind() asks again, resolves memory and offset of every operand, and collects the modules to compile: one
 * for each operation and set of definitions. The backend (struct lvn_gpu_driver) then compiles them and prepares
 * each launch. Arguments that change with the micro-batch are a short list. struct lvn_step is one small struct on
 * the device, written before each micro-batch. Collectives are staged through host memory,
 * unless they work on device memory. */
#ifndef LVN_GPU_PROGRAM_H
#define LVN_GPU_PROGRAM_H

#include "backend/backend.h"
#include "backend/gpu/kernel_launch.h"
#include "base/arena.h"

/* Source code for the device's compiler: definitions, then kernel_language.h, then src/core/ops/NAME.k. */
struct lvn_gpu_module {
    const char *source;     /* NAME */
    const char *definition; /* all #define lines */
    void *backend_data;     /* the backend's compiled module */
};

/* An argument that changes with the micro-batch. */
struct lvn_gpu_varying_arg {
    struct lvn_gpu_launch *launch;
    int arg;
    int64_t base;              /* an operand's offset in bytes for micro-batch 0, or gradient buffer 0 */
    int64_t stride;            /* bytes to the next micro-batch or gradient buffer */
    bool by_grad_buffer;       /* it changes with the gradient buffer of the micro-batch */
    struct lvn_memory *memory; /* NULL: it is a value, 1 in later micro-batches than the first */
    bool result;               /* of RESULT, which the launch writes; else an input */
    int64_t origin;            /* where the bytes of micro-batch 0 begin in `memory` */
    int64_t slot;              /* lvn_gpu_place_slot() */
    bool same_slot;            /* an earlier entry of the list has the same bytes */
};

struct lvn_gpu_program;

/* Functions of a backend. */
struct lvn_gpu_driver {
    /* Compile every module and prepare every launch. All fields of the program but the contents of `step` are set. */
    enum lvn_status (*prepare)(struct lvn_gpu_program *p);
    void (*release)(struct lvn_gpu_program *p);
    enum lvn_status (*launch)(struct lvn_gpu_program *p, struct lvn_gpu_launch *l);
    /* Argument `arg` of a launch has changed. */
    void (*changed)(struct lvn_gpu_program *p, struct lvn_gpu_launch *l, int arg);
};

struct lvn_gpu_program {
    struct lvn_bound base;
    const struct lvn_gpu_driver *driver;
    const struct lvn_gpu_matmul_library *library;
    bool matrix_units; /* see lvn_gpu_choose() */
    const struct lvn_program *program;
    struct lvn_binding binding;
    struct lvn_arena arena;
    struct lvn_gpu_launch *launches;
    int n_launches;
    int *first; /* [n_instrs + 1]: the launches of instruction i are first[i] .. first[i + 1] - 1 */
    struct lvn_gpu_module *modules;
    int n_modules;
    struct lvn_gpu_varying_arg *varying;
    int n_varying;
    struct lvn_memory *step;  /* struct lvn_gpu_step */
    struct lvn_memory **data; /* [n_data] constant arguments (LVN_DATA) */
    int n_data;
    struct lvn_gpu_staging *staging; /* [n_handles], one per collective handle */
    int64_t micro_batch;             /* the micro-batch for which the arguments are set; -1: for the slot */
    bool communicated;               /* a run with collectives between devices has begun */
    void *backend_data;              /* private to the backend */
};

/* For choose() of struct lvn_backend. backend: its name, for messages. library: computes matrix multiplications, the
 * same one for both calls; NULL: kernels do. matrix_units: the device has matrix units (tensor cores) for which
 * LVN_TILE_ROWS of ops/matrix_gpu.h is defined. */
enum lvn_status lvn_gpu_choose(const char *backend, struct lvn_instr *i, int64_t *scratch,
                               const struct lvn_gpu_matmul_library *library, bool matrix_units) LVN_CHECKED;
enum lvn_status lvn_gpu_bind(struct lvn_bound **out, const struct lvn_program *p, const struct lvn_binding *b,
                             const struct lvn_gpu_driver *driver, const struct lvn_gpu_matmul_library *library,
                             bool matrix_units) LVN_CHECKED;
void lvn_gpu_unbind(struct lvn_bound *b);
/* Run the program launch by launch. */
enum lvn_status lvn_gpu_run(struct lvn_bound *b, const struct lvn_execution *execution) LVN_CHECKED;

/* --- for backends with a custom run() --- */
/* The contents of `step` in a micro-batch. */
struct lvn_gpu_step lvn_gpu_step_at(const struct lvn_gpu_program *p, int64_t micro_batch);
/* Set the changing arguments to a micro-batch; calls the driver's changed(). */
void lvn_gpu_set_micro_batch(struct lvn_gpu_program *p, int64_t micro_batch);
/* Launches that are captured once for several micro-batches have the inputs and sums of each in one place, a slot, into
 * and from which the backend copies `stride` bytes of each entry of `varying` that is in memory, from and to `origin` +
 * micro-batch * `stride`, unless `same_slot` or `by_grad_buffer`. Sets the entries' offsets in the slot and returns its
 * size. */
int64_t lvn_gpu_place_slot(struct lvn_gpu_program *p);
/* Set the changing arguments to the slot, and to a later micro-batch than the first, with this gradient buffer; calls
 * the driver's changed(). */
void lvn_gpu_set_slot(struct lvn_gpu_program *p, struct lvn_memory *slot, int grad_buffer);
enum lvn_status lvn_gpu_launch_all(struct lvn_gpu_program *p, const struct lvn_instr *i) LVN_CHECKED;

/* --- collectives --- */
/* Do the collectives work on the memory of the program's device? */
bool lvn_gpu_has_device_comm(const struct lvn_gpu_program *p, const struct lvn_collectives *collectives);
/* Start or finish a collective on device memory, or, if `staged`, through host memory. */
enum lvn_status lvn_gpu_communicate(struct lvn_gpu_program *p, const struct lvn_instr *i,
                                    const struct lvn_collectives *collectives, bool staged) LVN_CHECKED;

#endif
