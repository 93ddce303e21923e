/* step_statistics.c - see step_statistics.h. */
#include "train/step_statistics.h"

#include "base/arena.h"

enum lvn_status lvn_step_statistics_init(struct lvn_step_statistics *t, struct lvn_ranks *ranks, int64_t n_losses,
                                         int64_t n_sums)
{
    *t = (struct lvn_step_statistics){.ranks = ranks, .n_losses = n_losses, .n_sums = n_sums};
    t->n = n_losses + n_sums + LVN_STATISTIC_COUNTS + (int64_t)ranks->size * LVN_STATISTIC_RANK_COUNTS;
    t->x = lvn_calloc((size_t)t->n, sizeof *t->x);
    return t->x ? LVN_OK : LVN_MEMORY;
}

void lvn_step_statistics_release(struct lvn_step_statistics *t)
{
    free(t->x);
    t->x = NULL;
}

void lvn_step_statistics_clear(struct lvn_step_statistics *t)
{
    memset(t->x, 0, sizeof *t->x * (size_t)t->n);
}

double *lvn_step_statistics_loss(struct lvn_step_statistics *t, int64_t i)
{
    return &t->x[i];
}

double *lvn_step_statistics_sums(struct lvn_step_statistics *t)
{
    return &t->x[t->n_losses];
}

double *lvn_step_statistics_count(struct lvn_step_statistics *t, enum lvn_step_statistics_count entry)
{
    return &t->x[t->n_losses + t->n_sums + (int64_t)entry];
}

double *lvn_step_statistics_of_rank(struct lvn_step_statistics *t, int rank, enum lvn_step_statistics_of_rank entry)
{
    return &t->x[t->n_losses + t->n_sums + LVN_STATISTIC_COUNTS + (int64_t)rank * LVN_STATISTIC_RANK_COUNTS +
                 (int64_t)entry];
}

enum lvn_status lvn_step_statistics_exchange(struct lvn_step_statistics *t)
{
    return lvn_ranks_sum(t->ranks, t->x, t->n);
}

double lvn_step_statistics_sum(struct lvn_step_statistics *t, enum lvn_step_statistics_of_rank entry)
{
    double sum = 0.0;
    for (int i = 0; i < t->ranks->size; i++) sum += *lvn_step_statistics_of_rank(t, i, entry);
    return sum;
}
