/* outer.c - leaves gradients unwritten that are outer products, of a column and a row.
 *
 * In a micro-batch of one row the gradient of a linear map's weight is dy x^T: writing it, reading it for the norm and
 * reading it again for the update takes as long as the update's arithmetic, where dy and x say the same in a few lines
 * of the cache. So the norm and the update get those, and make the gradient as they go (ops/outer.h). No bit changes.
 *
 * Only where the step has one micro-batch on one rank, so that nobody adds to the gradient or sends it; in fp32; and
 * for backends that can. The largest weights, as many as an operation has operands for. */
#include "passes/device_query.h"
#include "passes/pass.h"

enum { MIN = 1 << 12 }; /* numbers of a weight below which there is nothing to gain */

static bool single(const struct lvn_program *p, const struct lvn_operand *o)
{
    return o->value >= 0 && o->desc.dtype == LVN_F32 && p->values[o->value].dtype == LVN_F32 &&
           lvn_desc_contiguous(&o->desc);
}

/* By value: how many instructions write it as a gradient. NULL: memory. */
static int *count_writers(struct lvn_arena *a, const struct lvn_program *p)
{
    int *writers = lvn_arena_alloc(a, sizeof *writers * (size_t)(p->n_values + 1));
    for (int n = 0; writers && n < p->n_instrs; n++)
        for (int k = 0; k < LVN_MAX_IN; k++)
            if (p->instrs[n].din[k].value >= 0) writers[p->instrs[n].din[k].value]++;
    return writers;
}

/* Does nothing but this instruction write the gradient? A tied weight has two that do. */
static bool alone(const int *writers, const struct lvn_instr *writer)
{
    return writers[writer->din[1].value] == 1 && !writer->add[1];
}

/* The column and the row whose product a weight's gradient is; false: it is more than that. */
static bool split(const struct lvn_program *p, const int *writers, const struct lvn_instr *i, struct lvn_operand *down,
                  struct lvn_operand *across)
{
    if (i->phase != LVN_BACKWARD || i->id != LVN_OP_linear || !i->param_gradient[1] || i->product_dtype != LVN_F32)
        return false;
    if (!single(p, &i->din[1]) || !single(p, &i->in[0]) || !single(p, &i->dout[0]) || !alone(writers, i)) return false;
    if (lvn_desc_rows(&i->in[0].desc) != 1 || lvn_desc_count(&i->din[1].desc) < MIN) return false;
    *down = i->attr.linear.in_out ? i->in[0] : i->dout[0];
    *across = i->attr.linear.in_out ? i->dout[0] : i->in[0];
    return lvn_desc_count(&across->desc) % LVN_OUTER_VECTOR == 0;
}

/* Let an operation behind backward, whose gradient begins at element `begin` of the flat one, take it so. */
static void give(struct lvn_instr *i, struct lvn_outers *outers, int64_t begin, int64_t first,
                 const struct lvn_operand *down, const struct lvn_operand *across)
{
    if (first < begin || first >= begin + lvn_desc_count(&i->in[0].desc)) return;
    const int k = outers->n++;
    outers->first[k] = first;
    i->in[1 + 2 * k] = *down;
    i->in[2 + 2 * k] = *across;
}

/* The next largest weight of such a gradient; NULL: there is none. */
static struct lvn_instr *largest(struct lvn_program *p, const int *writers)
{
    struct lvn_instr *best = NULL;
    struct lvn_operand down, across;
    for (int n = 0; n < p->n_instrs; n++) {
        struct lvn_instr *i = &p->instrs[n];
        if (!split(p, writers, i, &down, &across)) continue;
        if (!best || lvn_desc_count(&i->din[1].desc) > lvn_desc_count(&best->din[1].desc)) best = i;
    }
    return best;
}

enum lvn_status lvn_pass_outer(struct lvn_program *p, const struct lvn_device *device)
{
    if (!lvn_device_has_outers(device) || p->real != LVN_F32 || p->gradients != LVN_F32) return LVN_OK;
    for (int n = 0; n < p->n_instrs; n++) { /* what reads gradients must know of products */
        const struct lvn_instr *i = &p->instrs[n];
        if (i->when != LVN_AFTER_BACKWARD || i->id == LVN_OP_grad_norm) continue;
        if (i->id != LVN_OP_adamw || !single(p, &i->out[1]) || !single(p, &i->out[0])) return LVN_OK;
    }
    LVN_LOCAL_ARENA(a);
    const int *writers = count_writers(&a, p);
    if (!writers) return LVN_MEMORY;
    for (int k = 0; k < LVN_MAX_OUTERS; k++) {
        struct lvn_operand down, across;
        struct lvn_instr *writer = largest(p, writers);
        if (!writer || !split(p, writers, writer, &down, &across)) break;
        const int64_t first = p->values[writer->din[1].value].param->offset;
        writer->din[1] = LVN_NO_OPERAND;
        for (int n = 0; n < p->n_instrs; n++) {
            struct lvn_instr *i = &p->instrs[n];
            if (i->id == LVN_OP_grad_norm) give(i, &i->attr.grad_norm.outers, 0, first, &down, &across);
            if (i->id == LVN_OP_adamw) give(i, &i->attr.adamw.outers, i->attr.adamw.first, first, &down, &across);
        }
    }
    return LVN_OK;
}
