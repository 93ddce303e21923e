/* classify.c - classification: one label for each sample, of as many classes as the prediction has numbers. */
#include "tasks/task.h"

extern const struct lvn_task lvn_task_classify;
const struct lvn_task lvn_task_classify = {
    .name = "classify",
    .what = "classification: a label for each sample",
    .label = {.name = "label", .dtype = LVN_I32, .label = true},
    .loss = lvn_cross_entropy,
    .shown = "logits",
};
