/* step_statistics.c - see step_statistics.h. */
#include "train/step_statistics.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum lvn_status lvn_tally_init(struct lvn_tally *t, struct lvn_ranks *ranks, int64_t n_losses, int64_t n_sums)
{
    *t = (struct lvn_tally){.ranks = ranks, .n_losses = n_losses, .n_sums = n_sums};
    t->n = n_losses + n_sums + LVN_TALLY_COUNTS + (int64_t)ranks->size * LVN_TALLY_OWN;
    t->x = lvn_calloc((size_t)t->n, sizeof *t->x);
    return t->x ? LVN_OK : LVN_MEMORY;
}

void lvn_tally_release(struct lvn_tally *t)
{
    free(t->x);
    t->x = NULL;
}

void lvn_tally_clear(struct lvn_tally *t)
{
    memset(t->x, 0, sizeof *t->x * (size_t)t->n);
}

double *lvn_tally_loss(struct lvn_tally *t, int64_t i)
{
    return &t->x[i];
}

double *lvn_tally_sums(struct lvn_tally *t)
{
    return &t->x[t->n_losses];
}

double *lvn_tally_count(struct lvn_tally *t, enum lvn_tally_count what)
{
    return &t->x[t->n_losses + t->n_sums + (int64_t)what];
}

double *lvn_tally_own(struct lvn_tally *t, int rank, enum lvn_tally_own what)
{
    return &t->x[t->n_losses + t->n_sums + LVN_TALLY_COUNTS + (int64_t)rank * LVN_TALLY_OWN + (int64_t)what];
}

enum lvn_status lvn_tally_exchange(struct lvn_tally *t)
{
    return lvn_ranks_sum(t->ranks, t->x, t->n);
}

double lvn_tally_sum(struct lvn_tally *t, enum lvn_tally_own what)
{
    double sum = 0.0;
    for (int i = 0; i < t->ranks->size; i++) sum += *lvn_tally_own(t, i, what);
    return sum;
}
