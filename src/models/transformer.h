/* transformer.h - expressions and checks that the families of transformers share. */
#ifndef LVN_TRANSFORMER_H
#define LVN_TRANSFORMER_H

#include "models/model.h"

/* Exact GELU, or its approximation with tanh (Hendrycks, Gimpel: "Gaussian error linear units", 2016), and Hugging
 * Face's names of them, for a key LVN_KEY_WORD. */
enum { LVN_GELU_ERF, LVN_GELU_TANH };
extern const struct lvn_key_word lvn_gelu_words[];
struct lvn_tensor *lvn_gelu_by(struct lvn_graph *g, int64_t which, struct lvn_tensor *x);

/* x (...,C) -> (...,N): new parameters weight (C,N), initially N(0, std), and bias (N), initially 0 (NULL: none). */
struct lvn_tensor *lvn_projection(struct lvn_graph *g, const char *weight, const char *bias, struct lvn_tensor *x,
                                  int64_t N, double std);
/* Layer norm of x (...,C): new parameters weight (C) and bias (C) (NULL: none). */
struct lvn_tensor *lvn_norm(struct lvn_graph *g, const char *weight, const char *bias, struct lvn_tensor *x,
                            double eps);
/* GPT-2's initial standard deviations: of weights, and of projections back into the residual stream,
 * 0.02 / sqrt(2 n_layer). */
#define LVN_WEIGHT_STD 0.02
double lvn_residual_std(int64_t n_layer);

/* The head of a decoder, without a bias: x (B,T,C) -> classes (B,K) from the last token of each text, whose length is
 * inputs[1], or logits (B,T,V), by the embedding's table `tied` or, if that is NULL, by a new weight in the scope `lm`.
 */
struct lvn_tensor *lvn_decoder_head(struct lvn_graph *g, const struct lvn_model_config *c,
                                    struct lvn_tensor *const *inputs, struct lvn_tensor *x, struct lvn_tensor *tied,
                                    const char *lm, int64_t V);

/* ARG if n_embd is not a multiple of n_head. */
enum lvn_status lvn_check_heads(int64_t n_embd, int64_t n_head) LVN_CHECKED;
/* ARG if the model would have 1e14 values or more. rows: of all tables of n_embd columns. */
enum lvn_status lvn_check_size(int64_t n_layer, int64_t n_embd, double rows) LVN_CHECKED;

#endif
