/* generate.h - text from a model: the engine of `levin generate`. */
#ifndef LVN_GENERATE_H
#define LVN_GENERATE_H

#include "data/codec.h"
#include "train/sampler.h"
#include "train/settings.h"

/* A model that is loaded to generate. */
struct lvn_generator {
    struct lvn_network *network;
    struct lvn_sampler *sampler;
    struct lvn_codec codec; /* empty: ids only */
    int64_t *ends;          /* (n_ends) the end tokens that the model names */
    int n_ends;
};

/* Load settings' model.init. model.block_size, where given, is the length of the window. with_ends: read the model's
 * end tokens, too; otherwise there are none. */
enum lvn_status lvn_generator_open(struct lvn_generator *g, const struct lvn_settings *s, bool with_ends) LVN_CHECKED;
void lvn_generator_close(struct lvn_generator *g);

#endif
