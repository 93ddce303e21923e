/* reference.c - the backend `reference`: it runs the specification, the plain kernels of src/core/ops, in fp32 or fp64,
 * on one thread.
 *
 * It is slow, and serves as the reference for the other backends: running on it distinguishes a kernel bug from an
 * error in the model. It hides its memory from the rest of levin as a GPU would, so code that works with it works with
 * a GPU.
 */

#include "backend/calls.h"
#include "base/arena.h"

struct bound {
    struct lvn_bound base;
    struct lvn_calls calls;
};

extern const struct lvn_backend lvn_backend_reference;

static enum lvn_status open_device(struct lvn_device **out, const struct lvn_device_options *o)
{
    struct lvn_device *d = *out = lvn_calloc(1, sizeof *d);
    if (!d) return LVN_MEMORY;
    *d = (struct lvn_device){.backend = &lvn_backend_reference, .real = o->real, .threads = 1};
    return LVN_OK;
}

static void find_bf16(struct lvn_operand *o, bool written, void *argument)
{
    (void)written;
    bool *found = argument;
    if (o->desc.dtype == LVN_BF16) *found = true;
}

static enum lvn_status choose(const struct lvn_device *d, struct lvn_instr *i, int64_t *scratch)
{
    struct lvn_call call;
    bool bf16 = false;
    (void)d;
    LVN_CHECK(lvn_op_plain(i->op, i->phase), UNSUPPORTED, "%s: reference has no kernel for '%s'", i->name, i->op->name);
    lvn_instr_operands(i, find_bf16, &bf16);
    LVN_CHECK(!bf16, UNSUPPORTED,
              "%s: reference has no kernel for '%s' in bf16: the specification computes in fp32 and fp64; set "
              "trainer.precision to 32-true",
              i->name, i->op->name);
    lvn_instr_describe(i, &call);
    *scratch = i->op->spec.scratch ? i->op->spec.scratch(&call) : 0;
    return LVN_OK;
}

static void unbind(struct lvn_bound *b)
{
    struct bound *x = (struct bound *)b;
    lvn_calls_release(&x->calls);
    free(x);
}

static enum lvn_status bind(struct lvn_bound **out, const struct lvn_program *p, const struct lvn_binding *b)
{
    struct bound *x = lvn_calloc(1, sizeof *x);
    *out = NULL;
    if (!x) return LVN_MEMORY;
    x->base.device = p->device;
    enum lvn_status status = lvn_calls_init(&x->calls, p, b);
    if (status == LVN_OK)
        *out = &x->base;
    else
        unbind(&x->base);
    return status;
}

/* Return false if a collective failed; it has then recorded the error. */
static bool launch(const struct lvn_calls *calls, const struct lvn_launch_order *w,
                   const struct lvn_execution *execution)
{
    const struct lvn_instr *i = w->instr;
    if (!i->op->collective)
        lvn_op_plain(i->op, i->phase)(lvn_calls_of(calls, i));
    else if (execution->collectives && !lvn_calls_communicate(calls, i, execution->collectives))
        return false;
    if (execution->launched) execution->launched(execution->context, w);
    return true;
}

static enum lvn_status run_all(struct lvn_calls *calls, const struct lvn_execution *execution)
{
    struct lvn_launch_order w = lvn_launch_order_begin(calls->program, execution->n_micro_batches);
    while (lvn_launch_order_next(&w)) {
        if (w.event == LVN_ORDER_MICRO_BATCH) lvn_calls_set_micro_batch(calls, w.micro_batch);
        if (w.event == LVN_ORDER_LAUNCH && !launch(calls, &w, execution)) return LVN_COMM;
        if (w.event != LVN_ORDER_BACKWARD_DONE) continue;
        if (execution->without_update) break;
        if (execution->before_update) execution->before_update(execution->context);
    }
    return LVN_OK;
}

static enum lvn_status run(struct lvn_bound *b, const struct lvn_execution *execution)
{
    struct lvn_calls *calls = &((struct bound *)b)->calls;
    lvn_calls_begin(calls);
    enum lvn_status status = run_all(calls, execution);
    lvn_calls_end(calls);
    return status;
}

const struct lvn_backend lvn_backend_reference = {
    .name = "reference",
    .description = "the plain kernels on one thread: slow; other backends are compared with it",
    .hides = true,
    .computes = true,
    .open = open_device,
    .close = lvn_host_close,
    .alloc = lvn_host_alloc,
    .free = lvn_host_free,
    .write = lvn_host_write,
    .read = lvn_host_read,
    .choose = choose,
    .bind = bind,
    .unbind = unbind,
    .run = run};
