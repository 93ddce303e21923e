/* lm.c - language modelling: at every position the next token, or another one that `labels` holds. */
#include "tasks/task.h"

extern const struct lvn_task lvn_task_lm;
const struct lvn_task lvn_task_lm = {
    .name = "lm",
    .help = "language modelling: a label for each token",
    .label = {.name = "labels", .dtype = LVN_I32, .rank = 1, .label = LVN_LABEL_TOKEN},
    .loss = lvn_cross_entropy,
    .counted = "tokens",
    .peft = "CAUSAL_LM",
    .output_name = "logits",
    .max_printed = 8,
};
