/* mixed_precision.c - the pass that sets the data type of each value (trainer.precision).
 *
 * A graph is built in one real type (fp32; fp64 for reference runs). With TRUE, parameters and values have that type.
 * In mixed precision an activation becomes bf16 (bf16-mixed) or fp16 (16-mixed) if every operation that uses it accepts
 * that (lvn_op.low_precision_ok). These are the operands of linear layers and attention, but not the residual stream,
 * logits, losses or moments. Its gradient gets the same type from the differentiate pass. This halves the memory
 * traffic; sums, softmax and normalization stay in fp32, in registers. Matrix multiplications may round fp32 operands
 * (parameters) to that type if the device multiplies it faster; other devices read them unrounded. PyTorch's autocast
 * makes nearly the same choice, and the losses agree.
 *
 * With bf16-true, all parameters and their gradients are bf16 too, so that the flat buffers have one type. An operation
 * that does not accept such a parameter (biases and gains, which are short) reads an fp32 copy, made by the instruction
 * widen before its first use; the gradient of the copy is fp32 and is rounded once. Matrix multiplications accumulate
 * in fp32; the gradient is rounded when a multiplication is complete, and so is each sum over micro-batches and ranks.
 * Above LVN_BF16_PARTIAL_SUMS_MAX partial sums the flat gradient is fp32 instead (lvn_program.gradients). The optimizer
 * computes in fp32 and rounds parameters stochastically, because rounding to nearest would drop every update below 2^-9
 * of a weight.
 *
 * Activations of decoding stay in fp32, because decoding reads little besides weights. Its matrix multiplications may
 * round them (lvn_device_rounds_decoding()). */

#include "base/bf16.h"
#include "graph/chain.h"
#include "passes/device_query.h"
#include "passes/pass.h"

/* The type of activations that may have 16 bits. */
static enum lvn_dtype activation_dtype(enum lvn_precision precision)
{
    static const enum lvn_dtype values[] = {[LVN_PRECISION_TRUE] = LVN_F32,
                                            [LVN_PRECISION_BF16_MIXED] = LVN_BF16,
                                            [LVN_PRECISION_BF16_TRUE] = LVN_BF16,
                                            [LVN_PRECISION_16_MIXED] = LVN_F16};
    return values[precision];
}

/* --- parameters --- */

/* Append an instruction of `block` that copies parameter value v to fp32. Returns the copy; -1: out of memory. */
static int add_fp32_copy(struct lvn_program *p, int v, int block)
{
    int64_t n = p->values[v].bytes / lvn_dtype_bytes(LVN_BF16);
    int copy = lvn_program_add_value(p, p->values[v].name, LVN_BUFFER_ARENA, LVN_F32, n);
    struct lvn_instr *i = copy < 0 ? NULL : lvn_program_add_instr(p, LVN_OP_widen, LVN_FORWARD);
    if (!i) return -1;
    i->name = p->values[v].name;
    i->block = block;
    i->in[0] = (struct lvn_operand){.value = v, .desc = lvn_desc_make(LVN_BF16, 1, &n)};
    i->out[0] = (struct lvn_operand){.value = copy, .desc = lvn_desc_make(LVN_F32, 1, &n)};
    return copy;
}

/* The factor of an embedding is rounded to the type of the table, as in transformers (Gemma). */
static void round_factor(const struct lvn_program *p, struct lvn_instr *i)
{
    const bool scales = i->id == LVN_OP_chain && lvn_chain_step(i->attr.chain.steps, 0) == LVN_CHAIN_SCALE;
    for (int n = 0; scales && n < p->n_instrs; n++)
        if (p->instrs[n].id == LVN_OP_embedding && p->instrs[n].out[0].value == i->in[0].value)
            i->attr.chain.factor = (double)lvn_bf16_get(lvn_bf16_make((float)i->attr.chain.factor));
}

/* Rebuild the list with the copies. copy_of: parameter's value -> its fp32 copy; -1: none yet. */
static enum lvn_status cast_operands(struct lvn_program *p, int *copy_of)
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
            bool accepted = i.op->low_precision_ok & LVN_READS_IN(k);
            if (accepted) {
                i.in[k].desc.dtype = LVN_BF16;
                continue;
            }
            if (copy_of[v] < 0) copy_of[v] = add_fp32_copy(p, v, i.block);
            if (copy_of[v] < 0) return LVN_MEMORY;
            i.in[k].value = copy_of[v];
        }
        round_factor(p, &i);
        struct lvn_instr *added = lvn_program_add_instr(p, i.id, i.phase);
        if (!added) return LVN_MEMORY;
        *added = i;
    }
    return LVN_OK;
}

static enum lvn_status params_to_bf16(struct lvn_program *p)
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
    return cast_operands(p, copy_of);
}

/* --- activations --- */

struct search {
    struct lvn_program *p;
    enum lvn_dtype dtype;
    bool *low; /* value -> every operation checked so far accepts it in 16 bits */
};

/* Rule out 16 bits for the value of operand `bit` if the operation does not accept it. */
static void check_operand(struct search *s, const struct lvn_instr *i, const struct lvn_operand *o, uint32_t bit)
{
    if (o->value >= 0 && !(i->op->low_precision_ok & bit)) s->low[o->value] = false;
}

/* Rule out 16 bits for a value that is several inputs of an operation, because differentiate then adds the gradients of
 * these inputs, and additions are in fp32. */
static void check_repeated(struct search *s, const struct lvn_instr *i, int k)
{
    const struct lvn_operand *o = &i->in[k];
    for (int j = 0; o->value >= 0 && j < k; j++)
        if (i->in[j].value == o->value && !lvn_desc_disjoint(&i->in[j].desc, &o->desc)) s->low[o->value] = false;
}

/* All of an instruction's outputs in low_precision_ok have 16 bits, or none. Returns true if something changed. */
static bool equalize_outputs(struct search *s)
{
    bool changed = false;
    for (int n = 0; n < s->p->n_instrs; n++) {
        const struct lvn_instr *i = &s->p->instrs[n];
        bool fp32 = false;
        for (int k = 0; k < LVN_MAX_OUT; k++)
            fp32 |= i->out[k].value >= 0 && i->op->low_precision_ok & LVN_READS_OUT(k) && !s->low[i->out[k].value];
        for (int k = 0; fp32 && k < LVN_MAX_OUT; k++) {
            if (i->out[k].value < 0 || !s->low[i->out[k].value]) continue;
            s->low[i->out[k].value] = false;
            changed = true;
        }
    }
    return changed;
}

static void set_dtype(struct search *s, struct lvn_operand *o)
{
    if (o->value >= 0 && s->low[o->value]) o->desc.dtype = s->dtype;
}

static enum lvn_status cast_activations(struct lvn_program *p, enum lvn_dtype dtype)
{
    struct search s = {p, dtype, lvn_arena_alloc(&p->arena, sizeof *s.low * (size_t)(p->n_values + 1))};
    if (!s.low) return LVN_MEMORY;
    for (int v = 0; v < p->n_values; v++) {
        const struct lvn_value *value = &p->values[v];
        s.low[v] = value->buffer == LVN_BUFFER_ARENA && value->dtype == LVN_F32 && !value->keep;
    }
    for (int n = 0; n < p->n_instrs; n++) {
        struct lvn_instr *i = &p->instrs[n];
        i->matmul_dtype = dtype;
        for (int k = 0; k < LVN_MAX_IN; k++) {
            check_operand(&s, i, &i->in[k], LVN_READS_IN(k));
            check_repeated(&s, i, k);
        }
        for (int k = 0; k < LVN_MAX_OUT; k++) check_operand(&s, i, &i->out[k], LVN_READS_OUT(k));
    }
    while (equalize_outputs(&s)) {
    }
    for (int n = 0; n < p->n_instrs; n++) {
        for (int k = 0; k < LVN_MAX_IN; k++) set_dtype(&s, &p->instrs[n].in[k]);
        for (int k = 0; k < LVN_MAX_OUT; k++) set_dtype(&s, &p->instrs[n].out[k]);
    }
    for (int v = 0; v < p->n_values; v++) {
        if (!s.low[v]) continue;
        p->values[v].bytes = p->values[v].bytes / lvn_dtype_bytes(LVN_F32) * lvn_dtype_bytes(dtype);
        p->values[v].dtype = dtype;
    }
    return LVN_OK;
}

static bool is_real(enum lvn_dtype t)
{
    return t == LVN_F32 || t == LVN_F64 || t == LVN_BF16 || t == LVN_F16;
}

enum lvn_status lvn_pass_mixed_precision(struct lvn_program *p, enum lvn_precision precision,
                                         const struct lvn_device *device)
{
    const enum lvn_dtype dtype = activation_dtype(precision);
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
    p->matmul_dtype = dtype;
    if (precision == LVN_PRECISION_BF16_TRUE) LVN_TRY(params_to_bf16(p));
    if (!p->graph->cache_length) return cast_activations(p, dtype);
    for (int n = 0; n < p->n_instrs && lvn_device_rounds_decoding(device); n++) p->instrs[n].matmul_dtype = dtype;
    return LVN_OK;
}
