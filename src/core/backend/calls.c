/* calls.c - see calls.h. */
#include "backend/calls.h"

#include "base/arena.h"
#include "base/work.h"
#include "host/pages.h"

/* A pointer or flag that changes with the micro-batch. */
struct lvn_varying {
    void **p; /* NULL: `add` changes */
    bool *add;
    char *base;          /* the pointer for micro-batch 0, or gradient buffer 0 */
    int64_t stride;      /* bytes to the next micro-batch or gradient buffer */
    bool by_grad_buffer; /* it changes with the gradient buffer of the micro-batch */
};

/* --- host memory --- */

struct host_memory {
    struct lvn_memory base;
    char *address;
};

static char *address_of(const struct lvn_memory *m)
{
    return ((const struct host_memory *)m)->address;
}

void lvn_host_close(struct lvn_device *d)
{
    free(d);
}

enum lvn_status lvn_host_alloc(struct lvn_memory **out, struct lvn_device *d, int64_t bytes)
{
    struct host_memory *m = lvn_calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return LVN_MEMORY;
    m->address = lvn_pages_alloc(bytes);
    m->base = (struct lvn_memory){.device = d, .bytes = bytes, .host = d->backend->host_memory ? m->address : NULL};
    if (m->address)
        *out = &m->base;
    else
        free(m);
    return *out ? LVN_OK : LVN_MEMORY;
}

void lvn_host_free(struct lvn_memory *m)
{
    lvn_pages_free(address_of(m), m->bytes);
    free(m);
}

enum lvn_status lvn_host_write(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes)
{
    memcpy(address_of(to) + offset, from, (size_t)bytes);
    return LVN_OK;
}

enum lvn_status lvn_host_read(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes)
{
    memcpy(to, address_of(from) + offset, (size_t)bytes);
    return LVN_OK;
}

/* --- binding --- */

/* The address of an operand for micro-batch 0. */
static char *resolve(const struct lvn_calls *c, const struct lvn_operand *o)
{
    const struct lvn_value *v = &c->program->values[o->value];
    const struct lvn_binding *b = &c->binding;
    const struct lvn_memory *m = v->buffer == LVN_BUFFER_INPUT   ? b->inputs[v->slot]
                                 : v->buffer == LVN_BUFFER_CACHE ? b->caches[v->slot]
                                                                 : b->buffer[v->buffer];
    int64_t offset = v->buffer == LVN_BUFFER_INPUT   ? 0
                     : v->buffer == LVN_BUFFER_CACHE ? b->cache_batch * v->bytes
                                                     : v->offset;
    return address_of(m) + offset + o->desc.offset * lvn_dtype_bytes(o->desc.dtype);
}

static void add_varying(struct lvn_calls *c, struct lvn_varying m)
{
    c->varying[c->n_varying++] = m;
}

static void resolve_arg(struct lvn_calls *c, const struct lvn_instr *i, const struct lvn_operand *o,
                        struct lvn_arg *arg)
{
    const struct lvn_program *p = c->program;
    if (o->value < 0) return;
    const struct lvn_value *v = &p->values[o->value];
    char *base = resolve(c, o);
    arg->p = base;
    if (v->buffer == LVN_BUFFER_INPUT)
        add_varying(c, (struct lvn_varying){.p = &arg->p, .base = base, .stride = v->bytes});
    if (v->buffer == LVN_BUFFER_RESULT)
        add_varying(c, (struct lvn_varying){.p = &arg->p, .base = base, .stride = p->sum_bytes});
    if (v->buffer == LVN_BUFFER_GRAD && p->grad_buffer_of && i->when == LVN_EVERY_MICRO_BATCH)
        add_varying(c, (struct lvn_varying){
                           .p = &arg->p, .base = base, .stride = p->grad_buffer_bytes, .by_grad_buffer = true});
}

static void resolve_call(struct lvn_calls *c, const struct lvn_instr *i)
{
    struct lvn_call *call = &c->call[i - c->program->instrs];
    lvn_instr_describe(i, call);
    call->step = c->binding.step;
    if (c->binding.buffer[LVN_BUFFER_RESULT])
        call->result = (struct lvn_result *)address_of(c->binding.buffer[LVN_BUFFER_RESULT]);
    if (i->scratch.value >= 0) call->scratch = resolve(c, &i->scratch);
    for (int k = 0; k < LVN_MAX_IN; k++) {
        resolve_arg(c, i, &i->in[k], &call->in[k]);
        resolve_arg(c, i, &i->din[k], &call->din[k]);
        bool later = i->param_gradient[k] && !i->add[k] && !c->program->grad_buffer_of;
        if (later) add_varying(c, (struct lvn_varying){.add = &call->add[k]});
    }
    for (int k = 0; k < LVN_MAX_OUT; k++) {
        resolve_arg(c, i, &i->out[k], &call->out[k]);
        resolve_arg(c, i, &i->dout[k], &call->dout[k]);
    }
}

enum lvn_status lvn_calls_init(struct lvn_calls *c, const struct lvn_program *p, const struct lvn_binding *b)
{
    enum { PER_INSTR = 3 * LVN_MAX_IN + 2 * LVN_MAX_OUT };
    *c = (struct lvn_calls){.program = p, .binding = *b, .step = b->step, .rows = b->micro_batch_rows};
    c->call = lvn_calloc((size_t)p->n_instrs + 1, sizeof *c->call);
    c->varying = lvn_calloc((size_t)p->n_instrs * PER_INSTR + 1, sizeof *c->varying);
    if (!c->call || !c->varying) return LVN_MEMORY;
    for (int n = 0; n < p->n_instrs; n++) resolve_call(c, &p->instrs[n]);
    struct lvn_varying *fewer = lvn_realloc(c->varying, sizeof *fewer * (size_t)(c->n_varying + 1));
    if (fewer) c->varying = fewer;
    return LVN_OK;
}

void lvn_calls_release(struct lvn_calls *c)
{
    free(c->call);
    free(c->varying);
    *c = (struct lvn_calls){0};
}

/* --- running --- */

void lvn_calls_begin(struct lvn_calls *c)
{
    c->first_row = c->step->first_row;
    c->grad_scale = c->step->grad_scale;
}

void lvn_calls_set_micro_batch(struct lvn_calls *c, int64_t micro_batch)
{
    const int *grad_buffer_of = c->program->grad_buffer_of;
    lvn_work_done(1);
    c->step->first_row = c->first_row + micro_batch * c->rows;
    c->step->grad_scale = c->grad_scale;
    if (micro_batch == c->micro_batch) return;
    c->micro_batch = micro_batch;
    for (int k = 0; k < c->n_varying; k++) {
        const struct lvn_varying *m = &c->varying[k];
        if (m->p)
            *m->p = m->base + (m->by_grad_buffer ? grad_buffer_of[micro_batch] : micro_batch) * m->stride;
        else
            *m->add = micro_batch > 0;
    }
}

void lvn_calls_end(struct lvn_calls *c)
{
    c->step->first_row = c->first_row;
    c->step->grad_scale = c->grad_scale;
}
