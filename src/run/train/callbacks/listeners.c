/* listeners.c - the callback that passes events to the program's listeners, on rank 0. Callbacks before it in the table
 * can still set fields of the event. */
#include "train/callback.h"

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    (void)state;
    lvn_callback_notify(context, context->event.kind, context->event.text);
    return LVN_OK;
}

const struct lvn_callback lvn_callback_listeners = {.name = "listeners", .in_fast_dev_run = true, .call = call};
