/* muon.c - Muon: for each weight matrix of a model's blocks, momentum whose singular values have all been taken near 1;
 * AdamW for all other parameters: embeddings, heads, biases and gains. A matrix is a parameter as the model declares
 * it: the weights of query, key and value are one where they are stored as one (GPT-2), as in torch.optim.Muon. */
#include <math.h>

#include "optimizers/optimizer.h"

#define LVN_X(name, word) name,
enum adjust_lr_fn { LVN_CHOICES_optimizer_adjust_lr_fn(LVN_X) };
#undef LVN_X

/* Steps as large as those of AdamW, so that one learning rate is for both (Liu et al.: "Muon is scalable for LLM
 * training", 2025). */
static void match_adamw(const struct lvn_desc *matrix, union lvn_attr *step)
{
    const int64_t rows = matrix->dim[0], columns = matrix->dim[1];
    step->muon_step.ratio = 0.2 * sqrt((double)(rows > columns ? rows : columns));
}

/* As Jordan et al. (ops/orthogonalize.c). */
static void original(const struct lvn_desc *matrix, union lvn_attr *step)
{
    const int64_t inputs = matrix->dim[0], outputs = matrix->dim[1];
    step->muon_step.ratio = inputs > outputs ? 1 : sqrt((double)outputs / (double)inputs);
}

static void matrices(const struct lvn_optimizer_options *o, struct lvn_matrix_steps *m)
{
    m->direction = LVN_OP_muon_direction;
    m->direction_attr.muon_direction.momentum = o->momentum;
    m->whole = LVN_OP_orthogonalize;
    m->whole_attr.orthogonalize.steps = o->ns_steps;
    m->step = LVN_OP_muon_step;
    m->fit = (enum adjust_lr_fn)o->adjust_lr_fn == OPTIMIZER_ORIGINAL ? original : match_adamw;
}

const struct lvn_optimizer_kind lvn_optimizer_muon = {
    .name = "muon",
    .help = "orthogonal steps for the matrices of a model's layers, adamw for all else",
    .op = LVN_OP_adamw,
    .constants = lvn_adamw_constants,
    .matrices = matrices,
};
