/* generate.c - levin generate MODEL: continues a prompt. inference/generation.h does the work.
 *
 * One sample is streamed to stdout as it is generated. Of several, each is written whole, after a line with its number
 * and its length in bytes: a sample may contain any line, so only the length tells a program where the sample ends.
 *
 * Of several ranks, rank 0 reads the prompts, chooses the tokens and writes; the others compute with it. */
#include "cli/args.h"
#include "inference/generation.h"

#include "base/files.h"
#include "cli/cli.h"
#include "cli/cli_ranks.h"
#include "cli/model_arg.h"
#include "data/json_line.h"
#include "inference/chat_generation.h"
#include "inference/continuation.h"
#include "setup/setup.h"

/* The text of a sample. */
struct stream {
    struct job *job;
    struct lvn_continuation text;
    int64_t displayed; /* bytes of it that are written */
    bool begun;        /* the prompt is part of the text */
};

struct job {
    struct lvn_cli *c;
    struct lvn_sample *samples; /* (n) */
    struct stream *streams;     /* (n) */
    int64_t n;
    int64_t current; /* index of the sample that is written: they are written in order, whichever ends first */
    json_t *json;    /* samples that have ended */
    bool listed;     /* the prompts are from a file (--prompts) */
    int64_t samples_per_prompt;
};

static json_t *as_json(const struct job *j, int64_t i)
{
    json_t *sample = json_object(), *ids = json_array();
    const struct lvn_continuation *t = &j->streams[i].text;
    for (int64_t k = 0; k < j->samples[i].n_generated; k++)
        json_array_append_new(ids, json_integer(j->samples[i].generated[k]));
    json_object_set_new(sample, "ids", ids);
    if (lvn_codec_is_text(t->codec))
        json_object_set_new(
            sample, "text",
            json_stringn(t->text.n ? t->text.p + t->prompt_bytes : "", (size_t)(t->text.n - t->prompt_bytes)));
    if (j->listed) json_object_set_new(sample, "prompt", json_integer(i / j->samples_per_prompt));
    return sample;
}

static void begin_text(struct job *j, int64_t i)
{
    struct stream *s = &j->streams[i];
    if (!s->begun) lvn_continuation_prompt(&s->text, j->samples[i].prompt, j->samples[i].n);
    s->begun = true;
}

/* Write the part of the current sample that is ready. With several samples, nothing is written before the sample has
 * ended. On several ranks, where launchers put a prefix before each write, whole lines are written; write_ready()
 * completes the last one. */
static bool flush(struct job *j)
{
    struct stream *s = &j->streams[j->current];
    const struct lvn_continuation *t = &s->text;
    const bool done = j->samples[j->current].done, lines = j->c->ranks->size > 1;
    int64_t ready = t->ready;
    if (j->n > 1 && !done) return true;
    while (lines && !done && ready > s->displayed && t->text.p[ready - 1] != '\n') ready--;
    if (!j->c->json && ready > s->displayed)
        fwrite(t->text.p + s->displayed, 1, (size_t)(ready - s->displayed), stdout);
    s->displayed = ready;
    return j->c->json || (lines && done) || fflush(stdout) == 0;
}

/* "--- prompt 2, sample 1, 345 bytes ---", before each of several samples. */
static void write_head(const struct job *j)
{
    if (j->n == 1 || j->c->json) return;
    printf("--- ");
    if (j->listed) printf("prompt %" PRId64 ", ", j->current / j->samples_per_prompt + 1);
    if (!j->listed || j->samples_per_prompt > 1) printf("sample %" PRId64 ", ", j->current % j->samples_per_prompt + 1);
    printf("%" PRId64 " bytes ---\n", j->streams[j->current].text.ready);
}

/* Write the samples that have ended, and the beginning of the next one. */
static enum lvn_status write_ready(struct job *j)
{
    for (; j->current < j->n && j->samples[j->current].done; j->current++) {
        begin_text(j, j->current);
        struct lvn_continuation *t = &j->streams[j->current].text;
        lvn_continuation_end(t);
        write_head(j);
        flush(j);
        LVN_TRY(lvn_text_status(&t->text));
        json_array_append_new(j->json, as_json(j, j->current));
        if (!j->c->json) fputs("\n", stdout);
        lvn_continuation_release(t);
        lvn_sample_release(&j->samples[j->current]);
    }
    if (j->current < j->n) flush(j);
    return LVN_OK;
}

/* Called for each new token; false: end the sample. */
static bool on_token(void *context, int32_t id)
{
    struct stream *s = context;
    struct job *j = s->job;
    begin_text(j, s - j->streams);
    bool more = lvn_continuation_add(&s->text, id);
    if (j->samples[j->current].done && write_ready(j) != LVN_OK) return false;
    return s != &j->streams[j->current] ? more : flush(j) && more;
}

/* "5,6,7" */
static enum lvn_status parse_ids(const char *text, int32_t **ids, int64_t *n)
{
    *n = 0;
    *ids = lvn_malloc(sizeof **ids * (strlen(text) + 1));
    if (!*ids) return LVN_MEMORY;
    for (const char *p = text; *p;) {
        char *end;
        errno = 0;
        long id = strtol(p, &end, 10);
        bool good = end != p && !errno && id >= 0 && id <= INT32_MAX && (*end == ',' || !*end) && !(*end && !end[1]);
        if (!good) {
            free(*ids);
            *ids = NULL;
            LVN_FAIL(ARG, "--prompt-ids must be whole numbers separated by commas, as 5,6,7; got '%.60s'", text);
        }
        (*ids)[(*n)++] = (int32_t)id;
        p = *end ? end + 1 : end;
    }
    return LVN_OK;
}

/* The prompts to continue. */
struct prompts {
    int32_t **ids;   /* (n), each (length) */
    int64_t *length; /* (n) */
    int64_t n;
    bool listed;        /* from a file (--prompts, --chat) */
    const char **stops; /* [n_stops] those of --stop, and the text with which the chat template ends an answer */
    int n_stops;
    struct lvn_arena arena; /* of that text */
};

static void release_prompts(struct prompts *p)
{
    for (int64_t i = 0; i < p->n; i++) free(p->ids[i]);
    free(p->ids);
    free(p->length);
    free(p->stops);
    lvn_arena_release(&p->arena);
}

static enum lvn_status allocate_prompts(struct prompts *p, int64_t n)
{
    p->ids = lvn_calloc((size_t)n, sizeof *p->ids);
    p->length = lvn_calloc((size_t)n, sizeof *p->length);
    return p->ids && p->length ? LVN_OK : LVN_MEMORY;
}

/* Encode each line of the file's text, which is split in place. */
static enum lvn_status encode_lines(struct prompts *p, const char *path, char *text, const struct lvn_codec *codec)
{
    int64_t lines = 1;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    LVN_TRY(allocate_prompts(p, lines));
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = '\0';
        size_t length = strlen(line);
        if (length && line[length - 1] == '\r') line[--length] = '\0';
        LVN_CHECK(length, ARG, "--prompts: line %lld of '%s' is empty, and a prompt has at least one token",
                  (long long)p->n + 1, path);
        LVN_TRY(lvn_codec_encode(codec, path, line, (int64_t)length, &p->ids[p->n], &p->length[p->n]));
        p->n++;
    }
    LVN_CHECK(p->n, ARG, "--prompts: '%s' is empty; give a prompt on each line", path);
    return LVN_OK;
}

static enum lvn_status read_lines(struct prompts *p, const char *path, const struct lvn_codec *codec)
{
    char *text;
    int64_t bytes;
    LVN_TRY(lvn_tokenizer_require(codec->tokenizer_error, "--prompts"));
    LVN_CHECK(lvn_codec_is_text(codec), ARG,
              "--prompts needs a model that reads text, and this one has neither a vocabulary nor a tokenizer in its "
              "folder; --prompt-ids accepts ids");
    LVN_TRY(lvn_file_read(path, 64 << 20, &text, &bytes));
    enum lvn_status status = LVN_OK;
    if ((int64_t)strlen(text) < bytes)
        status = lvn_fail(LVN_FORMAT, "'%s' is not a text: it contains a NUL byte", path);
    if (status == LVN_OK) status = encode_lines(p, path, text + lvn_utf8_bom(text, bytes), codec);
    free(text);
    return status;
}

/* Encode one conversation as a prompt. */
static enum lvn_status encode_row(struct prompts *p, struct lvn_chat_encoder *e, const char *line, int64_t n)
{
    LVN_LOCAL_ARENA(a);
    json_error_t error;
    json_t *row;
    int32_t *ids;
    LVN_TRY(lvn_json_load(line, n, JSON_REJECT_DUPLICATES | LVN_JSON_ROW, &row, &error));
    const char *fault = lvn_json_line_fault(line, n, row, &error);
    enum lvn_status status = fault ? lvn_fail(LVN_FORMAT, "%s", fault) : LVN_OK;
    if (status == LVN_OK) status = lvn_chat_prompt(e, &a, row, &ids, &p->length[p->n]);
    json_decref(row);
    LVN_TRY(status);
    const size_t bytes = (size_t)p->length[p->n] * sizeof *ids;
    if (!(p->ids[p->n] = lvn_malloc(bytes + 1))) return LVN_MEMORY;
    memcpy(p->ids[p->n++], ids, bytes);
    return LVN_OK;
}

static enum lvn_status encode_rows(struct prompts *p, struct lvn_chat_encoder *e, const char *path, const char *text)
{
    int64_t lines = 1;
    for (const char *c = text; *c; c++) lines += *c == '\n';
    LVN_TRY(allocate_prompts(p, lines));
    for (int64_t line = 1, n; *text; line++, text += n + (text[n] == '\n')) {
        n = (int64_t)strcspn(text, "\n");
        if (lvn_json_line_is_blank(text, n)) continue;
        enum lvn_status status = encode_row(p, e, text, n);
        LVN_CHECK(status == LVN_OK || status == LVN_MEMORY, FORMAT, "%s:%" PRId64 ": %s", path, line,
                  levin_error_text());
        LVN_TRY(status);
    }
    LVN_CHECK(p->n, ARG, "--chat: '%s' has no conversations", path);
    return LVN_OK;
}

/* The conversations of --chat. Also finds what ends an answer. */
static enum lvn_status read_conversations(struct prompts *p, struct lvn_cli *c, struct lvn_generator *g)
{
    const struct lvn_chat_options o = {.chat_template = c->flag[LVN_FLAG_generate_template].t, .now = true};
    const char *path = c->flag[LVN_FLAG_generate_chat].t, *stop = "";
    struct lvn_chat *chat = NULL;
    struct lvn_chat_encoder *e = NULL;
    char *text = NULL;
    int64_t bytes, end = -1;
    enum lvn_status status = lvn_generator_open_chat(g, &o, &chat, &e);
    if (status == LVN_OK) status = lvn_chat_end(e, &p->arena, &end, &stop);
    if (status == LVN_OK && !lvn_cli_on(c, LVN_FLAG_generate_ignore_eos)) status = lvn_generator_add_end(g, end);
    if (status == LVN_OK && *stop) p->stops[p->n_stops++] = stop;
    if (status == LVN_OK) status = lvn_input_read(strcmp(path, "-") ? path : "/dev/stdin", 0, &text, &bytes);
    if (status == LVN_OK && (int64_t)strlen(text) < bytes)
        status = lvn_fail(LVN_FORMAT, "'%s' is not a text: it contains a NUL byte", path);
    if (status == LVN_OK) status = encode_rows(p, e, path, text + lvn_utf8_bom(text, bytes));
    free(text);
    lvn_chat_encoder_free(e);
    lvn_chat_close(chat);
    return status;
}

static enum lvn_status read_prompts(struct lvn_cli *c, struct lvn_generator *g, struct prompts *p)
{
    const bool chat = c->given[LVN_FLAG_generate_chat];
    const bool text = c->given[LVN_FLAG_generate_prompt], list = c->given[LVN_FLAG_generate_prompt_ids];
    p->listed = chat || c->given[LVN_FLAG_generate_prompts];
    LVN_CHECK(text + list + chat + c->given[LVN_FLAG_generate_prompts] <= 1, ARG,
              "--prompt, --prompt-ids, --prompts and --chat each give the prompts; use only one of them");
    LVN_CHECK(chat || !c->given[LVN_FLAG_generate_template], ARG, "--template has an effect only with --chat");
    if (chat) return read_conversations(p, c, g);
    if (p->listed) return read_lines(p, c->flag[LVN_FLAG_generate_prompts].t, &g->setup.codec);
    LVN_TRY(allocate_prompts(p, 1));
    p->n = 1;
    if (list) lvn_tokenizer_warn(g->setup.codec.tokenizer_error);
    if (list) return parse_ids(c->flag[LVN_FLAG_generate_prompt_ids].t, &p->ids[0], &p->length[0]);
    if (!text) LVN_TRY(lvn_tokenizer_require(g->setup.codec.tokenizer_error, "generating without --prompt-ids"));
    if (!text && !lvn_codec_is_text(&g->setup.codec)) return parse_ids("0", &p->ids[0], &p->length[0]);
    return lvn_prompt_encode(c->flag[LVN_FLAG_generate_prompt].t, &g->setup.codec, &p->ids[0], &p->length[0]);
}

/* A stop text must be one that this model can produce. */
static enum lvn_status check_stops(const struct lvn_cli *c, const struct lvn_codec *codec)
{
    const struct lvn_texts *stops = &c->flag[LVN_FLAG_generate_stop].texts;
    if (stops->n) LVN_TRY(lvn_tokenizer_require(codec->tokenizer_error, "--stop"));
    LVN_CHECK(!stops->n || lvn_codec_is_text(codec), ARG,
              "--stop needs a model that writes text, and '%s' has neither a vocabulary nor a tokenizer in its folder; "
              "--max-new-tokens ends a sample of ids",
              c->operand[0]);
    for (int i = 0; i < stops->n; i++) {
        int64_t at = lvn_utf8_check(stops->text[i], (int64_t)strlen(stops->text[i]));
        LVN_CHECK(at < 0, ARG, "--stop is not valid UTF-8 (byte %lld), so no sample can contain it", (long long)at + 1);
    }
    return LVN_OK;
}

/* Broadcast rank 0's prompts. */
static enum lvn_status share_prompts(struct prompts *p, struct lvn_ranks *r)
{
    int64_t n = p->n;
    LVN_TRY(lvn_ranks_broadcast(r, &n, (int64_t)sizeof n));
    LVN_TRY(lvn_ranks_agree(r, r->rank ? allocate_prompts(p, n) : LVN_OK));
    p->n = n;
    LVN_TRY(lvn_ranks_broadcast(r, p->length, p->n * (int64_t)sizeof *p->length));
    for (int64_t i = 0; i < p->n; i++) {
        char *ids = (char *)p->ids[i];
        int64_t bytes = p->length[i] * (int64_t)sizeof *p->ids[i];
        LVN_TRY(lvn_ranks_broadcast_text(r, &ids, &bytes));
        p->ids[i] = (int32_t *)ids;
    }
    return LVN_OK;
}

static enum lvn_status begin(struct job *j, const struct lvn_generator *g, const struct prompts *p)
{
    const struct lvn_cli *c = j->c;
    const int64_t max_new_tokens = c->flag[LVN_FLAG_generate_max_new_tokens].i;
    j->samples = lvn_calloc((size_t)j->n + 1, sizeof *j->samples);
    j->streams = lvn_calloc((size_t)j->n + 1, sizeof *j->streams);
    if (!j->samples || !j->streams) return LVN_MEMORY;
    for (int64_t k = 0; k < j->n; k++) {
        const int64_t i = k / j->samples_per_prompt, capacity = lvn_generator_capacity(g, p->length[i]);
        const bool fit = !c->given[LVN_FLAG_generate_max_new_tokens] && capacity > 0 && max_new_tokens > capacity;
        struct stream *s = &j->streams[k];
        *s = (struct stream){.job = j, .text = {.codec = &g->setup.codec, .stops = p->stops, .n_stops = p->n_stops}};
        j->samples[k] = (struct lvn_sample){.prompt = p->ids[i],
                                            .n = p->length[i],
                                            .number = k,
                                            .max = fit ? capacity : max_new_tokens,
                                            .on_token = c->ranks->rank ? NULL : on_token,
                                            .context = s};
        LVN_TRY(lvn_sampling_check(g->setup.config.model, g->setup.block_size, &j->samples[k])); /* before any output */
    }
    return LVN_OK;
}

static void end(struct job *j)
{
    for (int64_t k = j->current; j->samples && j->streams && k < j->n; k++) {
        lvn_continuation_release(&j->streams[k].text);
        lvn_sample_release(&j->samples[k]);
    }
    free(j->samples);
    free(j->streams);
}

static enum lvn_status copy_stops(const struct lvn_cli *c, struct prompts *p)
{
    const struct lvn_texts *stops = &c->flag[LVN_FLAG_generate_stop].texts;
    p->stops = lvn_calloc((size_t)stops->n + 1, sizeof *p->stops); /* and one of a chat template */
    if (!p->stops) return LVN_MEMORY;
    for (; p->n_stops < stops->n; p->n_stops++) p->stops[p->n_stops] = stops->text[p->n_stops];
    return LVN_OK;
}

/* Use the flags. With --chat, flags that are not given have the values of generation_config.json. */
static enum lvn_status choose(const struct lvn_cli *c, const struct lvn_generator *g, struct lvn_choice *out)
{
    const struct lvn_choice given = LVN_CLI_CHOICE(c, generate);
    if (c->given[LVN_FLAG_generate_chat]) return lvn_generator_chat_choice(g, &given, out);
    *out = (struct lvn_choice){.temperature = c->flag[LVN_FLAG_generate_temperature].r,
                               .top_k = c->flag[LVN_FLAG_generate_top_k].i,
                               .top_p = c->flag[LVN_FLAG_generate_top_p].r,
                               .repetition_penalty = c->flag[LVN_FLAG_generate_repetition_penalty].r};
    return LVN_OK;
}

static enum lvn_status all_samples(struct lvn_cli *c, struct lvn_generator *g, json_t *samples)
{
    struct lvn_sampling_options o = {.seed = (uint64_t)c->flag[LVN_FLAG_generate_seed].i};
    struct job j = {.c = c, .json = samples, .samples_per_prompt = c->flag[LVN_FLAG_generate_num_samples].i};
    struct prompts prompts = {0};
    struct lvn_ranks *ranks = c->ranks;
    LVN_TRY(lvn_ranks_agree(ranks, check_stops(c, &g->setup.codec)));
    LVN_TRY(lvn_ranks_agree(ranks, choose(c, g, &o.choice)));
    lvn_arena_init(&prompts.arena);
    enum lvn_status status = lvn_ranks_agree(ranks, copy_stops(c, &prompts));
    if (status == LVN_OK) status = lvn_ranks_agree(ranks, ranks->rank ? LVN_OK : read_prompts(c, g, &prompts));
    if (status == LVN_OK) status = share_prompts(&prompts, ranks);
    j.listed = prompts.listed;
    j.n = prompts.n * j.samples_per_prompt;
    if (status == LVN_OK) status = lvn_ranks_agree(ranks, begin(&j, g, &prompts));
    if (status == LVN_OK && j.n) {
        if (!ranks->rank) begin_text(&j, 0);
        if (!ranks->rank) flush(&j);
        status = lvn_generator_run(g, j.samples, j.n, &o);
    }
    if (status == LVN_OK && !ranks->rank) status = write_ready(&j);
    end(&j);
    release_prompts(&prompts);
    return status;
}

enum lvn_status lvn_command_generate(struct lvn_cli *c)
{
    struct lvn_generator g = {0};
    LVN_TRY(lvn_cli_join_ranks(c, lvn_cli_model_settings(c, c->operand[0], LVN_USES_MODEL | LVN_USES_DEVICE)));
    if (lvn_cli_shows_settings(c)) return LVN_OK;
    const bool with_ends = !lvn_cli_on(c, LVN_FLAG_generate_ignore_eos);
    struct lvn_model_setup setup;
    enum lvn_status status = lvn_model_setup_loaded(&setup, &c->settings);
    if (status == LVN_OK)
        status = lvn_generator_open(&g, &setup, &c->settings.values, c->ranks, with_ends, true);
    else
        lvn_model_setup_close(&setup);
    status = lvn_ranks_agree(c->ranks, status);
    json_t *samples = json_array();
    if (status == LVN_OK) status = all_samples(c, &g, samples);
    if (status == LVN_OK)
        lvn_cli_add(c, "samples", samples);
    else
        json_decref(samples);
    lvn_generator_close(&g);
    return status;
}
