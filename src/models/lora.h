/* lora.h - low-rank adapters beside the linear maps of any model.
 *
 * A map y = x W + b that a target names becomes y = x W + b + (x A) B * alpha / rank, with A (in, rank) and B (rank,
 * out); W and everything else is frozen, and only A and B have gradients and optimizer state. B begins with zeros, so
 * the model begins as it was. The adapters are put in while a model is written down, below its own expressions: models
 * know nothing of them. Merging gives W + A B * alpha / rank, and then the model is an ordinary one again.
 * (Hu et al.: "LoRA: low-rank adaptation of large language models", 2021.)
 *
 * Left out: adapters of embeddings and of heads, dropout before A. */
#ifndef LVN_LORA_H
#define LVN_LORA_H

#include "models/model.h"

/* The targets that are given, or, where they are "", the family's own. */
const char *lvn_lora_targets(const struct lvn_model *m, const char *given);
/* From here on the linear maps of g that c->lora names get adapters; nothing when its rank is 0. */
void lvn_lora_attach(struct lvn_graph *g, const struct lvn_model_config *c);
/* After the model was built: freeze all but the adapters and a head for classes. ARG for a target that names no map. */
enum lvn_status lvn_lora_freeze(struct lvn_params *p, const struct lvn_model_config *c) LVN_CHECKED;

/* The adapter of a weight. */
struct lvn_lora_pair {
    const struct lvn_param *a, *b;
};
/* False: it has none. */
bool lvn_lora_find(const struct lvn_params *p, const struct lvn_param *weight, struct lvn_lora_pair *out);
/* w (in, out) becomes w + a b * alpha / rank. */
void lvn_lora_merge(const struct lvn_lora *lora, const struct lvn_param *weight, const float *a, const float *b,
                    float *w);
/* Is the parameter stored whole beside the adapters: one that is trained, and, with fresh_head, one of a head which the
 * base model lacks (a head for classes; PEFT's `modules_to_save`)? */
bool lvn_lora_is_whole(const struct lvn_model_config *c, const struct lvn_param *p, bool fresh_head);

#endif
