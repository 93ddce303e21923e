/* mlm.c - masked language modelling: predict the tokens that were masked or changed from all others (data/mask.h). */
#include "tasks/task.h"

extern const struct lvn_task lvn_task_mlm;
const struct lvn_task lvn_task_mlm = {
    .name = "mlm",
    .help = "masked language modelling: tokens that were hidden",
    .label = {.name = "labels", .dtype = LVN_I32, .rank = 1, .label = LVN_LABEL_TOKEN},
    .loss = lvn_cross_entropy,
    .counted = "tokens",
    .masks = true,
    .output_name = "logits",
    .max_printed = 8,
};
