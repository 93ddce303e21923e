/* update.c - the pass that appends the instructions of a step after backward: the gradient's norm, then the optimizer.
 *
 * Gradients lie in one flat buffer, so the norm is one instruction and the optimizer one for each parameter group.
 * Clipping needs no instruction: the norm's kernel writes a factor to lvn_result.clip_scale, by which the optimizer
 * multiplies gradients. It is 0 if the norm is not finite: then the optimizer updates nothing. */
#include "passes/pass.h"

static struct lvn_instr *after_backward(struct lvn_program *p, enum lvn_op_id id, const char *name)
{
    struct lvn_instr *i = lvn_program_add_instr(p, id, LVN_FORWARD);
    if (!i) return NULL;
    i->when = LVN_AFTER_BACKWARD;
    i->name = name;
    return i;
}

static enum lvn_status append_norm(struct lvn_program *p, double clip_norm)
{
    const struct lvn_params *params = p->graph->params;
    struct lvn_instr *norm = after_backward(p, LVN_OP_grad_norm, "gradient norm");
    if (!norm) return LVN_MEMORY;
    norm->attr.grad_norm.clip_norm = clip_norm;
    norm->attr.grad_norm.parameters = &params->trainable;
    norm->in[0] = lvn_program_add_range(p, "gradients", LVN_BUFFER_GRAD, p->gradients, 0, params->trainable_count);
    return norm->in[0].value < 0 ? LVN_MEMORY : LVN_OK;
}

static enum lvn_status append_update(struct lvn_program *p, const struct lvn_optimizer *o,
                                     const struct lvn_param_group *g)
{
    static const char *const moments[] = {"first moment", "second moment"};
    const enum lvn_dtype state = o->bf16_state ? LVN_BF16 : p->real;
    struct lvn_instr *i =
        after_backward(p, o->op, g->decay ? "update, decayed parameters" : "update, other parameters");
    if (!i) return LVN_MEMORY;
    i->attr = o->attr;
    i->attr.update.weight_decay = !g->decay ? 0 : g->weight_decay < 0 ? o->attr.update.weight_decay : g->weight_decay;
    i->attr.update.lr_scale = g->lr_scale;
    i->attr.update.first = g->offset;
    i->attr.update.number = g->number;
    i->attr.update.parameters = &p->graph->params->trainable;
    i->in[0] = lvn_program_add_range(p, "gradients", LVN_BUFFER_GRAD, p->gradients, g->offset, g->count);
    i->out[0] = lvn_program_add_range(p, "parameters", LVN_BUFFER_PARAM, p->weights, g->offset, g->count);
    bool ok = i->in[0].value >= 0 && i->out[0].value >= 0;
    for (int k = 0; ok && k < lvn_optimizer_moments(o); k++) {
        const enum lvn_buffer buffer = (enum lvn_buffer)(LVN_BUFFER_STATE0 + k);
        i->out[1 + k] = lvn_program_add_range(p, moments[k], buffer, state, g->offset, g->count);
        ok = i->out[1 + k].value >= 0;
    }
    return ok ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_pass_update(struct lvn_program *p, const struct lvn_optimizer *o)
{
    const struct lvn_params *params = p->graph->params;
    LVN_TRY(append_norm(p, o->clip_norm));
    for (int n = 0; n < params->n_groups; n++) LVN_TRY(append_update(p, o, &params->groups[n]));
    return LVN_OK;
}
