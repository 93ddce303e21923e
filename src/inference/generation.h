/* generation.h - generates text with a model from settings: the engine of `levin generate`.
 *
 * It opens the model, makes a sampler (sampler.h) and loads the weights. Text and stop texts are continuation.h's. */
#ifndef LVN_GENERATION_H
#define LVN_GENERATION_H

#include "inference/sampler.h"
#include "model_io/model_setup.h"
#include "settings/settings.h"

/* A model and its sampler. */
struct lvn_generator {
    const struct lvn_settings *settings;
    struct lvn_ranks *ranks;      /* that generate together; NULL: one, alone */
    struct lvn_model_setup setup; /* with an empty codec there are only ids */
    struct lvn_model_state *model_state;
    struct lvn_sampler *sampler;
    int64_t *ends; /* [n_ends] end tokens, as in the model's files */
    int n_ends;
};

/* Open settings' model.init. model.block_size, if given, is the length of the window. with_ends: read the model's end
 * tokens; otherwise there are none. s must outlive the generator. Several ranks open it with the same settings. */
enum lvn_status lvn_generator_open(struct lvn_generator *g, const struct lvn_settings *s, struct lvn_ranks *ranks,
                                   bool with_ends) LVN_CHECKED;
/* Most tokens that can follow a prompt of n. */
int64_t lvn_generator_capacity(const struct lvn_generator *g, int64_t n);
/* Continue the samples, as often as one likes: the first call loads the weights, in bf16 if trainer.precision is
 * bf16-true. Sets o->ends and o->ranks. Several ranks call it with the same samples, and their parameters are in
 * shards; ARG if trainer.strategy keeps the whole model on each, because one rank does the same work then. */
enum lvn_status lvn_generator_run(struct lvn_generator *g, struct lvn_sample *samples, int64_t n,
                                  struct lvn_sampling_options *o) LVN_CHECKED;
/* Open a model of any family for lvn_generator_logits() alone, or for both if it can generate. */
enum lvn_status lvn_generator_open_any(struct lvn_generator *g, const struct lvn_settings *s) LVN_CHECKED;
/* The prediction for token ids (B,T), without dropout: *shape, for language models (B,T,V), for classifiers
 * (B,classes). *prediction: fp32, valid until the next call with g. ARG for ids beyond the vocabulary or too many,
 * UNSUPPORTED for a model that reads no token ids. */
enum lvn_status lvn_generator_logits(struct lvn_generator *g, const int32_t *ids, int64_t B, int64_t T,
                                     const float **prediction, struct lvn_desc *shape) LVN_CHECKED;
/* The model with its weights, for readers of parameters; what was bound to it before is dropped. */
enum lvn_status lvn_generator_load(struct lvn_generator *g) LVN_CHECKED;
void lvn_generator_close(struct lvn_generator *g);

#endif
