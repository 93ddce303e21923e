/* adamw.c - AdamW: weight decay apart from the gradient. */
#include "optimizers/optimizer.h"

const struct lvn_optimizer_kind lvn_optimizer_adamw = {
    .name = "adamw",
    .help = "weight decay apart from the gradient",
    .op = LVN_OP_adamw,
    .torch = "AdamW",
    .constants = lvn_adamw_constants,
};
