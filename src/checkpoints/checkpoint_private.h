/* checkpoint_private.h - the names in a directory of checkpoints, which the files of this room write, list and remove.
 */
#ifndef LVN_CHECKPOINT_PRIVATE_H
#define LVN_CHECKPOINT_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoints/checkpoint.h"

/* Hidden names are ".step-N" or ".last", one of these suffixes, and the process ID. */
#define LVN_TEMPORARY ".tmp-"
#define LVN_REPLACED ".old-"
#define LVN_DELETED ".del-"

/* N of "step-N"; false for any other name. */
bool lvn_checkpoint_parse_step(const char *name, int64_t *step);
/* The steps of all step-N in dir, valid or not, newest first, in the arena. */
LVN_CHECKED enum lvn_status lvn_checkpoint_steps(struct lvn_arena *a, const char *dir, int64_t **step, int *n);
/* Is it a hidden name that a killed process left? */
bool lvn_checkpoint_is_leftover(const char *name);
/* Is it `last` or `best`: a link; in a store, or where links are not supported, a small file? */
LVN_CHECKED enum lvn_status lvn_checkpoint_is_link(struct lvn_arena *a, const char *dir, const char *name, bool *is);
/* Points `last` to step-N, and `best` too if the score is better than that of the present one, or the present one has
 * another kind of score. */
LVN_CHECKED enum lvn_status lvn_checkpoint_links_update(const char *dir, int64_t step,
                                                        const struct lvn_checkpoint_score *score);

#endif
