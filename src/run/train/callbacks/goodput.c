/* goodput.c - the callback that computes the cost of restarts in a resumed run: goodput (the fraction of all computed
 * steps that was kept), the number of restarts, and the seconds from the previous attempt's last sign of life to the
 * first finished step of this one.
 *
 * It reads status.json of the previous attempt, which contains the last finished step: steps after the resumed
 * checkpoint are computed again. The values are in status.json (for levin watch) and are the scalars goodput, restarts
 * and restart_seconds of metrics.csv, metrics.jsonl and the report. A run in a store may be resumed on another machine,
 * where that file is missing or old, so the store's copy is read as well (run_dir.c). The copy may be ten
 * seconds older than the end of that attempt: steps of that time may go uncounted, and restart_seconds may be too long
 * by it. */

#include "base/clock.h"
#include "formats/json.h"
#include "stores/store.h"
#include "train/callback.h"

enum { MAX_BYTES = 64 << 20 };

struct state {
    struct lvn_attempts attempts;
    double last_sign; /* of the previous attempt, in seconds since 1970; 0: unknown */
    int goodput;      /* index of that scalar, followed by restarts and restart_seconds; -1: the run is new */
};

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Read the status of a previous attempt, here or in a store. A damaged file counts as none. */
static enum lvn_status read_status(const char *path, double known[3])
{
    json_t *json = NULL;
    char *text;
    int64_t bytes, computed = 0, restarts = 0;
    double last_sign = 0;
    enum lvn_store_kind kind;
    LVN_TRY(lvn_store_stat(path, &kind, &bytes));
    if (kind != LVN_STORE_FILE) return LVN_OK;
    LVN_TRY(lvn_store_read(path, MAX_BYTES, &text, &bytes));
    enum lvn_status status = lvn_json_parse(path, text, bytes, &json);
    free(text);
    LVN_TRY(status);
    const json_t *goodput = json_object_get(json, "goodput");
    status = lvn_json_real(path, json, "time", false, &last_sign);
    if (!status && json_is_object(goodput))
        status = lvn_json_int(path, goodput, "steps_computed", false, 0, INT64_MAX, &computed);
    if (!status && json_is_object(goodput))
        status = lvn_json_int(path, goodput, "restarts", false, 0, INT64_MAX, &restarts);
    json_decref(json);
    /* All of them only grow, so the larger value is that of the later attempt. */
    known[0] = larger(known[0], (double)computed);
    known[1] = larger(known[1], (double)restarts);
    known[2] = larger(known[2], last_sign);
    return status;
}

static enum lvn_status read_both(const struct lvn_callback_context *context, double known[3])
{
    char path[LVN_CALLBACK_PATH_TEXT];
    enum lvn_status status = read_status(lvn_callback_path(context, LVN_RUN_DIR_STATUS, path), known);
    if (status != LVN_OK || !lvn_store_is_remote(context->dir->url)) return status;
    LVN_LOCAL_ARENA(a);
    const char *url = lvn_store_join(&a, context->dir->url, LVN_RUN_DIR_STATUS);
    return url ? read_status(url, known) : LVN_MEMORY;
}

static enum lvn_status open_it(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    double known[3] = {0}; /* steps computed, restarts, last sign of life; sent by rank 0 */
    o->goodput = lvn_event_find(&context->event, "goodput");
    if (o->goodput < 0) return LVN_OK;
    if (context->dir && read_both(context, known))
        lvn_callback_warn(context, "steps that the previous attempt lost are not counted");
    LVN_TRY(lvn_ranks_sum(context->ranks, known, 3));
    o->attempts.first_step = context->resumed_step;
    o->attempts.computed = known[0] > (double)context->resumed_step ? (int64_t)known[0] : context->resumed_step;
    o->attempts.restarts = (int64_t)known[1] + 1;
    o->last_sign = known[2];
    return LVN_OK;
}

static void set(const struct state *o, struct lvn_scalar s[3], int64_t step)
{
    s[0].value = (double)step / (double)lvn_attempts_computed(&o->attempts, step);
    s[1].value = (double)o->attempts.restarts;
    if (o->attempts.restart_seconds > 0) s[2].value = o->attempts.restart_seconds;
}

static void start(const struct state *o, struct lvn_callback_context *context)
{
    lvn_member_set_attempts(context->ranks->member, &o->attempts);
    if (o->attempts.computed > 0) set(o, &context->event.scalar[o->goodput], o->attempts.first_step);
}

static void finish_step(struct state *o, struct lvn_callback_context *context)
{
    if (context->event.step == o->attempts.first_step + 1 && o->last_sign > 0) {
        o->attempts.restart_seconds = lvn_wall_seconds() - o->last_sign;
        lvn_member_set_attempts(context->ranks->member, &o->attempts);
    }
    set(o, &context->event.scalar[o->goodput], context->event.step);
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    if (o->goodput < 0) return LVN_OK;
    if (context->event.kind == LVN_EVENT_START) start(o, context);
    if (context->event.kind == LVN_EVENT_STEP) finish_step(o, context);
    return LVN_OK;
}

const struct lvn_callback lvn_callback_goodput = {
    .name = "goodput", .bytes = sizeof(struct state), .open = open_it, .call = call};
