/* program_build.c - builds the program of a graph: its forward instructions, in node order; see program.h.
 *
 * lvn_program_new() calls it first. All passes use the functions that append values and instructions. */

#include "base/list.h"
#include "passes/program.h"

int lvn_program_add_value(struct lvn_program *p, const char *name, enum lvn_buffer buffer, enum lvn_dtype dtype,
                          int64_t count)
{
    if (!lvn_list_reserve(&p->values, &p->values_capacity, p->n_values + 1, sizeof *p->values)) return -1;
    p->values[p->n_values] = (struct lvn_value){.name = name,
                                                .buffer = buffer,
                                                .dtype = dtype,
                                                .bytes = count * lvn_dtype_bytes(dtype),
                                                .first = -1,
                                                .last = -1};
    return p->n_values++;
}

struct lvn_operand lvn_program_add_range(struct lvn_program *p, const char *name, enum lvn_buffer buffer,
                                         enum lvn_dtype dtype, int64_t offset, int64_t count)
{
    int v = lvn_program_add_value(p, name, buffer, dtype, count);
    if (v < 0) return LVN_NO_OPERAND;
    p->values[v].offset = offset * lvn_dtype_bytes(dtype);
    return (struct lvn_operand){.value = v, .desc = lvn_desc_make(dtype, 1, &count)};
}

struct lvn_instr *lvn_program_add_instr(struct lvn_program *p, enum lvn_op_id id, enum lvn_phase phase)
{
    if (!lvn_list_reserve(&p->instrs, &p->instrs_capacity, p->n_instrs + 1, sizeof *p->instrs)) return NULL;
    struct lvn_instr *i = &p->instrs[p->n_instrs++];
    *i = (struct lvn_instr){
        .phase = phase, .id = id, .op = lvn_op(id, p->real), .block = LVN_BLOCK_OUTSIDE, .scratch = LVN_NO_OPERAND};
    for (int k = 0; k < LVN_MAX_IN; k++) i->in[k] = i->din[k] = LVN_NO_OPERAND;
    for (int k = 0; k < LVN_MAX_OUT; k++) i->out[k] = i->dout[k] = LVN_NO_OPERAND;
    return i;
}

void lvn_instr_operands(struct lvn_instr *i, void (*visit)(struct lvn_operand *o, bool written, void *argument),
                        void *argument)
{
    bool outputs_written = i->phase != LVN_BACKWARD || i->op->forward_in_backward;
    for (int k = 0; k < LVN_MAX_IN; k++) {
        if (i->in[k].value >= 0) visit(&i->in[k], false, argument);
        if (i->din[k].value >= 0) visit(&i->din[k], true, argument);
    }
    for (int k = 0; k < LVN_MAX_OUT; k++) {
        if (i->out[k].value >= 0) visit(&i->out[k], outputs_written, argument);
        if (i->dout[k].value >= 0) visit(&i->dout[k], false, argument);
    }
    if (i->scratch.value >= 0) visit(&i->scratch, true, argument);
}

/* The value that holds a tensor, added if it is new; -1: out of memory. */
static int value_of(struct lvn_program *p, const struct levin_tensor *t)
{
    if (t->kind == LVN_TENSOR_VIEW) t = t->base;
    int v = p->value_of_tensor[t->id];
    if (v >= 0) return v;
    static const enum lvn_buffer buffer[] = {[LVN_TENSOR_INPUT] = LVN_BUFFER_INPUT,
                                             [LVN_TENSOR_PARAM] = LVN_BUFFER_PARAM,
                                             [LVN_TENSOR_OUTPUT] = LVN_BUFFER_ARENA};
    enum lvn_buffer where = buffer[t->kind];
    int cache = t->kind == LVN_TENSOR_OUTPUT ? t->node->cache : -1;
    if (cache >= 0) where = LVN_BUFFER_CACHE;
    /* Tensors of the same parameter share one value. */
    const bool packed = t->kind == LVN_TENSOR_PARAM && lvn_param_is_packed(t->param);
    int *shared = where == LVN_BUFFER_PARAM ? &p->value_of_param[t->param->number] : NULL;
    if (shared && *shared >= 0) return p->value_of_tensor[t->id] = *shared;
    if (packed) where = LVN_BUFFER_PACKED;
    v = lvn_program_add_value(p, t->name, where, packed ? t->param->packed : t->desc.dtype, lvn_desc_count(&t->desc));
    if (v < 0) return v;
    if (where == LVN_BUFFER_INPUT) p->values[v].slot = t->input;
    if (where == LVN_BUFFER_CACHE) p->values[v].slot = cache;
    if (shared) {
        *shared = v;
        p->values[v].param = t->param;
        p->values[v].offset = packed ? t->param->packed_offset : t->param->offset * lvn_dtype_bytes(t->desc.dtype);
        if (packed) p->values[v].bytes = t->param->packed_bytes;
    }
    return p->value_of_tensor[t->id] = v;
}

static enum lvn_status operand_of(struct lvn_program *p, const struct levin_tensor *t, struct lvn_operand *out)
{
    *out = LVN_NO_OPERAND;
    if (!t) return LVN_OK;
    int v = value_of(p, t);
    if (v < 0) return LVN_MEMORY;
    *out = (struct lvn_operand){.value = v, .desc = t->desc};
    if (lvn_dtype_is_packed(p->values[v].dtype)) out->desc.dtype = p->values[v].dtype;
    return LVN_OK;
}

static enum lvn_status append_forward(struct lvn_program *p, const struct lvn_node *node)
{
    struct lvn_instr *i = lvn_program_add_instr(p, node->op, LVN_FORWARD);
    if (!i) return LVN_MEMORY;
    i->attr = node->attr;
    i->name = node->name;
    i->hash = node->hash;
    i->block = node->block;
    for (int k = 0; k < i->op->n_in; k++) LVN_TRY(operand_of(p, node->in[k], &i->in[k]));
    for (int k = 0; k < i->op->n_out + i->op->n_saved; k++) LVN_TRY(operand_of(p, node->out[k], &i->out[k]));
    return LVN_OK;
}

static enum lvn_status build(struct lvn_program *p, struct levin_tensor *const *outputs, int n_outputs)
{
    struct levin_graph *g = p->graph;
    LVN_TRY(lvn_graph_status(g));
    p->value_of_tensor = lvn_arena_alloc(&p->arena, sizeof *p->value_of_tensor * (size_t)(g->n_tensors + 1));
    p->outputs = lvn_arena_alloc(&p->arena, sizeof *p->outputs * (size_t)(n_outputs + 1));
    p->value_of_param = lvn_arena_alloc(&p->arena, sizeof *p->value_of_param * (size_t)(g->params->n + 1));
    if (!p->value_of_tensor || !p->value_of_param || !p->outputs) return LVN_MEMORY;
    for (int i = 0; i < g->params->n; i++) p->value_of_param[i] = -1;
    for (int i = 0; i < g->n_tensors; i++) p->value_of_tensor[i] = -1;
    for (int i = 0; i < g->n_nodes; i++) LVN_TRY(append_forward(p, g->nodes[i]));
    for (int i = 0; i < n_outputs; i++) {
        struct lvn_operand o;
        LVN_CHECK(outputs[i], ARG, "output %d of the program is NULL", i);
        LVN_TRY(operand_of(p, outputs[i], &o));
        p->values[o.value].keep = true;
        p->outputs[p->n_outputs++] = outputs[i];
    }
    return LVN_OK;
}

enum lvn_status lvn_program_build(struct lvn_program **out, struct levin_graph *g, struct levin_tensor *const *outputs,
                                  int n_outputs)
{
    *out = NULL;
    struct lvn_program *p = lvn_calloc(1, sizeof *p);
    if (!p) return LVN_MEMORY;
    lvn_arena_init(&p->arena);
    p->graph = g;
    p->real = p->weights = p->gradients = g->real;
    enum lvn_status status = build(p, outputs, n_outputs);
    if (status == LVN_OK)
        *out = p;
    else
        lvn_program_free(p);
    return status;
}

void lvn_program_free(struct lvn_program *p)
{
    if (!p) return;
    free(p->values);
    free(p->instrs);
    lvn_arena_release(&p->arena);
    free(p);
}
