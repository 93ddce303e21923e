/* sharder_gradients.c - zero2: gradients of a block that are freed once they have been reduced, and sharded gradient
 * sums; see sharder.c. */
#include "passes/sharder.h"

/* The gradients of a block in one micro-batch. */
struct block_gradients {
    int block; /* lvn_param.block */
    int first; /* index of its first trainable parameter in lvn_params.flat */
    int last;  /* index of the instruction that writes the last of them; -1: none */
    int next;  /* index of another block that the same instruction completes; -1: none */
    struct lvn_operand gradients;
    struct collective collective;
    struct lvn_operand sum;      /* over micro-batches, of this rank's shard; value < 0: the shard is empty */
    struct collective of_groups; /* the sum over groups, of `sum` or its bf16 copy */
};

static struct block_gradients *block_of(const struct sharder *sharder, const struct lvn_param *q)
{
    return &sharder->blocks[lvn_block_index(q->block)];
}

/* Find the instruction that completes each block. completes[instruction]: index of the block; -1: none. */
static void find_ends(struct sharder *sharder, const int *last_writer, int *completes)
{
    const struct lvn_params *params = sharder->p->graph->params;
    for (int k = 0; k < params->n_blocks; k++)
        sharder->blocks[k] =
            (struct block_gradients){.block = k + LVN_BLOCK_OUTSIDE, .last = -1, .sum = LVN_NO_OPERAND};
    for (int i = params->n - 1; i >= 0; i--) {
        const struct lvn_param *q = params->flat[i];
        struct block_gradients *b = block_of(sharder, q);
        if (!q->trainable) continue;
        b->first = i;
        if (last_writer[q->number] > b->last) b->last = last_writer[q->number];
    }
    for (int k = params->n_blocks - 1; k >= 0; k--) {
        struct block_gradients *b = &sharder->blocks[k];
        if (b->last < 0) continue;
        b->next = completes[b->last];
        completes[b->last] = k;
    }
}

/* Add a value for each block's gradients. */
static enum lvn_status add_values(struct sharder *sharder)
{
    struct lvn_program *p = sharder->p;
    for (int k = 0; k < p->graph->params->n_blocks && !sharder->failed; k++) {
        struct block_gradients *b = &sharder->blocks[k];
        if (b->last < 0) continue;
        char text[LVN_BLOCK_TEXT];
        const char *name = lvn_arena_printf(&p->arena, "gradients of %s", lvn_block_text(b->block, text));
        if (!name) return LVN_MEMORY;
        const int64_t count = lvn_sharder_block(sharder, b->block)->count;
        b->gradients = lvn_sharder_range(sharder, name, LVN_BUFFER_ARENA, p->gradients, 0, count);
    }
    return sharder->failed ? LVN_MEMORY : LVN_OK;
}

/* Replace an operand that is a parameter's gradient by a view of its block's gradients. */
static void to_view(struct lvn_operand *o, bool written, void *argument)
{
    const struct sharder *sharder = argument;
    const struct lvn_value *v = &sharder->p->values[o->value];
    (void)written;
    if (v->buffer != LVN_BUFFER_GRAD || !v->param) return;
    o->value = block_of(sharder, v->param)->gradients.value;
    o->desc.offset += v->param->offset - lvn_sharder_block(sharder, v->param->block)->offset;
}

/* Fill elements [first, end) of the flat gradients, which no instruction writes, with zeros. */
static void append_zeros(struct sharder *sharder, const struct block_gradients *b, int64_t first, int64_t end)
{
    if (first >= end) return;
    struct lvn_instr *i = lvn_sharder_append(sharder, LVN_OP_zeros, LVN_EVERY_MICRO_BATCH, "gaps between gradients");
    i->out[0] = lvn_sharder_view(lvn_sharder_block(sharder, b->block), b->gradients, first, end - first);
}

/* Fill the gaps between parameters, and the gradients of parameters on which the loss does not depend. */
static void fill_gaps(struct sharder *sharder, const struct block_gradients *b, const int *last_writer)
{
    const struct lvn_params *params = sharder->p->graph->params;
    const struct lvn_param_block *all = lvn_sharder_block(sharder, b->block);
    int64_t written = all->offset; /* all elements before this one are written */
    for (int i = b->first; i < params->n; i++) {
        const struct lvn_param *q = params->flat[i];
        if (!q->trainable || q->block != b->block) break;
        if (last_writer[q->number] < 0) continue;
        append_zeros(sharder, b, written, q->offset);
        written = q->offset + q->count;
    }
    append_zeros(sharder, b, written, all->offset + all->count);
}

/* Start the reduction of a block's complete gradients. */
static void start_block(struct sharder *sharder, struct block_gradients *b, const int *last_writer)
{
    static const char name[] = "sum of a block's gradients";
    fill_gaps(sharder, b, last_writer);
    const struct lvn_operand wire = lvn_sharder_to_wire(sharder, b->gradients, LVN_EVERY_MICRO_BATCH, name);
    b->collective = lvn_sharder_start(sharder, LVN_OP_reduce_scatter, LVN_EVERY_MICRO_BATCH, wire, wire, name);
    lvn_sharder_latest(sharder)->attr.reduce_scatter.block = b->block;
    lvn_sharder_latest(sharder)->attr.reduce_scatter.first = lvn_sharder_block(sharder, b->block)->offset;
    sharder->reducing = b;
}

/* In the last micro-batch: start to add the sums of the other groups' replicas of this shard. */
static void start_groups(struct sharder *sharder, struct block_gradients *b)
{
    static const char name[] = "sum over groups";
    const struct lvn_operand wire = lvn_sharder_to_wire(sharder, b->sum, LVN_LAST_MICRO_BATCH, name);
    b->of_groups = lvn_sharder_start(sharder, LVN_OP_all_reduce, LVN_LAST_MICRO_BATCH, wire, wire, name);
    lvn_sharder_latest(sharder)->scope = LVN_SCOPE_REPLICAS;
}

/* Wait for the sums over groups. */
static void end_groups(struct sharder *sharder)
{
    static const char name[] = "sum over groups";
    for (int k = sharder->p->graph->params->n_blocks - 1; k >= 0 && lvn_sharder_has_groups(sharder); k--) {
        const struct block_gradients *b = &sharder->blocks[k];
        if (b->sum.value < 0) continue;
        lvn_sharder_wait(sharder, &b->of_groups, LVN_AFTER_BACKWARD, name);
        lvn_sharder_from_wire(sharder, b->of_groups.result, b->sum, LVN_AFTER_BACKWARD, name);
    }
}

/* Wait for the running reduction, and add this rank's shard to its sum over micro-batches. */
static void end_block(struct sharder *sharder)
{
    static const char name[] = "sum over micro-batches";
    struct block_gradients *b = sharder->reducing;
    if (!b) return;
    sharder->reducing = NULL;
    lvn_sharder_wait(sharder, &b->collective, LVN_EVERY_MICRO_BATCH, name);
    const struct lvn_shard mine = lvn_sharder_shard(sharder, b->block);
    if (!mine.count) return;
    const struct lvn_param_block *block = lvn_sharder_block(sharder, b->block);
    const struct lvn_operand shard = lvn_sharder_view(block, b->gradients, mine.first, mine.count);
    lvn_sharder_from_wire(sharder, lvn_sharder_view(block, b->collective.result, mine.first, mine.count), shard,
                          LVN_EVERY_MICRO_BATCH, name);
    b->sum = lvn_sharder_range(sharder, "gradients", LVN_BUFFER_GRAD, sharder->p->gradients,
                               lvn_sharder_place(sharder, LVN_SHARDS_GRADIENTS, b->block, mine.first), mine.count);
    for (int first = 1; first >= 0; first--) {
        struct lvn_instr *add = lvn_sharder_append(sharder, LVN_OP_accumulate,
                                                   first ? LVN_FIRST_MICRO_BATCH : LVN_LATER_MICRO_BATCHES, name);
        add->attr.accumulate.copy = first;
        add->in[0] = shard;
        add->out[0] = b->sum;
    }
    if (lvn_sharder_has_groups(sharder)) start_groups(sharder, b);
}

/* The reduction of a block overlaps with backward until the next block is complete. */
enum lvn_status lvn_sharder_append_gradients(struct sharder *sharder, struct lvn_instr *old, int n)
{
    LVN_LOCAL_ARENA(a);
    const struct lvn_params *params = sharder->p->graph->params;
    const int *last_writer = lvn_sharder_last_writers(&a, sharder->p);
    int *completes = lvn_arena_alloc(&a, sizeof *completes * (size_t)(n + 1));
    sharder->blocks = lvn_arena_alloc(&sharder->p->arena, sizeof *sharder->blocks * (size_t)params->n_blocks);
    if (!last_writer || !completes || !sharder->blocks) return LVN_MEMORY;
    for (int i = 0; i < n; i++) completes[i] = -1;
    find_ends(sharder, last_writer, completes);
    LVN_TRY(add_values(sharder));
    sharder->p->n_instrs = 0;
    const int64_t mine = lvn_shard_total(params, lvn_sharding_owners(sharder->s),
                                         lvn_sharding_owner(sharder->s, sharder->s->rank), true);
    sharder->p->grad_buffer_bytes = (mine ? mine : LVN_PARAM_ALIGN) * lvn_dtype_bytes(sharder->p->gradients);
    bool ended = false;
    for (int i = 0; i < n && !sharder->failed; i++) {
        if (old[i].when == LVN_AFTER_BACKWARD) {
            end_block(sharder);
            if (!ended) end_groups(sharder);
            ended = true;
        }
        lvn_instr_operands(&old[i], to_view, sharder);
        for (int k = 0; k < LVN_MAX_IN; k++) old[i].param_gradient[k] = false; /* each micro-batch writes a new value */
        lvn_sharder_append_one(sharder, &old[i]);
        for (int k = completes[i]; k >= 0; k = sharder->blocks[k].next) {
            end_block(sharder);
            start_block(sharder, &sharder->blocks[k], last_writer);
        }
    }
    end_block(sharder); /* of a program without an update */
    if (!ended) end_groups(sharder);
    return LVN_OK;
}
