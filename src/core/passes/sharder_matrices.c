/* sharder_matrices.c - optimizers on whole matrices with sharded optimizer state; see sharder.c.
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
#include "passes/sharder.h"

static bool in_arena(const struct sharder *sharder, const struct lvn_operand *o)
{
    return o->value >= 0 && sharder->p->values[o->value].buffer == LVN_BUFFER_ARENA;
}

/* Does the instruction set the directions of a matrix? The next instruction computes the step of the whole matrix, and
 * the one after it applies the step (update.c). */
static bool sets_directions(const struct sharder *sharder, const struct lvn_instr *i)
{
    return !in_arena(sharder, &i->in[0]) && in_arena(sharder, &i->out[0]);
}

/* The instruction that sets the directions of the block's next matrix after `i` (NULL: of its first matrix); NULL: no
 * more. */
static const struct lvn_instr *next_matrix(const struct sharder *sharder, const struct matrix_block *b,
                                           const struct lvn_instr *i)
{
    for (i = i ? i + 3 : b->first; i <= b->last; i++)
        if (sets_directions(sharder, i)) return i;
    return NULL;
}

static void start_gather(struct sharder *sharder, struct matrix_block *b)
{
    const struct lvn_shard mine = lvn_sharder_shard(sharder, b->block);
    struct lvn_operand shard = LVN_NO_OPERAND;
    if (mine.count)
        shard = lvn_sharder_view(lvn_sharder_block(sharder, b->block), b->directions, mine.first, mine.count);
    b->collective = lvn_sharder_start(sharder, LVN_OP_all_gather, LVN_AFTER_BACKWARD, shard, b->directions,
                                      "directions of a block");
    lvn_sharder_latest(sharder)->attr.all_gather.block = b->block;
}

/* Is the matrix assigned to this rank? All ranks call this for all matrices in the same order. Its owner, which alone
 * keeps moments of its lines, is recorded for checkpoints. */
static bool is_mine(struct sharder *sharder, const struct lvn_instr *directions)
{
    const struct lvn_params *params = sharder->p->graph->params;
    int min = 0; /* the rank with the least work */
    for (int k = 1; k < lvn_sharding_owners(sharder->s); k++)
        if (sharder->flops[k] < sharder->flops[min]) min = k;
    sharder->flops[min] += lvn_instr_flops(directions + 1);
    for (int i = 0; i < params->n; i++)
        if (params->flat[i]->offset == directions->attr.update.first) params->flat[i]->owner = min;
    return min == lvn_sharding_owner(sharder->s, sharder->s->rank);
}

static void append_zeros(struct sharder *sharder, const struct matrix_block *b, int64_t first, int64_t end)
{
    if (first >= end) return;
    struct lvn_instr *i = lvn_sharder_append(sharder, LVN_OP_zeros, LVN_AFTER_BACKWARD, "matrices of other ranks");
    i->out[0] = lvn_sharder_view(lvn_sharder_block(sharder, b->block), b->directions, first, end - first);
}

/* Compute this rank's matrices, and start to send all ranks their steps. */
static void compute(struct sharder *sharder, struct matrix_block *b)
{
    static const char name[] = "steps of a block";
    const struct lvn_param_block *block = lvn_sharder_block(sharder, b->block);
    int64_t computed = block->offset; /* elements before this one hold steps or zeros */
    lvn_sharder_wait(sharder, &b->collective, LVN_AFTER_BACKWARD, name);
    for (const struct lvn_instr *m = NULL; (m = next_matrix(sharder, b, m));) {
        const int64_t first = m->attr.update.first, count = lvn_desc_count(&m->in[0].desc);
        struct lvn_instr whole = m[1];
        if (!is_mine(sharder, m)) continue;
        append_zeros(sharder, b, computed, first);
        whole.in[0].value = b->directions.value;
        whole.in[0].desc.offset = first - block->offset;
        whole.out[0] = whole.in[0];
        *lvn_sharder_append(sharder, whole.id, whole.when, whole.name) = whole;
        computed = first + count;
    }
    append_zeros(sharder, b, computed, block->offset + block->count);
    b->collective =
        lvn_sharder_start(sharder, LVN_OP_reduce_scatter, LVN_AFTER_BACKWARD, b->directions, b->directions, name);
    lvn_sharder_latest(sharder)->attr.reduce_scatter.block = b->block;
    lvn_sharder_latest(sharder)->attr.reduce_scatter.first = block->offset;
}

static void apply_steps(struct sharder *sharder, const struct matrix_block *b)
{
    lvn_sharder_wait(sharder, &b->collective, LVN_AFTER_BACKWARD, "steps of a block");
    for (const struct lvn_instr *m = NULL; (m = next_matrix(sharder, b, m));)
        lvn_sharder_append_part(sharder, m[2], b->block, b->directions);
}

/* All directions of the latest block are set: advance each block by one stage. */
static void advance(struct sharder *sharder)
{
    struct matrix_block *b = sharder->matrices;
    if (b[0].first) start_gather(sharder, &b[0]);
    if (b[1].first) compute(sharder, &b[1]);
    if (b[2].first) apply_steps(sharder, &b[2]);
    b[2] = b[1];
    b[1] = b[0];
    b[0] = (struct matrix_block){0};
}

bool lvn_sharder_append_matrix(struct sharder *sharder, const struct lvn_instr *i)
{
    struct matrix_block *b = &sharder->matrices[0];
    if (in_arena(sharder, &i->in[0])) return true;
    if (!sets_directions(sharder, i)) return false;
    const int block = lvn_sharder_block_of(sharder, i->attr.update.first);
    if (b->first && b->block != block) advance(sharder);
    if (!b->first) {
        const int64_t count = lvn_sharder_block(sharder, block)->count;
        *b = (struct matrix_block){.block = block, .first = i};
        b->directions =
            lvn_sharder_range(sharder, "directions of a block", LVN_BUFFER_ARENA, sharder->p->real, 0, count);
    }
    b->last = i;
    lvn_sharder_append_part(sharder, *i, block, b->directions);
    return true;
}

void lvn_sharder_end_matrices(struct sharder *sharder)
{
    for (int stage = 0; stage < LVN_MATRIX_STAGES; stage++) advance(sharder);
}
