/* trace.c - the backend `trace`: a device without hardware. It has every kernel but no memory, and a run only reports
 * its launches to the hook.
 *
 * `levin plan` and tests use it to plan a program, and to list its launches, for a device that this machine does not
 * have. Kernels need the scratch of the plain ones. */

#include "backend/calls.h"
#include "base/arena.h"

struct bound {
    struct lvn_bound base;
    const struct lvn_program *program;
};

extern const struct lvn_backend lvn_backend_trace;

static enum lvn_status open_device(struct lvn_device **out, const struct lvn_device_options *o)
{
    struct lvn_device *d = *out = lvn_calloc(1, sizeof *d);
    if (!d) return LVN_MEMORY;
    *d = (struct lvn_device){.backend = &lvn_backend_trace, .real = o->real, .threads = 1};
    return LVN_OK;
}

static enum lvn_status choose(const struct lvn_device *d, struct lvn_instr *i, int64_t *scratch)
{
    struct lvn_call call;
    (void)d;
    lvn_instr_describe(i, &call);
    *scratch = i->op->spec.scratch ? i->op->spec.scratch(&call) : 0;
    return LVN_OK;
}

static enum lvn_status bind(struct lvn_bound **out, const struct lvn_program *p, const struct lvn_binding *b)
{
    struct bound *x = lvn_calloc(1, sizeof *x);
    *out = NULL;
    (void)b;
    if (!x) return LVN_MEMORY;
    *x = (struct bound){.base.device = p->device, .program = p};
    *out = &x->base;
    return LVN_OK;
}

static void unbind(struct lvn_bound *b)
{
    free(b);
}

static enum lvn_status run(struct lvn_bound *b, const struct lvn_execution *execution)
{
    struct lvn_launch_order w = lvn_launch_order_begin(((const struct bound *)b)->program, execution->n_micro_batches);
    while (lvn_launch_order_next(&w)) {
        if (w.event == LVN_ORDER_BACKWARD_DONE && execution->without_update) break;
        if (w.event == LVN_ORDER_LAUNCH && execution->launched) execution->launched(execution->context, &w);
    }
    return LVN_OK;
}

const struct lvn_backend lvn_backend_trace = {
    .name = "trace",
    .description = "for levin plan: shows what would be launched on a device that this machine lacks",
    .fp16 = true,
    .packed = true,
    .open = open_device,
    .close = lvn_host_close,
    .choose = choose,
    .bind = bind,
    .unbind = unbind,
    .run = run};
