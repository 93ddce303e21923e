/* sampler.c - see sampler.h. */
#include "train/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/random.h"
#include "data/codec.h"
#include "models/keys.h"
#include "train/settings.h"

enum { CHUNK = 32 }; /* tokens of the prompt that are run at once */

struct lvn_sampler {
    struct lvn_runner *one, *chunk; /* chunk: NULL when the context is shorter */
    struct lvn_samples of_one, of_chunk;
    int64_t block_size, vocab_size;
    bool bounded;        /* the window does not slide */
    int64_t position;    /* tokens in the cache */
    const float *logits; /* (V) of the last token */
    int32_t *window;     /* (block_size) the tokens in the cache */
    struct lvn_candidates candidates;
};

static enum lvn_status make_runner(struct lvn_runner **out, struct lvn_samples *b, struct lvn_network *n, int64_t T,
                                   int64_t block_size, const struct lvn_runner *caches)
{
    const struct lvn_fields fields = {.field = {{.name = "ids", .dtype = LVN_I32, .rank = 1, .dim = {T}}}, .n = 1};
    struct lvn_runner_options o = {.fields = &fields, .B = 1, .cache_length = block_size, .caches = caches};
    LVN_TRY(lvn_samples_init(b, &fields, 1));
    return lvn_runner_new(out, n, &o);
}

/* Token by token, attention sees what came before through its cache alone. */
static enum lvn_status check_caches(const struct lvn_runner *r, const char *model)
{
    for (int i = 0; i < r->graph->n_nodes; i++) {
        const struct lvn_node *node = r->graph->nodes[i];
        LVN_CHECK(node->op != LVN_OP_attention || node->attr.attention.cached, UNSUPPORTED,
                  "the model '%s' keeps no keys and values in '%s', so it cannot generate text; leave out sample.*",
                  model, node->name);
    }
    return LVN_OK;
}

enum lvn_status lvn_sampler_new(struct lvn_sampler **out, struct lvn_network *n, int64_t block_size)
{
    const struct lvn_model *m = n->config.model;
    *out = NULL;
    LVN_CHECK(m->generates, UNSUPPORTED, "a %s does not generate text; leave out sample.*, or give a language model",
              m->name);
    LVN_CHECK(!lvn_model_is_for(&n->config, "classify"), UNSUPPORTED,
              "this %s tells classes and does not generate text; levin predict gives the classes of a text", m->name);
    struct lvn_sampler *s = lvn_calloc(1, sizeof *s);
    if (!s) return LVN_MEMORY;
    s->block_size = block_size;
    s->bounded = m->bounded;
    s->vocab_size = lvn_model_value(&n->config, LVN_MEANS_VOCABULARY);
    s->window = lvn_calloc((size_t)block_size, sizeof *s->window);
    enum lvn_status status = s->window ? lvn_candidates_init(&s->candidates, s->vocab_size) : LVN_MEMORY;
    if (status == LVN_OK) status = make_runner(&s->one, &s->of_one, n, 1, block_size, NULL);
    if (status == LVN_OK) status = check_caches(s->one, m->name);
    if (status == LVN_OK && block_size >= CHUNK)
        status = make_runner(&s->chunk, &s->of_chunk, n, CHUNK, block_size, s->one);
    if (status == LVN_OK)
        *out = s;
    else
        lvn_sampler_free(s);
    return status;
}

void lvn_sampler_free(struct lvn_sampler *s)
{
    if (!s) return;
    lvn_samples_release(&s->of_one);
    lvn_samples_release(&s->of_chunk);
    free(s->window);
    lvn_candidates_release(&s->candidates);
    free(s);
}

/* Run `n` tokens (at most a batch's) behind those in the cache. */
static enum lvn_status feed_runner(struct lvn_sampler *s, struct lvn_runner *t, struct lvn_samples *b,
                                   const int32_t *ids, int64_t n)
{
    struct lvn_execution how = {.n_micro_batches = 1};
    /* What lies behind the n tokens is computed too and looked at by nobody: it is written over later. The one-token
     * and the chunk runner have the same cache. */
    lvn_samples_blank(b, 0);
    memcpy(b->p[0], ids, sizeof *ids * (size_t)n);
    LVN_TRY(lvn_runner_feed(t, 0, b));
    t->step = (struct lvn_step){.position = s->position};
    LVN_TRY(lvn_runner_run_as(t, &how));
    s->logits = lvn_runner_prediction(t);
    if (!s->logits) return LVN_INTERNAL;
    s->logits += (n - 1) * s->vocab_size;
    memmove(s->window + s->position, ids, sizeof *ids * (size_t)n);
    s->position += n;
    return LVN_OK;
}

static enum lvn_status feed(struct lvn_sampler *s, const int32_t *ids, int64_t n)
{
    while (n > 0) {
        bool chunk = s->chunk && n > 1 && s->position + CHUNK <= s->block_size;
        int64_t part = !chunk ? 1 : n < CHUNK ? n : CHUNK;
        LVN_TRY(feed_runner(s, chunk ? s->chunk : s->one, chunk ? &s->of_chunk : &s->of_one, ids, part));
        ids += part;
        n -= part;
    }
    return LVN_OK;
}

/* One more token; a full window first moves on by one, and what stays is run anew from position 0. */
static enum lvn_status feed_next(struct lvn_sampler *s, int32_t id)
{
    if (s->position < s->block_size) return feed(s, &id, 1);
    memmove(s->window, s->window + 1, sizeof *s->window * (size_t)(s->block_size - 1));
    s->window[s->block_size - 1] = id;
    s->position = 0;
    return feed(s, s->window, s->block_size);
}

/* --- sampling --- */

/* A random number from [0, 1) for the token of this index. */
static double chance(const struct lvn_sampling_options *o, int64_t index)
{
    struct lvn_philox r = lvn_philox(o->seed ^ ((uint64_t)LVN_STREAM_SAMPLE << 56), (uint32_t)index,
                                     (uint32_t)((uint64_t)index >> 32), (uint32_t)o->sample, 0);
    return ((double)r.v[0] + (double)r.v[1] * 0x1p-32) * 0x1p-32;
}

static bool ends(const struct lvn_sampling_options *o, int32_t id)
{
    for (int i = 0; i < o->n_ends; i++)
        if (o->ends[i] == id) return true;
    return false;
}

int64_t lvn_sampler_room(const struct lvn_sampler *s, int64_t n)
{
    if (!s->bounded) return INT64_MAX;
    return n > s->block_size ? 0 : s->block_size - n + 1; /* the last one is not read again */
}

enum lvn_status lvn_sampler_run(struct lvn_sampler *s, const int32_t *prompt, int64_t n,
                                const struct lvn_sampling_options *o, int32_t *out, int64_t *n_out,
                                bool (*on_token)(void *context, int32_t id), void *context)
{
    LVN_CHECK(n > 0, ARG, "the prompt is empty: give at least one token to continue");
    for (int64_t i = 0; i < n; i++)
        LVN_CHECK(prompt[i] >= 0 && prompt[i] < s->vocab_size, ARG,
                  "the prompt's token %lld is %d, beyond the vocabulary of %lld", (long long)i, prompt[i],
                  (long long)s->vocab_size);
    LVN_CHECK(o->max_new_tokens <= lvn_sampler_room(s, n), ARG,
              "a prompt of %lld tokens and %lld new ones do not fit into the model's %lld positions; at most %lld can "
              "follow it",
              (long long)n, (long long)o->max_new_tokens, (long long)s->block_size, (long long)lvn_sampler_room(s, n));
    int64_t seen = n < s->block_size ? n : s->block_size;
    s->position = 0;
    *n_out = 0;
    if (o->max_new_tokens > 0) LVN_TRY(feed(s, prompt + n - seen, seen));
    for (int64_t i = 0; i < o->max_new_tokens; i++) {
        for (int64_t v = 0; v < s->vocab_size; v++)
            LVN_CHECK(isfinite(s->logits[v]), NONFINITE,
                      "the model's output for token %lld of the sample is not finite", (long long)i);
        out[i] = lvn_candidates_choose(&s->candidates, s->logits, &o->how, chance(o, i));
        *n_out = i + 1;
        if (ends(o, out[i])) break;
        if (on_token && !on_token(context, out[i])) break;
        if (i + 1 < o->max_new_tokens) LVN_TRY(feed_next(s, out[i]));
    }
    return LVN_OK;
}

/* --- text --- */

enum lvn_status lvn_prompt_encode(const char *prompt, const struct lvn_codec *codec, int32_t **ids, int64_t *n)
{
    char *text = NULL;
    int64_t bytes = (int64_t)strlen(prompt);
    bool file = strncmp(prompt, "FILE:", 5) == 0;
    struct lvn_arena a;
    *ids = NULL;
    lvn_arena_init(&a);
    const char *path = file ? lvn_path_home(&a, prompt + 5) : NULL;
    enum lvn_status status = !file ? LVN_OK : path ? lvn_file_read(path, 64 << 20, &text, &bytes) : LVN_MEMORY;
    lvn_arena_release(&a);
    LVN_TRY(status);
    status = lvn_codec_encode(codec, file ? prompt + 5 : "the prompt", file ? text : prompt, bytes, ids, n);
    free(text);
    return status;
}

enum lvn_status lvn_sampler_text(struct lvn_sampler *s, const struct lvn_settings *settings,
                                 const struct lvn_codec *codec, const char *prompt, int64_t step, struct lvn_text *out)
{
    struct lvn_sampling_options o = {.max_new_tokens = settings->sample.max_new_tokens,
                                     .how = {.temperature = settings->sample.temperature,
                                             .top_k = settings->sample.top_k,
                                             .top_p = settings->sample.top_p},
                                     .seed = (uint64_t)settings->trainer.seed,
                                     .sample = step};
    int32_t *given = NULL, start = 0, *made = lvn_malloc(sizeof *made * (size_t)(o.max_new_tokens + 1));
    int64_t n = 1, n_made = 0;
    enum lvn_status status = made ? LVN_OK : LVN_MEMORY;
    /* Data without text: continue token 0. */
    if (status == LVN_OK && lvn_codec_is_text(codec))
        status = lvn_prompt_encode(prompt ? prompt : settings->sample.prompt, codec, &given, &n);
    const int32_t *ids = given ? given : &start;
    int64_t cut = s->bounded && n > s->block_size ? n - s->block_size : 0; /* looking on must not end a run */
    ids += cut, n -= cut;
    if (o.max_new_tokens > lvn_sampler_room(s, n)) o.max_new_tokens = lvn_sampler_room(s, n);
    if (status == LVN_OK) status = lvn_sampler_run(s, ids, n, &o, made, &n_made, NULL, NULL);
    struct lvn_codec_stream stream = {0};
    for (int64_t i = 0; status == LVN_OK && i < n; i++) lvn_codec_decode(codec, &stream, ids[i], out);
    for (int64_t i = 0; status == LVN_OK && i < n_made; i++) lvn_codec_decode(codec, &stream, made[i], out);
    lvn_codec_decode_end(&stream, out);
    free(given);
    free(made);
    return status == LVN_OK ? lvn_text_status(out) : status;
}
