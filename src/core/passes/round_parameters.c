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

/* Which of these operands of the instruction, a mask of LVN_READS_IN, are parameters that a copy can replace? */
static uint32_t parameters_of(const struct lvn_program *p, const struct lvn_instr *i, uint32_t operands)
{
    uint32_t parameters = 0;
    for (int k = 0; k < LVN_MAX_IN; k++)
        if (is_parameter(p, &i->in[k])) parameters |= LVN_READS_IN(k);
    return i->op->collective || i->when == LVN_AFTER_BACKWARD ? 0 : parameters & operands;
}

/* Divide the parameters that the instructions round into ranges. */
static enum lvn_status find_ranges(struct rounding *r, struct lvn_arena *a, const struct lvn_program *p,
                                   const uint32_t *rounds)
{
    const struct lvn_params *params = p->graph->params;
    const size_t n_params = (size_t)params->n + 1;
    r->rounded = lvn_arena_alloc(a, sizeof *r->rounded * n_params);
    r->ranges = lvn_arena_alloc(a, sizeof *r->ranges * n_params);
    if (!r->rounded || !r->ranges) return LVN_MEMORY;
    memset(r->rounded, 0, sizeof *r->rounded * n_params);
    for (int m = 0; m < p->n_instrs; m++)
        for (int k = 0; k < LVN_MAX_IN; k++)
            if (parameters_of(p, &p->instrs[m], rounds[m]) & LVN_READS_IN(k))
                r->rounded[p->values[p->instrs[m].in[k].value].param->number] = true;
    for (int k = 0; k < params->n; k++) {
        const struct lvn_param *param = params->flat[k];
        if (!r->rounded[param->number]) continue;
        if (!r->n || param->offset - r->ranges[r->n - 1].end > NEAR)
            r->ranges[r->n++] = (struct range){.begin = param->offset};
        r->ranges[r->n - 1].end = param->offset + param->count;
    }
    return LVN_OK;
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

enum lvn_status lvn_program_rounded_bytes(const struct lvn_program *p, const uint32_t *rounds, int64_t *bytes)
{
    LVN_LOCAL_ARENA(a);
    struct rounding r = {0};
    *bytes = 0;
    if (p->weights != LVN_F32) return LVN_OK;
    LVN_TRY(find_ranges(&r, &a, p, rounds));
    for (int k = 0; k < r.n; k++) *bytes += lvn_dtype_bytes(LVN_BF16) * (r.ranges[k].end - r.ranges[k].begin);
    return LVN_OK;
}

enum lvn_status lvn_pass_round_parameters(struct lvn_program *p, const struct lvn_device *device)
{
    const int n = p->n_instrs;
    int64_t scratch;
    if (p->weights != LVN_F32 || !lvn_device_has_memory(device)) return LVN_OK;
    struct lvn_instr *old = lvn_arena_alloc(&p->arena, sizeof *old * (size_t)(n + 1));
    uint32_t *rounds = lvn_arena_alloc(&p->arena, sizeof *rounds * (size_t)(n + 1));
    struct rounding r = {.p = p};
    if (!old || !rounds) return LVN_MEMORY;
    memcpy(old, p->instrs, sizeof *old * (size_t)n);
    for (int m = 0; m < n; m++) {
        struct lvn_instr i = old[m];
        if (parameters_of(p, &i, UINT32_MAX)) LVN_TRY(lvn_device_choose(device, &i, &scratch));
        rounds[m] = parameters_of(p, &i, i.rounds);
    }
    LVN_TRY(find_ranges(&r, &p->arena, p, rounds));
    if (!r.n) return LVN_OK;
    p->n_instrs = 0;
    p->rounds_once = true;
    for (int k = 0; k < r.n; k++) LVN_TRY(add_copy(p, &r.ranges[k]));
    for (int m = 0; m < n; m++) {
        for (int k = 0; k < LVN_MAX_IN; k++)
            if (rounds[m] & LVN_READS_IN(k)) read_copy(&r, &old[m].in[k]);
        struct lvn_instr *i = lvn_program_add_instr(p, old[m].id, old[m].phase);
        if (!i) return LVN_MEMORY;
        *i = old[m];
    }
    return LVN_OK;
}
