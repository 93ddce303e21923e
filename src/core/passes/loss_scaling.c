/* loss_scaling.c - the pass for the loss scale of 16-mixed. Without it most gradients, which are below 6e-8, the
 * smallest positive value of fp16, would become zero.
 *
 * scale_loss, at the start of each micro-batch, multiplies the loss's gradient, and thereby all gradients, by the
 * scale. unscale, after the norm over all ranks, divides norm and clip factor by the scale and computes the next scale.
 * A gradient that is not finite skips the update and halves the scale, identically on all ranks. unscale also clips,
 * because clipping applies to the unscaled gradient. The scale has its own buffer (struct lvn_scaling), which lives as
 * long as the parameters; the host only reads it.
 *
 * Micikevicius et al.: "Mixed precision training" (2018). */

#include "passes/pass.h"

/* Insert an instruction at index `at`; NULL: out of memory. */
static struct lvn_instr *insert(struct lvn_program *p, int at, enum lvn_op_id id, const char *name)
{
    struct lvn_instr *i = lvn_program_add_instr(p, id, LVN_FORWARD);
    if (!i) return NULL;
    const struct lvn_instr added = *i;
    memmove(&p->instrs[at + 1], &p->instrs[at], sizeof added * (size_t)(p->n_instrs - 1 - at));
    p->instrs[at] = added;
    p->instrs[at].name = name;
    return &p->instrs[at];
}

enum lvn_status lvn_pass_loss_scaling(struct lvn_program *p, const struct lvn_optimizer *o)
{
    int norm = p->n_instrs - 1;
    while (norm > 0 && p->instrs[norm].id != LVN_OP_grad_norm && p->instrs[norm].id != LVN_OP_grad_clip) norm--;
    if (p->instrs[norm].id == LVN_OP_grad_norm) p->instrs[norm].attr.grad_norm.clip_norm = 0;
    if (p->instrs[norm].id == LVN_OP_grad_clip) p->instrs[norm].attr.grad_clip.clip_norm = 0;
    const struct lvn_operand scaling =
        lvn_program_add_range(p, "scale of the loss", LVN_BUFFER_SCALE, LVN_F64, 0, LVN_SCALING_FIELDS);
    struct lvn_instr *last = insert(p, norm + 1, LVN_OP_unscale, "gradient without its scale");
    if (scaling.value < 0 || !last) return LVN_MEMORY;
    last->when = LVN_AFTER_BACKWARD;
    last->attr.unscale.clip_norm = o->clip_norm;
    last->out[0] = scaling;
    struct lvn_instr *first = insert(p, 0, LVN_OP_scale_loss, "scale of the loss");
    if (!first) return LVN_MEMORY;
    first->in[0] = scaling;
    return LVN_OK;
}
