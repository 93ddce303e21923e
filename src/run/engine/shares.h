/* shares.h - the number of units of each step that each rank computes (trainer.share), and when it changes.
 *
 * train_programs.c divides the batch by these shares; train/trainer.c uses them to decide between steps, and does the
 * collectives and the replanning.
 *
 * A unit is a micro-batch if trainer.micro_batch_size is given, which trainer.deterministic requires, otherwise a
 * sample. Ranks compute contiguous ranges of the global batch, in rank order, of at least one unit each. So with any
 * shares every sample is used once and the mean is over all labels of the batch. Which rank computes a sample affects
 * only rounding, and nothing in deterministic mode.
 *
 * With trainer.share measured, shares are proportional to the ranks' speeds: first as measured on the first batch or as
 * stored in the checkpoint that is resumed, later as estimated from the durations of steps. As text ("6,2") they are in
 * the run's settings (trainer.shares) and in its checkpoints. */
#ifndef LVN_SHARES_H
#define LVN_SHARES_H

#include "options/values.h"

enum { LVN_SHARES_TEXT = 32 << 10 };

/* Units of a step, over all ranks. */
int64_t lvn_shares_units(const struct lvn_values *v);
/* The name of a unit in messages: "micro-batches", "sequences". */
const char *lvn_shares_unit(const struct lvn_values *v);
/* weight[size]: the shares, each at least 1, with which the last rank finishes earliest if rank i computes speed[i]
 * units per second. */
void lvn_shares_divide(int64_t units, int size, const double *speed, int64_t *weight);
/* Seconds until the last rank finishes. */
double lvn_shares_seconds(int size, const double *speed, const int64_t *weight);
/* Parse "6,2". ARG: not `size` integers of at least 1, or their sum is not `units`. */
enum lvn_status lvn_shares_read(const char *text, int64_t units, int size, int64_t *weight) LVN_CHECKED;
/* The same as text. ARG if it does not fit. */
enum lvn_status lvn_shares_write(int size, const int64_t *weight, char text[LVN_SHARES_TEXT]) LVN_CHECKED;

/* Durations of the steps since the last comparison. All ranks have the same values, so all decide identically. */
struct lvn_share_balance {
    double *seconds; /* [size] of each rank */
    int64_t steps;
    double slowest; /* seconds of each step's slowest rank, summed */
    double window;  /* seconds between two comparisons */
    int wins;       /* consecutive comparisons in which other weights were faster */
};

/* Minimum steps of a window. */
enum { LVN_SHARES_WINDOW_STEPS = 10 };
enum lvn_status lvn_share_balance_init(struct lvn_share_balance *w, int size) LVN_CHECKED;
void lvn_share_balance_release(struct lvn_share_balance *w);
/* Add a step that took seconds[i] on rank i, without waiting. True: in two consecutive comparisons other weights, now
 * in `faster`, would have been faster by a tenth; the next window is then longer. */
bool lvn_share_balance_step(struct lvn_share_balance *w, int size, const double *seconds, const int64_t *weight,
                            int64_t *faster);

#endif
