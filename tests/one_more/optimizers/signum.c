/* signum.c - steps by the sign of the momentum. */
#include "optimizers/optimizer.h"

static void constants(const struct lvn_optimizer_options *o, union lvn_attr *attr)
{
    attr->signum.beta = o->betas[0];
}

const struct lvn_optimizer_kind lvn_optimizer_signum = {
    .name = "signum",
    .help = "by the sign of the momentum",
    .op = LVN_OP_signum,
    .constants = constants,
};
