/* round_parameters.c - the pass that rounds parameters to bf16 once per step, where matrix multiplications would round
 * them each time they read them (lvn_instr.rounds), in forward and backward of every micro-batch.
 *
 * The first micro-batch begins with copies of all these parameters, in bf16, which later instructions of the step read:
 * the same bits, with 6 bytes of memory traffic for each parameter and step, instead of 12 and more. The copies take 2
 * bytes for each parameter; the engine plans without them if memory is short (lvn_plan_options.round_once). Each
 * instruction that would round a parameter reads the copy; others read the parameter itself. Whole parameters only:
 * shards are rounded when they are gathered, if all their readers would round them (data_parallel_parameters.c). */

#include "passes/device_query.h"
#include "passes/pass.h"

/* Parameters that are this close to each other, in elements, are copied together with what is between them. */
enum { NEAR = 1 << 16 };

/* Consecutive parameters, and their copy. */
struct range {
    int64_t begin, end; /* elements of the flat parameters */
    int value;          /* the copy */
};

struct rounding {
    struct lvn_program *p;
    bool *rounded; /* lvn_param.number -> it is rounded */
    struct range *ranges;
    int n;
};

static bool is_parameter(const struct lvn_program *p, const struct lvn_operand *o)
{
    return o->value >= 0 && p->values[o->value].buffer == LVN_BUFFER_PARAM && p->values[o->value].param;
}

/* The operands of the instruction that are parameters and that it rounds; a mask of LVN_READS_IN. */
static enum lvn_status rounded_operands(const struct lvn_program *p, const struct lvn_device *device,
                                        const struct lvn_instr *of, uint32_t *mask)
{
    struct lvn_instr i = *of;
    uint32_t parameters = 0;
    int64_t scratch;
    *mask = 0;
    for (int k = 0; k < LVN_MAX_IN; k++)
        if (is_parameter(p, &i.in[k])) parameters |= LVN_READS_IN(k);
    if (!parameters || i.op->collective || i.when == LVN_AFTER_BACKWARD) return LVN_OK;
    LVN_TRY(lvn_device_choose(device, &i, &scratch));
    *mask = parameters & i.rounds;
    return LVN_OK;
}

/* Divide the rounded parameters into ranges. */
static void find_ranges(struct rounding *r)
{
    const struct lvn_params *params = r->p->graph->params;
    for (int k = 0; k < params->n; k++) {
        const struct lvn_param *param = params->flat[k];
        if (!r->rounded[param->number]) continue;
        if (!r->n || param->offset - r->ranges[r->n - 1].end > NEAR)
            r->ranges[r->n++] = (struct range){.begin = param->offset};
        r->ranges[r->n - 1].end = param->offset + param->count;
    }
}

/* Append the copy of a range, which lives to the end of the step. */
static enum lvn_status add_copy(struct lvn_program *p, struct range *range)
{
    const int64_t n = range->end - range->begin;
    const struct lvn_operand from = lvn_program_add_range(p, "parameters", LVN_BUFFER_PARAM, LVN_F32, range->begin, n);
    range->value = lvn_program_add_value(p, "rounded parameters", LVN_BUFFER_ARENA, LVN_BF16, n);
    struct lvn_instr *i = lvn_program_add_instr(p, LVN_OP_accumulate, LVN_FORWARD);
    if (from.value < 0 || range->value < 0 || !i) return LVN_MEMORY;
    p->values[range->value].keep = true;
    i->name = "rounded parameters";
    i->when = LVN_FIRST_MICRO_BATCH;
    i->attr.accumulate.copy = true;
    i->in[0] = from;
    i->out[0] = (struct lvn_operand){.value = range->value, .desc = lvn_desc_make(LVN_BF16, 1, &n)};
    return LVN_OK;
}

/* Read a parameter from its copy. */
static void read_copy(const struct rounding *r, struct lvn_operand *o)
{
    const struct lvn_param *param = r->p->values[o->value].param;
    const struct range *range = r->ranges;
    while (range->end <= param->offset) range++;
    o->value = range->value;
    o->desc.dtype = LVN_BF16;
    o->desc.offset += param->offset - range->begin;
}

enum lvn_status lvn_pass_round_parameters(struct lvn_program *p, const struct lvn_device *device)
{
    const int n = p->n_instrs;
    const size_t n_params = (size_t)p->graph->params->n;
    if (p->weights != LVN_F32 || !lvn_device_has_memory(device)) return LVN_OK;
    struct lvn_instr *old = lvn_arena_alloc(&p->arena, sizeof *old * (size_t)(n + 1));
    uint32_t *masks = lvn_arena_alloc(&p->arena, sizeof *masks * (size_t)(n + 1));
    struct rounding r = {.p = p,
                         .rounded = lvn_arena_alloc(&p->arena, sizeof *r.rounded * (n_params + 1)),
                         .ranges = lvn_arena_alloc(&p->arena, sizeof *r.ranges * (n_params + 1))};
    if (!old || !masks || !r.rounded || !r.ranges) return LVN_MEMORY;
    memset(r.rounded, 0, sizeof *r.rounded * n_params);
    memcpy(old, p->instrs, sizeof *old * (size_t)n);
    for (int m = 0; m < n; m++) {
        LVN_TRY(rounded_operands(p, device, &old[m], &masks[m]));
        for (int k = 0; k < LVN_MAX_IN; k++)
            if (masks[m] & LVN_READS_IN(k)) r.rounded[p->values[old[m].in[k].value].param->number] = true;
    }
    find_ranges(&r);
    if (!r.n) return LVN_OK;
    p->n_instrs = 0;
    p->rounds_once = true;
    for (int k = 0; k < r.n; k++) LVN_TRY(add_copy(p, &r.ranges[k]));
    for (int m = 0; m < n; m++) {
        for (int k = 0; k < LVN_MAX_IN; k++)
            if (masks[m] & LVN_READS_IN(k)) read_copy(&r, &old[m].in[k]);
        struct lvn_instr *i = lvn_program_add_instr(p, old[m].id, old[m].phase);
        if (!i) return LVN_MEMORY;
        *i = old[m];
    }
    return LVN_OK;
}
