/* sampler.h - generates tokens with a key/value cache. candidates.h chooses each token.
 *
 * generation.h, the callback sample and the C API create one. A sampler adds sessions to a model state: one decodes a
 * single token of each of its rows, and one for each row runs a chunk of tokens (the prompt). All share the key/value
 * cache, so one new token of every row costs one pass over the weights. Rows have samples of any length, and a sample
 * that has ended frees its row for the next one. A sample's result depends only on the sample, and not on other rows.
 * Beyond the context the window slides: the last block_size tokens are run again, because learned positions then start
 * at 0. With rotary positions (lvn_model.bounded) a text ends there. */
#ifndef LVN_SAMPLER_H
#define LVN_SAMPLER_H

#include "base/text.h"
#include "engine/session.h"
#include "inference/candidates.h"

struct lvn_values;
struct lvn_codec;
struct lvn_ranks;
struct lvn_sampler;

struct lvn_sampling_options {
    struct lvn_choice choice;
    uint64_t seed;
    const int64_t *ends; /* [n_ends] tokens that end a sample */
    int n_ends;
    bool continues;          /* one sample, one row: of a prompt that begins as the last text, only the rest is run */
    struct lvn_ranks *ranks; /* that run the same samples together; rank 0 chooses the tokens. NULL: one rank */
};

/* A prompt and its continuation. */
struct lvn_sample {
    const int32_t *prompt; /* [n] ids, at least 1 */
    int64_t n;
    int64_t number; /* selects the stream of random numbers */
    int64_t max;    /* new tokens */
    /* Called with each new token, except an end token, on rank 0; false ends the sample. NULL: none. */
    bool (*on_token)(void *context, int32_t id);
    void *context;
    /* Set by the sampler; all zero at first. */
    int64_t n_run;      /* tokens of the prompt that were run, because the cache did not have them */
    int32_t *generated; /* [n_generated]; the last may be an end token */
    int64_t n_generated;
    int64_t capacity;
    bool done;
};

/* Make the sessions; the caller allocates the model state afterwards. block_size: of the window. rows: samples that are
 * decoded together, at most LVN_DECODE_ROWS. length: positions of the caches, at most block_size: for the longest
 * sample, prompt and continuation without the last token. */
enum lvn_status lvn_sampler_new(struct lvn_sampler **out, struct lvn_model_state *n, int64_t block_size, int64_t rows,
                                int64_t length) LVN_CHECKED;
void lvn_sampler_free(struct lvn_sampler *s); /* NULL: nothing; the sessions are the model state's */

/* The text in the caches of a sampler with one row, for one with longer caches, which then need not run it again. */
struct lvn_kept_text {
    struct lvn_memory **caches; /* [n_caches], owned */
    int n_caches;
    int32_t *tokens; /* [n] in the caches, owned */
    int64_t n;
};
/* Take it from the sampler, which can then only be freed. s NULL, or nothing in the caches: *out is empty. */
void lvn_sampler_take_text(struct lvn_sampler *s, struct lvn_kept_text *out);
/* Copy it into the caches of a sampler of the same model, after they were allocated. Free each of the old ones after
 * it was copied, so that both are in memory only for a moment. */
enum lvn_status lvn_sampler_give_text(struct lvn_sampler *s, struct lvn_kept_text *text) LVN_CHECKED;
void lvn_kept_text_release(struct lvn_kept_text *text); /* does nothing to a zeroed struct */

/* UNSUPPORTED if such a model cannot generate. */
enum lvn_status lvn_sampling_possible(const struct lvn_model_config *c) LVN_CHECKED;
/* Maximum number of tokens that can follow a prompt of n; unlimited if the window slides. */
int64_t lvn_sampling_capacity(const struct lvn_model *m, int64_t block_size, int64_t n);
/* ARG: x->max tokens exceed the context. */
enum lvn_status lvn_sampling_check(const struct lvn_model *m, int64_t block_size,
                                   const struct lvn_sample *x) LVN_CHECKED;
/* Continue n samples, each by at most its `max` tokens. ARG for an invalid prompt, NONFINITE if logits hold NaN. */
enum lvn_status lvn_sampler_run(struct lvn_sampler *s, struct lvn_sample *samples, int64_t n,
                                const struct lvn_sampling_options *o) LVN_CHECKED;
void lvn_sample_release(struct lvn_sample *x);

/* For the trainer: prompt and continuation as text, by the options of part `sample`. prompt NULL: sample.prompt. Empty
 * codec: starts with token 0 and writes ids as numbers. ranks: that call it together, because parameters are sharded;
 * NULL: this rank alone. */
enum lvn_status lvn_sampler_text(struct lvn_sampler *s, const struct lvn_values *v, const struct lvn_codec *codec,
                                 struct lvn_ranks *ranks, const char *prompt, int64_t step,
                                 struct lvn_text *out) LVN_CHECKED;
/* Encode a prompt, as text or FILE:path, to allocated ids. ARG names a character that the vocabulary lacks. */
enum lvn_status lvn_prompt_encode(const char *prompt, const struct lvn_codec *codec, int32_t **ids,
                                  int64_t *n) LVN_CHECKED;

#endif
