/* step_statistics.h - what ranks tell each other at the end of every step, in one small sum over ranks.
 *
 * Each rank fills in its own entries and leaves the others' at 0, so every sum is exact: losses of micro-batches, then
 * what metrics and others counted, in whole numbers, then what each rank says of itself. */
#ifndef LVN_STEP_STATISTICS_H
#define LVN_STEP_STATISTICS_H

#include "engine/ranks.h"

/* Counted over all ranks. */
enum lvn_step_statistics_count {
    LVN_STATISTIC_STOP,         /* ranks that were asked to stop */
    LVN_STATISTIC_AGAIN,        /* those among them that are to go on later: LVN_STOP_AGAIN */
    LVN_STATISTIC_OVER,         /* ranks whose time is over */
    LVN_STATISTIC_CONTROL_STOP, /* ranks with a callback that wishes so; in the order of enum lvn_control */
    LVN_STATISTIC_CONTROL_SAVE,
    LVN_STATISTIC_CONTROL_VALIDATE,
    LVN_STATISTIC_SAVED,  /* enum lvn_saved, of rank 0 alone: what came of the save that was begun */
    LVN_STATISTIC_FAILED, /* ranks that failed in something of their own: lvn_ranks_agree() follows */
    LVN_STATISTIC_LABELS, /* that count in the next batch */
    LVN_STATISTIC_COUNTS
};
/* Of each rank. */
enum lvn_step_statistics_of_rank {
    LVN_STATISTIC_SECONDS, /* of the step, waiting for others left out */
    LVN_STATISTIC_MEMORY,  /* bytes in memory now */
    LVN_STATISTIC_PEAK,    /* bytes in memory at most */
    LVN_STATISTIC_OWN
};

struct lvn_step_statistics {
    struct lvn_ranks *ranks;
    double *x; /* losses, sums, counts, then LVN_STATISTIC_OWN for each rank */
    int64_t n_losses, n_sums, n;
};

enum lvn_status lvn_step_statistics_init(struct lvn_step_statistics *t, struct lvn_ranks *ranks, int64_t n_losses,
                                         int64_t n_sums) LVN_CHECKED;
void lvn_step_statistics_release(struct lvn_step_statistics *t);
/* Forget all; then fill in, then exchange. */
void lvn_step_statistics_clear(struct lvn_step_statistics *t);
double *lvn_step_statistics_loss(struct lvn_step_statistics *t, int64_t i);
double *lvn_step_statistics_sums(struct lvn_step_statistics *t); /* (n_sums): what metrics count */
double *lvn_step_statistics_count(struct lvn_step_statistics *t, enum lvn_step_statistics_count what);
double *lvn_step_statistics_of_rank(struct lvn_step_statistics *t, int rank, enum lvn_step_statistics_of_rank what);
enum lvn_status lvn_step_statistics_exchange(struct lvn_step_statistics *t) LVN_CHECKED;
/* Over ranks, after the exchange. */
double lvn_step_statistics_sum(struct lvn_step_statistics *t, enum lvn_step_statistics_of_rank what);

#endif
