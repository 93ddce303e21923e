/* update.c - the pass that appends the instructions of a step after backward: gradient norm, then optimizer.
 *
 * Gradients are in one flat buffer, so the norm is one instruction, and the optimizer one per parameter group. An
 * optimizer on matrices has three instructions for each matrix of a block, and one for each range of other parameters
 * between them. On CPUs several matrices are grouped: the first instruction of each, then the second of each, then the
 * third, so that threads can compute the matrices concurrently. Clipping needs no instruction: the norm's kernel writes
 * a factor to lvn_result.clip_scale, by which the optimizer multiplies gradients. The factor is 0 if the norm is not
 * finite; the optimizer then changes nothing. */
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

/* Set the attributes common to all updates of elements from `offset` on, in group g. */
static void set_update(struct lvn_update *u, const struct lvn_optimizer *o, const struct lvn_param_group *g,
                       int64_t offset)
{
    u->weight_decay = !g->decay ? 0 : g->rule.weight_decay < 0 ? o->attr.update.weight_decay : g->rule.weight_decay;
    u->lr_scale = g->rule.lr_scale;
    u->first = offset;
    u->number = g->number + offset - g->offset;
}

/* Add the operands out[1 + k]: the moments of elements [offset, offset + count). */
static bool add_moments(struct lvn_program *p, const struct lvn_optimizer *o, struct lvn_instr *i, int64_t offset,
                        int64_t count)
{
    static const char *const moments[] = {"first moment", "second moment"};
    for (int k = 0; k < i->op->n_out - 1; k++) {
        const enum lvn_buffer buffer = (enum lvn_buffer)(LVN_BUFFER_STATE0 + k);
        i->out[1 + k] = lvn_program_add_range(p, moments[k], buffer, o->bf16_state ? LVN_BF16 : p->real, offset, count);
        if (i->out[1 + k].value < 0) return false;
    }
    return true;
}

/* Append the update of elements [offset, offset + count), in group g. */
static enum lvn_status append_update(struct lvn_program *p, const struct lvn_optimizer *o,
                                     const struct lvn_param_group *g, int64_t offset, int64_t count)
{
    struct lvn_instr *i =
        after_backward(p, o->op, g->decay ? "update, decayed parameters" : "update, other parameters");
    if (!i) return LVN_MEMORY;
    i->attr = o->attr;
    if (g->rule.betas[0] >= 0) o->set_betas(&i->attr, g->rule.betas);
    set_update(&i->attr.update, o, g, offset);
    i->attr.update.parameters = &p->graph->params->trainable;
    i->in[0] = lvn_program_add_range(p, "gradients", LVN_BUFFER_GRAD, p->gradients, offset, count);
    i->out[0] = lvn_program_add_range(p, "parameters", LVN_BUFFER_PARAM, p->weights, offset, count);
    const bool ok = i->in[0].value >= 0 && i->out[0].value >= 0;
    return ok && add_moments(p, o, i, offset, count) ? LVN_OK : LVN_MEMORY;
}

enum { TOGETHER = 64 };                           /* matrices at a time */
static const int64_t together_elements = 4 << 20; /* maximum of a group (16 MiB), unless one matrix has more */

/* Matrices, of any groups, whose directions are in memory at the same time. */
struct matrices {
    const struct lvn_param *matrix[TOGETHER];
    const struct lvn_param_group *group[TOGETHER];
    struct lvn_operand direction[TOGETHER];
    int n, max; /* number of matrices, at most `max` */
    int64_t elements;
};

/* Append the direction of a matrix in group g. */
static enum lvn_status append_direction(struct lvn_program *p, const struct lvn_optimizer *o,
                                        const struct lvn_param_group *g, const struct lvn_param *matrix,
                                        struct lvn_operand *direction)
{
    const int64_t offset = matrix->offset, count = matrix->count;
    struct lvn_instr *i = after_backward(p, o->matrices.direction, matrix->name);
    *direction = lvn_program_add_range(p, "direction", LVN_BUFFER_ARENA, p->real, 0, count);
    if (!i || direction->value < 0) return LVN_MEMORY;
    i->attr = o->matrices.direction_attr;
    set_update(&i->attr.update, o, g, offset);
    i->in[0] = lvn_program_add_range(p, "gradients", LVN_BUFFER_GRAD, p->gradients, offset, count);
    i->out[0] = *direction;
    return i->in[0].value >= 0 && add_moments(p, o, i, offset, count) ? LVN_OK : LVN_MEMORY;
}

/* Append the instruction that needs the whole matrix (lvn_matrix_steps.whole). */
static enum lvn_status append_whole(struct lvn_program *p, const struct lvn_optimizer *o,
                                    const struct lvn_param *matrix, struct lvn_operand direction)
{
    const struct lvn_matrix_steps *m = &o->matrices;
    struct lvn_instr *i = after_backward(p, m->whole, matrix->name);
    if (!i) return LVN_MEMORY;
    i->attr = m->whole_attr;
    if (p->matmul_dtype == LVN_BF16) i->matmul_dtype = LVN_BF16;
    i->in[0] = i->out[0] = direction;
    i->in[0].desc = i->out[0].desc = lvn_desc_make(p->real, matrix->desc.rank, matrix->desc.dim);
    if (m->lines)
        i->out[1] = lvn_program_add_range(p, "moments of lines", LVN_BUFFER_LINES, p->real, matrix->lines_at,
                                          lvn_param_lines(matrix));
    return m->lines && i->out[1].value < 0 ? LVN_MEMORY : LVN_OK;
}

/* Append the step of a matrix in group g. */
static enum lvn_status append_step(struct lvn_program *p, const struct lvn_optimizer *o,
                                   const struct lvn_param_group *g, const struct lvn_param *matrix,
                                   struct lvn_operand direction)
{
    const struct lvn_matrix_steps *m = &o->matrices;
    struct lvn_instr *i = after_backward(p, m->step, matrix->name);
    if (!i) return LVN_MEMORY;
    i->attr = m->step_attr;
    set_update(&i->attr.update, o, g, matrix->offset);
    if (m->fit) m->fit(&matrix->desc, &i->attr);
    i->in[0] = direction;
    i->out[0] = lvn_program_add_range(p, "parameters", LVN_BUFFER_PARAM, p->weights, matrix->offset, matrix->count);
    return i->out[0].value >= 0 ? LVN_OK : LVN_MEMORY;
}

/* Append the updates of the matrices, and empty the list. */
static enum lvn_status append_matrices(struct lvn_program *p, const struct lvn_optimizer *o, struct matrices *m)
{
    for (int k = 0; k < m->n; k++) LVN_TRY(append_direction(p, o, m->group[k], m->matrix[k], &m->direction[k]));
    for (int k = 0; k < m->n; k++) LVN_TRY(append_whole(p, o, m->matrix[k], m->direction[k]));
    for (int k = 0; k < m->n; k++) LVN_TRY(append_step(p, o, m->group[k], m->matrix[k], m->direction[k]));
    m->n = 0;
    m->elements = 0;
    return LVN_OK;
}

/* Add a matrix of group g, and append the updates of all that were added if there is no room for more. */
static enum lvn_status add_matrix(struct lvn_program *p, const struct lvn_optimizer *o, const struct lvn_param_group *g,
                                  const struct lvn_param *matrix, struct matrices *m)
{
    if (m->elements + matrix->count > together_elements) LVN_TRY(append_matrices(p, o, m));
    m->matrix[m->n] = matrix;
    m->group[m->n++] = g;
    m->elements += matrix->count;
    return m->n == m->max ? append_matrices(p, o, m) : LVN_OK;
}

/* Append the updates of a group: those of the ranges between its matrices, which are added to m. *at: index in
 * params->flat of the group's first parameter; advanced to the next group's. */
static enum lvn_status append_group(struct lvn_program *p, const struct lvn_optimizer *o,
                                    const struct lvn_param_group *g, struct matrices *m, int *at)
{
    const struct lvn_params *params = p->graph->params;
    int64_t begin = g->offset, end = g->offset + g->count;
    for (; *at < params->n && params->flat[*at]->offset < end; ++*at) {
        const struct lvn_param *param = params->flat[*at];
        if (!o->matrices.used || !lvn_param_is_block_matrix(param)) continue;
        if (begin < param->offset) LVN_TRY(append_update(p, o, g, begin, param->offset - begin));
        LVN_TRY(add_matrix(p, o, g, param, m));
        begin = param->offset + (param->count + LVN_PARAM_ALIGN - 1) / LVN_PARAM_ALIGN * LVN_PARAM_ALIGN;
    }
    return begin < end ? append_update(p, o, g, begin, end - begin) : LVN_OK;
}

/* ARG: the optimizer works on matrices, and the model has none that it can train. */
static enum lvn_status check_matrices(const struct lvn_params *params, const struct lvn_optimizer *o)
{
    bool has = !o->matrices.used;
    for (int i = 0; i < params->n; i++) has |= params->list[i]->trainable && lvn_param_is_block_matrix(params->list[i]);
    LVN_CHECK(has, ARG,
              "optimizer.kind %s trains weight matrices of a model's blocks (its layers), and no such matrix of this "
              "model is "
              "trainable; choose another optimizer.kind",
              o->name);
    return LVN_OK;
}

enum lvn_status lvn_pass_update(struct lvn_program *p, const struct lvn_optimizer *o, bool side_by_side)
{
    const struct lvn_params *params = p->graph->params;
    struct matrices m = {.max = side_by_side ? TOGETHER : 1};
    int at = 0;
    LVN_TRY(check_matrices(params, o));
    LVN_TRY(append_norm(p, o->clip_norm));
    for (int n = 0; n < params->n_groups; n++) LVN_TRY(append_group(p, o, &params->groups[n], &m, &at));
    return append_matrices(p, o, &m);
}
