/* transformer.h - what the families of transformers have in common, as expressions and checks. */
#ifndef LVN_TRANSFORMER_H
#define LVN_TRANSFORMER_H

#include "models/model.h"

/* GELU by its integral, or by the approximation with tanh (Hendrycks, Gimpel: "Gaussian error linear units", 2016); the
 * words of Hugging Face's files for them, for a key LVN_KEY_WORD. */
enum { LVN_GELU_ERF, LVN_GELU_TANH };
extern const struct lvn_word lvn_gelu_words[];
struct lvn_tensor *lvn_gelu_by(struct lvn_graph *g, int64_t which, struct lvn_tensor *x);

/* x (...,C) -> (...,N) by a weight (C,N), initially N(0, std), and a bias (NULL: none). */
struct lvn_tensor *lvn_projection(struct lvn_graph *g, const char *weight, const char *bias, struct lvn_tensor *x,
                                  int64_t N, double std);
/* x (...,C), normalised; bias NULL: none. */
struct lvn_tensor *lvn_norm(struct lvn_graph *g, const char *weight, const char *bias, struct lvn_tensor *x,
                            double eps);
/* GPT-2's standard deviations: of weights, and of those that write into the residual stream, 0.02 / sqrt(2 n_layer). */
#define LVN_WEIGHT_STD 0.02
double lvn_residual_std(int64_t n_layer);

/* What stands on a decoder, x (B,T,C): classes (B,K) from the last token of each text of length inputs[1], without a
 * bias, or logits (B,T,V) by the embedding's table (tied) or, with tied NULL, by a weight of its own in the scope `lm`.
 */
struct lvn_tensor *lvn_decoder_head(struct lvn_graph *g, const struct lvn_model_config *c,
                                    struct lvn_tensor *const *inputs, struct lvn_tensor *x, struct lvn_tensor *tied,
                                    const char *lm, int64_t V);

/* ARG where heads cannot share the channels equally. */
enum lvn_status lvn_check_heads(int64_t n_embd, int64_t n_head) LVN_CHECKED;
/* ARG where blocks and tables of so many rows make a model that no machine holds. */
enum lvn_status lvn_check_size(int64_t n_layer, int64_t n_embd, double rows) LVN_CHECKED;

#endif
