/* adamw.c - AdamW: weight decay apart from the gradient. */
#include "optimizers/optimizer.h"

static void constants(const struct lvn_optimizer_options *o, union lvn_attr *attr)
{
    attr->adamw.beta1 = o->betas[0];
    attr->adamw.beta2 = o->betas[1];
    attr->adamw.eps = o->eps;
}

const struct lvn_optimizer_kind lvn_optimizer_adamw = {
    .name = "adamw",
    .help = "weight decay apart from the gradient",
    .op = LVN_OP_adamw,
    .torch = "AdamW",
    .constants = constants,
};
