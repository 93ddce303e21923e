/* listeners.c - the program's listeners on rank 0. Those in front of this line of the table complete the event. */
#include "train/callback.h"

static enum lvn_status call(void *state, struct lvn_callback_context *m)
{
    (void)state;
    lvn_callback_notify(m, m->event.kind, m->event.text);
    return LVN_OK;
}

const struct lvn_callback lvn_callback_listeners = {.name = "listeners", .in_fast_dev_run = true, .call = call};
