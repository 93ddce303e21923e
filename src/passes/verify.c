/* verify.c - holds the finished list against the operations' rules, before anything is placed or run.
 *
 * The rules of shapes and types were asked when the graph was built. Passes have since changed types and put in
 * instructions of their own (copies, norms, optimizers), which no rule has seen. Here every forward instruction is
 * asked again, with what may be of 16 bits by the operation's `low_precision_ok`, and every operand must lie within its
 * value. A kernel casts its pointers without looking: what is wrong here would be a write beyond a buffer there.
 *
 * Left out: rules for backward instructions, whose operands the differentiate pass copies from forward ones. */
#include "passes/program.h"

/* The type that a rule gives or takes, where the operand may be stored in 16 bits instead. */
static bool fits(const struct lvn_program *p, const struct lvn_instr *i, uint32_t bit, enum lvn_dtype have,
                 enum lvn_dtype want)
{
    bool narrow =
        (have == LVN_BF16 || have == LVN_F16) && want == LVN_F32 && p->real == LVN_F32 && i->op->low_precision_ok & bit;
    return have == want || narrow;
}

/* Does the description stay within its value, and read it as what it is? */
static bool within(const struct lvn_value *v, const struct lvn_desc *d)
{
    int64_t last = d->offset;
    for (int k = 0; k < d->rank; k++) last += (d->dim[k] - 1) * d->stride[k];
    return d->dtype == v->dtype && (last + 1) * lvn_dtype_bytes(d->dtype) <= v->bytes;
}

struct operands {
    const struct lvn_program *p;
    const struct lvn_operand *scratch; /* bytes without a description */
    const struct lvn_value *wrong;     /* the first that does not fit; NULL: none */
    enum lvn_dtype state;              /* of the moments: one for all; LVN_DTYPE_COUNT: none seen */
};

static void look(struct lvn_operand *o, bool written, void *argument)
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

static enum lvn_status ask_rule(const struct lvn_program *p, const struct lvn_instr *i)
{
    struct lvn_shapes s = {.op = i->op->name, .attr = &i->attr, .real = p->real};
    for (int k = 0; k < i->op->n_in; k++) {
        s.has[k] = i->in[k].value >= 0;
        if (!s.has[k]) continue;
        s.in[k] = i->in[k].desc;
        s.name[k] = p->values[i->in[k].value].name;
        if (fits(p, i, LVN_READS_IN(k), s.in[k].dtype, p->real)) s.in[k].dtype = p->real;
    }
    /* What a rule says nothing of (zeros, whose size is the pass's) is as it is. */
    for (int k = 0; k < i->op->n_out + i->op->n_saved; k++) s.out[k] = i->out[k].desc;
    LVN_TRY_WHILE(i->op->shape(&s), "planning '%s'", i->name);
    for (int k = 0; k < i->op->n_out + i->op->n_saved; k++) {
        const struct lvn_desc *have = &i->out[k].desc, *want = &s.out[k];
        if (i->out[k].value < 0) continue;
        const char *name = p->values[i->out[k].value].name;
        LVN_CHECK(fits(p, i, LVN_READS_OUT(k), have->dtype, want->dtype), UNSUPPORTED,
                  "%s: %s writes '%s' as %s, and it is %s here", i->name, i->op->name, name,
                  lvn_dtype_name(want->dtype), lvn_dtype_name(have->dtype));
        LVN_CHECK(lvn_desc_count(have) == lvn_desc_count(want), SHAPE,
                  "%s: %s writes %lld elements to '%s', which has %lld here", i->name, i->op->name,
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
        lvn_instr_operands(i, look, &all);
        LVN_CHECK(!all.wrong, INTERNAL, "%s: %s does not take '%s' as what it is (%s)", i->name, i->op->name,
                  all.wrong->name, lvn_dtype_name(all.wrong->dtype));
        if (i->phase == LVN_FORWARD) LVN_TRY(ask_rule(p, i));
    }
    return LVN_OK;
}
