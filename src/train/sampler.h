/* sampler.h - generating tokens with a key/value cache; candidates.h chooses them.
 *
 * A sampler adds two runners to a network: one runs a chunk of tokens at once (the prompt), one runs a single token.
 * Both keep keys and values, so a new token costs one pass over the weights. Past the context the window slides as
 * usual: the last block_size tokens are run anew, since learned positions start at 0 again. Where positions are rotary
 * (lvn_model.bounded) a text ends there. */
#ifndef LVN_SAMPLER_H
#define LVN_SAMPLER_H

#include "base/text.h"
#include "train/candidates.h"
#include "train/network.h"

struct lvn_settings;
struct lvn_codec;
struct lvn_sampler;

struct lvn_sampling_options {
    int64_t max_new_tokens;
    struct lvn_choice how;
    uint64_t seed;
    int64_t sample;      /* number of the sample: another one, other random numbers */
    const int64_t *ends; /* (n_ends) tokens that end a sample */
    int n_ends;
};

/* Make the runners; the caller allocates the network afterwards. block_size: of the window. */
enum lvn_status lvn_sampler_new(struct lvn_sampler **out, struct lvn_network *n, int64_t block_size) LVN_CHECKED;
void lvn_sampler_free(struct lvn_sampler *s); /* NULL: nothing; the runners are the network's */

/* How many tokens may follow a prompt of n: without end where the window slides. */
int64_t lvn_sampler_room(const struct lvn_sampler *s, int64_t n);
/* Continue `prompt` (n ids, at least 1) by at most o->max_new_tokens tokens into out[]; *n_out tells how many there
 * are. One of o->ends is the last of out[]. on_token, when not NULL, sees each other token as it comes, and ends the
 * sample by returning false. ARG when there is no room for them, NONFINITE when the logits hold NaN. */
enum lvn_status lvn_sampler_run(struct lvn_sampler *s, const int32_t *prompt, int64_t n,
                                const struct lvn_sampling_options *o, int32_t *out, int64_t *n_out,
                                bool (*on_token)(void *context, int32_t id), void *context) LVN_CHECKED;

/* The prompt and its continuation as the keys of `sample` say, for the trainer; prompt: NULL takes sample.prompt. codec
 * empty: token 0 and ids as numbers. */
enum lvn_status lvn_sampler_text(struct lvn_sampler *s, const struct lvn_settings *settings,
                                 const struct lvn_codec *codec, const char *prompt, int64_t step,
                                 struct lvn_text *out) LVN_CHECKED;
/* A prompt as ids: text, or FILE:path; malloc'd. A character that the vocabulary lacks is named. */
enum lvn_status lvn_prompt_encode(const char *prompt, const struct lvn_codec *codec, int32_t **ids,
                                  int64_t *n) LVN_CHECKED;

#endif
