/* choices.c - see choices.h. */
#include "options/choices.h"

#define LVN_MAP(word, value)                                                                                           \
    case LVN_##word:                                                                                                   \
        return LVN_##value;

enum lvn_precision lvn_precision_of(enum lvn_trainer_precision word)
{
    switch (word) {
        LVN_MAP(TRAINER_PRECISION_32_TRUE, PRECISION_TRUE)
        LVN_MAP(TRAINER_PRECISION_BF16_MIXED, PRECISION_BF16_MIXED)
        LVN_MAP(TRAINER_PRECISION_BF16_TRUE, PRECISION_BF16_TRUE)
        LVN_MAP(TRAINER_PRECISION_16_MIXED, PRECISION_16_MIXED)
    }
    return LVN_PRECISION_TRUE;
}

enum lvn_recompute lvn_recompute_of(enum lvn_trainer_recompute word)
{
    switch (word) {
        LVN_MAP(TRAINER_RECOMPUTE_AUTO, RECOMPUTE_AUTO)
        LVN_MAP(TRAINER_RECOMPUTE_NONE, RECOMPUTE_NONE)
        LVN_MAP(TRAINER_RECOMPUTE_CHEAP, RECOMPUTE_CHEAP)
        LVN_MAP(TRAINER_RECOMPUTE_BLOCKS, RECOMPUTE_BLOCKS)
    }
    return LVN_RECOMPUTE_AUTO;
}

enum lvn_dtype lvn_quantize_of(enum lvn_model_quantize word)
{
    static const enum lvn_dtype types[] = {[LVN_MODEL_QUANTIZE_NONE] = LVN_F32,
                                           [LVN_MODEL_QUANTIZE_NF4] = LVN_NF4,
                                           [LVN_MODEL_QUANTIZE_INT8] = LVN_INT8_ROWS};
    return types[word];
}

enum lvn_decay lvn_decay_of(enum lvn_optimizer_decay word)
{
    switch (word) {
        LVN_MAP(OPTIMIZER_DECAY_LINEAR, DECAY_LINEAR)
        LVN_MAP(OPTIMIZER_DECAY_MATRICES, DECAY_MATRICES)
        LVN_MAP(OPTIMIZER_DECAY_ALL, DECAY_ALL)
    }
    return LVN_DECAY_LINEAR;
}

struct lvn_optimizer_options lvn_optimizer_options_of(const struct lvn_values *v)
{
    const bool by_norm = v->trainer.gradient_clip_algorithm == LVN_TRAINER_CLIP_NORM;
    const struct lvn_schedule_options rates = lvn_schedule_options_of(v);
    struct lvn_schedule schedule;
    lvn_schedule_init(&schedule, &rates, v->trainer.max_steps > 0 ? v->trainer.max_steps : 0);
    return (struct lvn_optimizer_options){
        .clip_norm = by_norm ? v->trainer.gradient_clip_val : 0,
        .clip_value = by_norm ? 0 : v->trainer.gradient_clip_val,
        .fall = lvn_schedule_fall(&schedule),
        .end = schedule.end,
#define LVN_ROWS_AS_VALUES v
#define LVN_ROWS "optimizers/optimizers.def"
#include "base/options/rows_each.h"
    };
}

struct lvn_schedule_options lvn_schedule_options_of(const struct lvn_values *v)
{
    return (struct lvn_schedule_options){
        .lr = v->optimizer.lr,
#define LVN_ROWS_AS_VALUES v
#define LVN_ROWS "schedules/schedules.def"
#include "base/options/rows_each.h"
    };
}

struct lvn_data_options lvn_data_options_of(const struct lvn_values *v)
{
    struct lvn_data_options o = {
#define LVN_ROWS_AS_VALUES v
#include "data/datasets_each.h"
    };
    /* a later choice may have dropped the key since its path was found */
    if (v->found.path && *v->data.path) o.path = v->found.path;
    if (v->found.val_path && *v->data.val_path) o.val_path = v->found.val_path;
    if (v->found.test_path && *v->data.test_path) o.test_path = v->found.test_path;
    if (v->found.tokenizer && *v->data.tokenizer) o.tokenizer = v->found.tokenizer;
    if (v->found.chat_template && *v->data.chat_template) o.chat_template = v->found.chat_template;
    return o;
}

const char *lvn_data_path_of(const struct lvn_values *v)
{
    return v->found.path && *v->data.path ? v->found.path : v->data.path;
}

enum lvn_sampling lvn_sampling_of(enum lvn_data_sampling word)
{
    switch (word) {
        LVN_MAP(DATA_SAMPLING_PERMUTATION, SAMPLING_PERMUTATION)
        LVN_MAP(DATA_SAMPLING_RANDOM, SAMPLING_RANDOM)
        LVN_MAP(DATA_SAMPLING_SEQUENTIAL, SAMPLING_SEQUENTIAL)
        LVN_MAP(DATA_SAMPLING_SHARDS, SAMPLING_SHARDS)
    }
    return LVN_SAMPLING_PERMUTATION;
}

enum lvn_split_id lvn_split_of(enum lvn_data_split word)
{
    switch (word) {
        LVN_MAP(DATA_SPLIT_TRAIN, SPLIT_TRAIN)
        LVN_MAP(DATA_SPLIT_VAL, SPLIT_VAL)
        LVN_MAP(DATA_SPLIT_TEST, SPLIT_TEST)
        LVN_MAP(DATA_SPLIT_ALL, SPLIT_ALL)
    case LVN_DATA_SPLIT_AUTO:
        break;
    }
    return LVN_SPLIT_TRAIN;
}
