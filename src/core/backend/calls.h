/* calls.h - a bound program as kernel calls with resolved pointers, for the backends cpu and reference, whose memory
 * the host can access.
 *
 * Pointers are resolved once, when the program is bound. Everything that changes with the micro-batch (inputs, the
 * gradient buffer, sums, and whether a gradient is added to) is in a short list. */
#ifndef LVN_CALLS_H
#define LVN_CALLS_H

#include "backend/backend.h"

struct lvn_calls {
    const struct lvn_program *program;
    struct lvn_call *call; /* [n_instrs] */
    struct lvn_step *step;
    int64_t rows;                /* samples per micro-batch */
    int64_t first_row;           /* step->first_row at the start of this run */
    double grad_scale;           /* step->grad_scale at the start of this run */
    int64_t micro_batch;         /* the micro-batch for which the calls are set */
    struct lvn_varying *varying; /* [n_varying] pointers and flags that change with the micro-batch */
    int n_varying;
    struct lvn_binding binding;
};

/* Members of a backend whose memory is host memory. The rest of levin sees its address if `host_memory` is set. */
void lvn_host_close(struct lvn_device *d);
enum lvn_status lvn_host_alloc(struct lvn_memory **out, struct lvn_device *d, int64_t bytes) LVN_CHECKED;
void lvn_host_free(struct lvn_memory *m);
enum lvn_status lvn_host_write(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes) LVN_CHECKED;
enum lvn_status lvn_host_read(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes) LVN_CHECKED;

/* Call lvn_calls_release() even after a failure. */
enum lvn_status lvn_calls_init(struct lvn_calls *c, const struct lvn_program *p,
                               const struct lvn_binding *b) LVN_CHECKED;
void lvn_calls_release(struct lvn_calls *c);

/* Start a run: save the fields of `step` that micro-batches change. */
void lvn_calls_begin(struct lvn_calls *c);
/* Set all calls to a micro-batch. */
void lvn_calls_set_micro_batch(struct lvn_calls *c, int64_t micro_batch);
/* End a run: restore the fields of `step`. */
void lvn_calls_end(struct lvn_calls *c);

static inline const struct lvn_call *lvn_calls_of(const struct lvn_calls *c, const struct lvn_instr *i)
{
    return &c->call[i - c->program->instrs];
}

/* Perform collective instruction i; called by one thread. False: it failed and recorded the error. */
static inline bool lvn_calls_communicate(const struct lvn_calls *c, const struct lvn_instr *i,
                                         const struct lvn_collectives *collectives)
{
    if (i->id == LVN_OP_wait) return collectives->wait(collectives->context, i);
    collectives->start(collectives->context, i, lvn_calls_of(c, i), NULL);
    return true;
}

#endif
