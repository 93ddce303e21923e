/* values.c - see values.h. */
#include "options/values.h"

const char *lvn_value_text(const struct lvn_values *v, enum lvn_option_id id, char text[LVN_VALUE_TEXT])
{
    const struct lvn_option *o = lvn_option_by_id(id);
    return lvn_option_text(o, (const char *)v + o->offset, text);
}

enum lvn_status lvn_values_check_strategy(const struct lvn_values *v)
{
    char word[LVN_VALUE_TEXT];
    const enum lvn_trainer_strategy strategy = v->trainer.strategy;
    const bool fsdp = strategy == LVN_TRAINER_STRATEGY_FSDP || strategy == LVN_TRAINER_STRATEGY_AUTO;
    /* ranks exchange gradients or parameters in every micro-batch */
    const bool in_step = strategy == LVN_TRAINER_STRATEGY_ZERO2 || strategy == LVN_TRAINER_STRATEGY_FSDP;
    LVN_CHECK(strategy != LVN_TRAINER_STRATEGY_SINGLE_DEVICE || v->ranks <= 1, ARG,
              "trainer.strategy single_device is for one rank, and %" PRId64
              " were started; set ddp, zero1, zero2 or fsdp, or start one",
              v->ranks);
    LVN_CHECK(v->trainer.fsdp_reshard || fsdp, ARG,
              "trainer.fsdp_reshard is for trainer.strategy fsdp; set that, or leave it out");
    LVN_CHECK(!v->trainer.fsdp_size || fsdp, ARG,
              "trainer.fsdp_size is for trainer.strategy fsdp; set that, or leave it out");
    LVN_CHECK(!in_step || !*v->trainer.shares, ARG,
              "trainer.strategy %s requires the same number of micro-batches on every rank, but trainer.shares gives "
              "each its own; leave that out, or set trainer.strategy=zero1",
              lvn_value_text(v, LVN_OPT_trainer_strategy, word));
    return LVN_OK;
}
