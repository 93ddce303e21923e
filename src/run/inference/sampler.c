/* sampler.c - see sampler.h. */
#include "inference/sampler.h"

#include "base/files.h"
#include "base/list.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "base/work.h"
#include "data/codec.h"
#include "engine/ranks.h"
#include "models/keys.h"
#include "options/values.h"

/* Tokens of a prompt that are run at once: LONG_CHUNK, without logits, while at least half of it and one more are left;
 * then CHUNK. Weights are packed for each run, so a prompt takes half of the time in long chunks. */
enum { CHUNK = 32, LONG_CHUNK = 256 };

/* A row of the batch, with its sample. */
struct row {
    struct lvn_sample *sample;      /* NULL: the row is free */
    int32_t *window;                /* [block_size] tokens in the cache, then those to be run next */
    int64_t n, position;            /* tokens of the window, and how many of them are in the cache */
    struct lvn_session *chunk;      /* session on this row's cache; NULL: the context is shorter than a chunk */
    struct lvn_session *long_chunk; /* NULL: the caches are too short for one and another chunk */
};

struct lvn_sampler {
    struct lvn_session *one; /* session for one token of each row */
    struct lvn_samples of_one, of_chunk, of_long_chunk;
    const struct lvn_model *model;
    int64_t block_size, vocab_size;
    int64_t length; /* of the caches */
    bool slides;    /* a cache keeps only the last keys of a text, so earlier ones cannot be returned to */
    struct row rows[LVN_DECODE_ROWS];
    int64_t n_rows;
    struct lvn_candidates candidates;
};

static struct lvn_fields tokens(int64_t T)
{
    return (struct lvn_fields){.field = {{.name = "ids", .dtype = LVN_I32, .rank = 1, .dim = {T}}}, .n = 1};
}

/* UNSUPPORTED unless all attention caches keys and values: decoding sees earlier tokens through the caches alone. */
static enum lvn_status check_caches(struct lvn_sampler *s, const struct lvn_session *session, const char *model)
{
    for (int i = 0; i < session->graph->n_nodes; i++) {
        const struct lvn_node *node = session->graph->nodes[i];
        s->slides |= node->op == LVN_OP_attention && node->attr.attention.ring;
        s->slides |= node->op == LVN_OP_kv_cache && node->attr.kv_cache.ring; /* also of levin_previous() */
        LVN_CHECK(
            node->op != LVN_OP_attention || node->attr.attention.cached, UNSUPPORTED,
            "the model '%s' does not cache keys and values in '%s', so it cannot generate text; leave out sample.*",
            model, node->name);
    }
    return LVN_OK;
}

/* With labels, of which there are none: the head then computes nothing. */
static struct lvn_fields tokens_without_logits(int64_t T)
{
    struct lvn_fields fields = tokens(T);
    fields.field[1] = (struct lvn_field){.name = "labels", .dtype = LVN_I32, .rank = 1, .dim = {T}};
    fields.field[1].label = LVN_LABEL_TOKEN;
    fields.n = 2;
    return fields;
}

static enum lvn_status make_sessions(struct lvn_sampler *s, struct lvn_model_state *n)
{
    const struct lvn_fields one = tokens(1), chunk = tokens(CHUNK), long_chunk = tokens_without_logits(LONG_CHUNK);
    const bool is_long = s->length >= LONG_CHUNK + CHUNK;
    const int64_t most = is_long ? LONG_CHUNK : CHUNK;
    struct lvn_session_options o = {.fields = &one, .B = s->n_rows, .cache_length = s->length, .cache_tokens = most};
    LVN_TRY(lvn_samples_init(&s->of_one, &one, s->n_rows));
    LVN_TRY(lvn_session_new(&s->one, n, &o));
    LVN_TRY(check_caches(s, s->one, n->config.model->name));
    if (s->length < CHUNK) return LVN_OK;
    LVN_TRY(lvn_samples_init(&s->of_chunk, &chunk, 1));
    if (is_long) LVN_TRY(lvn_samples_init(&s->of_long_chunk, &long_chunk, 1));
    for (int64_t r = 0; r < s->n_rows; r++) {
        o = (struct lvn_session_options){.fields = &chunk,
                                         .B = 1,
                                         .cache_length = s->length,
                                         .cache_tokens = most,
                                         .caches = s->one,
                                         .cache_batch = r};
        LVN_TRY(lvn_session_new(&s->rows[r].chunk, n, &o));
        o.fields = &long_chunk;
        o.task = lvn_task_of(LVN_LABEL_TOKEN);
        if (is_long) LVN_TRY(lvn_session_new(&s->rows[r].long_chunk, n, &o));
    }
    return LVN_OK;
}

/* Each layer has two caches. A layer with a window keeps its window and the other tokens of a chunk. */
static void log_caches(const struct lvn_sampler *s)
{
    const struct levin_graph *g = s->one->graph;
    char text[LVN_NUMBER_TEXT];
    int64_t bytes = 0, kept = s->length, n_windows = 0;
    for (int i = 0; i < g->n_caches; i++) {
        const struct lvn_desc *cache = &g->caches[i].desc;
        const bool window = cache->dim[1] < s->length;
        bytes += lvn_desc_count(cache) * lvn_dtype_bytes(cache->dtype);
        n_windows += window;
        if (window) kept = cache->dim[1];
    }
    lvn_log(LVN_LOG_DEBUG,
            "the caches of keys and values need %s: %lld layer%s for %lld positions of each text, %lld layer%s with a "
            "window for %lld",
            lvn_bytes_text(bytes, text), (long long)((g->n_caches - n_windows) / 2),
            lvn_plural((g->n_caches - n_windows) / 2), (long long)s->length, (long long)(n_windows / 2),
            lvn_plural(n_windows / 2), (long long)kept);
}

enum lvn_status lvn_sampling_possible(const struct lvn_model_config *c)
{
    const struct lvn_model *m = c->model;
    LVN_CHECK(!lvn_model_predicts(c, LVN_LABEL_CLASS), UNSUPPORTED,
              "this %s classifies and does not generate text; `levin predict` gives the classes of a text", m->name);
    LVN_CHECK(!lvn_model_predicts(c, LVN_LABEL_NUMBER), UNSUPPORTED,
              "this %s gives a number for each text and does not generate text; `levin predict` gives the numbers",
              m->name);
    LVN_CHECK(m->generates, UNSUPPORTED, "a %s does not generate text; leave out sample.*, or give a language model",
              m->name);
    return LVN_OK;
}

enum lvn_status lvn_sampler_new(struct lvn_sampler **out, struct lvn_model_state *n, int64_t block_size, int64_t rows,
                                int64_t length)
{
    enum { ROUND = 64 };
    const struct lvn_model *m = n->config.model;
    *out = NULL;
    LVN_TRY(lvn_sampling_possible(&n->config));
    struct lvn_sampler *s = lvn_calloc(1, sizeof *s);
    if (!s) return LVN_MEMORY;
    s->block_size = block_size;
    s->model = m;
    s->vocab_size = lvn_model_value(&n->config, LVN_ROLE_VOCABULARY);
    s->n_rows = rows < 1 ? 1 : rows < LVN_DECODE_ROWS ? rows : LVN_DECODE_ROWS;
    enum lvn_status status = lvn_candidates_init(&s->candidates, s->vocab_size);
    for (int64_t r = 0; r < s->n_rows && status == LVN_OK; r++) {
        s->rows[r].window = lvn_malloc(sizeof *s->rows[r].window * (size_t)block_size);
        if (!s->rows[r].window) status = LVN_MEMORY;
    }
    if (length < block_size) length = (length + ROUND - 1) / ROUND * ROUND;
    s->length = length < block_size ? length : block_size;
    if (status == LVN_OK) status = make_sessions(s, n);
    if (status == LVN_OK) log_caches(s);
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
    lvn_samples_release(&s->of_long_chunk);
    for (int64_t r = 0; r < s->n_rows; r++) free(s->rows[r].window);
    lvn_candidates_release(&s->candidates);
    free(s);
}

/* --- a text for a sampler with longer caches --- */

void lvn_sampler_take_text(struct lvn_sampler *s, struct lvn_kept_text *out)
{
    *out = (struct lvn_kept_text){0};
    if (!s || !s->rows[0].position || !s->one->caches) return;
    *out = (struct lvn_kept_text){.caches = s->one->caches,
                                  .n_caches = s->one->graph->n_caches,
                                  .tokens = s->rows[0].window,
                                  .n = s->rows[0].position};
    s->one->caches = NULL;
    s->rows[0].window = NULL;
}

/* Copy the first bytes of a memory to another one. */
static enum lvn_status copy_memory(struct lvn_memory *to, const struct lvn_memory *from, int64_t bytes)
{
    enum { SOME = 1 << 20 };
    void *buffer = lvn_malloc(SOME);
    enum lvn_status status = buffer ? LVN_OK : LVN_MEMORY;
    for (int64_t at = 0, some; at < bytes && status == LVN_OK; at += some) {
        some = bytes - at < SOME ? bytes - at : SOME;
        const void *p = lvn_memory_view(from, at, some, buffer);
        status = p ? lvn_memory_write(to, at, p, some) : lvn_fail(LVN_IO, "cannot read the cache of keys and values");
    }
    free(buffer);
    return status;
}

/* Position p is in row p of both caches: a cache shorter than its layer's window has no ring. */
enum lvn_status lvn_sampler_give_text(struct lvn_sampler *s, struct lvn_kept_text *text)
{
    const struct levin_graph *g = s->one->graph;
    struct row *row = &s->rows[0];
    LVN_CHECK(s->n_rows == 1 && g->n_caches == text->n_caches && text->n <= s->length, INTERNAL,
              "%d caches of %lld positions for a text of %lld", g->n_caches, (long long)s->length, (long long)text->n);
    for (int i = 0; i < g->n_caches; i++) {
        const struct lvn_desc *d = &g->caches[i].desc;
        const int64_t bytes = text->n * d->stride[1] * lvn_dtype_bytes(d->dtype), old = text->caches[i]->bytes;
        LVN_TRY(copy_memory(s->one->caches[i], text->caches[i], bytes < old ? bytes : old));
        lvn_memory_free(text->caches[i]);
        text->caches[i] = NULL;
    }
    memcpy(row->window, text->tokens, sizeof *row->window * (size_t)text->n);
    row->n = row->position = text->n;
    return LVN_OK;
}

void lvn_kept_text_release(struct lvn_kept_text *text)
{
    for (int i = 0; i < text->n_caches; i++) lvn_memory_free(text->caches[i]);
    free(text->caches);
    free(text->tokens);
    *text = (struct lvn_kept_text){0};
}

/* --- running tokens --- */

static enum lvn_status run_without_logits(struct lvn_session *session, const struct lvn_samples *b)
{
    struct lvn_execution execution = {.n_micro_batches = 1, .collectives = lvn_session_collectives(session)};
    LVN_TRY(lvn_session_feed(session, 0, b));
    return lvn_session_run_as(session, &execution);
}

static enum lvn_status run(struct lvn_session *session, const struct lvn_samples *b, const float **logits)
{
    LVN_TRY(run_without_logits(session, b));
    *logits = lvn_session_prediction(session);
    return *logits ? LVN_OK : LVN_INTERNAL;
}

/* How a row's tokens are run depends on that row alone, so its bits do not depend on the other rows. */
static bool in_chunks(const struct lvn_sampler *s, const struct row *row)
{
    return row->chunk && row->n - row->position > 1 && row->position + CHUNK <= s->block_size;
}

/* Run the next tokens of a row, at most CHUNK; its logits are those of the last one. Padding after it is computed, too,
 * and not used: later tokens overwrite it, or it is beyond the cache. */
static enum lvn_status read_chunk(struct lvn_sampler *s, struct row *row, const float **logits)
{
    const int64_t left = row->n - row->position, n = left < CHUNK ? left : CHUNK;
    lvn_samples_pad(&s->of_chunk, 0);
    memcpy(s->of_chunk.p[0], row->window + row->position, sizeof *row->window * (size_t)n);
    row->chunk->step_args = (struct lvn_step){.position = {(int32_t)row->position}};
    LVN_TRY(run(row->chunk, &s->of_chunk, logits));
    *logits += (n - 1) * s->vocab_size;
    row->position += n;
    return LVN_OK;
}

/* Tokens of a row's next long chunk; 0: it has too few. The last token is run with logits. */
static int64_t long_chunk_tokens(const struct lvn_sampler *s, const struct row *row)
{
    const int64_t left = row->n - row->position - 1;
    if (!row->long_chunk || left < LONG_CHUNK / 2 || row->position + LONG_CHUNK > s->block_size) return 0;
    return left < LONG_CHUNK ? left : LONG_CHUNK;
}

/* Run the next n tokens of a row, after which others follow. As in read_chunk(), padding may follow them. */
static enum lvn_status read_long_chunk(struct lvn_sampler *s, struct row *row, int64_t n)
{
    lvn_samples_pad(&s->of_long_chunk, 0);
    memcpy(s->of_long_chunk.p[0], row->window + row->position, sizeof *row->window * (size_t)n);
    row->long_chunk->step_args = (struct lvn_step){.position = {(int32_t)row->position}};
    LVN_TRY(run_without_logits(row->long_chunk, &s->of_long_chunk));
    row->position += n;
    return LVN_OK;
}

/* Run the next token of each row. A free row runs token 0 at position 0. */
static enum lvn_status read_one(struct lvn_sampler *s, const float **logits)
{
    s->one->step_args = (struct lvn_step){0};
    for (int64_t r = 0; r < s->n_rows; r++) {
        struct row *row = &s->rows[r];
        const int32_t id = row->sample ? row->window[row->position] : 0;
        memcpy((int32_t *)s->of_one.p[0] + r, &id, sizeof id);
        if (row->sample) s->one->step_args.position[r] = (int32_t)row->position++;
    }
    return run(s->one, &s->of_one, logits);
}

/* --- sampling --- */

/* A random number from [0, 1) for the token of this index. */
static double chance(const struct lvn_sampling_options *o, int64_t sample, int64_t index)
{
    struct lvn_philox r = lvn_philox(o->seed ^ ((uint64_t)LVN_STREAM_SAMPLE << 56), (uint32_t)index,
                                     (uint32_t)((uint64_t)index >> 32), (uint32_t)sample, 0);
    return ((double)r.v[0] + (double)r.v[1] * 0x1p-32) * 0x1p-32;
}

static bool ends(const struct lvn_sampling_options *o, int32_t id)
{
    for (int i = 0; i < o->n_ends; i++)
        if (o->ends[i] == id) return true;
    return false;
}

int64_t lvn_sampling_capacity(const struct lvn_model *m, int64_t block_size, int64_t n)
{
    if (!m->bounded) return INT64_MAX;
    return n > block_size ? 0 : block_size - n + 1; /* the last token is not run */
}

enum lvn_status lvn_sampling_check(const struct lvn_model *m, int64_t block_size, const struct lvn_sample *x)
{
    const int64_t capacity = lvn_sampling_capacity(m, block_size, x->n);
    LVN_CHECK(x->max >= 0 && x->max <= 1000000000, ARG,
              "%lld new tokens are asked for: give a number from 0 to 1000000000", (long long)x->max);
    LVN_CHECK(x->number >= 0 && x->number <= UINT32_MAX, ARG, "the number of the sample is %lld: give 0 to %u",
              (long long)x->number, UINT32_MAX);
    LVN_CHECK(x->max <= capacity, ARG,
              "a prompt of %lld tokens and %lld new ones do not fit into the model's %lld positions; at most %lld can "
              "follow it",
              (long long)x->n, (long long)x->max, (long long)block_size, (long long)capacity);
    return LVN_OK;
}

static enum lvn_status check_sample(const struct lvn_sampler *s, const struct lvn_sample *x)
{
    LVN_CHECK(x->n > 0, ARG, "the prompt is empty: give at least one token to continue");
    for (int64_t i = 0; i < x->n; i++)
        LVN_CHECK(x->prompt[i] >= 0 && x->prompt[i] < s->vocab_size, ARG,
                  "the prompt's token %lld is %d, beyond the vocabulary of %lld", (long long)i, x->prompt[i],
                  (long long)s->vocab_size);
    if (x->n + x->max - 1 > s->length && s->length < s->block_size) return LVN_INTERNAL;
    if (!s->model->bounded && x->n > s->block_size)
        lvn_log_once(
            LVN_LOG_WARN,
            "a prompt has %lld tokens, and the model's context has %lld: its beginning is cut off, and the last "
            "%lld tokens are continued",
            (long long)x->n, (long long)s->block_size, (long long)s->block_size);
    return lvn_sampling_check(s->model, s->block_size, x);
}

static void begin(const struct lvn_sampler *s, struct row *row, struct lvn_sample *sample, bool continues)
{
    const int64_t n = sample->n < s->block_size ? sample->n : s->block_size;
    const int32_t *tokens = sample->prompt + sample->n - n;
    int64_t same = 0; /* tokens that are in the cache; the last one is run for its logits */
    while (continues && same < row->position && same < n - 1 && row->window[same] == tokens[same]) same++;
    row->sample = sample;
    row->position = s->slides && same < row->position ? 0 : same;
    row->n = n;
    sample->n_run = n - row->position;
    memcpy(row->window, tokens, sizeof *row->window * (size_t)n);
}

/* Memory for one more token. */
static enum lvn_status reserve(struct lvn_sample *x)
{
    const int64_t n = x->n_generated + 1;
    return lvn_list_reserve(&x->generated, &x->capacity, n, sizeof *x->generated) ? LVN_OK : LVN_MEMORY;
}

/* Choose one more token. */
static enum lvn_status extend(struct lvn_sampler *s, struct lvn_sample *x, const float *logits,
                              const struct lvn_sampling_options *o)
{
    LVN_CHECK(lvn_candidates_finite(logits, s->vocab_size), NONFINITE,
              "the model's output for token %lld of the sample is not finite", (long long)x->n_generated);
    LVN_TRY(reserve(x));
    if (o->choice.repetition_penalty > 0 && o->choice.repetition_penalty != 1)
        logits = lvn_candidates_penalize(&s->candidates, logits, o->choice.repetition_penalty, x->prompt, x->n,
                                         x->generated, x->n_generated);
    const int32_t id = lvn_candidates_choose(&s->candidates, logits, &o->choice, chance(o, x->number, x->n_generated));
    x->generated[x->n_generated++] = id;
    x->done = ends(o, id) || (x->on_token && !x->on_token(x->context, id)) || x->n_generated == x->max;
    return LVN_OK;
}

/* The same on ranks that run the sample together: they need the same tokens, even where their logits are rounded
 * differently. */
static enum lvn_status extend_on_ranks(struct lvn_sampler *s, struct lvn_sample *x, const float *logits,
                                       const struct lvn_sampling_options *o)
{
    struct {
        int32_t id, done;
    } next = {0, 0};
    if (!o->ranks || o->ranks->size == 1) return extend(s, x, logits, o);
    LVN_TRY(lvn_ranks_agree(o->ranks, o->ranks->rank ? reserve(x) : extend(s, x, logits, o)));
    if (!o->ranks->rank) next.id = x->generated[x->n_generated - 1], next.done = x->done;
    LVN_TRY(lvn_ranks_broadcast(o->ranks, &next, (int64_t)sizeof next));
    if (!o->ranks->rank) return LVN_OK;
    x->generated[x->n_generated++] = next.id;
    x->done = next.done;
    return LVN_OK;
}

/* All tokens of a row were run: choose one more, which ends the sample or is run next. A full window first slides by
 * one token, and its tokens are run again from position 0. */
static enum lvn_status advance(struct lvn_sampler *s, struct row *row, const float *logits,
                               const struct lvn_sampling_options *o)
{
    struct lvn_sample *x = row->sample;
    LVN_TRY(extend_on_ranks(s, x, logits, o));
    if (x->done) {
        row->sample = NULL;
        return LVN_OK;
    }
    if (row->n == s->block_size) {
        memmove(row->window, row->window + 1, sizeof *row->window * (size_t)--row->n);
        row->position = 0;
    }
    row->window[row->n++] = x->generated[x->n_generated - 1];
    return LVN_OK;
}

struct queue {
    struct lvn_sample *samples;
    int64_t n, next;
};

/* Give a free row the next sample, and run the chunks that need no other rows. */
static enum lvn_status prepare(struct lvn_sampler *s, struct row *row, struct queue *q,
                               const struct lvn_sampling_options *o)
{
    for (;;) {
        const float *logits;
        while (!row->sample && q->next < q->n) {
            struct lvn_sample *x = &q->samples[q->next++];
            x->done = x->max <= 0;
            if (!x->done) begin(s, row, x, o->continues);
        }
        if (!row->sample || !in_chunks(s, row)) return LVN_OK;
        if (!o->ranks || o->ranks->size == 1) LVN_TRY(lvn_interrupt_check());
        const int64_t n = long_chunk_tokens(s, row);
        if (n) {
            LVN_TRY(read_long_chunk(s, row, n));
            continue;
        }
        LVN_TRY(read_chunk(s, row, &logits));
        if (row->position == row->n) LVN_TRY(advance(s, row, logits, o));
    }
}

static enum lvn_status run_all(struct lvn_sampler *s, struct queue *q, const struct lvn_sampling_options *o)
{
    for (;;) {
        const float *logits;
        bool any = false;
        for (int64_t r = 0; r < s->n_rows; r++) {
            LVN_TRY(prepare(s, &s->rows[r], q, o));
            any |= s->rows[r].sample != NULL;
        }
        if (!any) return LVN_OK;
        if (!o->ranks || o->ranks->size == 1) LVN_TRY(lvn_interrupt_check());
        LVN_TRY(read_one(s, &logits));
        for (int64_t r = 0; r < s->n_rows; r++) {
            struct row *row = &s->rows[r];
            if (row->sample && row->position == row->n) LVN_TRY(advance(s, row, logits + r * s->vocab_size, o));
        }
    }
}

enum lvn_status lvn_sampler_run(struct lvn_sampler *s, struct lvn_sample *samples, int64_t n,
                                const struct lvn_sampling_options *o)
{
    struct queue q = {samples, n, 0};
    for (int64_t i = 0; i < n; i++) LVN_TRY(check_sample(s, &samples[i]));
    for (int64_t r = 0; r < s->n_rows; r++) s->rows[r].sample = NULL;
    return run_all(s, &q, o);
}

void lvn_sample_release(struct lvn_sample *x)
{
    free(x->generated);
    x->generated = NULL;
    x->n_generated = x->capacity = 0;
}

/* --- text --- */

enum lvn_status lvn_prompt_encode(const char *prompt, const struct lvn_codec *codec, int32_t **ids, int64_t *n)
{
    char *text = NULL;
    int64_t bytes = (int64_t)strlen(prompt);
    bool file = strncmp(prompt, "FILE:", 5) == 0;
    LVN_LOCAL_ARENA(a);
    *ids = NULL;
    const char *path = file ? lvn_path_home(&a, prompt + 5) : NULL;
    enum lvn_status status = !file ? LVN_OK : path ? lvn_file_read(path, 64 << 20, &text, &bytes) : LVN_MEMORY;
    LVN_TRY(status);
    const int64_t bom = file ? lvn_utf8_bom(text, bytes) : 0;
    status =
        lvn_codec_encode(codec, file ? prompt + 5 : "the prompt", (file ? text : prompt) + bom, bytes - bom, ids, n);
    free(text);
    return status;
}

/* Rank 0 encodes the prompt, which may be a file that only its host has, and sends the ids to the other ranks. */
static enum lvn_status encode_on_ranks(const char *prompt, const struct lvn_codec *codec, struct lvn_ranks *r,
                                       int32_t **ids, int64_t *n)
{
    if (!r || r->size == 1) return lvn_prompt_encode(prompt, codec, ids, n);
    LVN_TRY(lvn_ranks_agree(r, r->rank ? LVN_OK : lvn_prompt_encode(prompt, codec, ids, n)));
    LVN_TRY(lvn_ranks_broadcast(r, n, (int64_t)sizeof *n));
    char *bytes = (char *)*ids;
    int64_t n_bytes = *n * (int64_t)sizeof **ids;
    if (!*n) return LVN_OK;
    enum lvn_status status = lvn_ranks_broadcast_text(r, &bytes, &n_bytes);
    *ids = (int32_t *)bytes;
    return status;
}

enum lvn_status lvn_sampler_text(struct lvn_sampler *s, const struct lvn_values *v, const struct lvn_codec *codec,
                                 struct lvn_ranks *ranks, const char *prompt, int64_t step, struct lvn_text *out)
{
    const struct lvn_sampling_options o = {
        .choice = {.temperature = v->sample.temperature, .top_k = v->sample.top_k, .top_p = v->sample.top_p},
        .seed = (uint64_t)v->trainer.seed,
        .ranks = ranks};
    int32_t *given = NULL, start = 0;
    struct lvn_sample x = {.number = step, .max = v->sample.max_new_tokens, .n = 1};
    enum lvn_status status = LVN_OK;
    /* Without text: continue token 0. */
    if (prompt) LVN_TRY(lvn_tokenizer_require(codec->tokenizer_error, "the prompt"));
    if (lvn_codec_is_text(codec))
        status = encode_on_ranks(prompt ? prompt : v->sample.prompt, codec, ranks, &given, &x.n);
    const int64_t cut = s->model->bounded && x.n > s->block_size ? x.n - s->block_size : 0;
    if (status == LVN_OK && prompt && cut) /* not of sample.prompt: a failed sample must not end a run */
        status = lvn_fail(LVN_ARG, "the prompt has %lld tokens, and the model's context has %lld: shorten it",
                          (long long)x.n, (long long)s->block_size);
    x.prompt = (given ? given : &start) + cut, x.n -= cut;
    const int64_t capacity = lvn_sampling_capacity(s->model, s->block_size, x.n);
    if (x.max > capacity) x.max = capacity;
    if (status == LVN_OK) status = lvn_sampler_run(s, &x, 1, &o);
    struct lvn_codec_stream stream = {0};
    for (int64_t i = 0; status == LVN_OK && i < x.n; i++) lvn_codec_decode(codec, &stream, x.prompt[i], out);
    for (int64_t i = 0; status == LVN_OK && i < x.n_generated; i++)
        lvn_codec_decode(codec, &stream, x.generated[i], out);
    lvn_codec_decode_end(&stream, out);
    lvn_sample_release(&x);
    free(given);
    return status == LVN_OK ? lvn_text_status(out) : status;
}
