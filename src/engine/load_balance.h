/* load_balance.h - how many units of each step each rank computes (trainer.share), and when that changes.
 *
 * train_programs.c divides the batch by these load weights; train/trainer_load_balance.c decides with them between
 * steps. Collectives and replanning are their business.
 *
 * A unit is a micro-batch if trainer.micro_batch_size is given, which trainer.deterministic requires, else a sample.
 * Ranks compute contiguous ranges of the global batch, in the order of ranks, of at least one unit each; so with any
 * load weights every sample is used once and the mean is over all labels of the batch. Which rank computes a sample
 * affects rounding, and in deterministic mode nothing.
 *
 * With trainer.share measured, load weights are proportional to the ranks' speeds: first as measured on the first batch
 * or as stored in the checkpoint from which the run continues, later as the durations of steps suggest. As text ("6,2")
 * they are in the run's settings (trainer.shares) and in its checkpoints. */
#ifndef LVN_LOAD_BALANCE_H
#define LVN_LOAD_BALANCE_H

#include "settings/settings.h"

enum { LVN_LOAD_WEIGHTS_TEXT = 32 << 10 };

/* Units of a step, over all ranks. */
int64_t lvn_load_weights_units(const struct lvn_settings *s);
/* The name of a unit in messages: "micro-batches", "sequences". */
const char *lvn_load_weights_unit(const struct lvn_settings *s);
/* weight[size]: for ranks that compute speed[i] units a second, the load weights with which the last rank finishes
 * soonest; each at least 1. */
void lvn_load_weights_divide(int64_t units, int size, const double *speed, int64_t *weight);
/* Seconds until the last rank finishes. */
double lvn_load_weights_seconds(int size, const double *speed, const int64_t *weight);
/* Parse "6,2". ARG, with the reason: not `size` numbers of at least 1, or their sum is not `units`. */
enum lvn_status lvn_load_weights_read(const char *text, int64_t units, int size, int64_t *weight) LVN_CHECKED;
/* The same as text. ARG if it does not fit. */
enum lvn_status lvn_load_weights_write(int size, const int64_t *weight, char text[LVN_LOAD_WEIGHTS_TEXT]) LVN_CHECKED;

/* Durations of the steps since the last comparison. All ranks hold the same numbers, so all decide alike. */
struct lvn_load_balance {
    double *seconds; /* [size] of each rank */
    int64_t steps;
    double slowest; /* seconds of each step's slowest rank, summed */
    double window;  /* seconds between two comparisons */
    int wins;       /* comparisons in a row in which other weights were faster */
};

/* A window has at least so many steps. */
enum { LVN_LOAD_BALANCE_STEPS = 10 };
enum lvn_status lvn_load_balance_init(struct lvn_load_balance *w, int size) LVN_CHECKED;
void lvn_load_balance_release(struct lvn_load_balance *w);
/* A step took seconds[i] on rank i, without waiting. True: in two comparisons in a row other weights, now in `faster`,
 * would have been faster by a tenth; the next window is then longer. */
bool lvn_load_balance_step(struct lvn_load_balance *w, int size, const double *seconds, const int64_t *weight,
                           int64_t *faster);

#endif
