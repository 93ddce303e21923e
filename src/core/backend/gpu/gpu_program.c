/* gpu_program.c - see gpu_program.h. Descriptions of launches: kernel_launch.c; source code of kernels:
 * kernel_sources.c. */
#include "backend/gpu/gpu_program.h"

#include "backend/gpu/kernel_sources.h"
#include "base/work.h"

/* --- launches of an instruction --- */

static enum lvn_status describe(struct lvn_gpu *g, const struct lvn_instr *i, struct lvn_call *call,
                                struct lvn_arena *arena, const char *backend,
                                const struct lvn_gpu_matmul_library *library, bool matrix_units)
{
    const struct lvn_gpu_operation *o = lvn_gpu_operation_of(i->id);
    void (*phase)(struct lvn_gpu * g) = !o                         ? NULL
                                        : i->phase == LVN_FORWARD  ? o->forward
                                        : i->phase == LVN_BACKWARD ? o->backward
                                                                   : o->restore;
    LVN_CHECK(phase, UNSUPPORTED, "%s: %s has no kernel for '%s'%s; set trainer.accelerator to cpu", i->name, backend,
              i->op->name,
              i->phase == LVN_BACKWARD  ? ", backward"
              : i->phase == LVN_RESTORE ? ", restored"
                                        : "");
    lvn_instr_describe(i, call);
    *g = (struct lvn_gpu){
        .call = call, .arena = arena, .source = o->name, .library = library, .matrix_units = matrix_units};
    phase(g);
    lvn_gpu_products_end(g);
    if (g->status != LVN_OK) return lvn_while_at(g->status, "describing '%s' for %s", i->name, backend);
    return LVN_OK;
}

enum lvn_status lvn_gpu_choose(const char *backend, struct lvn_instr *i, int64_t *scratch,
                               const struct lvn_gpu_matmul_library *library, bool matrix_units)
{
    LVN_LOCAL_ARENA(arena);
    struct lvn_call call;
    struct lvn_gpu g;
    enum lvn_status status = describe(&g, i, &call, &arena, backend, library, matrix_units);
    if (status != LVN_OK) return status;
    *scratch = g.scratch_bytes;
    /* The library rounds them. levin's kernels round only on matrix units, and are not considered here. */
    if (i->matmul_dtype == LVN_BF16)
        i->rounds = (i->op->low_precision_ok | i->op->rounded_ok) & (LVN_READS_OUT(0) - 1) & ~g.read;
    return LVN_OK;
}

/* --- operands --- */

/* The memory of an operand, and its offset in bytes, for micro-batch 0. */
static struct lvn_memory *operand_memory(const struct lvn_gpu_program *p, const struct lvn_operand *o, int64_t *offset)
{
    const struct lvn_value *v = &p->program->values[o->value];
    const struct lvn_binding *b = &p->binding;
    *offset = o->desc.offset * lvn_dtype_bytes(o->desc.dtype);
    if (v->buffer == LVN_BUFFER_INPUT) return b->inputs[v->slot];
    *offset += v->buffer == LVN_BUFFER_CACHE ? b->cache_batch * v->bytes : v->offset;
    if (v->buffer == LVN_BUFFER_CACHE) return b->caches[v->slot];
    return b->buffer[v->buffer];
}

static const struct lvn_operand *operand_of(const struct lvn_instr *i, const struct lvn_gpu_arg *a)
{
    switch ((int)a->kind) {
    case LVN_GPU_OPERAND_IN:
        return &i->in[a->index];
    case LVN_GPU_OPERAND_OUT:
        return &i->out[a->index];
    case LVN_GPU_OPERAND_DIN:
        return &i->din[a->index];
    case LVN_GPU_OPERAND_DOUT:
        return &i->dout[a->index];
    default:
        return &i->scratch;
    }
}

static struct lvn_gpu_varying_arg *add_varying(struct lvn_gpu_program *p, struct lvn_gpu_launch *l, int arg,
                                               int64_t stride)
{
    const struct lvn_gpu_arg *a = &l->args[arg];
    struct lvn_gpu_varying_arg *varying = &p->varying[p->n_varying++];
    *varying =
        (struct lvn_gpu_varying_arg){.launch = l, .arg = arg, .base = a->offset, .stride = stride, .memory = a->memory};
    return varying;
}

static void bind_operand(struct lvn_gpu_program *p, const struct lvn_instr *i, struct lvn_gpu_launch *l, int arg)
{
    struct lvn_gpu_arg *a = &l->args[arg];
    const struct lvn_operand *o = operand_of(i, a);
    const struct lvn_program *program = p->program;
    if (o->value < 0) return;
    const struct lvn_value *v = &program->values[o->value];
    a->memory = operand_memory(p, o, &a->offset);
    a->offset += a->number;
    if (v->buffer == LVN_BUFFER_INPUT) (void)add_varying(p, l, arg, v->bytes);
    if (v->buffer == LVN_BUFFER_RESULT) {
        struct lvn_gpu_varying_arg *sum = add_varying(p, l, arg, program->sum_bytes);
        sum->origin = lvn_program_sums_at(program, 0);
        sum->result = true;
    }
    if (v->buffer == LVN_BUFFER_GRAD && program->grad_buffer_of && i->when == LVN_EVERY_MICRO_BATCH)
        add_varying(p, l, arg, program->grad_buffer_bytes)->by_grad_buffer = true;
}

static enum lvn_status bind_data(struct lvn_gpu_program *p, struct lvn_gpu_arg *a)
{
    LVN_TRY(lvn_memory_new(&a->memory, p->base.device, a->bytes));
    p->data[p->n_data++] = a->memory;
    return lvn_memory_write(a->memory, 0, a->data, a->bytes);
}

static enum lvn_status bind_launch(struct lvn_gpu_program *p, const struct lvn_instr *i, struct lvn_gpu_launch *l)
{
    for (int k = 0; k < l->n_args; k++) {
        struct lvn_gpu_arg *a = &l->args[k];
        switch (a->kind) {
        case LVN_GPU_OPERAND_STEP:
            a->memory = p->step;
            break;
        case LVN_GPU_OPERAND_DATA:
            LVN_TRY(bind_data(p, a));
            break;
        case LVN_GPU_OPERAND_RESULT:
            a->memory = p->binding.buffer[LVN_BUFFER_RESULT];
            break;
        case LVN_GPU_VALUE_ADD:
            a->number = i->add[a->index];
            if (i->param_gradient[a->index] && !i->add[a->index] && !p->program->grad_buffer_of)
                (void)add_varying(p, l, k, 0);
            break;
        case LVN_GPU_OPERAND_NONE:
        case LVN_GPU_VALUE_LONG:
        case LVN_GPU_VALUE_INT:
        case LVN_GPU_VALUE_FLOAT:
        case LVN_GPU_END:
            break;
        default:
            bind_operand(p, i, l, k);
        }
    }
    return LVN_OK;
}

/* --- modules --- */

static enum lvn_status find_module(struct lvn_gpu_program *p, struct lvn_gpu_launch *l)
{
    if (l->product) return LVN_OK;
    const char *definition = lvn_gpu_definitions(&p->arena, l->source, l->defines);
    if (!definition) return LVN_MEMORY;
    for (int k = 0; k < p->n_modules; k++) {
        l->module = k;
        if (!strcmp(p->modules[k].source, l->source) && !strcmp(p->modules[k].definition, definition)) return LVN_OK;
    }
    l->module = p->n_modules++; /* the list has two entries per launch */
    p->modules[l->module] = (struct lvn_gpu_module){.source = l->source, .definition = definition};
    return LVN_OK;
}

/* --- collectives ---
 *
 * lvn_gpu_run() and CUDA's captured runs call lvn_gpu_communicate(). If devices cannot communicate directly, the
 * operand is read into host memory when its collective starts, and written back after its wait.
 *
 * tree_reduce, the sum over the tree of micro-batches, reads a range of all gradient buffers, so all of them are
 * copied; its result is one range. */

struct lvn_gpu_staging {
    struct lvn_call call; /* its pointers refer to the copies */
    struct lvn_memory *memory;
    int64_t offset; /* of the result in `memory` */
    int64_t bytes;  /* of the result */
    char *out;      /* copy of the result, and of the operand if it is the same range */
    char *in;       /* copies of a range of all gradient buffers; NULL: the operand is the result's range */
    struct lvn_desc in_desc;
    struct lvn_call direct; /* its pointers are addresses of the device */
    bool staged;            /* the last start was staged */
};

static enum lvn_status prepare_staging(struct lvn_gpu_program *p, const struct lvn_instr *i, struct lvn_gpu_staging *s)
{
    const struct lvn_operand *out = &i->out[0];
    lvn_instr_describe(i, &s->call);
    s->memory = operand_memory(p, out, &s->offset);
    s->bytes = lvn_desc_count(&out->desc) * lvn_dtype_bytes(out->desc.dtype);
    s->out = lvn_malloc((size_t)s->bytes + 1);
    if (!s->out) return LVN_MEMORY;
    s->call.out[0].p = s->call.in[0].p = s->out;
    if (i->id != LVN_OP_tree_reduce) return LVN_OK;
    s->in_desc = lvn_desc_make(i->in[0].desc.dtype, 2, i->in[0].desc.dim);
    s->in = lvn_malloc((size_t)(s->in_desc.dim[0] * s->bytes) + 1);
    if (!s->in) return LVN_MEMORY;
    s->call.in[0] = (struct lvn_arg){s->in, &s->in_desc};
    s->call.out[0].p = s->in; /* the result replaces the first operand */
    return LVN_OK;
}

static enum lvn_status start_staged(struct lvn_gpu_program *p, const struct lvn_instr *i, struct lvn_gpu_staging *s,
                                    const struct lvn_collectives *collectives)
{
    if (!s->out) LVN_TRY(prepare_staging(p, i, s));
    int64_t from;
    const struct lvn_memory *grads = s->in ? operand_memory(p, &i->in[0], &from) : NULL;
    for (int64_t k = 0; s->in && k < s->in_desc.dim[0]; k++)
        LVN_TRY(lvn_memory_read(grads, from + k * p->program->grad_buffer_bytes, s->in + k * s->bytes, s->bytes));
    if (s->call.out[0].p == s->out) LVN_TRY(lvn_memory_read(s->memory, s->offset, s->out, s->bytes));
    collectives->start(collectives->context, i, &s->call, NULL);
    return LVN_OK;
}

/* The operand is the result's range, because tree_reduce, which reads more, is always staged. */
static void start_directly(struct lvn_gpu_program *p, const struct lvn_instr *i, struct lvn_gpu_staging *s,
                           const struct lvn_collectives *collectives)
{
    struct lvn_device *d = p->base.device;
    int64_t offset;
    const struct lvn_memory *m = operand_memory(p, &i->out[0], &offset);
    lvn_instr_describe(i, &s->direct);
    s->direct.out[0].p = s->direct.in[0].p = d->backend->queues->address(m, offset);
    collectives->start(collectives->context, i, &s->direct, d);
}

bool lvn_gpu_has_device_comm(const struct lvn_gpu_program *p, const struct lvn_collectives *collectives)
{
    return collectives->supports_device && collectives->supports_device(collectives->context, p->base.device);
}

enum lvn_status lvn_gpu_communicate(struct lvn_gpu_program *p, const struct lvn_instr *i,
                                    const struct lvn_collectives *collectives, bool staged)
{
    struct lvn_gpu_staging *s = &p->staging[i->handle];
    if (i->id != LVN_OP_wait) {
        s->staged = staged;
        if (staged) return start_staged(p, i, s, collectives);
        start_directly(p, i, s, collectives);
        return LVN_OK;
    }
    if (!collectives->wait(collectives->context, i)) return LVN_COMM;
    if (!s->staged) return LVN_OK;
    return lvn_memory_write(s->memory, s->offset, s->call.out[0].p, s->bytes);
}

static enum lvn_status staging_new(struct lvn_gpu_program *p)
{
    p->staging = lvn_calloc((size_t)p->program->n_handles + 1, sizeof *p->staging);
    return p->staging ? LVN_OK : LVN_MEMORY;
}

static void staging_free(struct lvn_gpu_program *p)
{
    for (int k = 0; p->staging && k < p->program->n_handles; k++) {
        free(p->staging[k].in);
        free(p->staging[k].out);
    }
    free(p->staging);
}

/* --- binding --- */

struct described {
    struct lvn_gpu_launch *launches;
    int n, n_args;
};

/* Describe the launches of all instructions, and collect them in one list. */
static enum lvn_status describe_all(struct lvn_gpu_program *p, struct described *each, const char *backend)
{
    const struct lvn_program *program = p->program;
    int args = 0, n = 0;
    for (int k = 0; k < program->n_instrs; k++) {
        struct lvn_call call;
        struct lvn_gpu g = {0};
        if (!program->instrs[k].op->collective)
            LVN_TRY(describe(&g, &program->instrs[k], &call, &p->arena, backend, p->library, p->matrix_units));
        each[k] = (struct described){.launches = g.launches, .n = g.n_launches};
        for (int l = 0; l < g.n_launches; l++) args += g.launches[l].n_args;
        n += g.n_launches;
    }
    p->launches = lvn_arena_alloc(&p->arena, sizeof *p->launches * (size_t)(n + 1));
    p->modules = lvn_arena_alloc(&p->arena, sizeof *p->modules * (size_t)(n + 1));
    p->varying = lvn_arena_alloc(&p->arena, sizeof *p->varying * (size_t)(args + 1));
    p->data = lvn_arena_alloc(&p->arena, sizeof(void *) * (size_t)(n + 1)); /* at most one per launch */
    if (!p->launches || !p->modules || !p->varying || !p->data) return LVN_MEMORY;
    for (int k = 0; k < program->n_instrs; k++) {
        p->first[k] = p->n_launches;
        if (each[k].n) memcpy(p->launches + p->n_launches, each[k].launches, sizeof *p->launches * (size_t)each[k].n);
        p->n_launches += each[k].n;
    }
    p->first[program->n_instrs] = p->n_launches;
    return LVN_OK;
}

static enum lvn_status bind_all(struct lvn_gpu_program *p, const char *backend)
{
    const struct lvn_program *program = p->program;
    struct described *each = lvn_arena_alloc(&p->arena, sizeof *each * (size_t)(program->n_instrs + 1));
    p->first = lvn_arena_alloc(&p->arena, sizeof *p->first * (size_t)(program->n_instrs + 1));
    if (!each || !p->first) return LVN_MEMORY;
    LVN_TRY(staging_new(p));
    LVN_TRY(describe_all(p, each, backend));
    LVN_TRY(lvn_memory_new(&p->step, program->device, sizeof(struct lvn_gpu_step)));
    for (int k = 0; k < program->n_instrs; k++)
        for (int l = p->first[k]; l < p->first[k + 1]; l++) {
            LVN_TRY(bind_launch(p, &program->instrs[k], &p->launches[l]));
            LVN_TRY(find_module(p, &p->launches[l]));
        }
    return p->driver->prepare(p);
}

enum lvn_status lvn_gpu_bind(struct lvn_bound **out, const struct lvn_program *program, const struct lvn_binding *b,
                             const struct lvn_gpu_driver *driver, const struct lvn_gpu_matmul_library *library,
                             bool matrix_units)
{
    struct lvn_gpu_program *p = lvn_calloc(1, sizeof *p);
    *out = NULL;
    if (!p) return LVN_MEMORY;
    *p = (struct lvn_gpu_program){.base.device = program->device,
                                  .driver = driver,
                                  .library = library,
                                  .matrix_units = matrix_units,
                                  .program = program,
                                  .binding = *b,
                                  .micro_batch = 0};
    lvn_arena_init(&p->arena);
    enum lvn_status status = bind_all(p, program->device->backend->name);
    if (status == LVN_OK)
        *out = &p->base;
    else
        lvn_gpu_unbind(&p->base);
    return status;
}

void lvn_gpu_unbind(struct lvn_bound *b)
{
    struct lvn_gpu_program *p = (struct lvn_gpu_program *)b;
    if (!p) return;
    p->driver->release(p);
    staging_free(p);
    lvn_memory_free(p->step);
    for (int k = 0; k < p->n_data; k++) lvn_memory_free(p->data[k]);
    lvn_arena_release(&p->arena);
    free(p);
}

/* --- running --- */

_Static_assert(LVN_DECODE_ROWS == LVN_GPU_POSITIONS, "lvn_gpu_step_at() copies all positions");

struct lvn_gpu_step lvn_gpu_step_at(const struct lvn_gpu_program *p, int64_t micro_batch)
{
    const struct lvn_step *s = p->binding.step;
    struct lvn_gpu_step now = {.seed = s->seed,
                               .step = s->step,
                               .first_row = s->first_row + micro_batch * p->binding.micro_batch_rows,
                               .end_row = s->end_row,
                               .unlabeled = s->unlabeled,
                               .lr = (float)s->lr,
                               .grad_scale = (float)s->grad_scale,
                               .training = s->training};
    memcpy(now.position, s->position, sizeof now.position);
    now.lr_rest = (float)(s->lr - (double)now.lr);
    return now;
}

void lvn_gpu_set_micro_batch(struct lvn_gpu_program *p, int64_t micro_batch)
{
    const int *grad_buffer_of = p->program->grad_buffer_of;
    if (micro_batch == p->micro_batch) return;
    p->micro_batch = micro_batch;
    for (int k = 0; k < p->n_varying; k++) {
        const struct lvn_gpu_varying_arg *m = &p->varying[k];
        struct lvn_gpu_arg *a = &m->launch->args[m->arg];
        if (a->kind == LVN_GPU_VALUE_ADD)
            a->number = micro_batch > 0;
        else
            a->offset = m->base + (m->by_grad_buffer ? grad_buffer_of[micro_batch] : micro_batch) * m->stride;
        a->memory = m->memory;
        p->driver->changed(p, m->launch, m->arg);
    }
}

int64_t lvn_gpu_place_slot(struct lvn_gpu_program *p)
{
    enum { ALIGN = 64 };
    int64_t bytes = 0;
    for (struct lvn_gpu_varying_arg *m = p->varying; m < p->varying + p->n_varying; m++) {
        const struct lvn_gpu_varying_arg *other = p->varying;
        if (!m->memory || m->by_grad_buffer) continue;
        while (other < m && (other->memory != m->memory || other->origin != m->origin)) other++;
        m->same_slot = other < m;
        m->slot = m->same_slot ? other->slot : bytes;
        if (!m->same_slot) bytes += (m->stride + ALIGN - 1) / ALIGN * ALIGN;
    }
    return bytes;
}

void lvn_gpu_set_slot(struct lvn_gpu_program *p, struct lvn_memory *slot, int grad_buffer)
{
    p->micro_batch = -1;
    for (const struct lvn_gpu_varying_arg *m = p->varying; m < p->varying + p->n_varying; m++) {
        struct lvn_gpu_arg *a = &m->launch->args[m->arg];
        if (m->by_grad_buffer)
            a->memory = m->memory, a->offset = m->base + grad_buffer * m->stride;
        else if (m->memory)
            a->memory = slot, a->offset = m->slot + m->base - m->origin;
        else
            a->number = 1;
        p->driver->changed(p, m->launch, m->arg);
    }
}

static enum lvn_status begin_micro_batch(struct lvn_gpu_program *p, int64_t micro_batch)
{
    const struct lvn_gpu_step now = lvn_gpu_step_at(p, micro_batch);
    lvn_work_done(1);
    LVN_TRY(lvn_memory_write(p->step, 0, &now, sizeof now));
    lvn_gpu_set_micro_batch(p, micro_batch);
    return LVN_OK;
}

enum lvn_status lvn_gpu_launch_all(struct lvn_gpu_program *p, const struct lvn_instr *i)
{
    const int k = (int)(i - p->program->instrs);
    for (int l = p->first[k]; l < p->first[k + 1]; l++)
        LVN_TRY_WHILE(p->driver->launch(p, &p->launches[l]), "launching %s for %s", p->launches[l].kernel, i->name);
    return LVN_OK;
}

static enum lvn_status launch(struct lvn_gpu_program *p, const struct lvn_launch_order *w,
                              const struct lvn_execution *execution)
{
    struct lvn_device *d = p->base.device;
    if (!w->instr->op->collective)
        LVN_TRY(lvn_gpu_launch_all(p, w->instr));
    else if (execution->collectives)
        LVN_TRY(lvn_gpu_communicate(p, w->instr, execution->collectives,
                                    execution->launched || !lvn_gpu_has_device_comm(p, execution->collectives)));
    if (!execution->launched) return LVN_OK;
    LVN_TRY(d->backend->wait(d));
    execution->launched(execution->context, w);
    return LVN_OK;
}

enum lvn_status lvn_gpu_run(struct lvn_bound *b, const struct lvn_execution *execution)
{
    struct lvn_gpu_program *p = (struct lvn_gpu_program *)b;
    struct lvn_launch_order w = lvn_launch_order_begin(p->program, execution->n_micro_batches);
    while (lvn_launch_order_next(&w)) {
        if (w.event == LVN_ORDER_MICRO_BATCH) LVN_TRY(begin_micro_batch(p, w.micro_batch));
        if (w.event == LVN_ORDER_LAUNCH) LVN_TRY(launch(p, &w, execution));
        if (w.event != LVN_ORDER_BACKWARD_DONE) continue;
        if (execution->without_update) break;
        if (execution->before_update) execution->before_update(execution->context);
    }
    return LVN_OK;
}
