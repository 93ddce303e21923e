/* shares.h - how much of each step each rank computes (trainer.share).
 *
 * Shares are counted in units: micro-batches where trainer.micro_batch_size is given, which trainer.deterministic
 * wants, else samples. Ranks have ranges of the global batch, side by side in their order, and each has one unit at
 * least; so whatever the shares are, every sample is taken once and the mean is over all labels of the batch. Who
 * computes what decides on rounding, and in deterministic mode on nothing.
 *
 * With trainer.share measured, shares are in proportion to the ranks' speeds: as measured on the first batch, or as the
 * checkpoint has them that the run goes on from, and later when what steps took says that others would be faster. As
 * text ("6,2") they stand in the run's settings (trainer.shares) and in its checkpoints. */
#ifndef LVN_SHARES_H
#define LVN_SHARES_H

#include "settings/settings.h"

enum { LVN_LOAD_WEIGHTS_TEXT = 32 << 10 };

/* Units of a step of all ranks. */
int64_t lvn_load_weights_units(const struct lvn_settings *s);
/* What a unit is called, for people: "micro-batches", "sequences". */
const char *lvn_load_weights_unit(const struct lvn_settings *s);
/* For ranks that do speed[i] units a second, the shares with which the last one is done soonest; [size], one at least.
 */
void lvn_load_weights_divide(int64_t units, int size, const double *speed, int64_t *share);
/* Seconds until the last one is done. */
double lvn_load_weights_seconds(int size, const double *speed, const int64_t *share);
/* ARG, with what is wrong with the text: not `size` numbers from 1 on, or not `units` together. */
enum lvn_status lvn_load_weights_read(const char *text, int64_t units, int size, int64_t *share) LVN_CHECKED;
/* ARG where it does not fit. */
enum lvn_status lvn_load_weights_write(int size, const int64_t *share, char text[LVN_LOAD_WEIGHTS_TEXT]) LVN_CHECKED;

/* What steps took, from one look to the next. All ranks keep the same numbers, so that they decide alike. */
struct lvn_load_balance {
    double *seconds; /* [size] of each rank since the last look */
    int64_t steps;
    double longest; /* seconds of the slowest, summed over steps */
    double window;  /* seconds between two looks */
    int agreed;     /* looks in a row that wanted other shares */
};

/* A window has so many steps at least. */
enum { LVN_LOAD_BALANCE_STEPS = 10 };
enum lvn_status lvn_load_balance_init(struct lvn_load_balance *w, int size) LVN_CHECKED;
void lvn_load_balance_release(struct lvn_load_balance *w);
/* A step took seconds[i] on rank i, waiting left out. True: twice in a row others would have been faster by a tenth;
 * then they are in `better`, and the next look comes later. */
bool lvn_load_balance_step(struct lvn_load_balance *w, int size, const double *seconds, const int64_t *share,
                           int64_t *better);

#endif
