/* synthetic_step.h - training steps on made-up data: for benchmarks, for predictions, and to see whether ranks agree.
 */
#ifndef LVN_SYNTHETIC_STEP_H
#define LVN_SYNTHETIC_STEP_H

#include "engine/train_programs.h"

/* Samples that depend on their place in the global batch alone, into this rank's rows; whole numbers of which the data
 * do not say it lie below `below`. How many labels the loss counts in the whole batch is left in *labels. */
enum lvn_status lvn_synthetic_step_fill(struct lvn_train_programs *t, int64_t below, int64_t *labels) LVN_CHECKED;

/* Seconds of the parts of one step, each measured alone; the best of several tries, on the slowest rank. */
struct lvn_parts {
    double forward, backward; /* of all micro-batches of a rank */
    double update;            /* norm, clipping, optimizer */
    double reduce, last;      /* the sum of all gradients over ranks; of the last bucket alone (0 with the tree) */
    double share;             /* zero1: sums of squares, and parameters from their owners */
    int64_t accumulation;     /* micro-batches: only the last one's backward has reductions beside it */
};
/* Nothing measured yet. */
void lvn_parts_clear(struct lvn_parts *p);
/* One try: a step without overlap, then the reductions alone. Trains on, as lvn_train_programs_step() does. Without
 * ranks (t->ranks NULL: planned only) what the ranks would do together is left out, and one micro-batch stands for all.
 */
enum lvn_status lvn_parts_try(struct lvn_train_programs *t, int64_t step, double lr, int64_t labels,
                              struct lvn_parts *best) LVN_CHECKED;
/* After the last try: all ranks get what the slowest one measured. */
enum lvn_status lvn_parts_agree(struct lvn_ranks *r, struct lvn_parts *p) LVN_CHECKED;
/* The least that a step takes whose reductions run beside the last micro-batch's backward as far as they can. */
double lvn_parts_bound(const struct lvn_parts *p);

/* Some steps of a tiny model, the same whatever machine runs them; in fixed order (trainer.deterministic) or not. */
enum { LVN_SYNTHETIC_STEPS = 5 };
struct lvn_synthetic_step {
    double loss[LVN_SYNTHETIC_STEPS];
    uint64_t weights; /* a checksum */
};
/* All ranks of r call it. threads 0: this rank's part of the cores. */
enum lvn_status lvn_synthetic_step_run(struct lvn_synthetic_step *out, struct lvn_ranks *r, int threads,
                                       bool fixed_order) LVN_CHECKED;

#endif
