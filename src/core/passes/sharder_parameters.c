/* sharder_parameters.c - fsdp: the sharded parameters of a block are gathered before use; see sharder.c.
 *
 * In mixed precision a parameter that all readers round to bf16 is rounded before it is gathered: same values, half the
 * bytes. Gathered parameters are in the order of their block; those with an fp32 reader are in fp32. Which
 * multiplications round depends on the device and on the number of rows; the engine ensures that all programs that
 * gather together agree (lvn_sharding.round). */
#include <stdlib.h>
#include <string.h>

#include "passes/device_query.h"
#include "passes/sharder.h"

static const char name[] = "parameters of a block"; /* name of the instructions */

/* The parameters of a block, all trained or all frozen, from a gather to the last instruction that reads them. */
struct gathered {
    int block; /* lvn_param.block */
    bool frozen;
    int first, last;                  /* instructions that read them; first < 0: none */
    struct lvn_operand parameters;    /* all of them; U8 if some are rounded */
    const struct lvn_extents *ranges; /* for lvn_gathered_offset(); NULL: none are rounded */
    struct collective collective;
};

struct gathers {
    struct sharder *sharder;
    int n_blocks;           /* lvn_params.n_blocks */
    int backward;           /* the first instruction of backward */
    int current;            /* index of the visited instruction */
    bool *rounded;          /* parameter's number -> all its readers round it to bf16 */
    struct gathered *uses;  /* [2 phases][2 kinds][n_blocks] */
    struct gathered **list; /* in the order of their first use */
    int n;
    int lookahead;      /* number of gathers that are started before they are needed */
    int current_gather; /* index in the list of the last gather that was needed */
    int started;        /* number of entries of the list that have been started */
    /* Index of the first instruction of the last block's backward; gathers for later instructions start only after it.
     */
    int last_block_backward;
};

static const struct lvn_param_block *range_of(const struct gathers *gathers, const struct gathered *gathered)
{
    const struct lvn_params *params = gathers->sharder->p->graph->params;
    return &(gathered->frozen ? params->frozen : params->blocks)[lvn_block_index(gathered->block)];
}

static struct gathered *use_at(const struct gathers *gathers, bool backward, bool frozen, int block)
{
    return &gathers->uses[(2 * backward + frozen) * gathers->n_blocks + lvn_block_index(block)];
}

/* The use in which the current instruction reads a parameter. */
static struct gathered *use_of(const struct gathers *gathers, const struct lvn_param *param)
{
    struct gathered *forward = use_at(gathers, false, !param->trainable, param->block);
    if (gathers->current < gathers->backward || gathers->sharder->s->keep) return forward;
    return gathers->current <= forward->last ? forward : use_at(gathers, true, !param->trainable, param->block);
}

static const struct lvn_param *parameter(const struct gathers *gathers, const struct lvn_operand *o)
{
    const struct lvn_value *v = &gathers->sharder->p->values[o->value];
    return v->buffer == LVN_BUFFER_PARAM ? v->param : NULL;
}

static void note_use(struct lvn_operand *o, bool written, void *argument)
{
    struct gathers *gathers = argument;
    const struct lvn_param *param = parameter(gathers, o);
    (void)written;
    if (!param) return;
    struct gathered *gathered = use_of(gathers, param);
    gathered->block = param->block;
    gathered->frozen = !param->trainable;
    if (gathered->first < 0) gathered->first = gathers->current;
    gathered->last = gathers->current;
}

/* Gather the last block, and the parameters used after it (the head, or everything outside of blocks if the head reads
 * some of it), once for forward and backward, since nothing else is used in between. */
static void join_last(struct gathers *gathers)
{
    int last = -1; /* the instruction at which forward of the last block begins */
    for (int k = 2 * lvn_block_index(0); k < 2 * gathers->n_blocks; k++) {
        const struct gathered *gathered = use_at(gathers, false, k % 2, k / 2 + LVN_BLOCK_OUTSIDE);
        if (gathered->first > last) last = gathered->first;
    }
    for (int k = 0; k < 2 * gathers->n_blocks; k++) {
        struct gathered *forward = use_at(gathers, false, k % 2, k / 2 + LVN_BLOCK_OUTSIDE);
        struct gathered *backward = use_at(gathers, true, k % 2, k / 2 + LVN_BLOCK_OUTSIDE);
        if (forward->first < 0 || backward->first < 0 || forward->last < last) continue;
        if (gathers->last_block_backward < backward->first) gathers->last_block_backward = backward->first;
        forward->last = backward->last;
        backward->first = -1;
    }
}

static int by_first(const void *a, const void *b)
{
    const struct gathered *x = *(struct gathered *const *)a, *y = *(struct gathered *const *)b;
    return x->first != y->first ? (x->first < y->first ? -1 : 1) : x < y ? -1 : 1;
}

/* Find the instructions that read each block's parameters. */
static enum lvn_status find_uses(struct gathers *gathers, struct lvn_instr *old, int n)
{
    const size_t max = 4 * (size_t)gathers->n_blocks;
    gathers->uses = lvn_arena_alloc(&gathers->sharder->p->arena, sizeof *gathers->uses * max);
    gathers->list = lvn_arena_alloc(&gathers->sharder->p->arena, sizeof(struct gathered *) * max);
    if (!gathers->uses || !gathers->list) return LVN_MEMORY;
    for (size_t k = 0; k < max; k++) gathers->uses[k] = (struct gathered){.first = -1, .last = -1};
    for (gathers->current = 0; gathers->current < n; gathers->current++)
        lvn_instr_operands(&old[gathers->current], note_use, gathers);
    gathers->last_block_backward = gathers->backward;
    join_last(gathers);
    for (size_t k = 0; k < max; k++)
        if (gathers->uses[k].first >= 0) gathers->list[gathers->n++] = &gathers->uses[k];
    qsort(gathers->list, (size_t)gathers->n, sizeof(struct gathered *), by_first);
    return LVN_OK;
}

/* Find the parameters that all their readers round to bf16. */
static enum lvn_status find_rounded(struct gathers *gathers, const struct lvn_device *device,
                                    const struct lvn_instr *old, int n)
{
    const struct lvn_program *p = gathers->sharder->p;
    const int n_params = p->graph->params->n;
    gathers->rounded = lvn_arena_alloc(&gathers->sharder->p->arena, sizeof *gathers->rounded * (size_t)(n_params + 1));
    if (!gathers->rounded) return LVN_MEMORY;
    const bool possible = gathers->sharder->s->round && p->weights == LVN_F32;
    for (int k = 0; k < n_params; k++) gathers->rounded[k] = possible;
    for (int m = 0; possible && m < n; m++) {
        struct lvn_instr i = old[m];
        bool is_reader = false;
        int64_t scratch;
        for (int k = 0; k < LVN_MAX_IN; k++) is_reader |= i.in[k].value >= 0 && parameter(gathers, &i.in[k]);
        if (is_reader) LVN_TRY(lvn_device_choose(device, &i, &scratch));
        for (int k = 0; is_reader && k < LVN_MAX_IN; k++) {
            const struct lvn_param *param = i.in[k].value >= 0 ? parameter(gathers, &i.in[k]) : NULL;
            if (param && !(i.rounds & LVN_READS_IN(k))) gathers->rounded[param->number] = false;
        }
    }
    return LVN_OK;
}

/* Divide the parameters of each block that has rounded ones into ranges for lvn_gathered_offset(). */
static enum lvn_status find_ranges(struct gathers *gathers)
{
    const struct lvn_params *params = gathers->sharder->p->graph->params;
    const size_t n = (size_t)params->n, n_blocks = 2 * (size_t)gathers->n_blocks;
    struct lvn_extents *ranges = lvn_arena_alloc(&gathers->sharder->p->arena, sizeof *ranges * n_blocks);
    int64_t *start = lvn_arena_alloc(&gathers->sharder->p->arena, sizeof *start * (n + 2 * n_blocks));
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
        if (gathers->rounded[param->number] == (r->n % 2 == 0)) continue; /* as the parameter before it */
        start[-1] = param->offset;
        *start++ = block->offset + block->count;
        r->n++;
    }
    for (int k = 0; k < gathers->n; k++) {
        const struct lvn_extents *r = &ranges[2 * lvn_block_index(gathers->list[k]->block) + gathers->list[k]->frozen];
        if (r->n > 1) gathers->list[k]->ranges = r;
    }
    return LVN_OK;
}

/* Elements [first, first + count) of the flat parameters, all of one type, as a view of the gathered parameters. */
static struct lvn_operand view(const struct gathers *gathers, const struct gathered *gathered, int64_t first,
                               int64_t count, enum lvn_dtype type)
{
    if (!gathered->ranges) return lvn_sharder_view(range_of(gathers, gathered), gathered->parameters, first, count);
    struct lvn_operand o = {.value = gathered->parameters.value, .desc = lvn_desc_make(type, 1, &count)};
    o.desc.offset = lvn_gathered_offset(gathered->ranges, first) / lvn_dtype_bytes(type);
    return o;
}

/* Copy a part of this rank's shard to its place in the block's parameters. */
static struct lvn_operand copy_part(struct gathers *gathers, struct gathered *gathered, int64_t first, int64_t count,
                                    enum lvn_dtype type)
{
    struct sharder *sharder = gathers->sharder;
    const int64_t place = lvn_sharder_part_place(sharder, range_of(gathers, gathered), first);
    const struct lvn_operand from =
        lvn_sharder_range(sharder, "parameters", LVN_BUFFER_PARAM, sharder->p->weights, place, count);
    struct lvn_instr *copy = lvn_sharder_append(sharder, LVN_OP_accumulate, LVN_EVERY_MICRO_BATCH, name);
    copy->attr.accumulate.copy = true;
    copy->in[0] = from;
    return copy->out[0] = view(gathers, gathered, first, count, type);
}

/* Copy this rank's shard, and return it as the operand of the gather. */
static struct lvn_operand copy_shard(struct gathers *gathers, struct gathered *gathered)
{
    const struct lvn_shard mine = lvn_sharder_part(gathers->sharder, range_of(gathers, gathered));
    const struct lvn_extents *r = gathered->ranges;
    const int64_t end = mine.first + mine.count;
    if (!mine.count) return LVN_NO_OPERAND;
    if (!r) return copy_part(gathers, gathered, mine.first, mine.count, gathers->sharder->p->weights);
    for (int k = 0; k < r->n; k++) {
        const int64_t from = r->start[k] > mine.first ? r->start[k] : mine.first;
        const int64_t to = r->start[k + 1] < end ? r->start[k + 1] : end;
        if (from < to) copy_part(gathers, gathered, from, to - from, lvn_gathered_dtype(k));
    }
    return view(gathers, gathered, mine.first, lvn_gathered_offset(r, end) - lvn_gathered_offset(r, mine.first),
                LVN_U8);
}

/* Copy this rank's shard, and start to gather the other shards. */
static void start(struct gathers *gathers, struct gathered *gathered)
{
    struct sharder *sharder = gathers->sharder;
    struct lvn_program *p = sharder->p;
    const struct lvn_param_block *range = range_of(gathers, gathered);
    char text[LVN_BLOCK_TEXT];
    const char *value = lvn_arena_printf(&p->arena, "parameters of %s", lvn_block_text(gathered->block, text));
    if (!value) sharder->failed = true;
    const int64_t count =
        gathered->ranges ? lvn_gathered_offset(gathered->ranges, range->offset + range->count) : range->count;
    gathered->parameters =
        lvn_sharder_range(sharder, value, LVN_BUFFER_ARENA, gathered->ranges ? LVN_U8 : p->weights, 0, count);
    const struct lvn_operand shard = copy_shard(gathers, gathered);
    gathered->collective =
        lvn_sharder_start(sharder, LVN_OP_all_gather, LVN_EVERY_MICRO_BATCH, shard, gathered->parameters, name);
    union lvn_attr *attr = &lvn_sharder_latest(sharder)->attr;
    attr->all_gather.block = gathered->block;
    attr->all_gather.frozen = gathered->frozen;
    attr->all_gather.ranges = gathered->ranges;
}

/* Start the gathers that are needed now or next. */
static void start_due(struct gathers *gathers)
{
    for (; gathers->started < gathers->n && !gathers->sharder->failed; gathers->started++) {
        struct gathered *gathered = gathers->list[gathers->started];
        const bool needed = gathers->started <= gathers->current_gather,
                   early = gathered->first >= gathers->last_block_backward &&
                           gathers->current < gathers->last_block_backward;
        if (!needed && (early || gathers->started > gathers->current_gather + gathers->lookahead)) return;
        start(gathers, gathered);
    }
}

/* Replace an operand that is a parameter by a view of its block's gathered parameters. */
static void to_view(struct lvn_operand *o, bool written, void *argument)
{
    const struct gathers *gathers = argument;
    const struct lvn_param *param = parameter(gathers, o);
    (void)written;
    if (!param) return;
    const struct gathered *gathered = use_of(gathers, param);
    const enum lvn_dtype type = gathers->rounded[param->number] ? LVN_BF16 : o->desc.dtype;
    const struct lvn_operand all = view(gathers, gathered, param->offset, param->count, type);
    o->value = all.value;
    o->desc.dtype = type;
    o->desc.offset += all.desc.offset;
}

enum lvn_status lvn_sharder_gather_parameters(struct sharder *sharder, const struct lvn_device *device)
{
    struct lvn_program *p = sharder->p;
    const struct lvn_params *params = p->graph->params;
    const int n = p->n_instrs;
    /* One block ahead: a block has two gathers if only a part of it is trained. */
    const int lookahead = params->trainable_count && params->trainable_count < params->flat_count ? 2 : 1;
    struct gathers gathers = {.sharder = sharder,
                              .n_blocks = params->n_blocks,
                              .backward = lvn_program_first_backward(p),
                              .lookahead = lookahead};
    struct lvn_instr *old = lvn_arena_alloc(&p->arena, sizeof *old * (size_t)(n + 1));
    if (!old) return LVN_MEMORY;
    memcpy(old, p->instrs, sizeof *old * (size_t)n);
    LVN_TRY(find_uses(&gathers, old, n));
    LVN_TRY(find_rounded(&gathers, device, old, n));
    LVN_TRY(find_ranges(&gathers));
    p->n_instrs = 0;
    int next = 0; /* index of the first gather that has not been waited for */
    for (gathers.current = 0; gathers.current < n && !sharder->failed; gathers.current++) {
        for (; next < gathers.n && gathers.list[next]->first == gathers.current; next++) {
            gathers.current_gather = next;
            start_due(&gathers);
            lvn_sharder_wait(sharder, &gathers.list[next]->collective, LVN_EVERY_MICRO_BATCH, name);
        }
        if (gathers.current == gathers.last_block_backward) start_due(&gathers);
        lvn_instr_operands(&old[gathers.current], to_view, &gathers);
        const struct lvn_instr *i = &old[gathers.current];
        *lvn_sharder_append(sharder, i->id, i->when, i->name) = *i;
    }
    return sharder->failed ? LVN_MEMORY : LVN_OK;
}
