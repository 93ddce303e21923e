/* mlm.c - masked language modelling: the tokens that were hidden, or changed, from all others (data/mask.h). */
#include "tasks/task.h"

extern const struct lvn_task lvn_task_mlm;
const struct lvn_task lvn_task_mlm = {
    .name = "mlm",
    .what = "masked language modelling: tokens that were hidden",
    .label = {.name = "labels", .dtype = LVN_I32, .rank = 1, .label = true},
    .loss = lvn_cross_entropy,
    .counted = "tokens",
    .masks = true,
    .shown = "logits",
    .shown_max = 8,
};
