/* step_statistics.h - what ranks tell each other at the end of every step, in one small sum over ranks.
 *
 * Each rank fills in its own entries and leaves the others' at 0, so every sum is exact: losses of micro-batches, then
 * what metrics and others counted, in whole numbers, then what each rank says of itself. */
#ifndef LVN_STEP_STATISTICS_H
#define LVN_STEP_STATISTICS_H

#include "engine/ranks.h"

/* Counted over all ranks. */
enum lvn_tally_count {
    LVN_TALLY_STOP,      /* ranks that were asked to stop */
    LVN_TALLY_AGAIN,     /* those among them that are to go on later: LVN_STOP_AGAIN */
    LVN_TALLY_OVER,      /* ranks whose time is over */
    LVN_TALLY_WISH_STOP, /* ranks with a callback that wishes so; in the order of enum lvn_wish */
    LVN_TALLY_WISH_SAVE,
    LVN_TALLY_WISH_VALIDATE,
    LVN_TALLY_SAVED,  /* enum lvn_saved, of rank 0 alone: what came of the save that was begun */
    LVN_TALLY_FAILED, /* ranks that failed in something of their own: lvn_ranks_agree() follows */
    LVN_TALLY_LABELS, /* that count in the next batch */
    LVN_TALLY_COUNTS
};
/* Of each rank. */
enum lvn_tally_own {
    LVN_TALLY_SECONDS, /* of the step, waiting for others left out */
    LVN_TALLY_MEMORY,  /* bytes in memory now */
    LVN_TALLY_PEAK,    /* bytes in memory at most */
    LVN_TALLY_OWN
};

struct lvn_tally {
    struct lvn_ranks *ranks;
    double *x; /* losses, sums, counts, then LVN_TALLY_OWN for each rank */
    int64_t n_losses, n_sums, n;
};

enum lvn_status lvn_tally_init(struct lvn_tally *t, struct lvn_ranks *ranks, int64_t n_losses,
                               int64_t n_sums) LVN_CHECKED;
void lvn_tally_release(struct lvn_tally *t);
/* Forget all; then fill in, then exchange. */
void lvn_tally_clear(struct lvn_tally *t);
double *lvn_tally_loss(struct lvn_tally *t, int64_t i);
double *lvn_tally_sums(struct lvn_tally *t); /* (n_sums): what metrics count */
double *lvn_tally_count(struct lvn_tally *t, enum lvn_tally_count what);
double *lvn_tally_own(struct lvn_tally *t, int rank, enum lvn_tally_own what);
enum lvn_status lvn_tally_exchange(struct lvn_tally *t) LVN_CHECKED;
/* Over ranks, after the exchange. */
double lvn_tally_sum(struct lvn_tally *t, enum lvn_tally_own what);

#endif
