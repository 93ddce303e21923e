/* generation.h - generates text with a model: the engine of `levin generate`.
 *
 * It opens the model, creates a sampler (sampler.h) and loads the weights. For text and stop texts see continuation.h.
 */
#ifndef LVN_GENERATION_H
#define LVN_GENERATION_H

#include "inference/sampler.h"
#include "options/values.h"
#include "setup/setup.h"

/* A model and its sampler. */
struct lvn_generator {
    const struct lvn_values *values;
    struct lvn_ranks *ranks;      /* that generate together; NULL: one rank */
    struct lvn_model_setup setup; /* with an empty codec there are only ids */
    struct lvn_model_state *model_state;
    struct lvn_sampler *sampler;
    int64_t *ends; /* [n_ends] end tokens, as in the model's files */
    int n_ends;
    int64_t kept_length; /* of the sampler that lvn_generator_continue() keeps; 0: none */
};

/* setup: a model that lvn_model_setup_loaded() opened, which the generator closes, also after an error. with_ends: read
 * the model's end tokens; otherwise there are none. must_generate: UNSUPPORTED if the model cannot generate; otherwise
 * any family is accepted, for lvn_generator_logits(). v must outlive the generator. Several ranks open it with the same
 * model and values; ranks is NULL for one rank. */
enum lvn_status lvn_generator_open(struct lvn_generator *g, const struct lvn_model_setup *setup,
                                   const struct lvn_values *v, struct lvn_ranks *ranks, bool with_ends,
                                   bool must_generate) LVN_CHECKED;
/* Maximum number of tokens that can follow a prompt of n. */
int64_t lvn_generator_capacity(const struct lvn_generator *g, int64_t n);
/* Continue the samples; may be called repeatedly. The first call loads the weights, in bf16 if trainer.precision is
 * bf16-true. Sets o->ends and o->ranks. Several ranks call it with the same samples and sharded parameters; ARG: with
 * this trainer.strategy each rank has the whole model, so one rank would do the same work. */
enum lvn_status lvn_generator_run(struct lvn_generator *g, struct lvn_sample *samples, int64_t n,
                                  struct lvn_sampling_options *o) LVN_CHECKED;
/* Continue one sample. Of a prompt that begins as the text of the last call, only the rest is run. The caches of keys
 * and values grow with the text, up to the context; those before are copied. */
enum lvn_status lvn_generator_continue(struct lvn_generator *g, struct lvn_sample *sample,
                                       struct lvn_sampling_options *o) LVN_CHECKED;
/* Read the sampling options that the publisher of the model recommends: generation_config.json, with the defaults of
 * transformers: greedy unless do_sample is true; then top_k is 50 by default. *why_greedy: the end of a
 * sentence. */
enum lvn_status lvn_generator_choice(const struct lvn_generator *g, struct lvn_choice *out,
                                     const char **why_greedy) LVN_CHECKED;
/* Add a token that ends a sample; -1: none. */
enum lvn_status lvn_generator_add_end(struct lvn_generator *g, int64_t id) LVN_CHECKED;
/* Compute the prediction for token ids (B,T), without dropout: *shape, for language models (B,T,V), for classifiers
 * (B,classes). *prediction: fp32, valid until the next call with g. ARG for ids beyond the vocabulary or too many,
 * UNSUPPORTED for a model that reads no token ids. */
enum lvn_status lvn_generator_logits(struct lvn_generator *g, const int32_t *ids, int64_t B, int64_t T,
                                     const float **prediction, struct lvn_desc *shape) LVN_CHECKED;
/* Load the weights, for readers of parameters; sessions that were bound to the model are dropped. */
enum lvn_status lvn_generator_load(struct lvn_generator *g) LVN_CHECKED;
void lvn_generator_close(struct lvn_generator *g);

#endif
