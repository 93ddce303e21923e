/* utilization.c - the callback that computes how much of this machine a step uses: its FLOP/s divided by those of
 * matrix multiplication alone.
 *
 * The latter is measured once, early in runs that are long enough, because it lasts a quarter of a second. Ranks decide
 * together. */
#include "base/clock.h"
#include "train/callback.h"

struct state {
    double begin; /* lvn_seconds() of the first step */
    double peak;  /* FLOP/s of all ranks together; 0: not measured */
    bool passed;  /* the run is too short to measure */
};

enum { AT_STEP = 10 };
static const double WORTH_SECONDS = 15; /* minimum remaining seconds of the run */

/* Estimate the remaining time from the steps so far. */
static enum lvn_status decide(struct state *o, const struct lvn_callback_context *context)
{
    const struct lvn_event *e = &context->event;
    double each = (lvn_seconds() - o->begin) / (AT_STEP - 1), left = each * (double)(e->max_steps - e->step);
    double votes = !e->max_steps || left >= WORTH_SECONDS;
    LVN_TRY(lvn_ranks_sum(context->ranks, &votes, 1));
    o->passed = votes < 1;
    return LVN_OK;
}

static enum lvn_status call(void *state, struct lvn_callback_context *context)
{
    struct state *o = state;
    struct lvn_event *e = &context->event;
    const struct lvn_model_state *n = context->model_state;
    if (e->kind != LVN_EVENT_STEP || o->passed || !n->device->backend->rate) return LVN_OK;
    if (o->peak > 0.0) {
        double rate = lvn_event_value(e, "tokens_per_s") * e->flops_per_token;
        if (rate > o->peak) o->peak = rate; /* other processes disturbed the measurement */
        e->utilization = rate / o->peak;
        return LVN_OK;
    }
    if (o->begin <= 0.0 || e->step % AT_STEP == 1) o->begin = lvn_seconds();
    if (e->step % AT_STEP) return LVN_OK;
    LVN_TRY(decide(o, context));
    if (o->passed) return LVN_OK;
    if (lvn_model_state_rate(n, &o->peak) != LVN_OK)
        lvn_callback_warn(context, "this machine's speed of matrix multiplication could not be measured");
    return lvn_ranks_sum(context->ranks, &o->peak, 1);
}

const struct lvn_callback lvn_callback_utilization = {
    .name = "utilization", .bytes = sizeof(struct state), .in_fast_dev_run = true, .call = call};
