/* fuse_chains.c - the pass fuse_chains, which makes chains (ops/chain.c) of elementwise operations, so that a chain
 * passes over memory once, forward and backward.
 *
 *   silu, mul                -> chain     the gated MLP of Llama
 *   gelu_tanh, mul           -> chain     that of Gemma
 *   scale, tanh, mul, ...    -> chain     any list of the operations of `step_of`, up to LVN_CHAIN_STEPS of them
 *
 * An operation continues the chain of the operation that makes its input, if nothing else reads that. One that is alone
 * becomes a chain of one step, because the fast kernels are those of chain; only tanh stays, because BERT's pooler
 * needs its plain kernel, which is more exact, and no faster one. fuse.c has found its patterns before. */

#include "graph/chain.h"
#include "passes/pass.h"

/* The steps that an instruction of the list has become so far. */
struct steps {
    int n; /* 0: it is no elementwise operation, or a later one has taken its steps */
    int64_t steps;
    double factor;
    int n_in;
    struct lvn_operand in[LVN_MAX_IN];
};

struct chaining {
    struct lvn_program *p;
    struct steps *of; /* instruction -> its steps */
    int *maker;       /* value -> instruction that writes it; -1: none */
    int *uses;        /* value -> number of operands that read it; an output of the program counts as one more */
    bool *dead;       /* instruction -> a later one has taken its steps */
};

static enum lvn_chain_step step_of(enum lvn_op_id id)
{
#define STEP(NAME, operation)                                                                                          \
    if (id == LVN_OP_##operation) return LVN_CHAIN_##NAME;
    LVN_CHAIN_FUNCTIONS(STEP)
    STEP(SCALE, scale)
    STEP(MUL, mul)
#undef STEP
    return LVN_CHAIN_END;
}

static void count(struct chaining *c)
{
    struct lvn_program *p = c->p;
    for (int v = 0; v < p->n_values; v++) {
        c->maker[v] = -1;
        c->uses[v] = p->values[v].keep;
    }
    for (int n = 0; n < p->n_instrs; n++) {
        for (int k = 0; k < LVN_MAX_IN; k++)
            if (p->instrs[n].in[k].value >= 0) c->uses[p->instrs[n].in[k].value]++;
        for (int k = 0; k < LVN_MAX_OUT; k++)
            if (p->instrs[n].out[k].value >= 0) c->maker[p->instrs[n].out[k].value] = n;
    }
}

/* The steps that make operand o, which nothing else reads; NULL: there are none, or instruction `last` cannot continue
 * them with its own step and `sides` more inputs. */
static struct steps *continued(struct chaining *c, const struct lvn_instr *last, const struct lvn_operand *o, int sides)
{
    const int maker = o->value >= 0 ? c->maker[o->value] : -1;
    if (maker < 0 || c->uses[o->value] != 1 || o->desc.offset != 0 || !lvn_desc_contiguous(&o->desc)) return NULL;
    struct steps *s = &c->of[maker];
    if (!s->n || s->n == LVN_CHAIN_STEPS || s->n_in + sides > LVN_MAX_IN) return NULL;
    if (!lvn_desc_same_shape(&c->p->instrs[maker].out[0].desc, &o->desc)) return NULL;
    if (last->id == LVN_OP_scale && lvn_chain_count(s->steps, LVN_CHAIN_SCALE)) return NULL;
    return s;
}

/* Record the steps of instruction n: its own one, after those of an input. */
static void add_step(struct chaining *c, int n)
{
    const struct lvn_instr *i = &c->p->instrs[n];
    const enum lvn_chain_step step = step_of(i->id);
    if (step == LVN_CHAIN_END) return;
    const bool mul = step == LVN_CHAIN_MUL;
    int main = 0;
    struct steps *before = continued(c, i, &i->in[0], mul);
    if (!before && mul && i->in[0].value != i->in[1].value && (before = continued(c, i, &i->in[1], mul))) main = 1;
    struct steps *s = &c->of[n];
    *s = before ? *before : (struct steps){.n_in = 1, .in[0] = i->in[0]};
    if (before) {
        c->dead[before - c->of] = true;
        before->n = 0;
    }
    s->steps |= (int64_t)step << s->n++ * LVN_CHAIN_BITS;
    if (step == LVN_CHAIN_SCALE) s->factor = i->attr.scale.factor;
    if (mul) s->in[s->n_in++] = i->in[1 - main];
}

static void become_chain(struct lvn_program *p, struct lvn_instr *i, const struct steps *s)
{
    if (!s->n || s->steps == LVN_CHAIN_TANH) return;
    i->id = LVN_OP_chain;
    i->op = lvn_op(i->id, p->real);
    memset(&i->attr, 0, sizeof i->attr);
    i->attr.chain.steps = s->steps;
    i->attr.chain.factor = s->factor;
    for (int k = 0; k < LVN_MAX_IN; k++) i->in[k] = k < s->n_in ? s->in[k] : LVN_NO_OPERAND;
}

enum lvn_status lvn_pass_fuse_chains(struct lvn_program *p)
{
    struct chaining c = {.p = p,
                         .of = lvn_arena_alloc(&p->arena, sizeof *c.of * (size_t)(p->n_instrs + 1)),
                         .maker = lvn_arena_alloc(&p->arena, sizeof *c.maker * (size_t)(p->n_values + 1)),
                         .uses = lvn_arena_alloc(&p->arena, sizeof *c.uses * (size_t)(p->n_values + 1)),
                         .dead = lvn_arena_alloc(&p->arena, sizeof *c.dead * (size_t)(p->n_instrs + 1))};
    if (!c.of || !c.maker || !c.uses || !c.dead) return LVN_MEMORY;
    count(&c);
    for (int n = 0; n < p->n_instrs; n++) add_step(&c, n);
    int n_left = 0;
    for (int n = 0; n < p->n_instrs; n++) {
        if (c.dead[n]) continue;
        become_chain(p, &p->instrs[n], &c.of[n]);
        p->instrs[n_left++] = p->instrs[n];
    }
    p->n_instrs = n_left;
    return LVN_OK;
}
