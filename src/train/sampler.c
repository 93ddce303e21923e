/* sampler.c - see sampler.h. */
#include "train/sampler.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/random.h"
#include "data/codec.h"
#include "train/settings.h"

enum { CHUNK = 32 }; /* tokens of the prompt that are run at once */

struct candidate {
    float logit;
    int32_t id;
};

struct lvn_sampler {
    struct lvn_task *one, *chunk; /* chunk: NULL when the context is shorter */
    int64_t block_size, vocab_size;
    int64_t position;       /* tokens in the cache */
    const float *logits;    /* (V) of the last token */
    int32_t *window;        /* (block_size) the tokens in the cache */
    struct candidate *list; /* (V) */
};

static enum lvn_status make_task(struct lvn_task **out, struct lvn_network *n, int64_t T, int64_t block_size)
{
    struct lvn_task_options o = {.B = 1, .T = T, .logits = true, .cache_length = block_size};
    return lvn_task_new(out, n, &o);
}

enum lvn_status lvn_sampler_new(struct lvn_sampler **out, struct lvn_network *n, int64_t block_size)
{
    *out = NULL;
    struct lvn_sampler *s = lvn_calloc(1, sizeof *s);
    if (!s) return LVN_MEMORY;
    s->block_size = block_size;
    s->vocab_size = n->config.vocab_size;
    s->window = lvn_calloc((size_t)block_size, sizeof *s->window);
    s->list = lvn_calloc((size_t)s->vocab_size, sizeof *s->list);
    enum lvn_status status = s->window && s->list ? make_task(&s->one, n, 1, block_size) : LVN_MEMORY;
    if (status == LVN_OK && block_size >= CHUNK) status = make_task(&s->chunk, n, CHUNK, block_size);
    if (status == LVN_OK)
        *out = s;
    else
        lvn_sampler_free(s);
    return status;
}

void lvn_sampler_free(struct lvn_sampler *s)
{
    if (!s) return;
    free(s->window);
    free(s->list);
    free(s);
}

/* Run `n` tokens (at most a task's T) behind those in the cache. */
static void feed_task(struct lvn_sampler *s, struct lvn_task *t, const int32_t *ids, int64_t n)
{
    /* What lies behind the n tokens is computed too and looked at by nobody: it is written over later. The one-token
     * and the chunk task keep the same cache through share_cache(). */
    memset(t->ids, 0, sizeof *t->ids * (size_t)t->options.T);
    memcpy(t->ids, ids, sizeof *ids * (size_t)n);
    t->step = (struct lvn_step){.position = s->position};
    lvn_task_run(t, 1);
    s->logits = lvn_task_logits(t) + (n - 1) * s->vocab_size;
    memmove(s->window + s->position, ids, sizeof *ids * (size_t)n);
    s->position += n;
}

static void feed(struct lvn_sampler *s, const int32_t *ids, int64_t n)
{
    while (n > 0) {
        bool chunk = s->chunk && n > 1 && s->position + CHUNK <= s->block_size;
        int64_t part = !chunk ? 1 : n < CHUNK ? n : CHUNK;
        feed_task(s, chunk ? s->chunk : s->one, ids, part);
        ids += part;
        n -= part;
    }
}

/* Both tasks work on the caches of the one-token task. */
static void share_cache(struct lvn_sampler *s)
{
    if (s->chunk) s->chunk->binding.kept = s->one->kept;
}

/* One more token; a full window first moves on by one, and what stays is run anew from position 0. */
static void feed_next(struct lvn_sampler *s, int32_t id)
{
    if (s->position < s->block_size) {
        feed(s, &id, 1);
        return;
    }
    memmove(s->window, s->window + 1, sizeof *s->window * (size_t)(s->block_size - 1));
    s->window[s->block_size - 1] = id;
    s->position = 0;
    feed(s, s->window, s->block_size);
}

/* --- choosing --- */

static int by_logit(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int32_t likeliest(const float *logits, int64_t V)
{
    int64_t best = 0;
    for (int64_t i = 1; i < V; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

/* How many of the sorted candidates top_k and top_p leave; their probabilities are left in list[].logit. */
static int64_t narrow(struct candidate *list, int64_t n, const struct lvn_sampling_options *o, double *total)
{
    double top = list[0].logit, sum = 0.0, all = 0.0;
    if (o->top_k > 0 && o->top_k < n) n = o->top_k;
    for (int64_t i = 0; i < n; i++) list[i].logit = (float)exp((list[i].logit - top) / o->temperature);
    for (int64_t i = 0; i < n; i++) all += list[i].logit;
    bool by_share = o->top_p > 0.0 && o->top_p < 1.0;
    int64_t kept = 0;
    while (kept < n && !(by_share && kept > 0 && sum >= o->top_p * all)) sum += list[kept++].logit;
    *total = sum;
    return kept;
}

static int32_t choose(struct lvn_sampler *s, const struct lvn_sampling_options *o, int64_t index)
{
    int64_t V = s->vocab_size;
    if (o->temperature <= 0.0) return likeliest(s->logits, V);
    for (int64_t i = 0; i < V; i++) s->list[i] = (struct candidate){s->logits[i], (int32_t)i};
    qsort(s->list, (size_t)V, sizeof *s->list, by_logit);
    double total, sum = 0.0;
    int64_t n = narrow(s->list, V, o, &total);
    struct lvn_philox r = lvn_philox(o->seed ^ ((uint64_t)LVN_STREAM_SAMPLE << 56), (uint32_t)index,
                                     (uint32_t)((uint64_t)index >> 32), (uint32_t)o->sample, 0);
    double at = ((double)r.v[0] + (double)r.v[1] * 0x1p-32) * 0x1p-32 * total;
    for (int64_t i = 0; i < n; i++) {
        sum += s->list[i].logit;
        if (at < sum) return s->list[i].id;
    }
    return s->list[n - 1].id;
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
    share_cache(s);
    int64_t seen = n < s->block_size ? n : s->block_size;
    s->position = 0;
    *n_out = 0;
    if (o->max_new_tokens > 0) feed(s, prompt + n - seen, seen);
    for (int64_t i = 0; i < o->max_new_tokens; i++) {
        for (int64_t v = 0; v < s->vocab_size; v++)
            LVN_CHECK(isfinite(s->logits[v]), NONFINITE,
                      "the model's output for token %lld of the sample is not finite", (long long)i);
        out[i] = choose(s, o, i);
        *n_out = i + 1;
        if (on_token && !on_token(context, out[i])) break;
        if (i + 1 < o->max_new_tokens) feed_next(s, out[i]);
    }
    return LVN_OK;
}

/* --- text --- */

enum lvn_status lvn_prompt_encode(const char *prompt, const struct lvn_codec *codec, int32_t **ids, int64_t *n)
{
    char *text = NULL;
    int64_t bytes = (int64_t)strlen(prompt);
    bool file = strncmp(prompt, "FILE:", 5) == 0;
    *ids = NULL;
    if (file) LVN_TRY(lvn_file_read(prompt + 5, 64 << 20, &text, &bytes));
    enum lvn_status status =
        lvn_codec_encode(codec, file ? prompt + 5 : "the prompt", file ? text : prompt, bytes, ids, n);
    free(text);
    return status;
}

enum lvn_status lvn_sampler_text(struct lvn_sampler *s, const struct lvn_settings *settings,
                                 const struct lvn_codec *codec, int64_t step, struct lvn_text *out)
{
    struct lvn_sampling_options o = {.max_new_tokens = settings->sample.max_new_tokens,
                                     .temperature = settings->sample.temperature,
                                     .top_k = settings->sample.top_k,
                                     .top_p = settings->sample.top_p,
                                     .seed = (uint64_t)settings->trainer.seed,
                                     .sample = step};
    int32_t *prompt = NULL, start = 0, *made = lvn_malloc(sizeof *made * (size_t)(o.max_new_tokens + 1));
    int64_t n = 1, n_made = 0;
    enum lvn_status status = made ? LVN_OK : LVN_MEMORY;
    /* Data without text: continue token 0. */
    if (status == LVN_OK && lvn_codec_is_text(codec))
        status = lvn_prompt_encode(settings->sample.prompt, codec, &prompt, &n);
    const int32_t *ids = prompt ? prompt : &start;
    if (status == LVN_OK) status = lvn_sampler_run(s, ids, n, &o, made, &n_made, NULL, NULL);
    struct lvn_codec_stream stream = {0};
    for (int64_t i = 0; status == LVN_OK && i < n; i++) lvn_codec_decode(codec, &stream, ids[i], out);
    for (int64_t i = 0; status == LVN_OK && i < n_made; i++) lvn_codec_decode(codec, &stream, made[i], out);
    lvn_codec_decode_end(&stream, out);
    free(prompt);
    free(made);
    return status == LVN_OK ? lvn_text_status(out) : status;
}
