/* stragglers.c - the callback that reports a rank that is slower than the others, as detected by the heartbeat. */
#include "train/callback.h"

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    char slow[400];
    (void)state;
    if (context->event.kind == LVN_EVENT_STEP && !context->ranks->rank &&
        lvn_member_straggler(context->ranks->member, slow))
        lvn_callback_notify(context, LVN_EVENT_NOTE, slow);
    return LVN_OK;
}

const struct lvn_callback lvn_callback_stragglers = {.name = "stragglers", .in_fast_dev_run = true, .call = call};
