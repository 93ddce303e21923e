/* regress.c - regression: a number for each sample; the prediction has one logit, and the loss is the mean squared
 * error, as of a model of Hugging Face with problem_type "regression". */
#include "tasks/task.h"

/* prediction (B,1), target (B) */
static struct lvn_tensor *loss(struct lvn_graph *g, struct lvn_tensor *prediction, struct lvn_tensor *target)
{
    if (!prediction || !target) return NULL;
    return lvn_squared_error(g, prediction, lvn_reshape(g, target, 2, (const int64_t[]){target->desc.dim[0], 1}));
}

extern const struct lvn_task lvn_task_regress;
const struct lvn_task lvn_task_regress = {
    .name = "regress",
    .help = "regression: a number for each sample",
    .label = {.name = "label", .dtype = LVN_F32, .label = LVN_LABEL_NUMBER},
    .loss = loss,
    .output_name = "outputs",
};
