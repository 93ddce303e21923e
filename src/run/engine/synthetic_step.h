/* synthetic_step.h - training steps on generated data: for `levin bench`, `levin plan` and `levin doctor`.
 *
 * It fills batches, times the parts of a step, and runs a tiny training whose result is known to be equal on all
 * machines.
 */
#ifndef LVN_SYNTHETIC_STEP_H
#define LVN_SYNTHETIC_STEP_H

#include "engine/train_programs.h"

/* Fill this rank's rows with samples that depend only on their index in the global batch; integers without a range in
 * the fields are below `below`. *labels: labels of the whole batch that the loss counts. */
enum lvn_status lvn_synthetic_step_fill(struct lvn_train_programs *programs, int64_t below,
                                        int64_t *labels) LVN_CHECKED;

/* All instructions of one operation and phase in a step. */
struct lvn_operation_time {
    double seconds;
    int64_t calls, bytes; /* bytes: lvn_instr_bytes() */
    double flops;
};

/* Seconds of the parts of one step, each measured alone: the best of several tries, on the slowest rank. */
struct lvn_parts {
    double forward;       /* of all micro-batches of a rank */
    double backward;      /* of all micro-batches of a rank */
    double update;        /* norm, clipping, optimizer */
    double reduce;        /* sum of all gradients over ranks */
    double last;          /* sum of only the last bucket; 0 with the tree */
    double share;         /* zero1: exchange of sums of squares and of parameters */
    int64_t accumulation; /* micro-batches; collectives overlap the backward pass of the last one only */
    struct lvn_operation_time
        operation[LVN_OP_COUNT * LVN_PHASE_COUNT]; /* by operation and phase, of this rank; not of collectives */
};
/* Count `times` launches of an instruction, and their seconds, with its operation. */
void lvn_parts_add(struct lvn_parts *p, const struct lvn_instr *i, int64_t times, double seconds);
/* Reset all measurements. */
void lvn_parts_clear(struct lvn_parts *p);
/* One try: a step without overlap, then only the collectives. It trains, like lvn_train_programs_step(). Without ranks
 * (programs->ranks NULL: planned only) collectives are omitted, and one micro-batch is measured for all. */
enum lvn_status lvn_parts_try(struct lvn_train_programs *programs, int64_t step, double lr, int64_t labels,
                              struct lvn_parts *best) LVN_CHECKED;
/* After the last try: give all ranks the values of the slowest rank. */
enum lvn_status lvn_parts_agree(struct lvn_ranks *r, struct lvn_parts *p) LVN_CHECKED;
/* Lower bound of a step's seconds, with collectives overlapping the last micro-batch's backward as far as they can. */
double lvn_parts_bound(const struct lvn_parts *p);

/* Some steps of a tiny model, equal on any machine. */
enum { LVN_SYNTHETIC_STEPS = 5 };
struct lvn_synthetic_step {
    double loss[LVN_SYNTHETIC_STEPS];
    uint64_t weights; /* checksum */
};
/* All ranks of r call it with the same options of the parts trainer and optimizer. */
enum lvn_status lvn_synthetic_step_run(struct lvn_synthetic_step *out, struct lvn_ranks *r,
                                       const struct lvn_values *v) LVN_CHECKED;

#endif
