/* goodput.c - the callback that counts, in a run that was resumed, what its attempts have cost: goodput (of all steps
 * that were computed, the part that was kept), restarts, and the seconds from the last sign of life of the attempt
 * before to the first finished step of this one.
 *
 * It reads status.json as the attempt before has left it, where it holds the last step that was finished: steps after
 * the checkpoint from which the run is resumed are computed again. The numbers are in status.json (for levin watch) and
 * are the scalars goodput, restarts and restart_seconds of metrics.csv, metrics.jsonl and the report. Without that
 * file, as when a run in a store is resumed on another machine, the steps and seconds that were lost are not known. */
#include "base/clock.h"
#include "base/files.h"
#include "formats/json.h"
#include "train/callback.h"

struct state {
    struct lvn_attempts attempts;
    double last_sign; /* of the attempt before: seconds since 1970; 0: not known */
    int goodput;      /* index of that scalar, which restarts and restart_seconds follow; -1: the run is new */
};

/* Read what the attempt before has written; a file that is damaged counts as none. */
static enum lvn_status read_status(struct state *o, const char *path, double known[3])
{
    json_t *json = NULL;
    int64_t computed = 0, restarts = 0;
    if (!lvn_path_is_file(path)) return LVN_OK;
    LVN_TRY(lvn_json_read(path, &json));
    const json_t *goodput = json_object_get(json, "goodput");
    enum lvn_status status = lvn_json_real(path, json, "time", false, &o->last_sign);
    if (!status && json_is_object(goodput))
        status = lvn_json_int(path, goodput, "steps_computed", false, 0, INT64_MAX, &computed);
    if (!status && json_is_object(goodput))
        status = lvn_json_int(path, goodput, "restarts", false, 0, INT64_MAX, &restarts);
    json_decref(json);
    known[0] = (double)computed;
    known[1] = (double)restarts;
    known[2] = o->last_sign;
    return status;
}

static enum lvn_status open_it(void *state, struct lvn_callback_context *m)
{
    struct state *o = state;
    char path[LVN_CALLBACK_PATH_TEXT];
    double known[3] = {0}; /* steps computed, restarts, last sign of life: rank 0 tells the others */
    o->goodput = lvn_event_find(&m->event, "goodput");
    if (o->goodput < 0) return LVN_OK;
    if (m->dir && read_status(o, lvn_callback_path(m, "status.json", path), known))
        lvn_callback_warn(m, "steps that the attempt before has lost are not counted");
    LVN_TRY(lvn_ranks_sum(m->ranks, known, 3));
    o->attempts.first_step = m->resumed_step;
    o->attempts.computed = known[0] > (double)m->resumed_step ? (int64_t)known[0] : m->resumed_step;
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

static void start(const struct state *o, struct lvn_callback_context *m)
{
    lvn_member_set_attempts(m->ranks->member, &o->attempts);
    if (o->attempts.computed > 0) set(o, &m->event.scalar[o->goodput], o->attempts.first_step);
}

static void finish_step(struct state *o, struct lvn_callback_context *m)
{
    if (m->event.step == o->attempts.first_step + 1 && o->last_sign > 0) {
        o->attempts.restart_seconds = lvn_wall_seconds() - o->last_sign;
        lvn_member_set_attempts(m->ranks->member, &o->attempts);
    }
    set(o, &m->event.scalar[o->goodput], m->event.step);
}

static enum lvn_status call(void *state, struct lvn_callback_context *m)
{
    struct state *o = state;
    if (o->goodput < 0) return LVN_OK;
    if (m->event.kind == LVN_EVENT_START) start(o, m);
    if (m->event.kind == LVN_EVENT_STEP) finish_step(o, m);
    return LVN_OK;
}

const struct lvn_callback lvn_callback_goodput = {
    .name = "goodput", .bytes = sizeof(struct state), .open = open_it, .call = call};
