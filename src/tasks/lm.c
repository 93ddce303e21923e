/* lm.c - language modelling: the next token, or whatever `labels` say, at every position. */
#include "tasks/task.h"

extern const struct lvn_task lvn_task_lm;
const struct lvn_task lvn_task_lm = {
    .name = "lm",
    .what = "language modelling: a label for each token",
    .label = {.name = "labels", .dtype = LVN_I32, .rank = 1, .label = true},
    .loss = lvn_cross_entropy,
    .counted = "tokens",
    .peft = "CAUSAL_LM",
    .shown = "logits",
    .shown_max = 8,
};
