/* sampler.h - generating tokens with a key/value cache; candidates.h chooses them.
 *
 * A sampler adds runners to a network: one runs a single token of each of its rows, and for each row one runs a chunk
 * of tokens (the prompt). All keep keys and values, so new tokens, one of each row, cost one pass over the weights.
 * Rows hold samples of any lengths, and one that has ended makes place for the next sample. What a sample becomes
 * depends on it alone, not on those beside it. Past the context the window slides as usual: the last block_size tokens
 * are run anew, since learned positions start at 0 again. Where positions are rotary (lvn_model.bounded) a text ends
 * there. */
#ifndef LVN_SAMPLER_H
#define LVN_SAMPLER_H

#include "base/text.h"
#include "engine/model_state.h"
#include "inference/candidates.h"

struct lvn_settings;
struct lvn_codec;
struct lvn_sampler;

struct lvn_sampling_options {
    struct lvn_choice how;
    uint64_t seed;
    const int64_t *ends; /* (n_ends) tokens that end a sample */
    int n_ends;
};

/* What is continued, and what comes of it. */
struct lvn_sample {
    const int32_t *prompt; /* (n) ids, at least 1 */
    int64_t n;
    int64_t number; /* another one, other random numbers */
    int64_t max;    /* new tokens */
    /* When not NULL: sees each token but an end token as it comes, and ends the sample by returning false. */
    bool (*on_token)(void *context, int32_t id);
    void *context;
    /* Made by the sampler; all zero at first. */
    int32_t *made; /* (n_made); one of the ends is the last */
    int64_t n_made, capacity;
    bool done;
};

/* Make the runners; the caller allocates the network afterwards. block_size: of the window. rows: samples that are run
 * together; more than LVN_DECODE_ROWS are as many. length: positions that the caches are to hold, that is, of the
 * longest sample what was given and made but for its last token; more than block_size is block_size. */
enum lvn_status lvn_sampler_new(struct lvn_sampler **out, struct lvn_model_state *n, int64_t block_size, int64_t rows,
                                int64_t length) LVN_CHECKED;
void lvn_sampler_free(struct lvn_sampler *s); /* NULL: nothing; the runners are the network's */

/* UNSUPPORTED when such a model does not generate. */
enum lvn_status lvn_sampling_possible(const struct lvn_model_config *c) LVN_CHECKED;
/* How many tokens may follow a prompt of n: without end where the window slides. */
int64_t lvn_sampling_capacity(const struct lvn_model *m, int64_t block_size, int64_t n);
/* ARG when there is no room for x->most tokens. */
enum lvn_status lvn_sampling_check(const struct lvn_model *m, int64_t block_size,
                                   const struct lvn_sample *x) LVN_CHECKED;
/* Continue n samples, each by at most its `most` tokens. ARG when a prompt is none, NONFINITE when logits hold NaN. */
enum lvn_status lvn_sampler_run(struct lvn_sampler *s, struct lvn_sample *samples, int64_t n,
                                const struct lvn_sampling_options *o) LVN_CHECKED;
void lvn_sample_release(struct lvn_sample *x);

/* The prompt and its continuation as the keys of `sample` say, for the trainer; prompt: NULL takes sample.prompt. codec
 * empty: token 0 and ids as numbers. */
enum lvn_status lvn_sampler_text(struct lvn_sampler *s, const struct lvn_settings *settings,
                                 const struct lvn_codec *codec, const char *prompt, int64_t step,
                                 struct lvn_text *out) LVN_CHECKED;
/* A prompt as ids: text, or FILE:path; malloc'd. A character that the vocabulary lacks is named. */
enum lvn_status lvn_prompt_encode(const char *prompt, const struct lvn_codec *codec, int32_t **ids,
                                  int64_t *n) LVN_CHECKED;

#endif
