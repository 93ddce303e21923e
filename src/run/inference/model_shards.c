/* model_shards.c - see model_shards.h. */
#include "inference/model_shards.h"

#include "base/log.h"
#include "base/text.h"
#include "engine/devices.h"
#include "engine/rank_groups.h"
#include "engine/strategy.h"
#include "options/choices.h"

enum lvn_status lvn_model_shards_new(struct lvn_model_state **out, struct lvn_model_setup *setup,
                                     const struct lvn_values *v, const struct lvn_ranks *ranks, bool mixed)
{
    const enum lvn_precision precision = lvn_precision_of(v->trainer.precision);
    const bool same = precision == LVN_PRECISION_BF16_TRUE || (mixed && precision == LVN_PRECISION_BF16_MIXED);
    int device;
    LVN_TRY(lvn_ranks_device(ranks, v, &device));
    LVN_TRY(lvn_model_setup_quantize(setup, v->model.quantize));
    const struct lvn_model_state_options options = {.backend = lvn_backend_find(v->trainer.accelerator),
                                                    .device = device,
                                                    .tf32 =
                                                        v->trainer.float32_matmul_precision == LVN_TRAINER_FLOAT32_HIGH,
                                                    .real = LVN_F32,
                                                    .precision = same ? precision : LVN_PRECISION_TRUE,
                                                    .quantize = lvn_quantize_of(v->model.quantize),
                                                    .threads = lvn_ranks_threads(ranks, v->trainer.threads),
                                                    .processes = ranks ? ranks->local_size : 1};
    return lvn_model_state_new(out, &setup->config, &options);
}

/* *all: do all ranks have enough memory for the plan? */
static enum lvn_status fits(const struct lvn_model_state *n, struct lvn_ranks *ranks, bool *all)
{
    double lacking = !lvn_model_state_fits(n);
    LVN_TRY(lvn_ranks_sum(ranks, &lacking, 1));
    *all = lacking == 0.0;
    return LVN_OK;
}

static enum lvn_status divide(struct lvn_model_state *n, struct lvn_ranks *ranks, const struct lvn_values *v)
{
    struct lvn_sharding sharding = {.rank = ranks->rank, .size = ranks->size, .sharded = LVN_SHARDS_PARAMETERS};
    LVN_TRY(lvn_strategy_group(v, ranks->size, &sharding.group));
    lvn_model_state_share(n, &sharding, ranks);
    return LVN_OK;
}

static enum lvn_status refuse(const struct lvn_model_state *n, struct lvn_ranks *ranks, bool divided)
{
    if (lvn_model_state_fits(n)) return LVN_OK; /* another rank has too little memory */
    return lvn_model_state_refuse(
        n, divided ? "start more ranks, or choose a smaller trainer.micro_batch_size, model.block_size or model"
           : ranks ? "choose a smaller trainer.micro_batch_size, model.block_size or model; `levin launch -n RANKS -- "
                     "COMMAND ... --trainer.strategy=fsdp` shards the parameters over ranks"
                   : "choose a smaller trainer.micro_batch_size, model.block_size or model");
}

enum lvn_status lvn_model_shards_plan(struct lvn_model_state *n, struct lvn_ranks *ranks, const struct lvn_values *v,
                                      enum lvn_status (*make)(void *context), void *context)
{
    const bool several = ranks && ranks->size > 1;
    bool divided = several && v->trainer.strategy == LVN_TRAINER_STRATEGY_FSDP, all;
    char needed[LVN_NUMBER_TEXT], available[LVN_NUMBER_TEXT];
    if (divided) LVN_TRY(divide(n, ranks, v));
    LVN_TRY(lvn_ranks_agree(ranks, make(context)));
    LVN_TRY(fits(n, ranks, &all));
    if (!all && several && v->trainer.strategy == LVN_TRAINER_STRATEGY_AUTO && !n->params->packed_bytes) {
        if (!ranks->rank)
            lvn_log(LVN_LOG_INFO,
                    "the whole model needs %s on each rank, but %s are free on rank 0; its parameters are sharded over "
                    "the %d ranks, as trainer.strategy fsdp does",
                    lvn_bytes_text(lvn_model_state_bytes(n), needed),
                    lvn_bytes_text(lvn_model_state_available(n), available), ranks->size);
        lvn_model_state_drop_sessions(n);
        divided = true;
        LVN_TRY(divide(n, ranks, v));
        LVN_TRY(lvn_ranks_agree(ranks, make(context)));
        LVN_TRY(fits(n, ranks, &all));
    }
    return all ? LVN_OK : lvn_ranks_agree(ranks, refuse(n, ranks, divided));
}

enum lvn_status lvn_model_shards_load(struct lvn_model_state *n, struct lvn_ranks *ranks, const struct lvn_values *v,
                                      const struct lvn_pretrained *p)
{
    const bool divided = lvn_parameters_sharded(n, LVN_PARAMETER_VALUES);
    if (divided) {
        LVN_TRY(lvn_ranks_check(ranks, v));
        LVN_TRY(lvn_ranks_group(ranks, n->device, v));
        LVN_TRY(lvn_ranks_divide(ranks, n->sharding.group));
    }
    const bool loaded = lvn_parameters_allocated(n);
    enum lvn_status status = lvn_model_state_allocate(n);
    if (status == LVN_OK && !divided && !loaded) status = lvn_pretrained_load(p, n);
    LVN_TRY(lvn_ranks_agree(ranks, status));
    return divided && !loaded ? lvn_pretrained_load_on_ranks(p, n, ranks) : LVN_OK;
}

void lvn_model_shards_free(struct lvn_model_state *n, struct lvn_ranks *ranks)
{
    if (n) lvn_model_state_drop_sessions(n); /* free them before the communicators that their programs use */
    lvn_ranks_ungroup(ranks);
    lvn_model_state_free(n);
}
