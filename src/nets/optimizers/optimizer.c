/* optimizer.c - every optimizer, their table, and the code that they share; see optimizer.h.
 *
 * A new optimizer is its operation (src/core/ops), a function here that sets the attributes of this operation, a row of
 * the table, and rows of optimizers.def if it has options. */
#include "optimizers/optimizer.h"

#include "base/arena.h"
#include "base/text.h"
#include "optimizers/groups.h"

#define LVN_X(name, word) name,
enum state { LVN_CHOICES_optimizer_state(LVN_X) };
enum adjust_lr_fn { LVN_CHOICES_optimizer_adjust_lr_fn(LVN_X) };
enum variant { LVN_CHOICES_optimizer_variant(LVN_X) };
#undef LVN_X

static void adamw_betas(union lvn_attr *attr, const double betas[2])
{
    attr->adamw.beta1 = betas[0];
    attr->adamw.beta2 = betas[1];
}

static void adamw(const struct lvn_optimizer_options *o, union lvn_attr *attr)
{
    attr->adamw.eps = o->eps;
}

static void adam(const struct lvn_optimizer_options *o, union lvn_attr *attr)
{
    adamw(o, attr);
    attr->adamw.coupled = true;
}

static void sgd_betas(union lvn_attr *attr, const double betas[2])
{
    attr->sgd.momentum = betas[0];
}

static void lion_betas(union lvn_attr *attr, const double betas[2])
{
    attr->lion.beta1 = betas[0];
    attr->lion.beta2 = betas[1];
}

/* Muon: for each weight matrix of a model's blocks, momentum whose singular values are moved close to 1; AdamW for all
 * other parameters (embeddings, heads, biases, norms). A matrix is a parameter as the model declares it: query, key and
 * value are one matrix if the model stores them as one (GPT-2), as in torch.optim.Muon. */

/* Steps as large as those of AdamW, so that one learning rate suits both (Liu et al.: "Muon is scalable for LLM
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

static void muon(const struct lvn_optimizer_options *o, struct lvn_matrix_steps *m)
{
    m->direction = LVN_OP_muon_direction;
    m->direction_attr.muon_direction.momentum = o->momentum;
    m->whole = LVN_OP_orthogonalize;
    m->whole_attr.orthogonalize.steps = o->ns_steps;
    m->step = LVN_OP_muon_step;
    m->fit = (enum adjust_lr_fn)o->adjust_lr_fn == OPTIMIZER_ORIGINAL ? original : match_adamw;
    if ((enum variant)o->variant != OPTIMIZER_VARIANT_NANOCHAT) return;
    m->whole_attr.orthogonalize.polar_express = true;
    m->lines = true;
    m->step_attr.muon_step.cautious = true;
    m->step_attr.muon_step.decay_end = o->end;
    m->direction_attr.muon_direction.first_momentum = 0.85;
    m->direction_attr.muon_direction.last_momentum = 0.9;
    m->direction_attr.muon_direction.rise = 400;
    m->direction_attr.muon_direction.fall = o->fall;
    m->direction_attr.muon_direction.end = o->end;
}

bool lvn_optimizer_only_on_cpus(const struct lvn_optimizer_options *o)
{
    return lvn_optimizer_find(o->kind)->matrices && (enum variant)o->variant == OPTIMIZER_VARIANT_NANOCHAT;
}

const struct lvn_optimizer_kind lvn_optimizers[] = {
    {.name = "adamw",
     .help = "decoupled weight decay",
     .op = LVN_OP_adamw,
     .set_betas = adamw_betas,
     .set_attributes = adamw},
    {.name = "adam",
     .help = "weight decay as an L2 term of the gradient",
     .op = LVN_OP_adamw,
     .set_betas = adamw_betas,
     .set_attributes = adam},
    {.name = "sgd", .help = "with momentum", .op = LVN_OP_sgd, .set_betas = sgd_betas},
    {.name = "lion",
     .help = "the sign of the momentum; needs about a third of adamw's lr and three times its "
             "weight_decay",
     .op = LVN_OP_lion,
     .set_betas = lion_betas},
    {.name = "muon",
     .help = "orthogonal steps for the matrices of a model's layers, adamw for all other parameters",
     .op = LVN_OP_adamw,
     .elements = "adamw",
     .set_betas = adamw_betas,
     .set_attributes = adamw,
     .matrices = muon},
    {0}};

const struct lvn_optimizer_kind *lvn_optimizer_find(const char *name)
{
    for (const struct lvn_optimizer_kind *k = lvn_optimizers; k->name; k++)
        if (!strcmp(k->name, name)) return k;
    return NULL;
}

bool lvn_optimizer_in_bf16(const struct lvn_optimizer_kind *k)
{
    return lvn_op(k->op, LVN_F32)->low_precision_ok & LVN_READS_OUT(1);
}

/* "adamw, adam and lion": those whose moments may be bf16. */
static void list_in_bf16(char *text, size_t capacity)
{
    int n = 0, at = 0;
    text[0] = '\0';
    for (const struct lvn_optimizer_kind *k = lvn_optimizers; k->name; k++) n += lvn_optimizer_in_bf16(k);
    for (const struct lvn_optimizer_kind *k = lvn_optimizers; k->name; k++) {
        if (!lvn_optimizer_in_bf16(k)) continue;
        const char *before = at == 0 ? "" : at + 1 == n ? " and " : ", ";
        lvn_print_append(text, capacity, "%s%s", before, k->name);
        at++;
    }
}

enum lvn_status lvn_optimizer_check(const struct lvn_optimizer_options *o)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_optimizer_groups groups;
    const struct lvn_optimizer_kind *k = lvn_optimizer_find(o->kind);
    char kinds[160];
    list_in_bf16(kinds, sizeof kinds);
    LVN_CHECK((enum state)o->state == OPTIMIZER_STATE_FP32 || lvn_optimizer_in_bf16(k), ARG,
              "optimizer.state: bf16 is for %s, and optimizer.kind is %s; leave it out", kinds, k->name);
    LVN_CHECK(!k->matrices || (enum variant)o->variant != OPTIMIZER_VARIANT_NANOCHAT || o->ns_steps <= 5, ARG,
              "optimizer.ns_steps is %lld, and optimizer.variant nanochat has at most 5 iterations; leave it out",
              (long long)o->ns_steps);
    return lvn_optimizer_groups_read(&groups, &a, o->groups, k->name, k->elements);
}

void lvn_optimizer_init(struct lvn_optimizer *out, const struct lvn_optimizer_options *o)
{
    const struct lvn_optimizer_kind *k = lvn_optimizer_find(o->kind);
    memset(out, 0, sizeof *out);
    out->name = k->name;
    out->op = k->op;
    out->clip_norm = o->clip_norm;
    out->bf16_state = (enum state)o->state == OPTIMIZER_STATE_BF16;
    out->set_betas = k->set_betas;
    k->set_betas(&out->attr, o->betas);
    if (k->set_attributes) k->set_attributes(o, &out->attr);
    out->attr.update.weight_decay = o->weight_decay;
    out->attr.update.clip_value = o->clip_value;
    if (!k->matrices) return;
    out->matrices.used = true;
    k->matrices(o, &out->matrices);
    out->matrices.direction_attr.update.clip_value = o->clip_value;
}
