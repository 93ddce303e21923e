/* reconstruct.c - reconstruction: the target is the model's input (lvn_model.target); the loss is the mean squared
 * error over samples and their numbers. */
#include "tasks/task.h"

extern const struct lvn_task lvn_task_reconstruct;
const struct lvn_task lvn_task_reconstruct = {
    .name = "reconstruct",
    .help = "reconstruction: the prediction should be what went in",
    .label = {.label = LVN_LABEL_VECTOR},
    .loss = lvn_squared_error,
    .output_name = "outputs",
};
