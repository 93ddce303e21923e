/* data_parallel_parameters.c - fsdp: the sharded parameters of a block are gathered before use; see data_parallel.c.
 *
 * In mixed precision a parameter that all readers round to bf16 is rounded before it is gathered: same values, half the
 * bytes. Gathered parameters are in the order of their block; those with an fp32 reader are in fp32. Which
 * multiplications round depends on the device and on the number of rows; the engine ensures that all programs that
 * gather together agree (lvn_sharding.round). */

#include "passes/data_parallel.h"
#include "passes/device_query.h"

static const char name[] = "parameters of a block"; /* name of the instructions */

/* The parameters of a block, all trained or all frozen, from a gather to the last instruction that reads them. */
struct gather {
    int block; /* lvn_param.block */
    bool frozen;
    int first, last;                  /* instructions that read them; first < 0: none */
    struct lvn_operand parameters;    /* all of them; U8 if some are rounded */
    const struct lvn_extents *ranges; /* for lvn_gathered_offset(); NULL: none are rounded */
    struct collective collective;
};

struct gather_plan {
    struct dp_pass *pass;
    int n_blocks;         /* lvn_params.n_blocks */
    int backward;         /* the first instruction of backward */
    int instruction;      /* index of the visited instruction */
    bool *rounded;        /* parameter's number -> all its readers round it to bf16 */
    struct gather *uses;  /* [2 phases][2 kinds][n_blocks] */
    struct gather **list; /* in the order of their first use */
    int n;
    int lookahead;   /* number of gathers that are started before they are needed */
    int last_needed; /* index in the list of the last gather that was needed */
    int started;     /* number of entries of the list that have been started */
    /* Index of the first instruction of the last block's backward; gathers for later instructions start only after it.
     */
    int last_block_backward;
};

static const struct lvn_param_block *range_of(const struct gather_plan *plan, const struct gather *gather)
{
    const struct lvn_params *params = plan->pass->p->graph->params;
    return &(gather->frozen ? params->frozen : params->blocks)[lvn_block_index(gather->block)];
}

static struct gather *use_at(const struct gather_plan *plan, bool backward, bool frozen, int block)
{
    return &plan->uses[(2 * backward + frozen) * plan->n_blocks + lvn_block_index(block)];
}

/* The use in which the current instruction reads a parameter. */
static struct gather *use_of(const struct gather_plan *plan, const struct lvn_param *param)
{
    struct gather *forward = use_at(plan, false, !param->trainable, param->block);
    if (plan->instruction < plan->backward || plan->pass->s->keep) return forward;
    return plan->instruction <= forward->last ? forward : use_at(plan, true, !param->trainable, param->block);
}

static const struct lvn_param *parameter(const struct gather_plan *plan, const struct lvn_operand *o)
{
    const struct lvn_value *v = &plan->pass->p->values[o->value];
    return v->buffer == LVN_BUFFER_PARAM ? v->param : NULL;
}

static void note_use(struct lvn_operand *o, bool written, void *argument)
{
    struct gather_plan *plan = argument;
    const struct lvn_param *param = parameter(plan, o);
    (void)written;
    if (!param) return;
    struct gather *gather = use_of(plan, param);
    gather->block = param->block;
    gather->frozen = !param->trainable;
    if (gather->first < 0) gather->first = plan->instruction;
    gather->last = plan->instruction;
}

/* Gather the last block, and the parameters used after it (the head, or everything outside of blocks if the head reads
 * some of it), once for forward and backward, since nothing else is used in between. */
static void join_last(struct gather_plan *plan)
{
    int last = -1; /* the instruction at which forward of the last block begins */
    for (int k = 2 * lvn_block_index(0); k < 2 * plan->n_blocks; k++) {
        const struct gather *gather = use_at(plan, false, k % 2, k / 2 + LVN_BLOCK_OUTSIDE);
        if (gather->first > last) last = gather->first;
    }
    for (int k = 0; k < 2 * plan->n_blocks; k++) {
        struct gather *forward = use_at(plan, false, k % 2, k / 2 + LVN_BLOCK_OUTSIDE);
        struct gather *backward = use_at(plan, true, k % 2, k / 2 + LVN_BLOCK_OUTSIDE);
        if (forward->first < 0 || backward->first < 0 || forward->last < last) continue;
        if (plan->last_block_backward < backward->first) plan->last_block_backward = backward->first;
        forward->last = backward->last;
        backward->first = -1;
    }
}

static int by_first(const void *a, const void *b)
{
    const struct gather *x = *(struct gather *const *)a, *y = *(struct gather *const *)b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : x < y ? -1 : 1;
}

/* Find the instructions that read each block's parameters. */
static enum lvn_status find_uses(struct gather_plan *plan, struct lvn_instr *old, int n)
{
    const size_t max = 4 * (size_t)plan->n_blocks;
    plan->uses = lvn_arena_alloc(&plan->pass->p->arena, sizeof *plan->uses * max);
    plan->list = lvn_arena_alloc(&plan->pass->p->arena, sizeof(struct gather *) * max);
    if (!plan->uses || !plan->list) return LVN_MEMORY;
    for (size_t k = 0; k < max; k++) plan->uses[k] = (struct gather){.first = -1, .last = -1};
    for (plan->instruction = 0; plan->instruction < n; plan->instruction++)
        lvn_instr_operands(&old[plan->instruction], note_use, plan);
    plan->last_block_backward = plan->backward;
    join_last(plan);
    for (size_t k = 0; k < max; k++)
        if (plan->uses[k].first >= 0) plan->list[plan->n++] = &plan->uses[k];
    qsort(plan->list, (size_t)plan->n, sizeof(struct gather *), by_first);
    return LVN_OK;
}

/* Find the parameters that all their readers round to bf16. */
static enum lvn_status find_rounded(struct gather_plan *plan, const struct lvn_device *device,
                                    const struct lvn_instr *old, int n)
{
    const struct lvn_program *p = plan->pass->p;
    const int n_params = p->graph->params->n;
    plan->rounded = lvn_arena_alloc(&plan->pass->p->arena, sizeof *plan->rounded * (size_t)(n_params + 1));
    if (!plan->rounded) return LVN_MEMORY;
    const bool possible = plan->pass->s->round && p->weights == LVN_F32;
    for (int k = 0; k < n_params; k++) plan->rounded[k] = possible;
    for (int m = 0; possible && m < n; m++) {
        struct lvn_instr i = old[m];
        bool is_reader = false;
        int64_t scratch;
        for (int k = 0; k < LVN_MAX_IN; k++) is_reader |= i.in[k].value >= 0 && parameter(plan, &i.in[k]);
        if (is_reader) LVN_TRY(lvn_device_choose(device, &i, &scratch));
        for (int k = 0; is_reader && k < LVN_MAX_IN; k++) {
            const struct lvn_param *param = i.in[k].value >= 0 ? parameter(plan, &i.in[k]) : NULL;
            if (param && !(i.rounds & LVN_READS_IN(k))) plan->rounded[param->number] = false;
        }
    }
    return LVN_OK;
}

/* Divide the parameters of each block that has rounded ones into ranges for lvn_gathered_offset(). */
static enum lvn_status find_ranges(struct gather_plan *plan)
{
    const struct lvn_params *params = plan->pass->p->graph->params;
    const size_t n = (size_t)params->n, n_blocks = 2 * (size_t)plan->n_blocks;
    struct lvn_extents *ranges = lvn_arena_alloc(&plan->pass->p->arena, sizeof *ranges * n_blocks);
    int64_t *start = lvn_arena_alloc(&plan->pass->p->arena, sizeof *start * (n + 2 * n_blocks));
    if (!ranges || !start) return LVN_MEMORY;
    for (size_t k = 0; k < n_blocks; k++) ranges[k] = (struct lvn_extents){0};
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *param = params->flat[i];
        const struct lvn_param_block *block = lvn_params_block_of(params, param);
        struct lvn_extents *r = &ranges[2 * lvn_block_index(param->block) + !param->trainable];
        if (!r->n) {
            *r = (struct lvn_extents){1, start};
            *start++ = block->offset;
            *start++ = block->offset + block->count;
        }
        if (plan->rounded[param->number] == (r->n % 2 == 0)) continue; /* as the parameter before it */
        start[-1] = param->offset;
        *start++ = block->offset + block->count;
        r->n++;
    }
    for (int k = 0; k < plan->n; k++) {
        const struct lvn_extents *r = &ranges[2 * lvn_block_index(plan->list[k]->block) + plan->list[k]->frozen];
        if (r->n > 1) plan->list[k]->ranges = r;
    }
    return LVN_OK;
}

/* Elements [first, first + count) of the flat parameters, all of one type, as a view of the gathered parameters. */
static struct lvn_operand view(const struct gather_plan *plan, const struct gather *gather, int64_t first,
                               int64_t count, enum lvn_dtype type)
{
    if (!gather->ranges) return lvn_dp_view(range_of(plan, gather), gather->parameters, first, count);
    struct lvn_operand o = {.value = gather->parameters.value, .desc = lvn_desc_make(type, 1, &count)};
    o.desc.offset = lvn_gathered_offset(gather->ranges, first) / lvn_dtype_bytes(type);
    return o;
}

/* Copy a part of this rank's shard to its place in the block's parameters. */
static struct lvn_operand copy_part(struct gather_plan *plan, struct gather *gather, int64_t first, int64_t count,
                                    enum lvn_dtype type)
{
    struct dp_pass *pass = plan->pass;
    const int64_t place = lvn_dp_part_place(pass, range_of(plan, gather), first);
    const struct lvn_operand from = lvn_dp_range(pass, "parameters", LVN_BUFFER_PARAM, pass->p->weights, place, count);
    struct lvn_instr *copy = lvn_dp_append(pass, LVN_OP_accumulate, LVN_EVERY_MICRO_BATCH, name);
    copy->attr.accumulate.copy = true;
    copy->in[0] = from;
    return copy->out[0] = view(plan, gather, first, count, type);
}

/* Copy this rank's shard, and return it as the operand of the gather. */
static struct lvn_operand copy_shard(struct gather_plan *plan, struct gather *gather)
{
    const struct lvn_shard mine = lvn_dp_part(plan->pass, range_of(plan, gather));
    const struct lvn_extents *r = gather->ranges;
    const int64_t end = mine.first + mine.count;
    if (!mine.count) return LVN_NO_OPERAND;
    if (!r) return copy_part(plan, gather, mine.first, mine.count, plan->pass->p->weights);
    for (int k = 0; k < r->n; k++) {
        const int64_t from = r->start[k] > mine.first ? r->start[k] : mine.first;
        const int64_t to = r->start[k + 1] < end ? r->start[k + 1] : end;
        if (from < to) copy_part(plan, gather, from, to - from, lvn_gathered_dtype(k));
    }
    return view(plan, gather, mine.first, lvn_gathered_offset(r, end) - lvn_gathered_offset(r, mine.first), LVN_U8);
}

/* Copy this rank's shard, and start to gather the other shards. */
static void start_gather(struct gather_plan *plan, struct gather *gather)
{
    struct dp_pass *pass = plan->pass;
    struct lvn_program *p = pass->p;
    const struct lvn_param_block *range = range_of(plan, gather);
    char text[LVN_BLOCK_TEXT];
    const char *value = lvn_arena_printf(&p->arena, "parameters of %s", lvn_block_text(gather->block, text));
    if (!value) pass->failed = true;
    const int64_t count =
        gather->ranges ? lvn_gathered_offset(gather->ranges, range->offset + range->count) : range->count;
    gather->parameters = lvn_dp_range(pass, value, LVN_BUFFER_ARENA, gather->ranges ? LVN_U8 : p->weights, 0, count);
    const struct lvn_operand shard = copy_shard(plan, gather);
    gather->collective = lvn_dp_start(pass, LVN_OP_all_gather, LVN_EVERY_MICRO_BATCH, shard, gather->parameters, name);
    union lvn_attr *attr = &lvn_dp_latest(pass)->attr;
    attr->all_gather.block = gather->block;
    attr->all_gather.frozen = gather->frozen;
    attr->all_gather.ranges = gather->ranges;
}

/* Start the gathers that are needed now or next. */
static void start_due(struct gather_plan *plan)
{
    for (; plan->started < plan->n && !plan->pass->failed; plan->started++) {
        struct gather *gather = plan->list[plan->started];
        const bool needed = plan->started <= plan->last_needed,
                   early = gather->first >= plan->last_block_backward && plan->instruction < plan->last_block_backward;
        /* Gathers of backward start only with the last block's backward. */
        if (!needed && (early || plan->started > plan->last_needed + plan->lookahead)) return;
        start_gather(plan, gather);
    }
}

/* Replace an operand that is a parameter by a view of its block's gathered parameters. */
static void to_view(struct lvn_operand *o, bool written, void *argument)
{
    const struct gather_plan *plan = argument;
    const struct lvn_param *param = parameter(plan, o);
    (void)written;
    if (!param) return;
    const struct gather *gather = use_of(plan, param);
    const enum lvn_dtype type = plan->rounded[param->number] ? LVN_BF16 : o->desc.dtype;
    const struct lvn_operand all = view(plan, gather, param->offset, param->count, type);
    o->value = all.value;
    o->desc.dtype = type;
    o->desc.offset += all.desc.offset;
}

enum lvn_status lvn_dp_gather_parameters(struct dp_pass *pass, const struct lvn_device *device)
{
    struct lvn_program *p = pass->p;
    const struct lvn_params *params = p->graph->params;
    const int n = p->n_instrs;
    /* One block ahead: a block has two gathers if only a part of it is trained. */
    const int lookahead = params->trainable_count && params->trainable_count < params->flat_count ? 2 : 1;
    struct gather_plan plan = {
        .pass = pass, .n_blocks = params->n_blocks, .backward = lvn_program_first_backward(p), .lookahead = lookahead};
    struct lvn_instr *old = lvn_arena_alloc(&p->arena, sizeof *old * (size_t)(n + 1));
    if (!old) return LVN_MEMORY;
    memcpy(old, p->instrs, sizeof *old * (size_t)n);
    LVN_TRY(find_uses(&plan, old, n));
    LVN_TRY(find_rounded(&plan, device, old, n));
    LVN_TRY(find_ranges(&plan));
    p->n_instrs = 0;
    int next = 0; /* index of the first gather that has not been waited for */
    for (plan.instruction = 0; plan.instruction < n && !pass->failed; plan.instruction++) {
        for (; next < plan.n && plan.list[next]->first == plan.instruction; next++) {
            plan.last_needed = next;
            start_due(&plan);
            lvn_dp_wait(pass, &plan.list[next]->collective, LVN_EVERY_MICRO_BATCH, name);
        }
        if (plan.instruction == plan.last_block_backward) start_due(&plan);
        lvn_instr_operands(&old[plan.instruction], to_view, &plan);
        const struct lvn_instr *i = &old[plan.instruction];
        *lvn_dp_append(pass, i->id, i->when, i->name) = *i;
    }
    return pass->failed ? LVN_MEMORY : LVN_OK;
}
