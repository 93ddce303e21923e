/* utilisation.c - how much of this machine a step uses: its rate beside that of matrix products alone.
 *
 * That is measured once, early in a run that is long enough: a quarter of a second that a first step need not wait for.
 */
#include "train/callbacks/callback.h"

struct own {
    double peak; /* FLOP/s that all ranks together reach; 0: not measured */
};

static enum lvn_status call(void *own, struct lvn_moment *m)
{
    enum { AT_STEP = 10, WORTH_STEPS = 100 };
    struct own *o = own;
    struct lvn_event *e = &m->event;
    const struct lvn_network *n = m->network;
    if (e->kind != LVN_EVENT_STEP || !n->device->backend->rate) return LVN_OK;
    if (o->peak > 0.0) {
        double rate = lvn_event_value(e, "tokens_per_s") * e->flops_per_token;
        if (rate > o->peak) o->peak = rate; /* it was measured while neighbours were busy */
        e->utilisation = rate / o->peak;
        return LVN_OK;
    }
    if (e->step % AT_STEP || (e->max_steps && e->max_steps - e->step < WORTH_STEPS)) return LVN_OK;
    if (lvn_network_rate(n, &o->peak) != LVN_OK)
        lvn_moment_note(m, "this machine's rate of matrix products could not be measured");
    return lvn_ranks_sum(m->ranks, &o->peak, 1);
}

const struct lvn_callback lvn_callback_utilisation = {
    .name = "utilisation", .bytes = sizeof(struct own), .in_fast_dev_run = true, .call = call};
