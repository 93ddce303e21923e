/* program.c - lvn_program_new() runs all passes in order; see program.h. */
#include "passes/program.h"

#include "passes/device_query.h"
#include "passes/pass.h"

/* Are updates of matrices to be computed side by side? With sharded state data_parallel_matrices.c arranges them. */
static bool runs_side_by_side(const struct lvn_plan_options *o)
{
    return lvn_device_threads(o->device) > 1 && !(o->sharding && o->sharding->sharded);
}

enum lvn_status lvn_program_new(struct lvn_program **out, struct levin_graph *g, struct levin_tensor *const *outputs,
                                int n_outputs, const struct lvn_plan_options *o)
{
    struct lvn_program *p;
    *out = NULL;
    LVN_TRY(lvn_program_build(&p, g, outputs, n_outputs));
    enum lvn_status s = lvn_pass_prune(p);
    if (s == LVN_OK && o->fuse) s = lvn_pass_fuse(p);
    if (s == LVN_OK && o->fuse) s = lvn_pass_fuse_chains(p);
    if (s == LVN_OK) s = lvn_pass_mixed_precision(p, o->precision, o->device);
    p->gradients = o->n_partial_sums > LVN_BF16_PARTIAL_SUMS_MAX ? p->real : p->weights;
    p->writes_gradients = o->sharding && o->sharding->sharded & LVN_SHARDS_GRADIENTS;
    if (s == LVN_OK && o->train) s = lvn_pass_differentiate(p);
    if (s == LVN_OK && o->train)
        s = o->recompute == LVN_RECOMPUTE_BLOCKS ? lvn_pass_blocks(p) : lvn_pass_recompute(p, o->recompute, o->device);
    if (s == LVN_OK && o->train) s = lvn_pass_gradient_accumulation(p, o->tree);
    if (s == LVN_OK && o->train && o->optimizer) s = lvn_pass_update(p, o->optimizer, runs_side_by_side(o));
    if (s == LVN_OK && o->sharding) s = lvn_pass_data_parallel(p, o->sharding, o->device);
    if (s == LVN_OK && o->sharding && o->train && o->optimizer) s = lvn_pass_shard_checksums(p, o->sharding);
    if (s == LVN_OK && o->train && o->optimizer && o->precision == LVN_PRECISION_16_MIXED)
        s = lvn_pass_loss_scaling(p, o->optimizer);
    if (s == LVN_OK && o->train && o->round_once) s = lvn_pass_round_parameters(p, o->device);
    return lvn_program_finish(out, p, o->n_sums, o->device, s);
}

enum lvn_status lvn_program_finish(struct lvn_program **out, struct lvn_program *p, int n_sums,
                                   struct lvn_device *device, enum lvn_status so_far)
{
    if (so_far == LVN_OK) so_far = lvn_pass_verify(p);
    if (so_far == LVN_OK) so_far = lvn_pass_memory_planning(p, n_sums, device);
    if (so_far == LVN_OK)
        *out = p;
    else
        lvn_program_free(p);
    return so_far;
}

struct lvn_operand lvn_program_output(const struct lvn_program *p, const struct levin_tensor *t)
{
    const struct levin_tensor *base = t->kind == LVN_TENSOR_VIEW ? t->base : t;
    int v = p->value_of_tensor[base->id];
    return v < 0 || !p->values[v].keep ? LVN_NO_OPERAND : (struct lvn_operand){.value = v, .desc = t->desc};
}

int64_t lvn_program_sums_at(const struct lvn_program *p, int64_t m)
{
    return (int64_t)sizeof(struct lvn_result) + m * p->sum_bytes;
}
