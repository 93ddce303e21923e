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

static void set_attributes(struct lvn_instr *i, const struct lvn_optimizer *o, const struct lvn_params *params,
                           const struct lvn_param_group *g)
{
    double decay = g->decay ? o->weight_decay : 0.0;
    if (o->kind == LVN_SGD) {
        i->attr.sgd.momentum = o->momentum;
        i->attr.sgd.weight_decay = decay;
        i->attr.sgd.lr_scale = g->lr_scale;
        i->attr.sgd.clip_value = o->clip_value;
        i->attr.sgd.first = g->offset;
        i->attr.sgd.parameters = &params->trainable;
        return;
    }
    i->attr.adamw.beta1 = o->beta1;
    i->attr.adamw.beta2 = o->beta2;
    i->attr.adamw.eps = o->eps;
    i->attr.adamw.weight_decay = decay;
    i->attr.adamw.lr_scale = g->lr_scale;
    i->attr.adamw.clip_value = o->clip_value;
    i->attr.adamw.coupled = o->kind == LVN_ADAM;
    i->attr.adamw.first = g->offset;
    i->attr.adamw.parameters = &params->trainable;
}

enum lvn_status lvn_pass_update(struct lvn_program *p, const struct lvn_optimizer *o)
{
    const struct lvn_params *params = p->graph->params;
    enum lvn_dtype state = o->bf16_state ? LVN_BF16 : p->real;
    struct lvn_instr *norm = after_backward(p, LVN_OP_grad_norm, "gradient norm");
    if (!norm) return LVN_MEMORY;
    norm->attr.grad_norm.clip_norm = o->clip_norm;
    norm->attr.grad_norm.parameters = &params->trainable;
    struct lvn_operand all =
        lvn_program_add_range(p, "gradients", LVN_BUFFER_GRAD, p->gradients, 0, params->trainable_count);
    if (all.value < 0) return LVN_MEMORY;
    norm->in[0] = all;
    for (int n = 0; n < params->n_groups; n++) {
        const struct lvn_param_group *g = &params->groups[n];
        const char *name = g->decay ? "update, decayed parameters" : "update, other parameters";
        struct lvn_instr *i = after_backward(p, o->kind == LVN_SGD ? LVN_OP_sgd : LVN_OP_adamw, name);
        if (!i) return LVN_MEMORY;
        set_attributes(i, o, params, g);
        i->in[0] = lvn_program_add_range(p, "gradients", LVN_BUFFER_GRAD, p->gradients, g->offset, g->count);
        i->out[0] = lvn_program_add_range(p, "parameters", LVN_BUFFER_PARAM, p->weights, g->offset, g->count);
        i->out[1] = lvn_program_add_range(p, "first moment", LVN_BUFFER_STATE0, state, g->offset, g->count);
        if (i->in[0].value < 0 || i->out[0].value < 0 || i->out[1].value < 0) return LVN_MEMORY;
        if (o->kind == LVN_SGD) continue;
        i->out[2] = lvn_program_add_range(p, "second moment", LVN_BUFFER_STATE1, state, g->offset, g->count);
        if (i->out[2].value < 0) return LVN_MEMORY;
    }
    return LVN_OK;
}
