/* classify.c - classification: one label for each sample; the prediction has one logit for each class. */
#include "tasks/task.h"

extern const struct lvn_task lvn_task_classify;
const struct lvn_task lvn_task_classify = {
    .name = "classify",
    .help = "classification: a label for each sample",
    .label = {.name = "label", .dtype = LVN_I32, .label = LVN_LABEL_CLASS},
    .loss = lvn_cross_entropy,
    .output_name = "logits",
};
