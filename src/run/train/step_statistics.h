/* step_statistics.h - the values that ranks exchange at the end of every step, in one small sum over ranks.
 *
 * The trainer fills, exchanges and reads them. Each rank sets its own entries and leaves the others' at 0, so every sum
 * is exact. The order: losses of micro-batches; sums of metrics, as integers; counts; then the entries of each rank.
 * Exchanges at other times use lvn_ranks_sum(). */
#ifndef LVN_STEP_STATISTICS_H
#define LVN_STEP_STATISTICS_H

#include "base/arena.h"
#include "engine/ranks.h"

/* Added up over all ranks. */
enum lvn_step_statistics_count {
    LVN_STATISTIC_STOP,                 /* ranks with a request to stop */
    LVN_STATISTIC_REQUEUE,              /* of these, ranks whose run is to continue later: LVN_STOP_REQUEUE */
    LVN_STATISTIC_TIME_IS_UP,           /* ranks that have reached trainer.max_time */
    LVN_STATISTIC_SHOULD_TRAINING_STOP, /* ranks with this control flag; in the order of enum lvn_control */
    LVN_STATISTIC_SHOULD_SAVE,          /* the same */
    LVN_STATISTIC_SHOULD_EVALUATE,      /* the same */
    LVN_STATISTIC_WRITTEN,              /* ranks that have written their part of the pending save */
    LVN_STATISTIC_FAILED,               /* ranks with a failure; lvn_ranks_agree() follows */
    LVN_STATISTIC_NOT_READ,             /* ranks that could not read the next batch; the step ends first */
    LVN_STATISTIC_LABELS,               /* labels that count in the next batch */
    LVN_STATISTIC_COUNTS
};
/* Of each rank. */
enum lvn_step_statistics_of_rank {
    LVN_STATISTIC_SECONDS, /* of the step, without waiting for other ranks */
    LVN_STATISTIC_MEMORY,  /* resident bytes now */
    LVN_STATISTIC_PEAK,    /* highest resident bytes so far */
    LVN_STATISTIC_RANK_COUNTS
};

struct lvn_step_statistics {
    struct lvn_ranks *ranks;
    double *x;        /* [n] losses, sums, counts, then LVN_STATISTIC_RANK_COUNTS for each rank */
    int64_t n_losses; /* micro-batches of all ranks */
    int64_t n_sums;   /* of metrics */
    int64_t n;
};

static inline enum lvn_status lvn_step_statistics_init(struct lvn_step_statistics *statistics, struct lvn_ranks *ranks,
                                                       int64_t n_losses, int64_t n_sums)
{
    statistics->ranks = ranks;
    statistics->n_losses = n_losses;
    statistics->n_sums = n_sums;
    statistics->n = n_losses + n_sums + LVN_STATISTIC_COUNTS + (int64_t)ranks->size * LVN_STATISTIC_RANK_COUNTS;
    statistics->x = (double *)lvn_calloc((size_t)statistics->n, sizeof *statistics->x);
    return statistics->x ? LVN_OK : LVN_MEMORY;
}

static inline void lvn_step_statistics_release(struct lvn_step_statistics *statistics)
{
    free(statistics->x);
    statistics->x = NULL;
}

/* Set all to 0 before filling and exchanging. */
static inline void lvn_step_statistics_clear(struct lvn_step_statistics *statistics)
{
    memset(statistics->x, 0, sizeof *statistics->x * (size_t)statistics->n);
}

static inline double *lvn_step_statistics_loss(struct lvn_step_statistics *statistics, int64_t i)
{
    return &statistics->x[i];
}

/* [n_sums] */
static inline double *lvn_step_statistics_sums(struct lvn_step_statistics *statistics)
{
    return &statistics->x[statistics->n_losses];
}

static inline double *lvn_step_statistics_count(struct lvn_step_statistics *statistics,
                                                enum lvn_step_statistics_count entry)
{
    return &statistics->x[statistics->n_losses + statistics->n_sums + (int64_t)entry];
}

static inline double *lvn_step_statistics_of_rank(struct lvn_step_statistics *statistics, int rank,
                                                  enum lvn_step_statistics_of_rank entry)
{
    return &statistics->x[statistics->n_losses + statistics->n_sums + LVN_STATISTIC_COUNTS +
                          (int64_t)rank * LVN_STATISTIC_RANK_COUNTS + (int64_t)entry];
}

static inline enum lvn_status lvn_step_statistics_exchange(struct lvn_step_statistics *statistics)
{
    return lvn_ranks_sum(statistics->ranks, statistics->x, statistics->n);
}

/* The sum of an entry over ranks, after the exchange. */
static inline double lvn_step_statistics_sum(struct lvn_step_statistics *statistics,
                                             enum lvn_step_statistics_of_rank entry)
{
    double sum = 0.0;
    for (int i = 0; i < statistics->ranks->size; i++) sum += *lvn_step_statistics_of_rank(statistics, i, entry);
    return sum;
}

#endif
