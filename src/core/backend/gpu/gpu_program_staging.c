/* gpu_program_staging.c - collectives of a device's program, staged through host memory or not. lvn_gpu_run() and
 * CUDA's captured runs call it. If devices cannot communicate directly, the operand is read into host memory when its
 * collective starts, and written back after its wait.
 *
 * tree_reduce, the sum over the tree of micro-batches, reads a range of all gradient buffers, so all of them are
 * copied; its result is one range. */
#include <stdlib.h>

#include "backend/gpu/gpu_program.h"

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

static enum lvn_status prepare(struct lvn_gpu_program *p, const struct lvn_instr *i, struct lvn_gpu_staging *s)
{
    const struct lvn_operand *out = &i->out[0];
    lvn_instr_describe(i, &s->call);
    s->memory = lvn_gpu_operand_memory(p, out, &s->offset);
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

static enum lvn_status start(struct lvn_gpu_program *p, const struct lvn_instr *i, struct lvn_gpu_staging *s,
                             const struct lvn_collectives *collectives)
{
    if (!s->out) LVN_TRY(prepare(p, i, s));
    int64_t from;
    const struct lvn_memory *grads = s->in ? lvn_gpu_operand_memory(p, &i->in[0], &from) : NULL;
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
    const struct lvn_memory *m = lvn_gpu_operand_memory(p, &i->out[0], &offset);
    lvn_instr_describe(i, &s->direct);
    s->direct.out[0].p = s->direct.in[0].p = d->backend->queues->address(m, offset);
    collectives->start(collectives->context, i, &s->direct, d);
}

bool lvn_gpu_carries(const struct lvn_gpu_program *p, const struct lvn_collectives *collectives)
{
    return collectives->carries && collectives->carries(collectives->context, p->base.device);
}

enum lvn_status lvn_gpu_communicate(struct lvn_gpu_program *p, const struct lvn_instr *i,
                                    const struct lvn_collectives *collectives, bool staged)
{
    struct lvn_gpu_staging *s = &p->staging[i->handle];
    if (i->id != LVN_OP_wait) {
        s->staged = staged;
        if (staged) return start(p, i, s, collectives);
        start_directly(p, i, s, collectives);
        return LVN_OK;
    }
    if (!collectives->wait(collectives->context, i)) return LVN_COMM;
    if (!s->staged) return LVN_OK;
    return lvn_memory_write(s->memory, s->offset, s->call.out[0].p, s->bytes);
}

enum lvn_status lvn_gpu_staging_new(struct lvn_gpu_program *p)
{
    p->staging = lvn_calloc((size_t)p->program->n_handles + 1, sizeof *p->staging);
    return p->staging ? LVN_OK : LVN_MEMORY;
}

void lvn_gpu_staging_free(struct lvn_gpu_program *p)
{
    for (int k = 0; p->staging && k < p->program->n_handles; k++) {
        free(p->staging[k].in);
        free(p->staging[k].out);
    }
    free(p->staging);
}
