/* run.c - all passes in their order, and walking the finished list.
 *
 * The team of threads starts once per run. Every thread walks the same list, calls the same kernels with its own
 * number, and meets the others at a barrier after each. Pointers are resolved from (buffer, offset) at each call: a few
 * additions per operand, and the same program serves every micro-batch and gradient slot. */
#include <string.h>

#include "base/threads.h"
#include "passes/program.h"

enum lvn_status lvn_program_new(struct lvn_program **out, struct lvn_graph *g, struct lvn_tensor *const *outputs,
                                int n_outputs, const struct lvn_plan_options *o)
{
    struct lvn_program *p;
    *out = NULL;
    LVN_TRY(lvn_program_build(&p, g, outputs, n_outputs));
    enum lvn_status s = lvn_pass_prune(p);
    if (s == LVN_OK && o->fuse) s = lvn_pass_fuse(p);
    if (s == LVN_OK) s = lvn_pass_precision(p);
    if (s == LVN_OK && o->train) s = lvn_pass_differentiate(p);
    if (s == LVN_OK && o->train) s = lvn_pass_recompute(p, o->recompute);
    if (s == LVN_OK && o->train && o->optimizer) s = lvn_pass_update(p, o->optimizer);
    if (s == LVN_OK) s = lvn_pass_place(p, o->kernels, o->n_threads);
    if (s == LVN_OK)
        *out = p;
    else
        lvn_program_free(p);
    return s;
}

/* --- calls --- */

static void describe(struct lvn_arg *arg, const struct lvn_operand *o)
{
    *arg = (struct lvn_arg){.desc = o->value >= 0 ? &o->desc : NULL};
}

void lvn_instr_describe(const struct lvn_instr *i, struct lvn_call *call)
{
    *call = (struct lvn_call){.phase = i->phase, .attr = &i->attr, .op_hash = i->hash};
    for (int k = 0; k < LVN_MAX_IN; k++) {
        describe(&call->in[k], &i->in[k]);
        describe(&call->din[k], &i->din[k]);
        call->add[k] = i->add[k];
    }
    for (int k = 0; k < LVN_MAX_OUT; k++) {
        describe(&call->out[k], &i->out[k]);
        describe(&call->dout[k], &i->dout[k]);
    }
}

double lvn_program_flops(const struct lvn_program *p)
{
    double sum = 0.0;
    for (int n = 0; n < p->n_instrs; n++) {
        struct lvn_call call;
        lvn_instr_describe(&p->instrs[n], &call);
        if (p->instrs[n].op->flops) sum += p->instrs[n].op->flops(&call);
    }
    return sum;
}

/* --- the run --- */

/* One run as all threads see it. */
struct run {
    const struct lvn_program *p;
    const struct lvn_binding *b;
    int64_t n_micro_batches;
    int n_slots;
    int64_t slot_bytes;
    const struct lvn_run_hooks *hooks;
};

/* What a thread needs to turn an operand into a pointer. */
struct place {
    const struct run *run;
    int64_t micro_batch;
    int64_t grad_offset; /* bytes: the gradient slot of this micro-batch */
};

static char *resolve(const struct place *at, const struct lvn_operand *o)
{
    if (o->value < 0) return NULL;
    const struct lvn_value *v = &at->run->p->values[o->value];
    const struct lvn_binding *b = at->run->b;
    int64_t offset = v->offset + o->desc.offset * lvn_dtype_bytes(o->desc.dtype);
    switch (v->buffer) {
    case LVN_BUFFER_INPUT:
        return (char *)b->inputs[v->slot] + at->micro_batch * v->bytes +
               o->desc.offset * lvn_dtype_bytes(o->desc.dtype);
    case LVN_BUFFER_KEPT:
        return (char *)b->kept[v->slot] + o->desc.offset * lvn_dtype_bytes(o->desc.dtype);
    case LVN_BUFFER_GRAD:
        return (char *)b->buffer[LVN_BUFFER_GRAD] + at->grad_offset + offset;
    default:
        return (char *)b->buffer[v->buffer] + offset;
    }
}

static void execute(const struct place *at, const struct lvn_instr *i, int thread, int n_threads)
{
    struct lvn_call call;
    lvn_instr_describe(i, &call);
    call.step = at->run->b->step;
    for (int k = 0; k < LVN_MAX_IN; k++) {
        call.in[k].p = resolve(at, &i->in[k]);
        call.din[k].p = resolve(at, &i->din[k]);
        call.add[k] = i->add[k] || (i->param_gradient[k] && call.step->add_grads);
    }
    for (int k = 0; k < LVN_MAX_OUT; k++) {
        call.out[k].p = resolve(at, &i->out[k]);
        call.dout[k].p = resolve(at, &i->dout[k]);
    }
    call.scratch = resolve(at, &i->scratch);
    i->kernel(&call, thread, n_threads);
    lvn_team_barrier();
    const struct lvn_run_hooks *hooks = at->run->hooks;
    if (hooks && hooks->instr_done) {
        if (thread == 0) hooks->instr_done(hooks->argument, i);
        lvn_team_barrier();
    }
}

/* --- the binary counter of gradient sums ---
 * After m micro-batches, sums of 2^k neighbouring ones are held for each bit k that is set in m. Two sums of equal size
 * are added into the place of the left one, so the whole always ends in slot 0. */
struct counter {
    int64_t size[64]; /* held sums from left to right: how many micro-batches each covers */
    int slot[64];
    int n;
};

static int free_slot(const struct counter *c, int n_slots)
{
    for (int s = 0; s < n_slots; s++) {
        bool taken = false;
        for (int i = 0; i < c->n; i++) taken |= c->slot[i] == s;
        if (!taken) return s;
    }
    return 0;
}

static void add_slots(const struct run *r, int into, int from, int thread, int n_threads)
{
    int64_t begin, end, count = r->slot_bytes / lvn_dtype_bytes(r->p->real);
    char *grads = r->b->buffer[LVN_BUFFER_GRAD];
    lvn_share(count, LVN_PARAM_ALIGN, thread, n_threads, &begin, &end);
    if (r->p->real == LVN_F64) {
        double *a = (double *)(grads + into * r->slot_bytes);
        const double *b = (const double *)(grads + from * r->slot_bytes);
        for (int64_t i = begin; i < end; i++) a[i] += b[i];
    } else {
        float *a = (float *)(grads + into * r->slot_bytes);
        const float *b = (const float *)(grads + from * r->slot_bytes);
        for (int64_t i = begin; i < end; i++) a[i] += b[i];
    }
    lvn_team_barrier();
}

/* Add up the two rightmost sums while they cover equally many micro-batches, or, at the end, until one is left. */
static void carry(const struct run *r, struct counter *c, bool finish, int thread, int n_threads)
{
    while (c->n > 1 && (finish || c->size[c->n - 1] == c->size[c->n - 2])) {
        add_slots(r, c->slot[c->n - 2], c->slot[c->n - 1], thread, n_threads);
        c->size[c->n - 2] += c->size[c->n - 1];
        c->n--;
    }
}

int lvn_grad_slots(int64_t n_micro_batches)
{
    int most = 1; /* sums held while micro-batch m runs: one for each bit of m, and its own gradient */
    for (int bit = 1; (int64_t)1 << bit <= n_micro_batches; bit++) most = bit + 1;
    return most;
}

static void run_micro_batch(struct place *at, struct counter *c, int64_t first_row, int thread, int n_threads)
{
    const struct run *r = at->run;
    const struct lvn_program *p = r->p;
    bool last = at->micro_batch + 1 == r->n_micro_batches;
    int slot = r->n_slots > 1 ? free_slot(c, r->n_slots) : 0;
    at->grad_offset = slot * r->slot_bytes;
    if (thread == 0) {
        r->b->step->first_row = first_row + at->micro_batch * r->b->micro_batch_rows;
        r->b->step->add_grads = r->n_slots == 1 && at->micro_batch > 0;
    }
    lvn_team_barrier();
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        if (i->when == LVN_EVERY_MICRO_BATCH || (i->when == LVN_LAST_MICRO_BATCH && last))
            execute(at, i, thread, n_threads);
    }
    if (r->n_slots > 1) {
        c->slot[c->n] = slot;
        c->size[c->n++] = 1;
        carry(r, c, last, thread, n_threads);
    }
    if (thread == 0 && r->hooks && r->hooks->micro_batch_done)
        r->hooks->micro_batch_done(r->hooks->argument, at->micro_batch);
    lvn_team_barrier();
}

static void walk(void *argument, int thread, int n_threads)
{
    const struct run *r = argument;
    struct place at = {.run = r};
    struct counter c = {.n = 0};
    int64_t first_row = r->b->step->first_row;
    lvn_team_barrier(); /* everybody has read first_row before thread 0 moves it */
    for (at.micro_batch = 0; at.micro_batch < r->n_micro_batches; at.micro_batch++)
        run_micro_batch(&at, &c, first_row, thread, n_threads);
    at.micro_batch = 0;
    at.grad_offset = 0;
    for (int n = 0; n < r->p->n_instrs; n++)
        if (r->p->instrs[n].when == LVN_AFTER_BACKWARD) execute(&at, &r->p->instrs[n], thread, n_threads);
}

void lvn_program_run(const struct lvn_program *p, const struct lvn_binding *b, int64_t n_micro_batches, int grad_slots,
                     int64_t slot_bytes, const struct lvn_run_hooks *hooks)
{
    struct run r = {.p = p,
                    .b = b,
                    .n_micro_batches = n_micro_batches,
                    .n_slots = grad_slots,
                    .slot_bytes = slot_bytes,
                    .hooks = hooks};
    int64_t first_row = b->step->first_row;
    lvn_team_run(p->n_threads, walk, &r);
    b->step->first_row = first_row;
}

void *lvn_program_output(const struct lvn_program *p, const struct lvn_binding *b, const struct lvn_tensor *t)
{
    const struct lvn_tensor *base = t->kind == LVN_TENSOR_VIEW ? t->base : t;
    int v = p->value_of_tensor[base->id];
    if (v < 0 || !p->values[v].keep) return NULL;
    return (char *)b->buffer[p->values[v].buffer] + p->values[v].offset +
           t->desc.offset * lvn_dtype_bytes(t->desc.dtype);
}
