/* lion.c - Lion: steps of equal size, by the sign of a running mean; wants a smaller rate and a larger decay than
 * AdamW. */
#include "optimizers/optimizer.h"

static void constants(const struct lvn_optimizer_options *o, union lvn_attr *attr)
{
    attr->lion.beta1 = o->betas[0];
    attr->lion.beta2 = o->betas[1];
}

const struct lvn_optimizer_kind lvn_optimizer_lion = {
    .name = "lion",
    .help = "steps of equal size, by the sign of a running mean; wants about a third of adamw's lr and three times its "
            "weight_decay",
    .op = LVN_OP_lion,
    .constants = constants,
};
