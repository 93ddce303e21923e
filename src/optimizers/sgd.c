/* sgd.c - gradient descent with momentum. */
#include "optimizers/optimizer.h"

static void constants(const struct lvn_optimizer_options *o, union lvn_attr *attr)
{
    attr->sgd.momentum = o->betas[0];
}

const struct lvn_optimizer_kind lvn_optimizer_sgd = {
    .name = "sgd",
    .help = "with momentum",
    .op = LVN_OP_sgd,
    .torch = "SGD",
    .constants = constants,
};
