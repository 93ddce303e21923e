/* curve.c - the logger of loss.svg: training and validation loss, drawn at checkpoints and when the run ends, also
 * after a failure.
 *
 * Drawing reads all steps of the run so far. To keep its cost below a fiftieth of the run's time, a checkpoint shortly
 * after a drawing is only drawn at the next one.
 *
 * The losses are the first scalar of steps and the first of validations. They are collected at events; those of steps
 * before a resume are read once, from metrics.csv. */
#include "train/loss_curve.h"

#include "base/clock.h"
#include "base/files.h"
#include "train/callback.h"

struct state {
    struct lvn_points train, val;
    int loss, val_loss; /* indices of scalars; -1: none */
    char path[LVN_CALLBACK_PATH_TEXT];
    const char *title;
    double not_before; /* earliest lvn_seconds() of the next drawing */
    bool outdated;     /* a checkpoint was made since the last drawing */
};

static const double PAUSE = 50; /* between drawings, in multiples of the duration of the last one */

static int first_of(const struct lvn_event *e, enum lvn_event_kind kind)
{
    for (int i = 0; i < e->n_scalars; i++) {
        if (e->scalar[i].kind == kind) return i;
    }
    return -1;
}

static const char *name_of(const struct lvn_event *e, int scalar)
{
    return scalar < 0 ? "" : e->scalar[scalar].name;
}

static void start(struct state *o, struct lvn_callback_context *context)
{
    char path[LVN_CALLBACK_PATH_TEXT];
    const struct lvn_event *e = &context->event;
    o->loss = first_of(e, LVN_EVENT_STEP);
    o->val_loss = first_of(e, LVN_EVENT_VALIDATION);
    lvn_callback_path(context, "loss.svg", o->path);
    o->title = context->settings->values.name;
    if (context->resumed_step < 0 || !lvn_path_is_file(lvn_callback_path(context, "metrics.csv", path))) return;
    if (lvn_curve_read(path, name_of(e, o->loss), name_of(e, o->val_loss), context->resumed_step, &o->train, &o->val) !=
        LVN_OK)
        lvn_callback_warn(context, "the loss curve starts at the resumed step");
}

static enum lvn_status draw(struct state *o)
{
    const double begin = lvn_seconds();
    enum lvn_status status = lvn_curve_write(o->path, o->title, &o->train, &o->val);
    const double end = lvn_seconds();
    o->not_before = end + PAUSE * (end - begin);
    o->outdated = false;
    return status;
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    const struct lvn_event *e = &context->event;
    if (!context->dir) return LVN_OK;
    if (e->kind == LVN_EVENT_START) start(o, context);
    if (e->kind == LVN_EVENT_STEP && o->loss >= 0) lvn_points_add(&o->train, (double)e->step, e->scalar[o->loss].value);
    if (e->kind == LVN_EVENT_VALIDATION && o->val_loss >= 0)
        lvn_points_add(&o->val, (double)e->step, e->scalar[o->val_loss].value);
    o->outdated |= e->kind == LVN_EVENT_CHECKPOINT;
    if (o->outdated && (e->kind == LVN_EVENT_END || lvn_seconds() >= o->not_before) && draw(o) != LVN_OK)
        lvn_callback_warn(context, "the loss curve could not be drawn");
    return LVN_OK;
}

static void close_it(void *state)
{
    struct state *o = state;
    if (o->outdated && draw(o) != LVN_OK) lvn_error_clear(); /* the run failed before the event END */
    lvn_points_release(&o->train);
    lvn_points_release(&o->val);
}

const struct lvn_callback lvn_callback_curve = {
    .name = "curve", .bytes = sizeof(struct state), .output = "loss.svg", .call = call, .close = close_it};
