/* due.c - see due.h. */
#include "train/due.h"

static bool every(int64_t step, int64_t n)
{
    return n > 0 && step % n == 0;
}

unsigned lvn_due_after(const struct lvn_due_intervals *e, int64_t step)
{
    unsigned due = 0;
    if (e->validates && (every(step, e->validation) || step == e->last_step)) due |= LVN_DUE_VALIDATION;
    if (every(step, e->epoch)) due |= LVN_DUE_EPOCH_END;
    if (every(step, e->save)) due |= LVN_DUE_SAVE;
    return due;
}

enum lvn_due lvn_due_next(const struct lvn_due_state *s)
{
    const bool validates = s->due & LVN_DUE_VALIDATION;
    if (validates && s->interrupted && !s->saved_first) return LVN_DUE_SAVE_FIRST;
    if (validates) return s->interrupted && s->in_store && !s->last ? LVN_DUE_NOTHING : LVN_DUE_VALIDATION;
    return s->due & LVN_DUE_EPOCH_END ? LVN_DUE_EPOCH_END : s->due & LVN_DUE_SAVE ? LVN_DUE_SAVE : LVN_DUE_NOTHING;
}
