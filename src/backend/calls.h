/* calls.h - a program as calls of kernels on the processor, with every pointer resolved.
 *
 * For backends whose memory the processor addresses. Pointers are resolved once, when the program is bound. What moves
 * with the micro-batch (inputs, the gradients' slot, sums, and whether a gradient adds) is a short list. */
#ifndef LVN_CALLS_H
#define LVN_CALLS_H

#include "backend/backend.h"

struct lvn_calls {
    const struct lvn_program *program;
    struct lvn_call *call; /* [n_instrs] */
    struct lvn_step *step;
    int64_t rows, first_row; /* samples of a micro-batch; the first one's number in this run */
    double grad_scale;       /* at the beginning of this run */
    int64_t micro_batch;     /* that the calls point at */
    struct lvn_moving *moving;
    int n_moving;
    char *(*address)(const struct lvn_memory *m);
    struct lvn_binding binding;
};

/* address: where the backend finds its memory. Release it always. */
enum lvn_status lvn_calls_init(struct lvn_calls *c, const struct lvn_program *p, const struct lvn_binding *b,
                               char *(*address)(const struct lvn_memory *m)) LVN_CHECKED;
void lvn_calls_release(struct lvn_calls *c);

/* A run begins: note what micro-batches change. Point everything at a micro-batch. A run is over: leave step as it was.
 */
void lvn_calls_begin(struct lvn_calls *c);
void lvn_calls_point(struct lvn_calls *c, int64_t micro_batch);
void lvn_calls_end(struct lvn_calls *c);

static inline const struct lvn_call *lvn_calls_of(const struct lvn_calls *c, const struct lvn_instr *i)
{
    return &c->call[i - c->program->instrs];
}

/* The collective instruction i, by one thread. False: it failed, and recorded why. */
static inline bool lvn_calls_communicate(const struct lvn_calls *c, const struct lvn_instr *i,
                                         const struct lvn_collectives *with)
{
    if (i->id == LVN_OP_wait) return with->wait(with->context, i);
    with->start(with->context, i, lvn_calls_of(c, i));
    return true;
}

#endif
