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
    const struct lvn_extents *ranges; /* for lvn_shard_travels(); NULL: none are rounded */
    struct collective collective;
};

struct gathers {
    struct sharder *x;
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
    int turn; /* where backward of the last block begins; gathers for later instructions start only after it */
};

static const struct lvn_param_block *range_of(const struct gathers *g, const struct gathered *u)
{
    const struct lvn_params *params = g->x->p->graph->params;
    return &(u->frozen ? params->frozen : params->blocks)[lvn_block_index(u->block)];
}

static struct gathered *use_at(const struct gathers *g, bool backward, bool frozen, int block)
{
    return &g->uses[(2 * backward + frozen) * g->n_blocks + lvn_block_index(block)];
}

/* The use in which the current instruction reads a parameter. */
static struct gathered *use_of(const struct gathers *g, const struct lvn_param *q)
{
    struct gathered *forward = use_at(g, false, !q->trainable, q->block);
    if (g->current < g->backward || g->x->s->keep) return forward;
    return g->current <= forward->last ? forward : use_at(g, true, !q->trainable, q->block);
}

static const struct lvn_param *parameter(const struct gathers *g, const struct lvn_operand *o)
{
    const struct lvn_value *v = &g->x->p->values[o->value];
    return v->buffer == LVN_BUFFER_PARAM ? v->param : NULL;
}

static void note_use(struct lvn_operand *o, bool written, void *argument)
{
    struct gathers *g = argument;
    const struct lvn_param *q = parameter(g, o);
    (void)written;
    if (!q) return;
    struct gathered *u = use_of(g, q);
    u->block = q->block;
    u->frozen = !q->trainable;
    if (u->first < 0) u->first = g->current;
    u->last = g->current;
}

/* Gather the last block, and the parameters used after it (the head, or everything outside of blocks if the head reads
 * some of it), once for forward and backward, since nothing else is used in between. */
static void join_last(struct gathers *g)
{
    int last = -1; /* the instruction at which forward of the last block begins */
    for (int k = 2 * lvn_block_index(0); k < 2 * g->n_blocks; k++) {
        const struct gathered *u = use_at(g, false, k % 2, k / 2 + LVN_BLOCK_OUTSIDE);
        if (u->first > last) last = u->first;
    }
    for (int k = 0; k < 2 * g->n_blocks; k++) {
        struct gathered *forward = use_at(g, false, k % 2, k / 2 + LVN_BLOCK_OUTSIDE);
        struct gathered *backward = use_at(g, true, k % 2, k / 2 + LVN_BLOCK_OUTSIDE);
        if (forward->first < 0 || backward->first < 0 || forward->last < last) continue;
        if (g->turn < backward->first) g->turn = backward->first;
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
static enum lvn_status find_uses(struct gathers *g, struct lvn_instr *old, int n)
{
    const size_t max = 4 * (size_t)g->n_blocks;
    g->uses = lvn_arena_alloc(&g->x->p->arena, sizeof *g->uses * max);
    g->list = lvn_arena_alloc(&g->x->p->arena, sizeof(struct gathered *) * max);
    if (!g->uses || !g->list) return LVN_MEMORY;
    for (size_t k = 0; k < max; k++) g->uses[k] = (struct gathered){.first = -1, .last = -1};
    for (g->current = 0; g->current < n; g->current++) lvn_instr_operands(&old[g->current], note_use, g);
    g->turn = g->backward;
    join_last(g);
    for (size_t k = 0; k < max; k++)
        if (g->uses[k].first >= 0) g->list[g->n++] = &g->uses[k];
    qsort(g->list, (size_t)g->n, sizeof(struct gathered *), by_first);
    return LVN_OK;
}

/* Find the parameters that all their readers round to bf16. */
static enum lvn_status find_rounded(struct gathers *g, const struct lvn_device *device, const struct lvn_instr *old,
                                    int n)
{
    const struct lvn_program *p = g->x->p;
    const int n_params = p->graph->params->n;
    g->rounded = lvn_arena_alloc(&g->x->p->arena, sizeof *g->rounded * (size_t)(n_params + 1));
    if (!g->rounded) return LVN_MEMORY;
    const bool possible = g->x->s->round && p->weights == LVN_F32;
    for (int k = 0; k < n_params; k++) g->rounded[k] = possible;
    for (int m = 0; possible && m < n; m++) {
        struct lvn_instr i = old[m];
        bool is_reader = false;
        int64_t scratch;
        for (int k = 0; k < LVN_MAX_IN; k++) is_reader |= i.in[k].value >= 0 && parameter(g, &i.in[k]);
        if (is_reader) LVN_TRY(lvn_device_choose(device, &i, &scratch));
        for (int k = 0; is_reader && k < LVN_MAX_IN; k++) {
            const struct lvn_param *q = i.in[k].value >= 0 ? parameter(g, &i.in[k]) : NULL;
            if (q && !(i.rounds & LVN_READS_IN(k))) g->rounded[q->number] = false;
        }
    }
    return LVN_OK;
}

/* Divide the parameters of each block that has rounded ones into ranges for lvn_shard_travels(). */
static enum lvn_status find_ranges(struct gathers *g)
{
    const struct lvn_params *params = g->x->p->graph->params;
    const size_t n = (size_t)params->n, n_blocks = 2 * (size_t)g->n_blocks;
    struct lvn_extents *ranges = lvn_arena_alloc(&g->x->p->arena, sizeof *ranges * n_blocks);
    int64_t *start = lvn_arena_alloc(&g->x->p->arena, sizeof *start * (n + 2 * n_blocks));
    if (!ranges || !start) return LVN_MEMORY;
    for (size_t k = 0; k < n_blocks; k++) ranges[k] = (struct lvn_extents){0};
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *q = params->flat[i];
        const struct lvn_param_block *block = lvn_params_block_of(params, q);
        struct lvn_extents *r = &ranges[2 * lvn_block_index(q->block) + !q->trainable];
        if (!r->n) {
            *r = (struct lvn_extents){1, start};
            *start++ = block->offset;
            *start++ = block->offset + block->count;
        }
        if (g->rounded[q->number] == (r->n % 2 == 0)) continue; /* as the parameter before it */
        start[-1] = q->offset;
        *start++ = block->offset + block->count;
        r->n++;
    }
    for (int k = 0; k < g->n; k++) {
        const struct lvn_extents *r = &ranges[2 * lvn_block_index(g->list[k]->block) + g->list[k]->frozen];
        if (r->n > 1) g->list[k]->ranges = r;
    }
    return LVN_OK;
}

/* Elements [first, first + count) of the flat parameters, all of one type, as a view of the gathered parameters. */
static struct lvn_operand view(const struct gathers *g, const struct gathered *u, int64_t first, int64_t count,
                               enum lvn_dtype type)
{
    if (!u->ranges) return lvn_sharder_view(range_of(g, u), u->parameters, first, count);
    struct lvn_operand o = {.value = u->parameters.value, .desc = lvn_desc_make(type, 1, &count)};
    o.desc.offset = lvn_shard_travels(u->ranges, first) / lvn_dtype_bytes(type);
    return o;
}

/* Copy a part of this rank's shard to its place in the block's parameters. */
static struct lvn_operand copy_part(struct gathers *g, struct gathered *u, int64_t first, int64_t count,
                                    enum lvn_dtype type)
{
    struct sharder *x = g->x;
    const int64_t place = lvn_sharder_part_place(x, range_of(g, u), first);
    const struct lvn_operand from = lvn_sharder_range(x, "parameters", LVN_BUFFER_PARAM, x->p->weights, place, count);
    struct lvn_instr *copy = lvn_sharder_append(x, LVN_OP_accumulate, LVN_EVERY_MICRO_BATCH, name);
    copy->attr.accumulate.copy = true;
    copy->in[0] = from;
    return copy->out[0] = view(g, u, first, count, type);
}

/* Copy this rank's shard, and return it as the operand of the gather. */
static struct lvn_operand copy_shard(struct gathers *g, struct gathered *u)
{
    const struct lvn_shard mine = lvn_sharder_part(g->x, range_of(g, u));
    const struct lvn_extents *r = u->ranges;
    const int64_t end = mine.first + mine.count;
    if (!mine.count) return LVN_NO_OPERAND;
    if (!r) return copy_part(g, u, mine.first, mine.count, g->x->p->weights);
    for (int k = 0; k < r->n; k++) {
        const int64_t from = r->start[k] > mine.first ? r->start[k] : mine.first;
        const int64_t to = r->start[k + 1] < end ? r->start[k + 1] : end;
        if (from < to) copy_part(g, u, from, to - from, lvn_shard_travel_type(k));
    }
    return view(g, u, mine.first, lvn_shard_travels(r, end) - lvn_shard_travels(r, mine.first), LVN_U8);
}

/* Copy this rank's shard, and start to gather the other shards. */
static void start(struct gathers *g, struct gathered *u)
{
    struct sharder *x = g->x;
    struct lvn_program *p = x->p;
    const struct lvn_param_block *range = range_of(g, u);
    char text[LVN_BLOCK_TEXT];
    const char *value = lvn_arena_printf(&p->arena, "parameters of %s", lvn_block_text(u->block, text));
    if (!value) x->failed = true;
    const int64_t count = u->ranges ? lvn_shard_travels(u->ranges, range->offset + range->count) : range->count;
    u->parameters = lvn_sharder_range(x, value, LVN_BUFFER_ARENA, u->ranges ? LVN_U8 : p->weights, 0, count);
    const struct lvn_operand shard = copy_shard(g, u);
    u->collective = lvn_sharder_start(x, LVN_OP_all_gather, LVN_EVERY_MICRO_BATCH, shard, u->parameters, name);
    union lvn_attr *attr = &lvn_sharder_latest(x)->attr;
    attr->all_gather.block = u->block;
    attr->all_gather.frozen = u->frozen;
    attr->all_gather.ranges = u->ranges;
}

/* Start the gathers that are needed now or next. */
static void start_due(struct gathers *g)
{
    for (; g->started < g->n && !g->x->failed; g->started++) {
        struct gathered *u = g->list[g->started];
        const bool needed = g->started <= g->current_gather, early = u->first >= g->turn && g->current < g->turn;
        if (!needed && (early || g->started > g->current_gather + g->lookahead)) return;
        start(g, u);
    }
}

/* Replace an operand that is a parameter by a view of its block's gathered parameters. */
static void to_view(struct lvn_operand *o, bool written, void *argument)
{
    const struct gathers *g = argument;
    const struct lvn_param *q = parameter(g, o);
    (void)written;
    if (!q) return;
    const struct gathered *u = use_of(g, q);
    const enum lvn_dtype type = g->rounded[q->number] ? LVN_BF16 : o->desc.dtype;
    const struct lvn_operand all = view(g, u, q->offset, q->count, type);
    o->value = all.value;
    o->desc.dtype = type;
    o->desc.offset += all.desc.offset;
}

enum lvn_status lvn_sharder_gather_parameters(struct sharder *x, const struct lvn_device *device)
{
    struct lvn_program *p = x->p;
    const struct lvn_params *params = p->graph->params;
    const int n = p->n_instrs;
    /* One block ahead: a block has two gathers if only a part of it is trained. */
    const int lookahead = params->trainable_count && params->trainable_count < params->flat_count ? 2 : 1;
    struct gathers g = {
        .x = x, .n_blocks = params->n_blocks, .backward = lvn_program_first_backward(p), .lookahead = lookahead};
    struct lvn_instr *old = lvn_arena_alloc(&p->arena, sizeof *old * (size_t)(n + 1));
    if (!old) return LVN_MEMORY;
    memcpy(old, p->instrs, sizeof *old * (size_t)n);
    LVN_TRY(find_uses(&g, old, n));
    LVN_TRY(find_rounded(&g, device, old, n));
    LVN_TRY(find_ranges(&g));
    p->n_instrs = 0;
    int next = 0; /* index of the first gather that has not been waited for */
    for (g.current = 0; g.current < n && !x->failed; g.current++) {
        for (; next < g.n && g.list[next]->first == g.current; next++) {
            g.current_gather = next;
            start_due(&g);
            lvn_sharder_wait(x, &g.list[next]->collective, LVN_EVERY_MICRO_BATCH, name);
        }
        if (g.current == g.turn) start_due(&g);
        lvn_instr_operands(&old[g.current], to_view, &g);
        const struct lvn_instr *i = &old[g.current];
        *lvn_sharder_append(x, i->id, i->when, i->name) = *i;
    }
    return x->failed ? LVN_MEMORY : LVN_OK;
}
