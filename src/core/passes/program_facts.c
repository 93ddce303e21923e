/* program_facts.c - facts about a planned program: kernel arguments, memory, FLOPs; see program.h. Called by the
 * backends, the engine, and levin plan. */

#include "passes/program.h"

static void describe(struct lvn_arg *arg, const struct lvn_operand *o)
{
    *arg = (struct lvn_arg){.desc = o->value >= 0 ? &o->desc : NULL};
}

void lvn_instr_describe(const struct lvn_instr *i, struct lvn_call *call)
{
    *call = (struct lvn_call){.phase = i->phase, .attr = &i->attr, .op_hash = i->hash, .matmul_dtype = i->matmul_dtype};
    for (int k = 0; k < LVN_MAX_IN; k++) {
        describe(&call->in[k], &i->in[k]);
        describe(&call->din[k], &i->din[k]);
        call->add[k] = i->add[k];
    }
    for (int k = 0; k < LVN_MAX_OUT; k++) {
        describe(&call->out[k], &i->out[k]);
        describe(&call->dout[k], &i->dout[k]);
    }
}

int64_t lvn_program_bytes(const struct lvn_program *p)
{
    return (int64_t)(sizeof *p + p->arena.used + (size_t)p->values_capacity * sizeof *p->values +
                     (size_t)p->instrs_capacity * sizeof *p->instrs + (size_t)p->n_instrs * sizeof(struct lvn_call));
}

int lvn_program_first_backward(const struct lvn_program *p)
{
    int n = 0;
    while (n < p->n_instrs && p->instrs[n].phase != LVN_BACKWARD) n++;
    return n;
}

/* An in-place value is counted with the value that it overwrites. */
void lvn_program_live_bytes(const struct lvn_program *p, int64_t *bytes)
{
    memset(bytes, 0, sizeof *bytes * (size_t)(p->n_instrs + 1));
    for (int v = 0; v < p->n_values; v++) {
        const struct lvn_value *x = &p->values[v];
        if (x->buffer != LVN_BUFFER_ARENA || x->in_place || x->first < 0) continue;
        bytes[x->first] += x->bytes;
        if (x->last < p->n_instrs) bytes[x->last + 1] -= x->bytes;
    }
    for (int n = 1; n <= p->n_instrs; n++) bytes[n] += bytes[n - 1];
}

double lvn_instr_flops(const struct lvn_instr *i)
{
    struct lvn_call call;
    if (!i->op->flops) return 0.0;
    lvn_instr_describe(i, &call);
    return i->op->flops(&call);
}

int64_t lvn_instr_bytes(const struct lvn_instr *i)
{
    const struct lvn_operand *const lists[] = {i->in, i->out, i->dout, i->din};
    const int counts[] = {LVN_MAX_IN, LVN_MAX_OUT, LVN_MAX_OUT, LVN_MAX_IN};
    int64_t bytes = 0;
    for (int k = 0; k < 4; k++)
        for (const struct lvn_operand *o = lists[k]; o < lists[k] + counts[k]; o++)
            if (o->value >= 0) bytes += lvn_desc_count(&o->desc) * lvn_dtype_bytes(o->desc.dtype);
    return bytes;
}

double lvn_program_flops(const struct lvn_program *p, int64_t micro_batches)
{
    double sum = 0.0;
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        sum += lvn_instr_flops(i) * (i->when == LVN_AFTER_BACKWARD ? 1.0 : (double)micro_batches);
    }
    return sum;
}
