/* checkpoint_private.h - the names in a directory of checkpoints, which the files of this folder write, list and
 * remove.
 */
#ifndef LVN_CHECKPOINT_PRIVATE_H
#define LVN_CHECKPOINT_PRIVATE_H

#include "checkpoints/checkpoint.h"

/* Hidden names are ".step-N" or ".last", one of these suffixes, and the process ID. Only a folder with the second may
 * contain files that levin did not write. */
#define LVN_TEMPORARY ".tmp-" /* is being written */
#define LVN_REPLACED ".old-"  /* a former step-N, or a complete checkpoint that is about to be exchanged with it */
#define LVN_DELETED ".del-"   /* is being removed */

/* N of "step-N"; false for any other name. */
bool lvn_checkpoint_parse_step(const char *name, int64_t *step);
/* The steps of all step-N in dir, valid or not, newest first, in the arena. */
enum lvn_status lvn_checkpoint_steps(struct lvn_arena *a, const char *dir, int64_t **step, int *n) LVN_CHECKED;
/* True for a hidden name that a killed process left. */
bool lvn_checkpoint_is_leftover(const char *name);
/* True for the hidden name of a replaced step-N. */
bool lvn_checkpoint_is_replaced(const char *name);
/* Handle a folder with such a name: rename it to step-N if that does not exist; otherwise remove it, or, if it has
 * files that levin did not write or no valid manifest, rename it to "step-N.old-PID-K" and log this. */
enum lvn_status lvn_checkpoint_clear_replaced(struct lvn_arena *a, const char *dir, const char *name) LVN_CHECKED;
/* True for `last` and `best`: a link or, in a store or without support for links, a small file. */
enum lvn_status lvn_checkpoint_is_link(struct lvn_arena *a, const char *dir, const char *name, bool *is) LVN_CHECKED;
/* Point `last` to step-N, and `best` too if the score is better than that of the current one, or the current one has a
 * different score. */
enum lvn_status lvn_checkpoint_links_update(const char *dir, int64_t step,
                                            const struct lvn_checkpoint_score *score) LVN_CHECKED;

#endif
