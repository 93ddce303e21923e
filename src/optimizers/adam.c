/* adam.c - Adam with L2 regularisation: weight decay is added to the gradient. */
#include "optimizers/optimizer.h"

static void constants(const struct lvn_optimizer_options *o, union lvn_attr *attr)
{
    lvn_adamw_constants(o, attr);
    attr->adamw.coupled = true;
}

const struct lvn_optimizer_kind lvn_optimizer_adam = {
    .name = "adam",
    .help = "weight decay added to the gradient",
    .op = LVN_OP_adamw,
    .torch = "Adam",
    .constants = constants,
};
