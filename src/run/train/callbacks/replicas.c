/* replicas.c - the callback that compares the parameters of all ranks every trainer.check_replicas_every_n_steps: they
 * must be equal bit by bit. */
#include "engine/consistency.h"
#include "train/callback.h"

static bool enabled(const struct levin_settings *s)
{
    return s->values.trainer.check_replicas_every_n_steps > 0;
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    const struct lvn_event *e = &context->event;
    (void)state;
    if (e->kind != LVN_EVENT_STEP || e->step % context->settings->values.trainer.check_replicas_every_n_steps)
        return LVN_OK;
    return lvn_consistency_replicas(context->ranks, context->model_state, e->step);
}

const struct lvn_callback lvn_callback_replicas = {
    .name = "replicas", .in_fast_dev_run = true, .enabled = enabled, .call = call};
