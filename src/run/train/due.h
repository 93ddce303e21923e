/* due.h - what is due after a step, in which order, and what an interrupted run leaves to the run that resumes it.
 *
 * Pure functions of values that all ranks share; trainer.c executes their answers. A checkpoint records what of its
 * step was still due when it was saved (state.json), and a resumed run begins with that. */
#ifndef LVN_DUE_H
#define LVN_DUE_H

#include "base/status.h"

enum lvn_due {
    LVN_DUE_NOTHING = 0,
    LVN_DUE_VALIDATION = 1,
    LVN_DUE_EPOCH_END = 2,
    LVN_DUE_SAVE = 4,
    LVN_DUE_SAVE_FIRST = 8, /* before a validation that the process may not survive; only lvn_due_next() returns it */
};

/* Steps between what is due; 0: never. */
struct lvn_due_intervals {
    int64_t validation, epoch, save;
    int64_t last_step; /* always validated */
    bool validates;    /* false: without validation */
};
/* The set of actions (enum lvn_due) that are due after a step without interruption. */
unsigned lvn_due_after(const struct lvn_due_intervals *every, int64_t step);

struct lvn_due_state {
    unsigned due;     /* set of enum lvn_due */
    bool interrupted; /* a stop was requested, or the next batch cannot be read: the process may end soon */
    bool saved_first; /* SAVE_FIRST was executed */
    bool in_store;    /* a saved step is not saved again: that would replace it file by file */
    bool last;        /* the last step of the run */
};
/* The next action. NOTHING: the rest of `due`, if any, is left to the resumed run. An interrupted run in a store leaves
 * a due validation and all later actions to it. Only the last step is always validated: the resumed run would make no
 * further step. */
enum lvn_due lvn_due_next(const struct lvn_due_state *state);

#endif
