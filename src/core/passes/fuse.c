/* fuse.c - the pass that replaces groups of operations by fused operations with their own gradient rules.
 *
 *   linear, gelu | gelu_tanh         -> linear_gelu           the activation is computed while the product is in cache
 *   conv2d, relu                     -> conv2d_relu           saves a pass over memory, forward and backward
 *   [dropout,] add, layernorm        -> residual_layernorm    one pass over memory for all of them
 *   [dropout,] add, rmsnorm          -> residual_rmsnorm      the same
 *   linear, [scale, tanh, scale,] cross_entropy -> linear_cross_entropy  the full logits are never in memory;
 *                                                              scale, tanh, scale is a soft cap
 *
 * A pattern is a row of `rules`: its last operation and the function that tries to rewrite it. A value inside the
 * pattern that another instruction reads becomes an output of the fused operation, or the pattern does not apply. */

#include "passes/pass.h"

struct fusing {
    struct lvn_program *p;
    int *maker;     /* value -> instruction that writes it; -1: none */
    int *uses;      /* value -> number of operands that read it; being an output of the program counts as a read */
    bool *replaced; /* instruction -> a fused operation replaces it */
};

static void count_uses(struct fusing *f)
{
    struct lvn_program *p = f->p;
    for (int v = 0; v < p->n_values; v++) {
        f->maker[v] = -1;
        f->uses[v] = p->values[v].keep;
    }
    for (int n = 0; n < p->n_instrs; n++) {
        for (int k = 0; k < LVN_MAX_IN; k++)
            if (p->instrs[n].in[k].value >= 0) f->uses[p->instrs[n].in[k].value]++;
        for (int k = 0; k < LVN_MAX_OUT; k++)
            if (p->instrs[n].out[k].value >= 0) f->maker[p->instrs[n].out[k].value] = n;
    }
}

/* The instruction of operation `id` that writes operand o; NULL: another operation writes it, or o is a view. */
static struct lvn_instr *made_by(struct fusing *f, const struct lvn_operand *o, enum lvn_op_id id)
{
    if (o->value < 0 || f->maker[o->value] < 0 || o->desc.offset != 0 || !lvn_desc_contiguous(&o->desc)) return NULL;
    const struct lvn_value *value = &f->p->values[o->value];
    if (lvn_desc_count(&o->desc) * lvn_dtype_bytes(value->dtype) != value->bytes) return NULL; /* a part of it */
    struct lvn_instr *i = &f->p->instrs[f->maker[o->value]];
    return i->id == id && !f->replaced[f->maker[o->value]] ? i : NULL;
}

static bool read_once(const struct fusing *f, const struct lvn_operand *o)
{
    return f->uses[o->value] == 1;
}

/* Does an instruction between `maker` and `last` read operand o? If so, its maker cannot move to `last`. */
static bool read_between(const struct fusing *f, const struct lvn_instr *maker, const struct lvn_instr *last,
                         const struct lvn_operand *o)
{
    for (const struct lvn_instr *i = maker + 1; i < last; i++)
        for (int k = 0; k < LVN_MAX_IN; k++)
            if (i->in[k].value == o->value && !f->replaced[i - f->p->instrs]) return true;
    return false;
}

static void mark_replaced(struct fusing *f, const struct lvn_instr *i)
{
    f->replaced[i - f->p->instrs] = true;
}

/* Change instruction i into operation `id`. The caller then sets attributes, inputs and outputs. */
static void become(struct fusing *f, struct lvn_instr *i, enum lvn_op_id id)
{
    i->id = id;
    i->op = lvn_op(id, f->p->real);
    memset(&i->attr, 0, sizeof i->attr);
    for (int k = 0; k < LVN_MAX_IN; k++) i->in[k] = LVN_NO_OPERAND;
    for (int k = 0; k < LVN_MAX_OUT; k++) i->out[k] = LVN_NO_OPERAND;
}

/* Does an operation `id` alone read operand o, which instruction `maker` writes? */
static bool read_by(const struct fusing *f, const struct lvn_instr *maker, const struct lvn_operand *o,
                    enum lvn_op_id id)
{
    const struct lvn_instr *i = maker + 1, *end = f->p->instrs + f->p->n_instrs;
    for (; read_once(f, o) && i < end; i++)
        for (int k = 0; k < LVN_MAX_IN; k++)
            if (i->in[k].value == o->value) return i->id == id;
    return false;
}

static bool fuse_gelu(struct fusing *f, struct lvn_instr *gelu)
{
    struct lvn_instr *linear = made_by(f, &gelu->in[0], LVN_OP_linear);
    if (!linear || !read_once(f, &linear->out[0])) return false;
    if (read_by(f, gelu, &gelu->out[0], LVN_OP_mul)) return false; /* a gated MLP: fuse_chains.c */
    bool tanh = gelu->id == LVN_OP_gelu_tanh;
    struct lvn_operand y = gelu->out[0], before = linear->out[0];
    become(f, gelu, LVN_OP_linear_gelu);
    gelu->attr.linear_gelu.in_out = linear->attr.linear.in_out;
    gelu->attr.linear_gelu.tanh = tanh;
    memcpy(gelu->in, linear->in, sizeof gelu->in);
    gelu->out[0] = y;
    gelu->out[1] = before;
    mark_replaced(f, linear);
    return true;
}

static bool fuse_relu(struct fusing *f, struct lvn_instr *relu)
{
    struct lvn_instr *conv = made_by(f, &relu->in[0], LVN_OP_conv2d);
    if (!conv || !read_once(f, &conv->out[0])) return false;
    struct lvn_operand y = relu->out[0];
    become(f, relu, LVN_OP_conv2d_relu);
    memcpy(relu->in, conv->in, sizeof relu->in);
    relu->out[0] = y;
    mark_replaced(f, conv);
    return true;
}

/* layernorm or rmsnorm */
static bool fuse_norm(struct fusing *f, struct lvn_instr *norm)
{
    struct lvn_instr *add = made_by(f, &norm->in[0], LVN_OP_add);
    if (!add || read_between(f, add, norm, &add->out[0])) return false;
    /* A view of the sum, such as heads that are normalized, has other rows. */
    if (!lvn_desc_same_shape(&norm->in[0].desc, &add->out[0].desc)) return false;
    const enum lvn_op_id fused = norm->id == LVN_OP_layernorm ? LVN_OP_residual_layernorm : LVN_OP_residual_rmsnorm;
    if (lvn_op(fused, f->p->real)->n_in <= norm->op->n_in) return false; /* has no place for all its inputs */
    struct lvn_instr *dropout = made_by(f, &add->in[1], LVN_OP_dropout);
    if (dropout && (!read_once(f, &dropout->out[0]) || !lvn_desc_same_shape(&add->in[1].desc, &dropout->out[0].desc)))
        dropout = NULL;
    const struct lvn_instr before = *norm;
    const double p = dropout ? dropout->attr.dropout.p : 0.0;
    become(f, norm, fused);
    if (before.id == LVN_OP_layernorm) {
        norm->attr.residual_layernorm.eps = before.attr.layernorm.eps;
        norm->attr.residual_layernorm.p = p;
    } else {
        norm->attr.residual_rmsnorm.eps = before.attr.rmsnorm.eps;
        norm->attr.residual_rmsnorm.offset = before.attr.rmsnorm.offset;
        norm->attr.residual_rmsnorm.p = p;
    }
    norm->in[0] = add->in[0];
    norm->in[1] = dropout ? dropout->in[0] : add->in[1];
    for (int k = 1; k < before.op->n_in; k++) norm->in[k + 1] = before.in[k];
    norm->out[0] = add->out[0];
    for (int k = 0; k < before.op->n_out + before.op->n_saved; k++) norm->out[k + 1] = before.out[k];
    if (dropout) {
        norm->hash = dropout->hash; /* the same mask as without fusion */
        mark_replaced(f, dropout);
    }
    norm->block = add->block; /* so that the next block reads the sum instead of two terms */
    mark_replaced(f, add);
    return true;
}

/* The instructions of a soft cap, c tanh(x / c). */
struct softcap {
    struct lvn_instr *divide, *tanh, *multiply;
};

/* The soft cap that makes operand o, which nothing else reads. Returns its cap; 0: another operation makes o. */
static double softcap_of(struct fusing *f, const struct lvn_operand *o, struct softcap *cap)
{
    cap->multiply = made_by(f, o, LVN_OP_scale);
    cap->tanh = cap->multiply && read_once(f, o) ? made_by(f, &cap->multiply->in[0], LVN_OP_tanh) : NULL;
    if (!cap->tanh || !read_once(f, &cap->tanh->out[0])) return 0;
    cap->divide = made_by(f, &cap->tanh->in[0], LVN_OP_scale);
    if (!cap->divide || !read_once(f, &cap->divide->out[0])) return 0;
    const double c = cap->multiply->attr.scale.factor, d = cap->divide->attr.scale.factor;
    return c > 0 && d == 1 / c ? c : 0;
}

static int64_t last_dim(const struct lvn_operand *o)
{
    return o->desc.dim[o->desc.rank - 1];
}

static bool fuse_cross_entropy(struct fusing *f, struct lvn_instr *loss)
{
    struct softcap cap;
    const double c = softcap_of(f, &loss->in[0], &cap);
    struct lvn_instr *linear = made_by(f, c > 0 ? &cap.divide->in[0] : &loss->in[0], LVN_OP_linear);
    if (!linear || !read_once(f, &linear->out[0])) return false;
    if (last_dim(&linear->out[0]) != last_dim(&loss->in[0])) return false; /* logits of several labels in a row */
    struct lvn_operand labels = loss->in[1], sum = loss->out[0], rows = loss->out[1];
    int64_t ignore = loss->attr.cross_entropy.ignore;
    become(f, loss, LVN_OP_linear_cross_entropy);
    loss->attr.linear_cross_entropy.ignore = ignore;
    loss->attr.linear_cross_entropy.in_out = linear->attr.linear.in_out;
    loss->attr.linear_cross_entropy.softcap = c;
    for (int k = 0; k < 3; k++) loss->in[k] = linear->in[k];
    loss->in[3] = labels;
    loss->out[0] = sum;
    loss->out[1] = rows;
    mark_replaced(f, linear);
    if (c > 0) mark_replaced(f, cap.divide), mark_replaced(f, cap.tanh), mark_replaced(f, cap.multiply);
    return true;
}

static const struct {
    enum lvn_op_id last;
    bool (*fuse)(struct fusing *f, struct lvn_instr *last);
} rules[] = {
    {LVN_OP_gelu, fuse_gelu},      {LVN_OP_gelu_tanh, fuse_gelu}, {LVN_OP_relu, fuse_relu},
    {LVN_OP_layernorm, fuse_norm}, {LVN_OP_rmsnorm, fuse_norm},   {LVN_OP_cross_entropy, fuse_cross_entropy},
};

enum lvn_status lvn_pass_fuse(struct lvn_program *p)
{
    struct fusing f = {.p = p,
                       .maker = lvn_arena_alloc(&p->arena, sizeof(int) * (size_t)(p->n_values + 1)),
                       .uses = lvn_arena_alloc(&p->arena, sizeof(int) * (size_t)(p->n_values + 1)),
                       .replaced = lvn_arena_alloc(&p->arena, sizeof(bool) * (size_t)(p->n_instrs + 1))};
    if (!f.maker || !f.uses || !f.replaced) return LVN_MEMORY;
    count_uses(&f);
    for (int n = 0; n < p->n_instrs; n++)
        for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++)
            if (p->instrs[n].id == rules[r].last && rules[r].fuse(&f, &p->instrs[n])) break;
    int n_left = 0;
    for (int n = 0; n < p->n_instrs; n++)
        if (!f.replaced[n]) p->instrs[n_left++] = p->instrs[n];
    p->n_instrs = n_left;
    return LVN_OK;
}
