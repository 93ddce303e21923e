/* muon.c - Muon: for each weight matrix of a model's blocks, momentum whose singular values have all been taken near 1;
 * AdamW for all other parameters: embeddings, heads, biases and gains. A matrix is a parameter as the model declares
 * it: the weights of query, key and value are one where they are stored as one (GPT-2), as in torch.optim.Muon. */
#include "optimizers/optimizer.h"

#define LVN_X(name, word) name,
enum adjust_lr_fn { LVN_CHOICES_optimizer_adjust_lr_fn(LVN_X) };
#undef LVN_X

static void matrix_constants(const struct lvn_optimizer_options *o, union lvn_attr *attr)
{
    attr->muon.momentum = o->momentum;
    attr->muon.steps = o->ns_steps;
    attr->muon.original = (enum adjust_lr_fn)o->adjust_lr_fn == OPTIMIZER_ORIGINAL;
}

const struct lvn_optimizer_kind lvn_optimizer_muon = {
    .name = "muon",
    .help = "orthogonal steps for the matrices of a model's layers, adamw for all else; for one rank or "
            "trainer.strategy=ddp",
    .op = LVN_OP_adamw,
    .constants = lvn_adamw_constants,
    .matrix_op = LVN_OP_muon,
    .matrix_constants = matrix_constants,
};
