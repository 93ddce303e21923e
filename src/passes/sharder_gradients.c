/* sharder_gradients.c - zero2: gradients of a block that live until they have been reduced, and sums of gradients in
 * shards; see sharder.c. */
#include "passes/sharder.h"

/* zero2: the gradients of a block in one micro-batch. */
struct whole {
    int block; /* lvn_param.block */
    int last;  /* the instruction that writes the last of them; -1: none does */
    struct lvn_operand gradients;
    struct collective collective;
};

/* Elements [first, first + count) of the flat parameters, as a view of the block's gradients `all`. */
static struct lvn_operand view_of(const struct sharder *x, int block, struct lvn_operand all, int64_t first,
                                  int64_t count)
{
    all.desc = lvn_desc_make(all.desc.dtype, 1, &count);
    all.desc.offset = first - lvn_sharder_block(x, block)->offset;
    return all;
}

/* A value for the gradients of each block, and which instruction completes them. */
static enum lvn_status find_whole(struct sharder *x)
{
    const struct lvn_program *p = x->p;
    const struct lvn_params *params = p->graph->params;
    LVN_LOCAL_ARENA(a);
    const int *last_writer = lvn_sharder_last_writers(&a, p);
    x->whole = lvn_arena_alloc(&x->p->arena, sizeof *x->whole * (size_t)params->n_blocks);
    if (!last_writer || !x->whole) return LVN_MEMORY;
    for (int k = 0; k < params->n_blocks; k++) x->whole[k] = (struct whole){.block = k - 1, .last = -1};
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *q = params->list[i];
        struct whole *w = &x->whole[q->block + 1];
        if (q->trainable && last_writer[q->number] > w->last) w->last = last_writer[q->number];
    }
    for (int k = 0; k < params->n_blocks && !x->failed; k++) {
        if (x->whole[k].last < 0) continue;
        const char *name =
            k ? lvn_arena_printf(&x->p->arena, "gradients of block %d", k - 1) : "gradients outside of blocks";
        if (!name) return LVN_MEMORY;
        x->whole[k].gradients = lvn_sharder_range(x, name, LVN_BUFFER_ARENA, p->gradients, 0, params->blocks[k].count);
    }
    return x->failed ? LVN_MEMORY : LVN_OK;
}

/* An operand that is a parameter's gradient becomes a view of those of its block. */
static void use_whole(struct lvn_operand *o, bool written, void *argument)
{
    const struct sharder *x = argument;
    const struct lvn_value *v = &x->p->values[o->value];
    (void)written;
    if (v->buffer != LVN_BUFFER_GRAD || !v->param) return;
    o->value = x->whole[v->param->block + 1].gradients.value;
    o->desc.offset += v->param->offset - lvn_sharder_block(x, v->param->block)->offset;
}

/* What no instruction writes: gaps between parameters, and parameters that the loss does not depend on. */
static void append_zeros(struct sharder *x, const struct whole *w, const int *writes)
{
    const struct lvn_param_block *b = lvn_sharder_block(x, w->block);
    int64_t end = b->offset; /* of what is written */
    for (int i = 0; i <= x->p->graph->params->n; i++) {
        const bool behind = i == x->p->graph->params->n;
        const struct lvn_param *q = behind ? NULL : x->p->graph->params->flat[i];
        if (q && (!q->trainable || q->block != w->block || writes[q->number] < 0)) continue;
        const int64_t next = behind ? b->offset + b->count : q->offset;
        if (next > end)
            lvn_sharder_append(x, LVN_OP_zeros, LVN_EVERY_MICRO_BATCH, "gaps between gradients")->out[0] =
                view_of(x, w->block, w->gradients, end, next - end);
        if (q) end = q->offset + q->count;
    }
}

/* Start to reduce the gradients of a block that are complete. */
static void start_whole(struct sharder *x, struct whole *w, const int *writes)
{
    static const char name[] = "sum of a block's gradients";
    struct lvn_operand wire = w->gradients;
    append_zeros(x, w, writes);
    if (x->s->bf16 && x->p->gradients == LVN_F32) {
        wire = lvn_sharder_range(x, "gradients on their way", LVN_BUFFER_ARENA, LVN_BF16, 0,
                                 lvn_sharder_block(x, w->block)->count);
        struct lvn_instr *cast = lvn_sharder_append(x, LVN_OP_narrow, LVN_EVERY_MICRO_BATCH, name);
        cast->in[0] = w->gradients;
        cast->out[0] = wire;
    }
    w->collective = lvn_sharder_start(x, LVN_OP_reduce_scatter, LVN_EVERY_MICRO_BATCH, wire, wire, name);
    lvn_sharder_latest(x)->attr.reduce_scatter.block = w->block;
    lvn_sharder_latest(x)->attr.reduce_scatter.first = lvn_sharder_block(x, w->block)->offset;
    x->started = w;
}

/* Wait for the block that was started last, and add this rank's shard to its sum over micro-batches. */
static void end_whole(struct sharder *x)
{
    static const char name[] = "sum over micro-batches";
    struct whole *w = x->started;
    if (!w) return;
    x->started = NULL;
    lvn_sharder_wait(x, &w->collective, LVN_EVERY_MICRO_BATCH, name);
    const struct lvn_shard mine = lvn_sharder_shard(x, w->block);
    if (!mine.count) return;
    const struct lvn_operand shard = view_of(x, w->block, w->gradients, mine.first, mine.count);
    if (w->collective.result.value != w->gradients.value) {
        struct lvn_instr *cast = lvn_sharder_append(x, LVN_OP_widen, LVN_EVERY_MICRO_BATCH, name);
        cast->in[0] = view_of(x, w->block, w->collective.result, mine.first, mine.count);
        cast->out[0] = shard;
    }
    const struct lvn_operand sum = lvn_sharder_range(x, "gradients", LVN_BUFFER_GRAD, x->p->gradients,
                                                     lvn_sharder_place(x, w->block, mine.first), mine.count);
    for (int first = 1; first >= 0; first--) {
        struct lvn_instr *add =
            lvn_sharder_append(x, LVN_OP_accumulate, first ? LVN_FIRST_MICRO_BATCH : LVN_LATER_MICRO_BATCHES, name);
        add->attr.accumulate.copy = first;
        add->in[0] = shard;
        add->out[0] = sum;
    }
}

/* The same with gradients in shards: the reduction of a block overlaps with backward up to the next block's. */
enum lvn_status lvn_sharder_append_gradients(struct sharder *x, struct lvn_instr *old, int n)
{
    LVN_LOCAL_ARENA(a);
    const int *writes = lvn_sharder_last_writers(&a, x->p);
    if (!writes) return LVN_MEMORY;
    LVN_TRY(find_whole(x));
    x->p->n_instrs = 0;
    const int64_t mine = lvn_shard_total(x->p->graph->params, x->s->size, x->s->rank);
    x->p->grad_buffer_bytes = (mine ? mine : LVN_PARAM_ALIGN) * lvn_dtype_bytes(x->p->gradients);
    for (int i = 0; i < n && !x->failed; i++) {
        if (old[i].when == LVN_AFTER_BACKWARD) end_whole(x);
        lvn_instr_operands(&old[i], use_whole, x);
        for (int k = 0; k < LVN_MAX_IN; k++) old[i].param_gradient[k] = false; /* values begin anew */
        lvn_sharder_append_one(x, &old[i]);
        for (int k = 0; k < x->p->graph->params->n_blocks; k++) {
            if (x->whole[k].last != i) continue;
            end_whole(x);
            start_whole(x, &x->whole[k], writes);
        }
    }
    end_whole(x); /* of a program without an update */
    return LVN_OK;
}
