/* data_parallel_gradients.c - zero2: gradients of a block that are freed once they have been reduced, and sharded
 * gradient sums; see data_parallel.c. */

#include "passes/data_parallel.h"

/* The gradients of a block in one micro-batch. */
struct block_gradients {
    int block; /* lvn_param.block */
    int first; /* index of its first trainable parameter in lvn_params.flat */
    int last;  /* index of the instruction that writes the last of its gradients; -1: none */
    int next;  /* index of another block that the same instruction completes; -1: none */
    struct lvn_operand gradients;
    struct collective collective;
    struct lvn_operand sum;      /* over micro-batches, of this rank's shard; value < 0: the shard is empty */
    struct collective of_groups; /* the sum over groups, of `sum` or its bf16 copy */
};

static struct block_gradients *block_of(const struct dp_pass *pass, const struct lvn_param *q)
{
    return &pass->blocks[lvn_block_index(q->block)];
}

/* Find the instruction that completes each block. completes[instruction]: index of the block; -1: none. */
static void find_ends(struct dp_pass *pass, const int *last_writer, int *completes)
{
    const struct lvn_params *params = pass->p->graph->params;
    for (int k = 0; k < params->n_blocks; k++)
        pass->blocks[k] = (struct block_gradients){.block = k + LVN_BLOCK_OUTSIDE, .last = -1, .sum = LVN_NO_OPERAND};
    for (int i = params->n - 1; i >= 0; i--) {
        const struct lvn_param *q = params->flat[i];
        struct block_gradients *b = block_of(pass, q);
        if (!q->trainable) continue;
        b->first = i;
        if (last_writer[q->number] > b->last) b->last = last_writer[q->number];
    }
    for (int k = params->n_blocks - 1; k >= 0; k--) {
        struct block_gradients *b = &pass->blocks[k];
        if (b->last < 0) continue;
        b->next = completes[b->last];
        completes[b->last] = k;
    }
}

/* Add a value for each block's gradients. */
static enum lvn_status add_values(struct dp_pass *pass)
{
    struct lvn_program *p = pass->p;
    for (int k = 0; k < p->graph->params->n_blocks && !pass->failed; k++) {
        struct block_gradients *b = &pass->blocks[k];
        if (b->last < 0) continue;
        char text[LVN_BLOCK_TEXT];
        const char *name = lvn_arena_printf(&p->arena, "gradients of %s", lvn_block_text(b->block, text));
        if (!name) return LVN_MEMORY;
        const int64_t count = lvn_dp_block(pass, b->block)->count;
        b->gradients = lvn_dp_range(pass, name, LVN_BUFFER_ARENA, p->gradients, 0, count);
    }
    return pass->failed ? LVN_MEMORY : LVN_OK;
}

/* Replace an operand that is a parameter's gradient by a view of its block's gradients. */
static void to_view(struct lvn_operand *o, bool written, void *argument)
{
    const struct dp_pass *pass = argument;
    const struct lvn_value *v = &pass->p->values[o->value];
    (void)written;
    if (v->buffer != LVN_BUFFER_GRAD || !v->param) return;
    o->value = block_of(pass, v->param)->gradients.value;
    o->desc.offset += v->param->offset - lvn_dp_block(pass, v->param->block)->offset;
}

/* Fill elements [first, end) of the flat gradients, which no instruction writes, with zeros. */
static void append_zeros(struct dp_pass *pass, const struct block_gradients *b, int64_t first, int64_t end)
{
    if (first >= end) return;
    struct lvn_instr *i = lvn_dp_append(pass, LVN_OP_zeros, LVN_EVERY_MICRO_BATCH, "gaps between gradients");
    i->out[0] = lvn_dp_view(lvn_dp_block(pass, b->block), b->gradients, first, end - first);
}

/* Fill the gaps between parameters, and the gradients of parameters on which the loss does not depend. */
static void fill_gaps(struct dp_pass *pass, const struct block_gradients *b, const int *last_writer)
{
    const struct lvn_params *params = pass->p->graph->params;
    const struct lvn_param_block *all = lvn_dp_block(pass, b->block);
    int64_t written = all->offset; /* all elements before this one are written */
    for (int i = b->first; i < params->n; i++) {
        const struct lvn_param *q = params->flat[i];
        if (!q->trainable || q->block != b->block) break;
        if (last_writer[q->number] < 0) continue;
        append_zeros(pass, b, written, q->offset);
        written = q->offset + q->count;
    }
    append_zeros(pass, b, written, all->offset + all->count);
}

/* Start the reduction of a block whose gradients are complete. */
static void start_block(struct dp_pass *pass, struct block_gradients *b, const int *last_writer)
{
    static const char name[] = "sum of a block's gradients";
    fill_gaps(pass, b, last_writer);
    const struct lvn_operand wire = lvn_dp_to_wire(pass, b->gradients, LVN_EVERY_MICRO_BATCH, name);
    b->collective = lvn_dp_start(pass, LVN_OP_reduce_scatter, LVN_EVERY_MICRO_BATCH, wire, wire, name);
    lvn_dp_latest(pass)->attr.reduce_scatter.block = b->block;
    lvn_dp_latest(pass)->attr.reduce_scatter.first = lvn_dp_block(pass, b->block)->offset;
    pass->reducing = b;
}

/* In the last micro-batch: start to add the sums of the other groups' replicas of this shard. */
static void start_groups(struct dp_pass *pass, struct block_gradients *b)
{
    static const char name[] = "sum over groups";
    const struct lvn_operand wire = lvn_dp_to_wire(pass, b->sum, LVN_LAST_MICRO_BATCH, name);
    b->of_groups = lvn_dp_start(pass, LVN_OP_all_reduce, LVN_LAST_MICRO_BATCH, wire, wire, name);
    lvn_dp_latest(pass)->scope = LVN_SCOPE_REPLICAS;
}

/* Wait for the sums over groups. */
static void end_groups(struct dp_pass *pass)
{
    static const char name[] = "sum over groups";
    for (int k = pass->p->graph->params->n_blocks - 1; k >= 0 && lvn_dp_has_groups(pass); k--) {
        const struct block_gradients *b = &pass->blocks[k];
        if (b->sum.value < 0) continue;
        lvn_dp_wait(pass, &b->of_groups, LVN_AFTER_BACKWARD, name);
        lvn_dp_from_wire(pass, b->of_groups.result, b->sum, LVN_AFTER_BACKWARD, name);
    }
}

/* Wait for the running reduction, and add this rank's shard to its sum over micro-batches. */
static void end_block(struct dp_pass *pass)
{
    static const char name[] = "sum over micro-batches";
    struct block_gradients *b = pass->reducing;
    if (!b) return;
    pass->reducing = NULL;
    lvn_dp_wait(pass, &b->collective, LVN_EVERY_MICRO_BATCH, name);
    const struct lvn_shard mine = lvn_dp_shard(pass, b->block);
    if (!mine.count) return;
    const struct lvn_param_block *block = lvn_dp_block(pass, b->block);
    const struct lvn_operand shard = lvn_dp_view(block, b->gradients, mine.first, mine.count);
    lvn_dp_from_wire(pass, lvn_dp_view(block, b->collective.result, mine.first, mine.count), shard,
                     LVN_EVERY_MICRO_BATCH, name);
    b->sum = lvn_dp_range(pass, "gradients", LVN_BUFFER_GRAD, pass->p->gradients,
                          lvn_dp_place(pass, LVN_SHARDS_GRADIENTS, b->block, mine.first), mine.count);
    for (int first = 1; first >= 0; first--) {
        struct lvn_instr *add =
            lvn_dp_append(pass, LVN_OP_accumulate, first ? LVN_FIRST_MICRO_BATCH : LVN_LATER_MICRO_BATCHES, name);
        add->attr.accumulate.copy = first;
        add->in[0] = shard;
        add->out[0] = b->sum;
    }
    if (lvn_dp_has_groups(pass)) start_groups(pass, b);
}

/* The reduction of a block overlaps with backward until the gradients of the next block are complete. */
enum lvn_status lvn_dp_append_gradients(struct dp_pass *pass, struct lvn_instr *old, int n)
{
    LVN_LOCAL_ARENA(a);
    const struct lvn_params *params = pass->p->graph->params;
    const int *last_writer = lvn_dp_last_writers(&a, pass->p);
    int *completes = lvn_arena_alloc(&a, sizeof *completes * (size_t)(n + 1));
    pass->blocks = lvn_arena_alloc(&pass->p->arena, sizeof *pass->blocks * (size_t)params->n_blocks);
    if (!last_writer || !completes || !pass->blocks) return LVN_MEMORY;
    for (int i = 0; i < n; i++) completes[i] = -1;
    find_ends(pass, last_writer, completes);
    LVN_TRY(add_values(pass));
    pass->p->n_instrs = 0;
    const int64_t mine =
        lvn_shard_total(params, lvn_sharding_owners(pass->s), lvn_sharding_owner(pass->s, pass->s->rank), true);
    pass->p->grad_buffer_bytes = (mine ? mine : LVN_PARAM_ALIGN) * lvn_dtype_bytes(pass->p->gradients);
    bool ended = false;
    for (int i = 0; i < n && !pass->failed; i++) {
        if (old[i].when == LVN_AFTER_BACKWARD) {
            end_block(pass);
            if (!ended) end_groups(pass);
            ended = true;
        }
        lvn_instr_operands(&old[i], to_view, pass);
        for (int k = 0; k < LVN_MAX_IN; k++) old[i].param_gradient[k] = false; /* each micro-batch writes a new value */
        lvn_dp_append_one(pass, &old[i]);
        for (int k = completes[i]; k >= 0; k = pass->blocks[k].next) {
            end_block(pass);
            start_block(pass, &pass->blocks[k], last_writer);
        }
    }
    end_block(pass); /* of a program without an update */
    if (!ended) end_groups(pass);
    return LVN_OK;
}
