/* run.c - all passes in their order, and walking the finished list.
 *
 * The team of threads starts once per run. Every thread walks the same list, calls the same kernels with its own
 * number, and meets the others at a barrier after each. Pointers are resolved from (buffer, offset) at each call: a few
 * additions per operand, and the same program serves every micro-batch and gradient slot. */
#include <string.h>

#include "base/bf16.h"
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
    if (s == LVN_OK) s = lvn_pass_precision(p, o->precision);
    if (s == LVN_OK && o->train) s = lvn_pass_differentiate(p);
    if (s == LVN_OK && o->train) s = lvn_pass_recompute(p, o->recompute);
    if (s == LVN_OK && o->train && o->optimizer) s = lvn_pass_update(p, o->optimizer);
    if (s == LVN_OK && o->train && o->sharding) s = lvn_pass_shard(p, o->sharding);
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
    *call = (struct lvn_call){.phase = i->phase, .attr = &i->attr, .op_hash = i->hash, .bf16 = i->bf16};
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
    bool failed; /* a collective did */
};

/* The binary counter of gradient sums. After micro-batches first..m of the global batch the largest whole nodes of the
 * tree over all of them are held. Two nodes that make up a third are added into the place of the left one; so the
 * whole, where this rank has it, ends in slot 0. */
struct counter {
    int64_t n_leaves;
    int64_t first[64], end[64]; /* held nodes from left to right: which micro-batches each covers */
    int slot[64];
    int n;
};

/* What a thread needs to turn an operand into a pointer. */
struct place {
    struct run *run;
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

/* --- with other ranks --- */

static bool communicate(const struct place *at, const struct lvn_instr *i, const struct counter *c,
                        const struct lvn_collectives *with)
{
    const struct lvn_binding *b = at->run->b;
    struct lvn_partial held[64];
    switch (i->collective) {
    case LVN_ALONE:
        break;
    case LVN_REDUCE_START:
        with->reduce_start(with->context, at->run->p, i->bucket, b->buffer[LVN_BUFFER_GRAD]);
        break;
    case LVN_REDUCE_WAIT:
        return with->reduce_wait(with->context);
    case LVN_REDUCE_TREE:
        for (int k = 0; k < c->n; k++)
            held[k] = (struct lvn_partial){c->first[k], c->end[k],
                                           (char *)b->buffer[LVN_BUFFER_GRAD] + c->slot[k] * at->run->slot_bytes};
        return with->reduce_tree(with->context, held, c->n, b->buffer[LVN_BUFFER_GRAD]);
    case LVN_SHARE_SQUARES:
        return with->share_squares(with->context, (double *)resolve(at, &i->in[0]), lvn_desc_count(&i->in[0].desc));
    case LVN_GATHER_PARAMS:
        return with->gather_params(with->context, b->buffer[LVN_BUFFER_PARAM]);
    }
    return true;
}

/* Together with the other ranks: thread 0 speaks for the team. Starting waits for nobody. False, on all threads: it
 * failed. */
static bool collective(const struct place *at, const struct lvn_instr *i, const struct counter *c, int thread)
{
    struct run *r = at->run;
    const struct lvn_collectives *with = r->b->collectives;
    if (with && thread == 0 && !communicate(at, i, c, with)) r->failed = true;
    if (!with || i->collective == LVN_REDUCE_START) return true;
    lvn_team_barrier();
    bool failed = r->failed;
    lvn_team_barrier(); /* everybody has looked before thread 0 goes on to the next one */
    return !failed;
}

/* --- kernels --- */

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

/* --- the binary counter of gradient sums --- */

static int free_slot(const struct counter *c, int n_slots)
{
    for (int s = 0; s < n_slots; s++) {
        bool taken = false;
        for (int i = 0; i < c->n; i++) taken |= c->slot[i] == s;
        if (!taken) return s;
    }
    return 0;
}

/* a + b in fp32, rounded to the nearest: every node of the tree is, so that it makes no difference who adds it. */
static void add_halves(uint16_t *a, const uint16_t *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) a[i] = lvn_bf16_make(lvn_bf16_get(a[i]) + lvn_bf16_get(b[i]));
}

static void add_slots(const struct run *r, int into, int from, int thread, int n_threads)
{
    int64_t begin, end, count = r->slot_bytes / lvn_dtype_bytes(r->p->weights);
    char *grads = r->b->buffer[LVN_BUFFER_GRAD];
    lvn_share(count, LVN_PARAM_ALIGN, thread, n_threads, &begin, &end);
    if (r->p->weights == LVN_BF16) {
        add_halves((uint16_t *)(grads + into * r->slot_bytes) + begin,
                   (const uint16_t *)(grads + from * r->slot_bytes) + begin, end - begin);
    } else if (r->p->real == LVN_F64) {
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

/* Do the two rightmost nodes make up a third? The left half of a node is a whole power of two. */
static bool siblings(const struct counter *c)
{
    if (c->n < 2) return false;
    int64_t first = c->first[c->n - 2], half = c->end[c->n - 2] - first, end = first + 2 * half;
    return first % (2 * half) == 0 && c->end[c->n - 1] == (end < c->n_leaves ? end : c->n_leaves);
}

static void merge(struct counter *c)
{
    c->end[c->n - 2] = c->end[c->n - 1];
    c->n--;
}

static void push(struct counter *c, int64_t leaf, int slot)
{
    c->first[c->n] = leaf;
    c->end[c->n] = leaf + 1;
    c->slot[c->n++] = slot;
}

int lvn_grad_slots(int64_t first, int64_t n, int64_t n_leaves)
{
    struct counter c = {.n_leaves = n_leaves};
    int most = 1;
    for (int64_t m = 0; m < n; m++) {
        push(&c, first + m, 0);
        if (c.n > most) most = c.n;
        while (siblings(&c)) merge(&c);
    }
    return most;
}

static void run_micro_batch(struct place *at, struct counter *c, int64_t first_row, int thread, int n_threads)
{
    struct run *r = at->run;
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
        if (i->when == LVN_LAST_MICRO_BATCH && last) (void)collective(at, i, c, thread);
        if (i->when == LVN_EVERY_MICRO_BATCH) execute(at, i, thread, n_threads);
    }
    if (r->n_slots > 1 || at->micro_batch == 0) push(c, r->b->first_leaf + at->micro_batch, slot);
    for (; r->n_slots > 1 && siblings(c); merge(c))
        add_slots(r, c->slot[c->n - 2], c->slot[c->n - 1], thread, n_threads);
    if (thread == 0 && r->hooks && r->hooks->micro_batch_done)
        r->hooks->micro_batch_done(r->hooks->argument, at->micro_batch);
    lvn_team_barrier();
}

static void walk(void *argument, int thread, int n_threads)
{
    struct run *r = argument;
    struct place at = {.run = r};
    struct counter c = {.n_leaves = r->b->n_leaves ? r->b->n_leaves : r->n_micro_batches};
    int64_t first_row = r->b->step->first_row;
    lvn_team_barrier(); /* everybody has read first_row before thread 0 moves it */
    for (at.micro_batch = 0; at.micro_batch < r->n_micro_batches; at.micro_batch++)
        run_micro_batch(&at, &c, first_row, thread, n_threads);
    at.micro_batch = 0;
    at.grad_offset = 0;
    for (int n = 0; n < r->p->n_instrs && !(r->hooks && r->hooks->without_update); n++) {
        const struct lvn_instr *i = &r->p->instrs[n];
        if (i->when != LVN_AFTER_BACKWARD) continue;
        if (!i->collective) execute(&at, i, thread, n_threads);
        if (i->collective && !collective(&at, i, &c, thread)) return;
    }
}

bool lvn_program_run(const struct lvn_program *p, const struct lvn_binding *b, int64_t n_micro_batches, int grad_slots,
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
    return !r.failed;
}

void *lvn_program_output(const struct lvn_program *p, const struct lvn_binding *b, const struct lvn_tensor *t)
{
    const struct lvn_tensor *base = t->kind == LVN_TENSOR_VIEW ? t->base : t;
    int v = p->value_of_tensor[base->id];
    if (v < 0 || !p->values[v].keep) return NULL;
    return (char *)b->buffer[p->values[v].buffer] + p->values[v].offset +
           t->desc.offset * lvn_dtype_bytes(t->desc.dtype);
}
