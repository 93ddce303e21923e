/* report.c - the logger of report.html: draws a run at validations and when it ends, also after a failure.
 *
 * Drawing reads the files of the other loggers (train/report). Except for the end, nothing is drawn while drawings
 * would cost more than a fiftieth of the time. */
#include "report/report.h"

#include "base/arena.h"
#include "base/clock.h"
#include "train/callback.h"

static const char name[] = "report.html";
static const double PAUSE = 50;         /* between drawings, in multiples of the duration of the last one */
static const double FIRST_GUESS = 0.05; /* estimated duration of the first one, in seconds */

struct state {
    struct lvn_report_run *run; /* on rank 0, if the run has a folder */
    char path[LVN_CALLBACK_PATH_TEXT];
    double not_before; /* earliest lvn_seconds() of the next drawing */
    bool outdated;     /* something happened since the last drawing */
    bool failed;       /* it could not be drawn, and this was reported */
};

static enum lvn_status start(struct state *o, const struct lvn_callback_context *context)
{
    o->run = lvn_calloc(1, sizeof *o->run);
    if (!o->run) return LVN_MEMORY;
    lvn_callback_path(context, name, o->path);
    o->not_before = lvn_seconds() + PAUSE * FIRST_GUESS;
    enum lvn_status status = lvn_report_open(o->run, context->dir->path);
    if (status == LVN_OK) return LVN_OK;
    free(o->run);
    o->run = NULL;
    return status;
}

static enum lvn_status draw(struct state *o)
{
    LVN_LOCAL_TEXT(page);
    const double begin = lvn_seconds();
    enum lvn_status status = lvn_report_read(o->run);
    if (status == LVN_OK) status = lvn_report_draw(o->run, 1, NULL, &page);
    if (status == LVN_OK) status = lvn_file_write(o->path, page.p, page.n);
    const double end = lvn_seconds();
    o->not_before = end + PAUSE * (end - begin);
    o->outdated = false;
    return status;
}

static void draw_now(struct state *o, struct lvn_callback_context *context)
{
    if (draw(o) == LVN_OK) {
        o->failed = false;
    } else if (o->failed) {
        lvn_error_clear();
    } else {
        o->failed = true;
        lvn_callback_warn(context, "the report could not be drawn");
    }
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    const enum lvn_event_kind kind = context->event.kind;
    if (!context->dir) return LVN_OK;
    if (kind == LVN_EVENT_START && start(o, context) != LVN_OK) lvn_callback_warn(context, "there will be no report");
    o->outdated |= o->run != NULL;
    if (!o->outdated) return LVN_OK;
    const bool due = kind == LVN_EVENT_VALIDATION || kind == LVN_EVENT_CHECKPOINT;
    if (kind == LVN_EVENT_END || (due && lvn_seconds() >= o->not_before)) draw_now(o, context);
    return LVN_OK;
}

static void close_it(void *state)
{
    struct state *o = state;
    if (!o->run) return;
    if (o->outdated && draw(o) != LVN_OK) lvn_error_clear(); /* the run failed before the event END */
    lvn_report_release(o->run);
    free(o->run);
}

const struct lvn_callback lvn_callback_report = {
    .name = "report", .bytes = sizeof(struct state), .output = name, .call = call, .close = close_it};
