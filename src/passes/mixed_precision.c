/* mixed_precision.c - which number type each value has.
 *
 * A graph is built in one real type (fp32; fp64 for reference runs), which is also that of all parameters and of all
 * values of a program in that precision. In mixed precision a value between operations becomes bf16 (bf16-mixed) or
 * fp16 (16-mixed) where every operation that touches it can take it so (lvn_op.low_precision_ok): what linear maps and
 * attention read and write, not the residual stream, nor logits, losses and moments. Its gradient gets the same type
 * from the differentiate pass. So half the memory is read and written; sums, softmax and normalisation stay in fp32, in
 * registers. Products of fp32 operands (parameters) may round them to that type, where the processor multiplies those
 * faster; elsewhere they are taken as they are. Which values PyTorch's autocast keeps so is nearly the same choice; its
 * users find the same losses.
 *
 * bf16-true: parameters and their gradients are bf16 too, all of them, so that the flat buffers have one type. An
 * operation that does not take a parameter so (biases, gains: short ones) reads a widened copy, which one more
 * instruction makes before its first user; the gradient of the copy is fp32 and is rounded once. Sums within a product
 * are fp32; the gradient is rounded when a product is done, and so is each sum over micro-batches and over ranks: of
 * more than LVN_BF16_PARTIAL_SUMS_MAX pieces the flat gradient is fp32 instead (lvn_program.gradients). The optimizer
 * computes in fp32 and rounds parameters at random: to the nearest, what is less than 2^-9 of a weight would never move
 * it.
 *
 * Decoding keeps its few values in fp32: it reads weights, and little else. */
#include <string.h>

#include "passes/program.h"

/* The type of values between operations, where they may be of 16 bits. */
static enum lvn_dtype values_in(enum lvn_precision precision)
{
    static const enum lvn_dtype values[] = {[LVN_PRECISION_TRUE] = LVN_F32,
                                            [LVN_PRECISION_BF16_MIXED] = LVN_BF16,
                                            [LVN_PRECISION_BF16_TRUE] = LVN_BF16,
                                            [LVN_PRECISION_16_MIXED] = LVN_F16};
    return values[precision];
}

/* --- parameters --- */

/* A copy of parameter value v in fp32, and the instruction of `block` that makes it; -1: memory. */
static int widened(struct lvn_program *p, int v, int block)
{
    int64_t n = p->values[v].bytes / lvn_dtype_bytes(LVN_BF16);
    int wide = lvn_program_add_value(p, p->values[v].name, LVN_BUFFER_ARENA, LVN_F32, n);
    struct lvn_instr *i = wide < 0 ? NULL : lvn_program_add_instr(p, LVN_OP_widen, LVN_FORWARD);
    if (!i) return -1;
    i->name = p->values[v].name;
    i->block = block;
    i->in[0] = (struct lvn_operand){.value = v, .desc = lvn_desc_make(LVN_BF16, 1, &n)};
    i->out[0] = (struct lvn_operand){.value = wide, .desc = lvn_desc_make(LVN_F32, 1, &n)};
    return wide;
}

/* The list is written anew, with the copies. copy_of: of parameter values; -1: none yet. */
static enum lvn_status read_half(struct lvn_program *p, int *copy_of)
{
    int n_instrs = p->n_instrs;
    struct lvn_instr *old = lvn_arena_alloc(&p->arena, sizeof *old * (size_t)(n_instrs + 1));
    if (!old) return LVN_MEMORY;
    memcpy(old, p->instrs, sizeof *old * (size_t)n_instrs);
    p->n_instrs = 0;
    for (int n = 0; n < n_instrs; n++) {
        struct lvn_instr i = old[n];
        for (int k = 0; k < LVN_MAX_IN; k++) {
            int v = i.in[k].value;
            if (v < 0 || p->values[v].buffer != LVN_BUFFER_PARAM) continue;
            bool direct = i.op->low_precision_ok & LVN_READS_IN(k);
            if (direct) i.in[k].desc.dtype = LVN_BF16;
            if (direct) continue;
            if (copy_of[v] < 0) copy_of[v] = widened(p, v, i.block);
            if (copy_of[v] < 0) return LVN_MEMORY;
            i.in[k].value = copy_of[v];
        }
        struct lvn_instr *same = lvn_program_add_instr(p, i.id, i.phase);
        if (!same) return LVN_MEMORY;
        *same = i;
    }
    return LVN_OK;
}

static enum lvn_status narrow_params(struct lvn_program *p)
{
    int *copy_of = lvn_arena_alloc(&p->arena, sizeof *copy_of * (size_t)(p->n_values + 1));
    if (!copy_of) return LVN_MEMORY;
    for (int v = 0; v < p->n_values; v++) {
        struct lvn_value *value = &p->values[v];
        copy_of[v] = -1;
        if (value->buffer != LVN_BUFFER_PARAM) continue;
        value->dtype = LVN_BF16;
        value->bytes /= lvn_dtype_bytes(LVN_F32) / lvn_dtype_bytes(LVN_BF16);
        value->offset /= lvn_dtype_bytes(LVN_F32) / lvn_dtype_bytes(LVN_BF16);
    }
    p->weights = LVN_BF16;
    return read_half(p, copy_of);
}

/* --- values between operations --- */

struct search {
    struct lvn_program *p;
    enum lvn_dtype half;
    bool *narrow; /* by value: all operations so far take it so */
};

static void look(struct search *s, const struct lvn_instr *i, const struct lvn_operand *o, uint32_t bit)
{
    if (o->value >= 0 && !(i->op->low_precision_ok & bit)) s->narrow[o->value] = false;
}

/* An instruction's outputs that may be of 16 bits are so all together, or none is. True: something changed. */
static bool settle(struct search *s)
{
    bool changed = false;
    for (int n = 0; n < s->p->n_instrs; n++) {
        const struct lvn_instr *i = &s->p->instrs[n];
        bool wide = false;
        for (int k = 0; k < LVN_MAX_OUT; k++)
            wide |= i->out[k].value >= 0 && i->op->low_precision_ok & LVN_READS_OUT(k) && !s->narrow[i->out[k].value];
        for (int k = 0; wide && k < LVN_MAX_OUT; k++) {
            if (i->out[k].value < 0 || !s->narrow[i->out[k].value]) continue;
            s->narrow[i->out[k].value] = false;
            changed = true;
        }
    }
    return changed;
}

static void change(struct search *s, struct lvn_operand *o)
{
    if (o->value >= 0 && s->narrow[o->value]) o->desc.dtype = s->half;
}

static enum lvn_status narrow(struct lvn_program *p, enum lvn_dtype half)
{
    struct search s = {p, half, lvn_arena_alloc(&p->arena, sizeof *s.narrow * (size_t)(p->n_values + 1))};
    if (!s.narrow) return LVN_MEMORY;
    for (int v = 0; v < p->n_values; v++) {
        const struct lvn_value *value = &p->values[v];
        s.narrow[v] = value->buffer == LVN_BUFFER_ARENA && value->dtype == LVN_F32 && !value->keep;
    }
    for (int n = 0; n < p->n_instrs; n++) {
        struct lvn_instr *i = &p->instrs[n];
        i->product_dtype = half;
        for (int k = 0; k < LVN_MAX_IN; k++) look(&s, i, &i->in[k], LVN_READS_IN(k));
        for (int k = 0; k < LVN_MAX_OUT; k++) look(&s, i, &i->out[k], LVN_READS_OUT(k));
    }
    while (settle(&s)) {
    }
    for (int n = 0; n < p->n_instrs; n++) {
        for (int k = 0; k < LVN_MAX_IN; k++) change(&s, &p->instrs[n].in[k]);
        for (int k = 0; k < LVN_MAX_OUT; k++) change(&s, &p->instrs[n].out[k]);
    }
    for (int v = 0; v < p->n_values; v++) {
        if (!s.narrow[v]) continue;
        p->values[v].bytes = p->values[v].bytes / lvn_dtype_bytes(LVN_F32) * lvn_dtype_bytes(half);
        p->values[v].dtype = half;
    }
    return LVN_OK;
}

static bool is_real(enum lvn_dtype t)
{
    return t == LVN_F32 || t == LVN_F64 || t == LVN_BF16 || t == LVN_F16;
}

enum lvn_status lvn_pass_precision(struct lvn_program *p, enum lvn_precision precision)
{
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        for (int k = 0; k < i->op->n_in; k++) {
            enum lvn_dtype t = i->in[k].desc.dtype;
            LVN_CHECK(i->in[k].value < 0 || !is_real(t) || t == p->real, UNSUPPORTED,
                      "%s: input %d is %s in a program of %s", i->name, k, lvn_dtype_name(t), lvn_dtype_name(p->real));
        }
    }
    if (precision == LVN_PRECISION_TRUE) return LVN_OK;
    LVN_CHECK(p->real == LVN_F32, UNSUPPORTED, "mixed precision starts from a program of fp32, not of %s",
              lvn_dtype_name(p->real));
    if (precision == LVN_PRECISION_BF16_TRUE) LVN_TRY(narrow_params(p));
    return p->graph->cache_length ? LVN_OK : narrow(p, values_in(precision));
}
