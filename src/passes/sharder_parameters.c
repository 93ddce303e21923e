/* sharder_parameters.c - fsdp: parameters in shards, of which those of a block are gathered before their use; see
 * sharder.c. */
#include <stdlib.h>
#include <string.h>

#include "passes/sharder.h"

/* The parameters of a block, all trained or all frozen, from a gather to the last instruction that reads them. */
struct gathered {
    int block; /* lvn_param.block */
    bool frozen;
    int first, last; /* instructions that read them; first < 0: none does */
    struct lvn_operand parameters;
    struct collective collective;
};

struct gathers {
    struct sharder *x;
    int n_blocks;           /* lvn_params.n_blocks */
    int backward;           /* the first instruction of backward */
    int current;            /* the instruction that is being visited */
    struct gathered *uses;  /* [2 phases][2 kinds][n_blocks] */
    struct gathered **list; /* in the order of their first use */
    int n;
    int lookahead;      /* so many gathers are started before they are needed */
    int current_gather; /* index in the list of the gather that was needed last */
    int started;        /* of the list, so many have been started */
    int turn;           /* where backward of the last block begins: before, nothing is gathered for backward */
};

static const struct lvn_param_block *range_of(const struct gathers *g, const struct gathered *u)
{
    const struct lvn_params *params = g->x->p->graph->params;
    return &(u->frozen ? params->frozen : params->blocks)[u->block + 1];
}

static struct gathered *use_at(const struct gathers *g, bool backward, bool frozen, int block)
{
    return &g->uses[(2 * backward + frozen) * g->n_blocks + block + 1];
}

/* The use in which the current instruction reads a parameter. */
static struct gathered *use_of(const struct gathers *g, const struct lvn_param *q)
{
    struct gathered *forward = use_at(g, false, !q->trainable, q->block);
    if (g->current < g->backward || q->block < 0 || g->x->s->keep) return forward;
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

/* Between the last block's forward and its backward no other block is used: it is gathered once for both. */
static void join_last(struct gathers *g)
{
    int last = -1; /* lvn_param.block of the block whose forward begins last */
    for (int block = 0, first = -1; block + 1 < g->n_blocks; block++)
        for (int frozen = 0; frozen < 2; frozen++) {
            const struct gathered *u = use_at(g, false, frozen, block);
            if (u->first > first) first = u->first, last = block;
        }
    for (int frozen = 0; frozen < 2 && last >= 0; frozen++) {
        struct gathered *forward = use_at(g, false, frozen, last), *backward = use_at(g, true, frozen, last);
        if (forward->first < 0 || backward->first < 0) continue;
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

/* Learn what is read where. */
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

/* Copy this rank's shard to its place among the block's parameters, and start to gather the others'. */
static void start(struct gathers *g, struct gathered *u)
{
    static const char name[] = "parameters of a block";
    struct sharder *x = g->x;
    struct lvn_program *p = x->p;
    const struct lvn_param_block *range = range_of(g, u);
    const struct lvn_shard mine = lvn_sharder_part(x, range);
    const char *value =
        u->block < 0 ? "parameters outside of blocks" : lvn_arena_printf(&p->arena, "parameters of block %d", u->block);
    struct lvn_operand shard = LVN_NO_OPERAND;
    if (!value) x->failed = true;
    u->parameters = lvn_sharder_range(x, value, LVN_BUFFER_ARENA, p->weights, 0, range->count);
    if (mine.count) {
        const int64_t place = lvn_sharder_part_place(x, range, mine.first);
        shard = lvn_sharder_view(range, u->parameters, mine.first, mine.count);
        const struct lvn_operand from =
            lvn_sharder_range(x, "parameters", LVN_BUFFER_PARAM, p->weights, place, mine.count);
        struct lvn_instr *copy = lvn_sharder_append(x, LVN_OP_accumulate, LVN_EVERY_MICRO_BATCH, name);
        copy->attr.accumulate.copy = true;
        copy->in[0] = from;
        copy->out[0] = shard;
    }
    u->collective = lvn_sharder_start(x, LVN_OP_all_gather, LVN_EVERY_MICRO_BATCH, shard, u->parameters, name);
    lvn_sharder_latest(x)->attr.all_gather.block = u->block;
    lvn_sharder_latest(x)->attr.all_gather.frozen = u->frozen;
}

/* Start those that are needed now, or next. */
static void start_due(struct gathers *g)
{
    for (; g->started < g->n && !g->x->failed; g->started++) {
        struct gathered *u = g->list[g->started];
        const bool needed = g->started <= g->current_gather, early = u->first >= g->backward && g->current < g->turn;
        if (!needed && (early || g->started > g->current_gather + g->lookahead)) return;
        start(g, u);
    }
}

/* An operand that is a parameter becomes a view of those of its block. */
static void take_view(struct lvn_operand *o, bool written, void *argument)
{
    const struct gathers *g = argument;
    const struct lvn_param *q = parameter(g, o);
    (void)written;
    if (!q) return;
    const struct gathered *u = use_of(g, q);
    o->value = u->parameters.value;
    o->desc.offset += q->offset - range_of(g, u)->offset;
}

enum lvn_status lvn_sharder_gather_parameters(struct sharder *x)
{
    struct lvn_program *p = x->p;
    const struct lvn_params *params = p->graph->params;
    const int n = p->n_instrs;
    /* One block: two gathers of each block, where a part of it is trained. */
    const int lookahead = params->trainable_count && params->trainable_count < params->flat_count ? 2 : 1;
    struct gathers g = {
        .x = x, .n_blocks = params->n_blocks, .backward = lvn_program_first_backward(p), .lookahead = lookahead};
    struct lvn_instr *old = lvn_arena_alloc(&p->arena, sizeof *old * (size_t)(n + 1));
    if (!old) return LVN_MEMORY;
    memcpy(old, p->instrs, sizeof *old * (size_t)n);
    LVN_TRY(find_uses(&g, old, n));
    p->n_instrs = 0;
    int next = 0; /* index of the first gather that has not been waited for */
    for (g.current = 0; g.current < n && !x->failed; g.current++) {
        for (; next < g.n && g.list[next]->first == g.current; next++) {
            g.current_gather = next;
            start_due(&g);
            lvn_sharder_wait(x, &g.list[next]->collective, LVN_EVERY_MICRO_BATCH, "parameters of a block");
        }
        if (g.current == g.turn) start_due(&g);
        lvn_instr_operands(&old[g.current], take_view, &g);
        const struct lvn_instr *i = &old[g.current];
        *lvn_sharder_append(x, i->id, i->when, i->name) = *i;
    }
    return x->failed ? LVN_MEMORY : LVN_OK;
}
