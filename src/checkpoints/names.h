/* names.h - the names in a directory of checkpoints; private to checkpoint*.c. */
#ifndef LVN_NAMES_H
#define LVN_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

/* Hidden names are ".step-N" or ".last", one of these, and the process's number. */
#define LVN_TEMPORARY ".tmp-"
#define LVN_REPLACED ".old-"
#define LVN_DELETED ".del-"

/* N of "step-N"; false for any other name. */
bool lvn_checkpoint_step_of(const char *name, int64_t *step);
/* The steps of all step-N in dir, newest first, good or not, in the arena. */
LVN_CHECKED enum lvn_status lvn_checkpoint_steps(struct lvn_arena *a, const char *dir, int64_t **step, int *n);
/* `last` to step-N, and `best` too when val_loss is smaller than that of the present one. */
LVN_CHECKED enum lvn_status lvn_checkpoint_links_move(const char *dir, int64_t step, double val_loss);

#endif
