/* values.h - the values of all options as a plain struct, which is generated from options.def.
 *
 * struct levin_settings (settings/settings.h) adds where each value comes from. The engine and inference take values,
 * so they depend on no recipe and no command line. The effect of a key is documented where its field is read. */
#ifndef LVN_VALUES_H
#define LVN_VALUES_H

#include "options/options.h"

/* --- words that options choose from: X(name in C, word) --- */

#define LVN_CHOICES_data_sampling(X)                                                                                   \
    X(DATA_SAMPLING_PERMUTATION, "permutation")                                                                        \
    X(DATA_SAMPLING_RANDOM, "random")                                                                                  \
    X(DATA_SAMPLING_SEQUENTIAL, "sequential")                                                                          \
    X(DATA_SAMPLING_SHARDS, "shards")
#define LVN_CHOICES_data_overlong(X)                                                                                   \
    X(DATA_OVERLONG_AUTO, "auto")                                                                                      \
    X(DATA_OVERLONG_SPLIT, "split")                                                                                    \
    X(DATA_OVERLONG_TRUNCATE, "truncate")                                                                              \
    X(DATA_OVERLONG_DROP, "drop")                                                                                      \
    X(DATA_OVERLONG_REFUSE, "refuse")
#define LVN_CHOICES_data_train_on(X)                                                                                   \
    X(DATA_TRAIN_ON_ANSWERS, "answers")                                                                                \
    X(DATA_TRAIN_ON_LAST_ANSWER, "last_answer")                                                                        \
    X(DATA_TRAIN_ON_ALL, "all")
#define LVN_CHOICES_data_split(X)                                                                                      \
    X(DATA_SPLIT_AUTO, "auto")                                                                                         \
    X(DATA_SPLIT_TRAIN, "train")                                                                                       \
    X(DATA_SPLIT_VAL, "val")                                                                                           \
    X(DATA_SPLIT_TEST, "test")                                                                                         \
    X(DATA_SPLIT_ALL, "all")
#define LVN_CHOICES_model_quantize(X)                                                                                  \
    X(MODEL_QUANTIZE_NONE, "none") X(MODEL_QUANTIZE_NF4, "nf4") X(MODEL_QUANTIZE_INT8, "int8")
#define LVN_CHOICES_trainer_gradient_clip_algorithm(X)                                                                 \
    X(TRAINER_CLIP_NORM, "norm")                                                                                       \
    X(TRAINER_CLIP_VALUE, "value")
#define LVN_CHOICES_trainer_recompute(X)                                                                               \
    X(TRAINER_RECOMPUTE_AUTO, "auto")                                                                                  \
    X(TRAINER_RECOMPUTE_NONE, "none") X(TRAINER_RECOMPUTE_CHEAP, "cheap") X(TRAINER_RECOMPUTE_BLOCKS, "blocks")
#define LVN_CHOICES_trainer_precision(X)                                                                               \
    X(TRAINER_PRECISION_32_TRUE, "32-true")                                                                            \
    X(TRAINER_PRECISION_BF16_MIXED, "bf16-mixed")                                                                      \
    X(TRAINER_PRECISION_BF16_TRUE, "bf16-true")                                                                        \
    X(TRAINER_PRECISION_16_MIXED, "16-mixed")
#define LVN_CHOICES_trainer_float32_matmul_precision(X)                                                                \
    X(TRAINER_FLOAT32_HIGHEST, "highest")                                                                              \
    X(TRAINER_FLOAT32_HIGH, "high")
#define LVN_CHOICES_trainer_strategy(X)                                                                                \
    X(TRAINER_STRATEGY_AUTO, "auto")                                                                                   \
    X(TRAINER_STRATEGY_SINGLE_DEVICE, "single_device")                                                                 \
    X(TRAINER_STRATEGY_DDP, "ddp")                                                                                     \
    X(TRAINER_STRATEGY_ZERO1, "zero1")                                                                                 \
    X(TRAINER_STRATEGY_ZERO2, "zero2")                                                                                 \
    X(TRAINER_STRATEGY_FSDP, "fsdp")
#define LVN_CHOICES_trainer_reduce_dtype(X) X(TRAINER_REDUCE_FP32, "fp32") X(TRAINER_REDUCE_BF16, "bf16")

/* An enum for each CHOICE row: define its macro, then include the table. */
#define LVN_X(name, word) LVN_##name,
#define LVN_CHOICE(part, field, ...) enum lvn_##part##_##field{LVN_CHOICES_##part##_##field(LVN_X)};
#include "options/options_each.h"
#undef LVN_X

/* A count, or a fraction of a whole that is known later; the other one is 0. Both 0: off. */
struct lvn_amount {
    int64_t count;
    double fraction;
};

union lvn_option_value {
    int64_t integer;
    double real[2];
    bool boolean;
    const char *text;
    struct lvn_amount amount;
};

/* Paths of data in data.folder; NULL: as given. */
struct lvn_found {
    const char *path, *val_path, *test_path, *tokenizer, *chat_template;
};

/* A struct for the options of each part, lvn_values_*: those of `trainer`, of `optimizer` and so on. */
#define LVN_PART(name, ...) struct lvn_values_##name {
#define LVN_PART_END(name)                                                                                             \
    }                                                                                                                  \
    ;
#define LVN_INT(part, field, ...) int64_t field;
#define LVN_REAL(part, field, ...) double field;
#define LVN_PAIR(part, field, ...) double field[2];
#define LVN_BOOL(part, field, ...) bool field;
#define LVN_CHOICE(part, field, ...) enum lvn_##part##_##field field;
#define LVN_WORD(part, field, ...) const char *field;
#define LVN_TEXT(part, field, ...) const char *field;
#define LVN_TIME(part, field, ...) double field;
#define LVN_AMOUNT(part, field, ...) struct lvn_amount field;
#include "options/options_each.h"

struct lvn_values {
#define LVN_TOP(field, ...) const char *field;
#define LVN_PART_END(name) struct lvn_values_##name name;
#include "options/options_each.h"

    struct lvn_found found;
    int64_t ranks; /* of the run; 0: not known */
    /* The option of a library that only the settings of a run name, perhaps another user's; 0: none. */
    enum lvn_option_id foreign_library;
    union lvn_option_value family[LVN_FAMILY_KEYS]; /* [id - LVN_OPT_COUNT], see options.h */
};

/* The value of an option as a user would write it. Returns `text`, or a text that lives as long as v. */
const char *lvn_value_text(const struct lvn_values *v, enum lvn_option_id id, char text[LVN_VALUE_TEXT]);
/* ARG: trainer.strategy contradicts another value. */
enum lvn_status lvn_values_check_strategy(const struct lvn_values *v) LVN_CHECKED;

#endif
