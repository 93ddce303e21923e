/* sampler.h - generating tokens: key/value cache, temperature, top_k, top_p, greedy.
 *
 * A sampler adds two tasks to a network: one runs a chunk of tokens at once (the prompt), one runs a single token. Both
 * keep keys and values, so a new token costs one pass over the weights. Past the context the window slides as minGPT's
 * and nanoGPT's do: the last block_size tokens are run anew, since learned positions start at 0 again. */
#ifndef LVN_SAMPLER_H
#define LVN_SAMPLER_H

#include "base/text.h"
#include "train/network.h"

struct lvn_settings;
struct lvn_codec;
struct lvn_sampler;

struct lvn_sampling_options {
    int64_t max_new_tokens;
    double temperature; /* 0: the likeliest token */
    int64_t top_k;      /* 0: off */
    double top_p;       /* 0 or 1: off */
    uint64_t seed;
    int64_t sample; /* number of the sample: another one, other random numbers */
};

/* Make the tasks; the caller allocates the network afterwards. block_size: of the window. */
enum lvn_status lvn_sampler_new(struct lvn_sampler **out, struct lvn_network *n, int64_t block_size) LVN_CHECKED;
void lvn_sampler_free(struct lvn_sampler *s); /* NULL: nothing; the tasks are the network's */

/* Continue `prompt` (n ids, at least 1) by o->max_new_tokens tokens into out[]. on_token, when not NULL, sees each as
 * it comes, and ends the sample by returning false; *n_out tells how many there are. NONFINITE when the logits hold
 * NaN. */
enum lvn_status lvn_sampler_run(struct lvn_sampler *s, const int32_t *prompt, int64_t n,
                                const struct lvn_sampling_options *o, int32_t *out, int64_t *n_out,
                                bool (*on_token)(void *context, int32_t id), void *context) LVN_CHECKED;

/* The prompt and its continuation as the keys of `sample` say, for the trainer. codec empty: ids as numbers. */
enum lvn_status lvn_sampler_text(struct lvn_sampler *s, const struct lvn_settings *settings,
                                 const struct lvn_codec *codec, int64_t step, struct lvn_text *out) LVN_CHECKED;
/* A prompt as ids: text, or FILE:path; malloc'd. A character that the vocabulary lacks is named. */
enum lvn_status lvn_prompt_encode(const char *prompt, const struct lvn_codec *codec, int32_t **ids,
                                  int64_t *n) LVN_CHECKED;

#endif
