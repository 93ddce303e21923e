/* tensorboard.c - the logger of the folder tensorboard: a file of events for TensorBoard from each start of the run. */
#include "formats/tensorboard_events.h"

#include "base/clock.h"
#include "train/callback.h"

static const char name[] = "tensorboard";

struct state {
    struct lvn_tensorboard file;
    bool warned;
};

static enum lvn_status start(struct state *o, const struct lvn_callback_context *context)
{
    char path[LVN_CALLBACK_PATH_TEXT];
    int64_t first_step = context->resumed_step < 0 ? 0 : context->resumed_step + 1;
    return lvn_tensorboard_open(&o->file, lvn_callback_path(context, name, path), lvn_wall_seconds(), first_step);
}

static void report(struct state *o, struct lvn_callback_context *context, enum lvn_status status)
{
    if (status == LVN_OK) return;
    if (o->warned)
        lvn_error_clear();
    else
        lvn_callback_warn(context, "TensorBoard's events could not be written");
    o->warned = true;
}

static void flush(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    report(o, context, lvn_tensorboard_flush(&o->file));
}

static void put(struct state *o, struct lvn_callback_context *context)
{
    const struct lvn_event *e = &context->event;
    char path[LVN_CALLBACK_PATH_TEXT];
    for (int i = 0; i < e->n_scalars; i++) {
        /* events have their own times, so omit the scalar `time` */
        if (lvn_event_updates(e, i) && e->scalar[i].computed && !isnan(e->scalar[i].value))
            lvn_tensorboard_scalar(&o->file, e->scalar[i].name, e->scalar[i].value);
    }
    /* A resumed run repeats a validation that is not in its checkpoint; an earlier process may have written it. */
    const bool again = e->kind == LVN_EVENT_VALIDATION && e->step == context->resumed_step;
    const char *dir = again ? lvn_callback_path(context, name, path) : NULL;
    report(o, context, lvn_tensorboard_event(&o->file, lvn_wall_seconds(), e->step, dir));
    if (e->kind != LVN_EVENT_STEP && e->kind != LVN_EVENT_LOG) flush(o, context);
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    if (context->event.kind == LVN_EVENT_START)
        return lvn_ranks_agree(context->ranks, context->dir ? start(state, context) : LVN_OK);
    if (context->dir) put(state, context);
    return LVN_OK;
}

static void close_it(void *state)
{
    lvn_tensorboard_close(&((struct state *)state)->file);
}

const struct lvn_callback lvn_callback_tensorboard = {.name = name,
                                                      .bytes = sizeof(struct state),
                                                      .output = name,
                                                      .output_pattern = "events.out.tfevents.*.levin",
                                                      .call = call,
                                                      .flush = flush,
                                                      .close = close_it};
