/* data_parallel_update.c - norm and update of the parameters that a rank owns, and, for zero1 and zero2, the gathers of
 * the updated parameters; see data_parallel.c. */
#include "passes/data_parallel.h"

/* Restrict an operand of an update, a range of a flat buffer or of the arena, to this rank's part. */
static void cut(struct dp_pass *pass, struct lvn_operand *o, int block, const struct lvn_operand *directions,
                const struct lvn_shard *part)
{
    if (o->value < 0) return;
    struct lvn_value *v = &pass->p->values[o->value];
    if (v->buffer == LVN_BUFFER_ARENA) {
        *o = lvn_dp_view(lvn_dp_block(pass, block), *directions, part->first, part->count);
        return;
    }
    const enum lvn_shards what = v->buffer == LVN_BUFFER_GRAD    ? LVN_SHARDS_GRADIENTS
                                 : v->buffer == LVN_BUFFER_PARAM ? LVN_SHARDS_PARAMETERS
                                                                 : LVN_SHARDS_STATE;
    v->offset = lvn_dp_place(pass, what, block, part->first) * lvn_dtype_bytes(v->dtype);
    v->bytes = part->count * lvn_dtype_bytes(v->dtype);
    o->desc = lvn_desc_make(v->dtype, 1, &part->count);
}

/* The buffers of optimizer state hold only the rank's shards. */
void lvn_dp_append_part(struct dp_pass *pass, struct lvn_instr i, int block, struct lvn_operand directions)
{
    const int64_t first = i.attr.update.first;
    const struct lvn_shard part =
        lvn_shard_within(lvn_dp_block(pass, block), lvn_sharding_owners(pass->s),
                         lvn_sharding_owner(pass->s, pass->s->rank), first, lvn_desc_count(&i.in[0].desc));
    if (!part.count) return;
    cut(pass, &i.in[0], block, &directions, &part);
    for (int k = 0; k < LVN_MAX_OUT; k++) cut(pass, &i.out[k], block, &directions, &part);
    i.attr.update.first = part.first;
    i.attr.update.number += part.first - first;
    *lvn_dp_append(pass, i.id, i.when, i.name) = i;
}

/* The sums of squares of a block: this rank's shard, and zeros elsewhere. */
static void append_squares(struct dp_pass *pass, int block, struct lvn_operand all)
{
    const struct lvn_param_block *b = lvn_dp_block(pass, block);
    const struct lvn_shard mine = lvn_dp_shard(pass, block);
    const int64_t from = b->offset / LVN_NORM_BLOCK;
    int64_t sums = all.desc.dim[0] - from; /* up to the next block or the end, including gaps */
    for (int next = block; lvn_dp_next_block(pass, &next);) {
        sums = lvn_dp_block(pass, next)->offset / LVN_NORM_BLOCK - from;
        break;
    }
    struct lvn_instr *i = lvn_dp_append(pass, LVN_OP_grad_squares, LVN_AFTER_BACKWARD, "squares of the shards");
    i->attr.grad_squares.first = (mine.first - b->offset) / LVN_NORM_BLOCK;
    i->attr.grad_squares.sums = sums;
    i->out[0] = all;
    i->out[0].desc = lvn_desc_make(LVN_F64, 1, &sums);
    i->out[0].desc.offset = from;
    if (mine.count > 0)
        i->in[0] = lvn_dp_range(pass, "gradients", LVN_BUFFER_GRAD, pass->p->gradients,
                                lvn_dp_place(pass, LVN_SHARDS_GRADIENTS, block, mine.first), mine.count);
}

/* Append the norm of all gradients: sums of squares of this rank's shards, those of all ranks, and the total. */
static void append_norm(struct dp_pass *pass, const struct lvn_instr *norm)
{
    static const char name[] = "squares of all shards";
    const int64_t blocks = lvn_norm_blocks(pass->p->graph->params->trainable_count);
    const struct lvn_operand all = lvn_dp_range(pass, "sums of squares", LVN_BUFFER_ARENA, LVN_F64, 0, blocks);
    for (int block = LVN_DP_NO_BLOCK; lvn_dp_next_block(pass, &block);) append_squares(pass, block, all);
    const struct collective s = lvn_dp_start(pass, LVN_OP_all_reduce, LVN_AFTER_BACKWARD, all, all, name);
    lvn_dp_wait(pass, &s, LVN_AFTER_BACKWARD, name);
    struct lvn_instr *clip = lvn_dp_append(pass, LVN_OP_grad_clip, LVN_AFTER_BACKWARD, norm->name);
    clip->attr.grad_clip.clip_norm = norm->attr.grad_norm.clip_norm;
    clip->in[0] = all;
}

void lvn_dp_append_one(struct dp_pass *pass, const struct lvn_instr *i)
{
    if (i->when != LVN_AFTER_BACKWARD || !lvn_dp_has(pass, LVN_SHARDS_STATE))
        *lvn_dp_append(pass, i->id, i->when, i->name) = *i;
    else if (i->id == LVN_OP_grad_norm)
        append_norm(pass, i);
    else if (!lvn_dp_append_matrix(pass, i))
        lvn_dp_append_part(pass, *i, lvn_dp_block_of(pass, i->attr.update.first), LVN_NO_OPERAND);
}

/* Append the gathers of the updated parameters. */
void lvn_dp_append_gathers(struct dp_pass *pass)
{
    static const char name[] = "parameters of all shards";
    struct lvn_program *p = pass->p;
    struct collective *s = lvn_dp_collectives(pass);
    int n = 0;
    for (int block = LVN_DP_NO_BLOCK; s && lvn_dp_next_block(pass, &block); n++) {
        const struct lvn_param_block *b = lvn_dp_block(pass, block);
        const struct lvn_shard shard = lvn_dp_shard(pass, block);
        struct lvn_operand mine = LVN_NO_OPERAND;
        if (shard.count > 0)
            mine = lvn_dp_range(pass, "parameters", LVN_BUFFER_PARAM, p->weights, shard.first, shard.count);
        const struct lvn_operand all =
            lvn_dp_range(pass, "parameters", LVN_BUFFER_PARAM, p->weights, b->offset, b->count);
        s[n] = lvn_dp_start(pass, LVN_OP_all_gather, LVN_AFTER_BACKWARD, mine, all, name);
        lvn_dp_latest(pass)->attr.all_gather.block = block;
    }
    for (int k = 0; k < n; k++) lvn_dp_wait(pass, &s[k], LVN_AFTER_BACKWARD, name);
}
