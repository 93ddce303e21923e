/* shard_checksums.c - the pass that maintains running sums of the bits of shards and gathered parameters, which detect
 * flipped bits (engine/parameter_sums.h). It runs after the pass data_parallel.
 *
 * No rank has a replica of a shard. Therefore each update maintains the sum of its parameters and moments: it adds the
 * bits that it writes and subtracts those that it reads (ops/update.h). A bit that changes in between is subtracted
 * although it was never added. From then on the running sum differs from the sum of the memory after any number of
 * updates, so comparing them rarely is enough. Frozen parameters have a constant sum.
 *
 * With fsdp each rank temporarily holds a copy of gathered parameters. Within sharding.sums_every steps each block is
 * selected once, at random: then every rank adds the bits of each copy to one sum, and those of its own part to another
 * one. The first sum must equal the second one, added over the ranks of the group. */
#include "passes/shard_checksums.h"

#include "passes/pass.h"
#include "passes/shard.h"

int64_t lvn_program_sums_count(const struct lvn_program *training)
{
    return training->n_shard_checksums + 2 * (int64_t)training->graph->params->n_blocks;
}

/* --- in the training program --- */

/* Mask of the outputs of an update that are parameters and moments; 0: the instruction is no update. */
static unsigned updated(const struct lvn_program *p, const struct lvn_instr *i)
{
    unsigned mask = 0;
    for (int k = 0; k < i->op->n_out && i->op->n_saved && i->when == LVN_AFTER_BACKWARD; k++) {
        if (i->out[k].value < 0) continue;
        const enum lvn_buffer b = p->values[i->out[k].value].buffer;
        if (b == LVN_BUFFER_PARAM || b == LVN_BUFFER_STATE0 || b == LVN_BUFFER_STATE1) mask |= 1u << k;
    }
    return mask;
}

/* This rank's part of a block's frozen parameters; false: they are not sharded, or it has none. */
static bool find_frozen_shard(const struct lvn_program *p, const struct lvn_sharding *s, int block,
                              struct lvn_shard *part)
{
    const struct lvn_param_block *b = &p->graph->params->frozen[block];
    if (!(s->sharded & LVN_SHARDS_PARAMETERS) || !b->count) return false;
    *part = lvn_shard_at(b, lvn_sharding_owners(s), lvn_sharding_owner(s, s->rank));
    return part->count > 0;
}

static struct lvn_operand running_sum(struct lvn_program *p, int64_t at)
{
    return lvn_program_add_range(p, "sums", LVN_BUFFER_SUMS, LVN_I32, at, 1);
}

/* Append the sum of the gathered parameters of block `block` (lvn_block_index()), or of this rank's part of them. */
static enum lvn_status append_sum(struct lvn_program *p, const struct lvn_sharding *s, struct lvn_operand of, int block,
                                  bool own)
{
    struct lvn_instr *i = lvn_program_add_instr(p, LVN_OP_bits_sum, LVN_FORWARD);
    if (!i) return LVN_MEMORY;
    i->name = own ? "bits of a shard" : "bits of gathered parameters";
    i->attr.bits_sum.number = block;
    i->attr.bits_sum.period = s->sums_every;
    i->in[0] = of;
    i->in[0].desc = lvn_desc_make(of.desc.dtype, 1, &(int64_t){lvn_desc_count(&of.desc)});
    i->in[0].desc.offset = of.desc.offset;
    i->out[0] = running_sum(p, p->n_shard_checksums + (own ? p->graph->params->n_blocks : 0) + block);
    return i->out[0].value < 0 ? LVN_MEMORY : LVN_OK;
}

/* Does the instruction gather parameters whose bits are summed? */
static bool is_gather(const struct lvn_sharding *s, const struct lvn_instr *i)
{
    return s->sums_every && s->sharded & LVN_SHARDS_PARAMETERS && i->when == LVN_EVERY_MICRO_BATCH &&
           i->id == LVN_OP_all_gather;
}

/* Append the n instructions of `old`, with sums around those that gather parameters. block_of: [n_handles] the block of
 * each gather's handle; -1: another collective. */
static enum lvn_status append_all(struct lvn_program *p, const struct lvn_sharding *s, const struct lvn_instr *old,
                                  int n, int *block_of)
{
    for (int k = 0; k < p->n_handles; k++) block_of[k] = -1;
    for (int k = 0; k < n; k++) {
        const struct lvn_instr *i = &old[k];
        const bool starts = is_gather(s, i), ends = i->id == LVN_OP_wait && block_of[i->handle] >= 0;
        if (starts) block_of[i->handle] = lvn_block_index(i->attr.all_gather.block);
        if (starts && i->in[0].value >= 0) LVN_TRY(append_sum(p, s, i->in[0], block_of[i->handle], true));
        struct lvn_instr *copy = lvn_program_add_instr(p, i->id, i->phase);
        if (!copy) return LVN_MEMORY;
        *copy = *i;
        if (ends) LVN_TRY(append_sum(p, s, i->out[0], block_of[i->handle], false));
    }
    return LVN_OK;
}

/* Make the updates maintain running sums. */
static enum lvn_status sum_updates(struct lvn_program *p)
{
    for (int k = 0; k < p->n_instrs; k++) {
        struct lvn_instr *i = &p->instrs[k];
        const unsigned mask = updated(p, i);
        if (!mask) continue;
        i->attr.update.summed = mask;
        i->out[i->op->n_out] = running_sum(p, p->n_shard_checksums++);
        if (i->out[i->op->n_out].value < 0) return LVN_MEMORY;
    }
    return LVN_OK;
}

enum lvn_status lvn_pass_shard_checksums(struct lvn_program *p, const struct lvn_sharding *s)
{
    const int n = p->n_instrs;
    int more = 0;
    struct lvn_shard part;
    if (s->size <= 1 || !(s->sharded & LVN_SHARDS_STATE)) return LVN_OK;
    LVN_TRY(sum_updates(p));
    for (int b = 0; b < p->graph->params->n_blocks; b++) p->n_shard_checksums += find_frozen_shard(p, s, b, &part);
    for (int k = 0; k < n; k++) more += is_gather(s, &p->instrs[k]) ? 2 : 0;
    int *block_of = lvn_arena_alloc(&p->arena, sizeof *block_of * (size_t)(p->n_handles + 1));
    struct lvn_instr *old = p->instrs, *instrs = more ? lvn_malloc(sizeof *old * (size_t)(n + more)) : NULL;
    if (!more) return LVN_OK;
    if (!block_of || !instrs) {
        free(instrs);
        return LVN_MEMORY;
    }
    p->instrs = instrs; /* exact size, since lists of large models are large */
    p->instrs_capacity = n + more;
    p->n_instrs = 0;
    const enum lvn_status status = append_all(p, s, old, n, block_of);
    free(old);
    return status;
}

/* --- the program that sums the memory --- */

/* Append the bits of a range to sum number `sum`; `first`: its first element in the flat parameters. */
static enum lvn_status append_range(struct lvn_program *p, struct lvn_operand range, int64_t first,
                                    struct lvn_operand sums, int sum)
{
    const struct lvn_params *params = p->graph->params;
    int q = 0;
    while (q + 1 < params->n && params->flat[q]->offset + params->flat[q]->count <= first) q++;
    struct lvn_instr *i = lvn_program_add_instr(p, LVN_OP_bits_sum, LVN_FORWARD);
    if (!i) return LVN_MEMORY;
    i->name = params->flat[q]->name;
    i->block = params->flat[q]->block;
    i->in[0] = range;
    i->out[0] = (struct lvn_operand){.value = sums.value, .desc = LVN_DESC(LVN_I32, 1)};
    i->out[0].desc.offset = sum;
    return i->in[0].value < 0 ? LVN_MEMORY : LVN_OK;
}

static enum lvn_status append_ranges(struct lvn_program *p, const struct lvn_program *training,
                                     const struct lvn_sharding *s, struct lvn_operand *sums)
{
    int n = 0;
    struct lvn_shard part;
    *sums = lvn_program_add_range(p, "sums", LVN_BUFFER_ARENA, LVN_I32, 0, training->n_shard_checksums + 1);
    struct lvn_instr *zeros = lvn_program_add_instr(p, LVN_OP_zeros, LVN_FORWARD);
    if (sums->value < 0 || !zeros) return LVN_MEMORY;
    p->values[sums->value].keep = true;
    zeros->name = "sums";
    zeros->out[0] = *sums;
    for (int k = 0; k < training->n_instrs; k++) {
        const struct lvn_instr *i = &training->instrs[k];
        const unsigned mask = updated(training, i);
        if (!mask) continue;
        for (int o = 0; o < i->op->n_out; o++) {
            if (!(mask >> o & 1)) continue;
            const struct lvn_value *v = &training->values[i->out[o].value];
            const int64_t at = v->offset / lvn_dtype_bytes(v->dtype) + i->out[o].desc.offset;
            const struct lvn_operand range =
                lvn_program_add_range(p, v->name, v->buffer, v->dtype, at, lvn_desc_count(&i->out[o].desc));
            LVN_TRY(append_range(p, range, i->attr.update.first, *sums, n));
        }
        n++;
    }
    for (int b = 0; b < p->graph->params->n_blocks; b++) {
        if (!find_frozen_shard(p, s, b, &part)) continue;
        const int64_t at = lvn_shard_offset(&p->graph->params->frozen[b], lvn_sharding_owners(s),
                                            lvn_sharding_owner(s, s->rank), part.first);
        const struct lvn_operand range =
            lvn_program_add_range(p, "parameters", LVN_BUFFER_PARAM, p->weights, at, part.count);
        LVN_TRY(append_range(p, range, part.first, *sums, n++));
    }
    return LVN_OK;
}

enum lvn_status lvn_program_new_shard_checksums(struct lvn_program **out, struct levin_graph *graph,
                                                const struct lvn_program *training, const struct lvn_sharding *sharding,
                                                struct lvn_device *device, struct lvn_operand *sums)
{
    struct lvn_program *p;
    *out = NULL;
    LVN_TRY(lvn_program_build(&p, graph, NULL, 0));
    p->weights = training->weights;
    return lvn_program_finish(out, p, 0, device, append_ranges(p, training, sharding, sums));
}
