/* program_checksum.c - lvn_program_new_checksums(): a program that computes a checksum of each parameter on the device,
 * so that ranks can compare their replicas (engine/parameter_sums.h) without copying device memory. Of the
 * passes only verify and memory_planning are applied to it. */
#include "passes/pass.h"
#include "passes/shard.h"

/* This rank's part of a parameter: elements [*at, *at + count) of the parameter buffer; returns count. */
static int64_t part_of(const struct lvn_params *params, const struct lvn_param *param, const struct lvn_sharding *s,
                       int64_t *at)
{
    *at = param->offset;
    if (!s) return param->count;
    const struct lvn_param_block *b = lvn_params_block_of(params, param);
    const int owners = lvn_sharding_owners(s), owner = lvn_sharding_owner(s, s->rank);
    const struct lvn_shard part = lvn_shard_within(b, owners, owner, param->offset, param->count);
    *at = lvn_shard_offset(b, owners, owner, part.first);
    return part.count;
}

static enum lvn_status append_all(struct lvn_program *p, const struct lvn_sharding *sharding, struct lvn_operand *sums)
{
    const struct lvn_params *params = p->graph->params;
    *sums = lvn_program_add_range(p, "checksums", LVN_BUFFER_ARENA, LVN_I32, 0, 4 * (int64_t)params->n);
    if (sums->value < 0) return LVN_MEMORY;
    p->values[sums->value].keep = true;
    for (int n = 0; n < params->n; n++) {
        const struct lvn_param *param = params->list[n];
        int64_t at, count = part_of(params, param, sharding, &at);
        if (!count && !lvn_param_is_packed(param)) continue;
        struct lvn_instr *i = lvn_program_add_instr(p, LVN_OP_parameter_checksum, LVN_FORWARD);
        if (!i) return LVN_MEMORY;
        i->name = param->name;
        i->out[0] = (struct lvn_operand){.value = sums->value, .desc = LVN_DESC(LVN_I32, 4)};
        i->out[0].desc.offset = 4 * (int64_t)n;
        i->in[0] = lvn_param_is_packed(param) /* its bytes, viewed as fp32 elements */
                       ? lvn_program_add_range(p, param->name, LVN_BUFFER_PACKED, LVN_F32, param->packed_offset / 4,
                                               param->packed_bytes / 4)
                       : lvn_program_add_range(p, param->name, LVN_BUFFER_PARAM, p->weights, at, count);
        if (i->in[0].value < 0) return LVN_MEMORY;
    }
    return LVN_OK;
}

enum lvn_status lvn_program_new_checksums(struct lvn_program **out, struct levin_graph *g, enum lvn_dtype weights,
                                          const struct lvn_sharding *sharding, struct lvn_device *device,
                                          struct lvn_operand *sums)
{
    struct lvn_program *p;
    *out = NULL;
    LVN_TRY(lvn_program_build(&p, g, NULL, 0));
    p->weights = weights;
    return lvn_program_finish(out, p, 0, device, append_all(p, sharding, sums));
}
