/* half.c - what tasks/regress.c learns, as a task of another name. */
#include "tasks/task.h"

/* prediction (B,1), target (B) */
static struct lvn_tensor *loss(struct lvn_graph *g, struct lvn_tensor *prediction, struct lvn_tensor *target)
{
    if (!prediction || !target) return NULL;
    return lvn_squared_error(g, prediction, lvn_reshape(g, target, 2, (const int64_t[]){target->desc.dim[0], 1}));
}

extern const struct lvn_task lvn_task_half;
const struct lvn_task lvn_task_half = {
    .name = "half",
    .help = "regression by another name",
    .label = {.name = "label", .dtype = LVN_F32, .label = LVN_LABEL_NUMBER},
    .loss = loss,
    .output_name = "outputs",
};
