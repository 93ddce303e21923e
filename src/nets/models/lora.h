/* lora.h - low-rank adapters (LoRA) for the linear layers of any model.
 *
 * A targeted map y = x W + b becomes y = x W + b + scale * (dropout(x) A) B, with A (in, rank) and B (rank, out). W and
 * all other parameters are frozen; only A and B have gradients and optimizer state. B is initially 0, so the first
 * prediction is the base model's. levin_linear() adds the adapters while a model builds its graph, so families need no
 * code for them. Merging replaces W by W + scale * A B, which leaves an ordinary model. The scale is alpha / rank
 * (Hu et al.: "LoRA: low-rank adaptation of large language models", 2021) or, with rslora, alpha / sqrt(rank)
 * (Kalajdzievski: "A rank stabilization scaling factor for fine-tuning with LoRA", 2023).
 *
 * Called by model.c, model_io and train. With lora->tokens some rows of the embedding are trained as a
 * separate parameter (PEFT's trainable_token_indices): the model, and a head that is tied to the embedding, use a
 * copy of the table with these rows. Not supported: LoRA adapters of embeddings and of heads. */
#ifndef LVN_LORA_H
#define LVN_LORA_H

#include "models/model.h"

/* PEFT's name of the trained rows of an embedding, in place of ".weight". */
#define LVN_LORA_ROWS ".token_adapter.trainable_tokens_delta"

/* The targets given; if "", the family's default; if "all-linear", all linear layers but the head. */
const char *lvn_lora_targets(const struct lvn_model *m, const char *given);
/* Linear layers that are added to g after this call get adapters if c->lora names them. No effect if its rank is 0. */
void lvn_lora_attach(struct levin_graph *g, const struct lvn_model_config *c);
/* After the model was built: freeze all parameters except adapters and a head that is new or for classification. ARG
 * for a target that matches no linear layer. */
enum lvn_status lvn_lora_freeze(struct lvn_params *p, const struct lvn_model_config *c) LVN_CHECKED;

/* The adapter of a weight: a and b, or rows; the others are NULL. */
struct lvn_lora_pair {
    const struct lvn_param *a;    /* (in, rank); of a decoder's head (rank, in), transposed like its weight */
    const struct lvn_param *b;    /* (rank, out); of a decoder's head (out, rank) */
    const struct lvn_param *rows; /* (n_tokens, C), of an embedding (V, C) */
};
/* Are weight and adapters stored as (inputs, outputs)? Those of a decoder's head are (outputs, inputs). */
static inline bool lvn_lora_in_out(const struct lvn_param *weight, const struct lvn_lora_pair *pair)
{
    return pair->a->desc.dim[0] == weight->desc.dim[0] && pair->b->desc.dim[1] == weight->desc.dim[1];
}
/* False: the weight has no adapter. */
bool lvn_lora_find(const struct lvn_params *p, const struct lvn_param *weight, struct lvn_lora_pair *out);
/* w (in, out) += scale * a b. For a decoder's head, w (out, in) += scale * b a, pass b as `a` and a as `b`. */
void lvn_lora_merge(const struct lvn_lora *lora, const struct lvn_param *weight, const float *a, const float *b,
                    float *w);
/* Rows lora->tokens of w (V, C) become `rows`. */
void lvn_lora_put_rows(const struct lvn_lora *lora, int64_t C, const float *rows, float *w);
/* Is the whole parameter stored with the adapters (PEFT's `modules_to_save`)? True for trained parameters other than
 * adapters, and for those of a new head (c->fresh_head), which the base model lacks. */
bool lvn_lora_is_whole(const struct lvn_model_config *c, const struct lvn_param *p);

#endif
