/* early_stopping.c - the callback that stops a run whose monitored scalar has not improved in `patience` consecutive
 * checks.
 *
 * Its count is in every checkpoint, so a resumed run stops at the same step as one that was never interrupted; a run
 * that it has stopped has nothing left to do when resumed, unless patience is raised. */
#include "train/callbacks/monitor.h"

struct state {
    struct lvn_monitor monitor;
    int64_t waited; /* checks since the best value */
};

static bool enabled(const struct levin_settings *s)
{
    return *s->values.early_stopping.monitor != '\0';
}

static enum lvn_status open_it(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    return lvn_monitor_open(&o->monitor, "early_stopping", context->settings->values.early_stopping.monitor,
                            lvn_early_stopping_mode_of(context->settings->values.early_stopping.mode), false,
                            &context->event);
}

static void stop_if_waited(const struct state *o, struct lvn_callback_context *context)
{
    if (o->waited == 0 || o->waited < context->settings->values.early_stopping.patience) return;
    const char *times = lvn_plural(o->waited);
    if (isnan(o->monitor.best))
        lvn_callback_request_stop(context, "early stopping: %s had no value in %lld check%s", o->monitor.name,
                                  (long long)o->waited, times);
    else
        lvn_callback_request_stop(context, "early stopping: %s did not improve on %.6g in %lld check%s",
                                  o->monitor.name, o->monitor.best, (long long)o->waited, times);
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    if (!lvn_monitor_is_due(&o->monitor, &context->event)) return LVN_OK;
    bool better =
        lvn_monitor_improves(&o->monitor, &context->event, context->settings->values.early_stopping.min_delta);
    o->waited = better ? 0 : o->waited + 1;
    stop_if_waited(o, context);
    return LVN_OK;
}

static void save(const void *state, json_t *json)
{
    const struct state *o = state;
    lvn_monitor_save(&o->monitor, json);
    json_object_set_new(json, "waited", json_integer(o->waited));
}

static enum lvn_status load(void *state, struct lvn_callback_context *context, const json_t *json)
{
    struct state *o = state;
    if (lvn_monitor_load(&o->monitor, json)) o->waited = json_integer_value(json_object_get(json, "waited"));
    stop_if_waited(o, context);
    return LVN_OK;
}

const struct lvn_callback lvn_callback_early_stopping = {.name = "early_stopping",
                                                         .bytes = sizeof(struct state),
                                                         .enabled = enabled,
                                                         .open = open_it,
                                                         .call = call,
                                                         .save = save,
                                                         .load = load};
