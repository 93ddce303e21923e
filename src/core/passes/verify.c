/* verify.c - the pass that checks the finished list against the operations' shape rules, before memory_planning.
 *
 * The graph checked shapes and types when it was built. Passes have since changed types and inserted instructions
 * (copies, norms, optimizers). Here the shape rule of every forward instruction runs again; the operands in the
 * operation's `low_precision_ok` or `rounded_ok` may have 16 bits. Every operand must be within its value, because
 * kernels cast pointers without checks, and an error would write beyond a buffer.
 *
 * Not here: rules for backward instructions, whose operands the differentiate pass copies from forward ones. */
#include "passes/pass.h"

/* Is type `have` accepted for operand `bit` if the shape rule expects `want`? It may be cast to 16 bits, or be packed
 * in blocks, if the operation accepts that. */
static bool type_is_accepted(const struct lvn_program *p, const struct lvn_instr *i, uint32_t bit, enum lvn_dtype have,
                             enum lvn_dtype want)
{
    bool cast = (have == LVN_BF16 || have == LVN_F16) && want == LVN_F32 && p->real == LVN_F32 &&
                (i->op->low_precision_ok | i->op->rounded_ok) & bit;
    return have == want || cast || (lvn_dtype_is_packed(have) && want == LVN_F32 && i->op->packed_ok & bit);
}

/* Is the view within its value, and of the value's type? A U8 value has operands of any type. */
static bool within(const struct lvn_value *v, const struct lvn_desc *d)
{
    int64_t last = d->offset;
    for (int k = 0; k < d->rank; k++) last += (d->dim[k] - 1) * d->stride[k];
    if (lvn_dtype_is_packed(d->dtype)) return d->dtype == v->dtype && v->param && v->bytes == v->param->packed_bytes;
    return (d->dtype == v->dtype || v->dtype == LVN_U8) && (last + 1) * lvn_dtype_bytes(d->dtype) <= v->bytes;
}

struct operands {
    const struct lvn_program *p;
    const struct lvn_operand *scratch; /* of the instruction: bytes without a description */
    const struct lvn_value *wrong;     /* the first value that does not fit; NULL: none */
    enum lvn_dtype state;              /* type of all moments; LVN_DTYPE_COUNT: none seen yet */
};

static void check_operand(struct lvn_operand *o, bool written, void *argument)
{
    (void)written;
    struct operands *all = argument;
    if (o == all->scratch) return;
    const struct lvn_value *v = &all->p->values[o->value];
    bool state = v->buffer == LVN_BUFFER_STATE0 || v->buffer == LVN_BUFFER_STATE1;
    bool good = within(v, &o->desc);
    if (v->buffer == LVN_BUFFER_PARAM) good &= v->dtype == all->p->weights; /* a flat buffer has one type */
    if (v->buffer == LVN_BUFFER_GRAD) good &= v->dtype == all->p->gradients;
    if (state && all->state == LVN_DTYPE_COUNT) all->state = v->dtype;
    if (state) good &= v->dtype == all->state;
    if (!good && !all->wrong) all->wrong = v;
}

static enum lvn_status check_shapes(const struct lvn_program *p, const struct lvn_instr *i)
{
    struct lvn_shapes s = {.op = i->op->name, .attr = &i->attr, .real = p->real};
    for (int k = 0; k < i->op->n_in; k++) {
        s.has[k] = i->in[k].value >= 0;
        if (!s.has[k]) continue;
        s.in[k] = i->in[k].desc;
        s.name[k] = p->values[i->in[k].value].name;
        if (type_is_accepted(p, i, LVN_READS_IN(k), s.in[k].dtype, p->real)) s.in[k].dtype = p->real;
    }
    /* Outputs that the shape rule does not set (those of `zeros`) keep the shape that the pass gave them. */
    for (int k = 0; k < i->op->n_out + i->op->n_saved; k++) s.out[k] = i->out[k].desc;
    LVN_TRY_WHILE(i->op->shape(&s), "planning '%s'", i->name);
    for (int k = 0; k < i->op->n_out + i->op->n_saved; k++) {
        const struct lvn_desc *have = &i->out[k].desc, *want = &s.out[k];
        if (i->out[k].value < 0) continue;
        const char *name = p->values[i->out[k].value].name;
        LVN_CHECK(type_is_accepted(p, i, LVN_READS_OUT(k), have->dtype, want->dtype), UNSUPPORTED,
                  "%s: %s writes '%s' as %s, but its type is %s", i->name, i->op->name, name,
                  lvn_dtype_name(want->dtype), lvn_dtype_name(have->dtype));
        LVN_CHECK(lvn_desc_count(have) == lvn_desc_count(want), SHAPE,
                  "%s: %s writes %lld elements to '%s', which has %lld", i->name, i->op->name,
                  (long long)lvn_desc_count(want), name, (long long)lvn_desc_count(have));
    }
    return LVN_OK;
}

enum lvn_status lvn_pass_verify(struct lvn_program *p)
{
    struct operands all = {.p = p, .state = LVN_DTYPE_COUNT};
    for (int n = 0; n < p->n_instrs; n++) {
        struct lvn_instr *i = &p->instrs[n];
        all.scratch = &i->scratch;
        lvn_instr_operands(i, check_operand, &all);
        LVN_CHECK(!all.wrong, INTERNAL, "%s: %s does not accept '%s' with its type or size (%s)", i->name, i->op->name,
                  all.wrong->name, lvn_dtype_name(all.wrong->dtype));
        if (i->phase == LVN_FORWARD) LVN_TRY(check_shapes(p, i));
    }
    return LVN_OK;
}
