/* data_parallel_matrices.c - optimizers on whole matrices with sharded optimizer state; see data_parallel.c.
 *
 * Shards cut matrices, so a rank computes only the directions of its shard. The directions of a block are gathered into
 * an arena value. One rank computes each matrix: the one with the least work so far. A reduce_scatter sends every rank
 * the steps of its shard; all other ranks add zeros, so the sum is bitwise equal to the step.
 *
 * If every rank computed all matrices of which it owns a part, no reduce_scatter would be needed. But the arithmetic,
 * which dominates the update, would shrink by only a third on any number of ranks: a matrix of n elements whose smaller
 * side is C costs about 20 n C operations, and the exchange only 4 n bytes.
 *
 * Blocks are pipelined: while a block's matrices are computed, the directions of the next block are being gathered and
 * the steps of the previous one are being sent. So at most three blocks are in the arena, and matrices of two blocks
 * can be computed at the same time. */
#include "passes/data_parallel.h"

static bool in_arena(const struct dp_pass *pass, const struct lvn_operand *o)
{
    return o->value >= 0 && pass->p->values[o->value].buffer == LVN_BUFFER_ARENA;
}

/* Does the instruction set the directions of a matrix? The next instruction computes the step of the whole matrix, and
 * the one after it applies the step (update.c). */
static bool sets_directions(const struct dp_pass *pass, const struct lvn_instr *i)
{
    return !in_arena(pass, &i->in[0]) && in_arena(pass, &i->out[0]);
}

/* The instruction that sets the directions of the block's next matrix after `i` (NULL: of its first matrix). Returns
 * NULL if there is none. */
static const struct lvn_instr *next_matrix(const struct dp_pass *pass, const struct matrix_block *b,
                                           const struct lvn_instr *i)
{
    for (i = i ? i + 3 : b->first; i <= b->last; i++)
        if (sets_directions(pass, i)) return i;
    return NULL;
}

static void start_gather(struct dp_pass *pass, struct matrix_block *b)
{
    const struct lvn_shard mine = lvn_dp_shard(pass, b->block);
    struct lvn_operand shard = LVN_NO_OPERAND;
    if (mine.count) shard = lvn_dp_view(lvn_dp_block(pass, b->block), b->directions, mine.first, mine.count);
    b->collective =
        lvn_dp_start(pass, LVN_OP_all_gather, LVN_AFTER_BACKWARD, shard, b->directions, "directions of a block");
    lvn_dp_latest(pass)->attr.all_gather.block = b->block;
}

/* Assign the matrix to the rank with the least work; true: to this rank. All ranks call this for all matrices in the
 * same order. The matrix's owner is recorded for checkpoints, because only the owner has the moments of its lines. */
static bool assign(struct dp_pass *pass, const struct lvn_instr *directions)
{
    const struct lvn_params *params = pass->p->graph->params;
    int min = 0; /* the rank with the least work */
    for (int k = 1; k < lvn_sharding_owners(pass->s); k++)
        if (pass->flops[k] < pass->flops[min]) min = k;
    pass->flops[min] += lvn_instr_flops(directions + 1);
    for (int i = 0; i < params->n; i++)
        if (params->flat[i]->offset == directions->attr.update.first) params->flat[i]->owner = min;
    return min == lvn_sharding_owner(pass->s, pass->s->rank);
}

/* Fill elements [first, end) of the flat buffers, which other ranks compute, with zeros. */
static void append_zeros(struct dp_pass *pass, const struct matrix_block *b, int64_t first, int64_t end)
{
    if (first >= end) return;
    struct lvn_instr *i = lvn_dp_append(pass, LVN_OP_zeros, LVN_AFTER_BACKWARD, "matrices of other ranks");
    i->out[0] = lvn_dp_view(lvn_dp_block(pass, b->block), b->directions, first, end - first);
}

/* Compute this rank's matrices, and start to send all ranks their steps. */
static void compute(struct dp_pass *pass, struct matrix_block *b)
{
    static const char name[] = "steps of a block";
    const struct lvn_param_block *block = lvn_dp_block(pass, b->block);
    int64_t computed = block->offset; /* elements before this one hold steps or zeros */
    lvn_dp_wait(pass, &b->collective, LVN_AFTER_BACKWARD, name);
    for (const struct lvn_instr *m = NULL; (m = next_matrix(pass, b, m));) {
        const int64_t first = m->attr.update.first, count = lvn_desc_count(&m->in[0].desc);
        struct lvn_instr whole = m[1];
        if (!assign(pass, m)) continue;
        append_zeros(pass, b, computed, first);
        whole.in[0].value = b->directions.value;
        whole.in[0].desc.offset = first - block->offset;
        whole.out[0] = whole.in[0];
        *lvn_dp_append(pass, whole.id, whole.when, whole.name) = whole;
        computed = first + count;
    }
    append_zeros(pass, b, computed, block->offset + block->count);
    b->collective = lvn_dp_start(pass, LVN_OP_reduce_scatter, LVN_AFTER_BACKWARD, b->directions, b->directions, name);
    lvn_dp_latest(pass)->attr.reduce_scatter.block = b->block;
    lvn_dp_latest(pass)->attr.reduce_scatter.first = block->offset;
}

static void apply_steps(struct dp_pass *pass, const struct matrix_block *b)
{
    lvn_dp_wait(pass, &b->collective, LVN_AFTER_BACKWARD, "steps of a block");
    for (const struct lvn_instr *m = NULL; (m = next_matrix(pass, b, m));)
        lvn_dp_append_part(pass, m[2], b->block, b->directions);
}

/* All directions of the latest block are set: advance each block by one stage. */
static void advance(struct dp_pass *pass)
{
    struct matrix_block *b = pass->matrices;
    if (b[0].first) start_gather(pass, &b[0]);
    if (b[1].first) compute(pass, &b[1]);
    if (b[2].first) apply_steps(pass, &b[2]);
    b[2] = b[1];
    b[1] = b[0];
    b[0] = (struct matrix_block){0};
}

bool lvn_dp_append_matrix(struct dp_pass *pass, const struct lvn_instr *i)
{
    struct matrix_block *b = &pass->matrices[0];
    if (in_arena(pass, &i->in[0])) return true;
    if (!sets_directions(pass, i)) return false;
    const int block = lvn_dp_block_of(pass, i->attr.update.first);
    if (b->first && b->block != block) advance(pass);
    if (!b->first) {
        const int64_t count = lvn_dp_block(pass, block)->count;
        *b = (struct matrix_block){.block = block, .first = i};
        b->directions = lvn_dp_range(pass, "directions of a block", LVN_BUFFER_ARENA, pass->p->real, 0, count);
    }
    b->last = i;
    lvn_dp_append_part(pass, *i, block, b->directions);
    return true;
}

void lvn_dp_end_matrices(struct dp_pass *pass)
{
    for (int stage = 0; stage < LVN_MATRIX_STAGES; stage++) advance(pass);
}
