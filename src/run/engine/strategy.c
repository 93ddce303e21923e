/* strategy.c - see strategy.h. */
#include "engine/strategy.h"

/* In the order in which auto tries them. */
static const struct {
    enum lvn_trainer_strategy strategy;
    unsigned shards; /* set of enum lvn_shards; each includes the previous ones */
} strategies[] = {
    {LVN_TRAINER_STRATEGY_DDP, 0},
    {LVN_TRAINER_STRATEGY_ZERO1, LVN_SHARDS_STATE},
    {LVN_TRAINER_STRATEGY_ZERO2, LVN_SHARDS_STATE | LVN_SHARDS_GRADIENTS},
    {LVN_TRAINER_STRATEGY_FSDP, LVN_SHARDS_STATE | LVN_SHARDS_GRADIENTS | LVN_SHARDS_PARAMETERS},
};
enum { STRATEGIES = sizeof strategies / sizeof *strategies };

/* The set of enum lvn_shards that the other settings allow. */
static unsigned possible_shards(const struct lvn_values *v)
{
    const unsigned whole = v->model.quantize ? LVN_SHARDS_PARAMETERS : 0; /* packed parameters are not sharded */
    if (*v->trainer.shares) return LVN_SHARDS_STATE;
    return (v->trainer.deterministic ? LVN_SHARDS_STATE | LVN_SHARDS_PARAMETERS : ~0u) & ~whole;
}

static unsigned shards_at(const struct lvn_values *v, int i)
{
    return strategies[i].shards & possible_shards(v);
}

const char *lvn_strategy_at(int i)
{
    if (i >= STRATEGIES) return NULL;
    return lvn_option_by_id(LVN_OPT_trainer_strategy)->choices[strategies[i].strategy];
}

/* The given strategy; with auto the one that is tried first. */
static int given(const struct lvn_values *v)
{
    int i = STRATEGIES - 1;
    while (i > 0 && strategies[i].strategy != v->trainer.strategy) i--;
    return i;
}

unsigned lvn_strategy_shards(const struct lvn_values *v)
{
    return shards_at(v, given(v));
}

enum lvn_status lvn_strategy_group(const struct lvn_values *v, int size, int *group)
{
    const int64_t fsdp_size = v->trainer.fsdp_size;
    LVN_CHECK(!fsdp_size || size == 1 || (fsdp_size > 1 && size % fsdp_size == 0), ARG,
              "trainer.fsdp_size %" PRId64
              " does not divide %d ranks into groups of several; choose a divisor of their number, or "
              "0 for one group",
              fsdp_size, size);
    *group = fsdp_size < size ? (int)fsdp_size : 0;
    return LVN_OK;
}

unsigned lvn_strategy_more(const struct lvn_values *v, unsigned shards)
{
    for (int i = 0; i < STRATEGIES; i++)
        if (shards_at(v, i) > shards) return shards_at(v, i);
    return 0;
}

const char *lvn_strategy_name(const struct lvn_values *v, unsigned shards)
{
    int i = 0;
    while (i < STRATEGIES - 1 && shards_at(v, i) != shards) i++;
    return lvn_strategy_at(i);
}

bool lvn_strategy_note(const struct lvn_values *v, char *text, size_t capacity)
{
    const int i = given(v);
    if (!(strategies[i].shards & LVN_SHARDS_GRADIENTS) || possible_shards(v) & LVN_SHARDS_GRADIENTS) return false;
    snprintf(text, capacity,
             "trainer.strategy %s keeps whole gradients on every rank here, because trainer.deterministic adds them in "
             "an order "
             "that requires them",
             lvn_strategy_at(i));
    return true;
}

const char *lvn_strategy_smallest(const struct lvn_values *v, enum lvn_trainer_strategy *strategy)
{
    int i = STRATEGIES - 1;
    while (i > 0 && shards_at(v, i) == shards_at(v, i - 1)) i--;
    *strategy = strategies[i].strategy;
    return lvn_strategy_at(i);
}
