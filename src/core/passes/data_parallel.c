/* data_parallel.c - the pass data_parallel: it inserts the collectives of data parallelism into a training program.
 *
 * Every rank runs the same program on its part of the batch. Gradients are divided into buckets: ranges of the flat
 * buffer, in the order in which backward completes them. In the last micro-batch the reduction of a bucket starts after
 * the instruction that writes its last gradient, and overlaps with the rest of backward; the norm waits for all
 * buckets. With trainer.reduce_dtype bf16 a rounded copy of the bucket is reduced and then cast back into the gradient.
 * With trainer.deterministic there are no buckets: after the last micro-batch the pending nodes of all ranks are summed
 * in the order of the tree over all micro-batches.
 *
 * zero1 (Rajbhandari et al.: "ZeRO: memory optimizations toward training trillion parameter models", 2020, stage 1):
 * every block of the model is divided among the ranks (shard.h), so no collective spans two blocks. A rank receives
 * only the gradient sums of its shards, stores and updates only their optimizer state and parameters, and receives the
 * other parameters from their owners. For the norm, the sums of squares of all shards are added to zeros, so every rank
 * adds the same values in the order of the plain norm.
 *
 * zero2 (stage 2): the flat gradients are sharded too. The gradients of a block are an arena value, from the block's
 * backward until they have been reduced, in every micro-batch, and the rank's shard has been added to its sum. Sums in
 * tree order require the whole gradients of all micro-batches, so they are only supported with ddp and zero1.
 *
 * fsdp (stage 3, and Zhao et al.: "PyTorch FSDP: experiences on scaling fully sharded data parallel", 2023): the
 * parameters are sharded too. Those of a block are an arena value, which is gathered one block ahead of its use, once
 * for forward and once for backward, and freed after its last use. An untied head is a block like any other, and so are
 * the parameters before the blocks; a tied head and its embedding are kept for the whole micro-batch, since both ends
 * use them. Parameters that are only read rounded to bf16 are rounded before they are gathered. Forward-only programs
 * gather parameters as well.
 *
 * Optimizers on whole matrices, which shards cut: see data_parallel_matrices.c.
 *
 * With trainer.fsdp_size the ranks of a group shard one copy of the model, and each group has a copy. In the last
 * micro-batch, a rank's gradient sums are added to those of its replicas in the other groups.
 *
 * Collectives are instructions with ordinary operands: the buffer of a running collective is a value that lives until
 * its wait, so memory_planning places it. The pass rebuilds the instruction list. */
#include "passes/data_parallel.h"

bool lvn_dp_has_groups(const struct dp_pass *pass)
{
    return lvn_sharding_owners(pass->s) < pass->s->size;
}

bool lvn_dp_has(const struct dp_pass *pass, enum lvn_shards what)
{
    return pass->s->sharded & what;
}

/* --- the list --- */

/* Returned instead of a new instruction when out of memory, so that callers need no check; pass->failed is then
 * set. */
static _Thread_local struct lvn_instr spare;

struct lvn_instr *lvn_dp_append(struct dp_pass *pass, enum lvn_op_id id, enum lvn_when when, const char *name)
{
    struct lvn_instr *i = lvn_program_add_instr(pass->p, id, LVN_FORWARD);
    if (!i) {
        pass->failed = true;
        i = &spare;
    }
    i->when = when;
    i->name = name;
    return i;
}

struct lvn_operand lvn_dp_range(struct dp_pass *pass, const char *name, enum lvn_buffer buffer, enum lvn_dtype dtype,
                                int64_t offset, int64_t count)
{
    struct lvn_operand o = lvn_program_add_range(pass->p, name, buffer, dtype, offset, count);
    if (o.value < 0) pass->failed = true;
    return o;
}

struct collective lvn_dp_start(struct dp_pass *pass, enum lvn_op_id id, enum lvn_when when, struct lvn_operand in,
                               struct lvn_operand result, const char *name)
{
    struct collective s = {.handle = pass->p->n_handles++, .result = result};
    s.order = lvn_dp_range(pass, "order", LVN_BUFFER_ARENA, LVN_I32, 0, 1);
    struct lvn_instr *i = lvn_dp_append(pass, id, when, name);
    i->handle = s.handle;
    i->scope = LVN_SCOPE_GROUP;
    i->in[0] = in;
    i->out[0] = result;
    i->out[1] = s.order;
    return s;
}

void lvn_dp_wait(struct dp_pass *pass, const struct collective *s, enum lvn_when when, const char *name)
{
    struct lvn_instr *i = lvn_dp_append(pass, LVN_OP_wait, when, name);
    i->handle = s->handle;
    i->in[0] = s->order;
    i->out[0] = s->result;
}

struct lvn_operand lvn_dp_to_wire(struct dp_pass *pass, struct lvn_operand gradients, enum lvn_when when,
                                  const char *name)
{
    if (!pass->s->bf16 || pass->p->gradients != LVN_F32) return gradients;
    const struct lvn_operand wire =
        lvn_dp_range(pass, "gradients to send", LVN_BUFFER_ARENA, LVN_BF16, 0, lvn_desc_count(&gradients.desc));
    struct lvn_instr *cast = lvn_dp_append(pass, LVN_OP_narrow, when, name);
    cast->in[0] = gradients;
    cast->out[0] = wire;
    return wire;
}

void lvn_dp_from_wire(struct dp_pass *pass, struct lvn_operand wire, struct lvn_operand gradients, enum lvn_when when,
                      const char *name)
{
    if (wire.value == gradients.value) return;
    struct lvn_instr *cast = lvn_dp_append(pass, LVN_OP_widen, when, name);
    cast->in[0] = wire;
    cast->out[0] = gradients;
}

struct lvn_instr *lvn_dp_latest(const struct dp_pass *pass)
{
    return pass->failed ? &spare : &pass->p->instrs[pass->p->n_instrs - 1];
}

struct collective *lvn_dp_collectives(struct dp_pass *pass)
{
    struct collective *s = lvn_arena_alloc(&pass->p->arena, sizeof *s * (size_t)(pass->p->graph->params->n_blocks + 1));
    if (!s) pass->failed = true;
    return s;
}

/* --- blocks --- */

bool lvn_dp_next_block(const struct dp_pass *pass, int *block)
{
    const struct lvn_params *params = pass->p->graph->params;
    for (++*block; lvn_block_index(*block) < params->n_blocks; ++*block)
        if (lvn_dp_block(pass, *block)->count) return true;
    return false;
}

int lvn_dp_block_of(struct dp_pass *pass, int64_t element)
{
    const struct lvn_param_block *b = pass->p->graph->params->blocks;
    while (element >= b[pass->last_block].offset + b[pass->last_block].count) pass->last_block++;
    return pass->last_block + LVN_BLOCK_OUTSIDE;
}

const struct lvn_param_block *lvn_dp_block(const struct dp_pass *pass, int block)
{
    return &pass->p->graph->params->blocks[lvn_block_index(block)];
}

struct lvn_shard lvn_dp_shard(const struct dp_pass *pass, int block)
{
    return lvn_dp_part(pass, lvn_dp_block(pass, block));
}

struct lvn_shard lvn_dp_part(const struct dp_pass *pass, const struct lvn_param_block *range)
{
    return lvn_shard_at(range, lvn_sharding_owners(pass->s), lvn_sharding_owner(pass->s, pass->s->rank));
}

int64_t lvn_dp_part_place(const struct dp_pass *pass, const struct lvn_param_block *range, int64_t element)
{
    return lvn_shard_offset(range, lvn_sharding_owners(pass->s), lvn_sharding_owner(pass->s, pass->s->rank), element);
}

int64_t lvn_dp_place(const struct dp_pass *pass, enum lvn_shards what, int block, int64_t element)
{
    if (!lvn_dp_has(pass, what)) return element;
    return lvn_dp_part_place(pass, lvn_dp_block(pass, block), element);
}

struct lvn_operand lvn_dp_view(const struct lvn_param_block *block, struct lvn_operand all, int64_t first,
                               int64_t count)
{
    all.desc = lvn_desc_make(all.desc.dtype, 1, &count);
    all.desc.offset = first - block->offset;
    return all;
}

int *lvn_dp_last_writers(struct lvn_arena *a, const struct lvn_program *p)
{
    int *last = lvn_arena_alloc(a, sizeof *last * (size_t)(p->graph->params->n + 1));
    for (int i = 0; last && i < p->graph->params->n; i++) last[i] = -1;
    for (int n = 0; last && n < p->n_instrs; n++)
        for (int k = 0; k < LVN_MAX_IN; k++) {
            int v = p->instrs[n].din[k].value;
            if (v >= 0 && p->values[v].buffer == LVN_BUFFER_GRAD && p->values[v].param)
                last[p->values[v].param->number] = n;
        }
    return last;
}

/* --- the pass --- */

/* Insert the collectives of a training step, and restrict updates to this rank's shards. */
static enum lvn_status share_training(struct dp_pass *pass)
{
    struct lvn_program *p = pass->p;
    const int n = p->n_instrs;
    struct lvn_instr *old = lvn_arena_alloc(&p->arena, sizeof *old * (size_t)(n + 1));
    if (!old) return LVN_MEMORY;
    memcpy(old, p->instrs, sizeof *old * (size_t)n);
    pass->flops = lvn_arena_alloc(&p->arena, sizeof *pass->flops * (size_t)pass->s->size);
    if (!pass->flops) return LVN_MEMORY;
    for (int k = 0; k < pass->s->size; k++) pass->flops[k] = 0;
    if (lvn_dp_has(pass, LVN_SHARDS_GRADIENTS)) {
        LVN_TRY(lvn_dp_append_gradients(pass, old, n));
    } else {
        if (!pass->s->tree) LVN_TRY(lvn_dp_find_buckets(pass));
        p->n_instrs = 0;
        lvn_dp_append_sums(pass, old, n);
    }
    lvn_dp_end_matrices(pass);
    if (lvn_dp_has(pass, LVN_SHARDS_STATE) && !lvn_dp_has(pass, LVN_SHARDS_PARAMETERS)) lvn_dp_append_gathers(pass);
    return pass->failed ? LVN_MEMORY : LVN_OK;
}

enum lvn_status lvn_pass_data_parallel(struct lvn_program *p, const struct lvn_sharding *s,
                                       const struct lvn_device *device)
{
    if (s->size <= 1) return LVN_OK;
    LVN_CHECK(!(s->tree && s->sharded & LVN_SHARDS_GRADIENTS), INTERNAL,
              "sums in the order of the tree need whole gradients");
    struct dp_pass pass = {.p = p, .s = s, .device = device};
    if (lvn_dp_has(&pass, LVN_SHARDS_PARAMETERS)) LVN_TRY(lvn_dp_gather_parameters(&pass, device));
    return p->training ? share_training(&pass) : LVN_OK;
}
