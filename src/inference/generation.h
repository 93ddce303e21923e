/* generation.h - text from a model: the engine of `levin generate`. */
#ifndef LVN_GENERATION_H
#define LVN_GENERATION_H

#include "inference/sampler.h"
#include "model_io/model_setup.h"
#include "settings/settings.h"

/* A model to generate with. */
struct lvn_generator {
    const struct lvn_settings *settings;
    struct lvn_model_setup setup; /* its codec empty: ids only */
    struct lvn_model_state *network;
    struct lvn_sampler *sampler;
    int64_t *ends; /* (n_ends) the end tokens that the model names */
    int n_ends;
};

/* Find settings' model.init. model.block_size, where given, is the length of the window. with_ends: read the model's
 * end tokens, too; otherwise there are none. s outlives the generator. */
enum lvn_status lvn_generator_open(struct lvn_generator *g, const struct lvn_settings *s, bool with_ends) LVN_CHECKED;
/* How many tokens may follow a prompt of n. */
int64_t lvn_generator_capacity(const struct lvn_generator *g, int64_t n);
/* Load the weights, in bf16 where trainer.precision is bf16-true, and continue the samples; once. Sets o's ends. */
enum lvn_status lvn_generator_run(struct lvn_generator *g, struct lvn_sample *samples, int64_t n,
                                  struct lvn_sampling_options *o) LVN_CHECKED;
void lvn_generator_close(struct lvn_generator *g);

#endif
