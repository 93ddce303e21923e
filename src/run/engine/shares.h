/* shares.h - the number of units of each step that each rank computes (trainer.shares); train_programs.c divides the
 * batch by them.
 *
 * A unit is a micro-batch if trainer.micro_batch_size is given, which trainer.deterministic requires, otherwise a
 * sample. Ranks compute contiguous ranges of the global batch, in rank order, of at least one unit each. So with any
 * shares every sample is used once and the mean is over all labels of the batch. Which rank computes a sample affects
 * only rounding, and nothing in deterministic mode. */
#ifndef LVN_SHARES_H
#define LVN_SHARES_H

#include "options/values.h"

/* Units of a step, over all ranks. */
int64_t lvn_shares_units(const struct lvn_values *v);
/* The number of ranks that "6,2" is for; 0 for "". */
int lvn_shares_count(const char *text);
/* Parse "6,2": first[i] is the first unit of rank i, first[size] is `units`. ARG: not `size` integers of at least 1, or
 * their sum is not `units`. */
enum lvn_status lvn_shares_read(const char *text, int64_t units, int size, int64_t *first) LVN_CHECKED;

#endif
