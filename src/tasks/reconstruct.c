/* reconstruct.c - reconstruction: the prediction should be what went in, as the model sees it; the loss is the mean
 * over samples and their numbers. */
#include "tasks/task.h"

extern const struct lvn_task lvn_task_reconstruct;
const struct lvn_task lvn_task_reconstruct = {
    .name = "reconstruct",
    .what = "reconstruction: the prediction should be what went in",
    .loss = lvn_squared_error,
    .shown = "outputs",
};
