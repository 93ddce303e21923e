/* launch_order.h - the order in which a run launches the instructions of a program.
 *
 * All backends and the tools that list launches iterate over it, so the order is the same everywhere. */
#ifndef LVN_LAUNCH_ORDER_H
#define LVN_LAUNCH_ORDER_H

#include "passes/program.h"

enum lvn_launch_event {
    LVN_ORDER_MICRO_BATCH,   /* micro-batch `micro_batch` begins */
    LVN_ORDER_LAUNCH,        /* launch `instr` */
    LVN_ORDER_BACKWARD_DONE, /* all micro-batches are done; the next instructions change parameters and state */
};

/* An iterator over the events of a run. */
struct lvn_launch_order {
    const struct lvn_program *program;
    int64_t n_micro_batches;
    int64_t micro_batch; /* the current one; n_micro_batches: after the last one */
    enum lvn_launch_event event;
    const struct lvn_instr *instr; /* LAUNCH: the instruction */
    int next;                      /* index of the next instruction; < 0: the micro-batch, or the update, begins */
    int next_sum;                  /* index of the next sum over micro-batches */
};

struct lvn_launch_order lvn_launch_order_begin(const struct lvn_program *p, int64_t n_micro_batches);
/* Advance to the next event. False: the run is over. */
bool lvn_launch_order_next(struct lvn_launch_order *order);

#endif
