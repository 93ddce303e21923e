/* checkpoint.c - the callback that requests a checkpoint when the monitored scalar is one of the top_k best so far, and
 * removes old checkpoints. See saver.h for the whole sequence and snapshot.h for the files. */
#include "checkpoints/checkpoint.h"

#include "base/text.h"
#include "train/callbacks/monitor.h"

struct state {
    struct lvn_monitor monitor;
};

static enum lvn_status check(const struct levin_settings *s)
{
    LVN_CHECK(lvn_bytes_of_text(s->values.checkpoint.max_shard_size) > 0, ARG,
              "checkpoint.max_shard_size must be a size like 5GB, 500MB or 2GiB, got '%.60s'",
              s->values.checkpoint.max_shard_size);
    return LVN_OK;
}

static enum lvn_status open_it(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    const struct levin_settings *s = context->settings;
    struct lvn_checkpoint_score *score = &context->score;
    bool is_default =
        strcmp(s->values.checkpoint.monitor, lvn_option_by_id(LVN_OPT_checkpoint_monitor)->default_text) == 0;
    LVN_TRY(lvn_monitor_open(&o->monitor, "checkpoint", s->values.checkpoint.monitor,
                             lvn_checkpoint_mode_of(s->values.checkpoint.mode), is_default, &context->event));
    if (o->monitor.scalar < 0) return LVN_OK;
    snprintf(score->name, sizeof score->name, "%s", o->monitor.name);
    score->higher = o->monitor.higher;
    return LVN_OK;
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    struct lvn_event *e = &context->event;
    const int64_t top_k = context->settings->values.checkpoint.top_k;
    if (lvn_monitor_is_due(&o->monitor, e)) {
        e->best = lvn_monitor_improves(&o->monitor, e, 0.0);
        context->score.value = e->scalar[o->monitor.scalar].value;
        context->scored_step = e->step;
        bool saves = top_k < 0 || (e->best && top_k > 0);
        if (!saves && top_k > 1 && context->dir &&
            lvn_checkpoint_is_among(context->dir->checkpoints, top_k, &context->score, &saves) != LVN_OK)
            lvn_callback_warn(context, "earlier checkpoints could not be read");
        if (saves) context->control |= LVN_CONTROL_SHOULD_SAVE;
    }
    if (e->kind == LVN_EVENT_CHECKPOINT && context->dir &&
        lvn_checkpoint_prune(context->dir->checkpoints, top_k) != LVN_OK)
        lvn_callback_warn(context, "old checkpoints could not be removed");
    return LVN_OK;
}

static void save(const void *state, json_t *json)
{
    const struct state *o = state;
    lvn_monitor_save(&o->monitor, json);
}

static enum lvn_status load(void *state, struct lvn_callback_context *context, const json_t *json)
{
    struct state *o = state;
    (void)context;
    lvn_monitor_load(&o->monitor, json);
    return LVN_OK;
}

const struct lvn_callback lvn_callback_checkpoint = {
    .name = "checkpoint",
    .bytes = sizeof(struct state),
    .check = check,
    .open = open_it,
    .call = call,
    .save = save,
    .load = load,
};
