/* prompts.c - see prompts.h. */
#include "benchmarks/prompts.h"

#include "templates/chat_template.h"
#include "tokenizers/post_processor.h"
#include "tokenizers/tokenizer_config.h"

/* --- the token that begins a text --- */

/* As transformers, with GPT-2's name where no file gives one; else the token that ends a document. */
static enum lvn_status find_start(struct lvn_prompts *p)
{
    static const char *const others[] = {"<|bos|>", "<|endoftext|>"};
    const struct lvn_tokenizer *t = p->o->codec->tokenizer;
    static const char *const keys[] = {"bos_token", "eos_token"};
    json_t *named;
    enum lvn_status status = lvn_tokenizer_named(t, &named);
    p->start = -1;
    for (int i = 0; i < 2 && p->start < 0 && status == LVN_OK; i++) {
        const char *text = json_string_value(json_object_get(named, keys[i]));
        p->start_text = text ? lvn_arena_strdup(&p->arena, text) : NULL;
        if (text && !p->start_text) status = LVN_MEMORY;
        p->start = lvn_tokenizer_named_id(t, named, keys[i]);
    }
    json_decref(named);
    LVN_TRY(status);
    for (int i = 0; i < 2 && p->start < 0; i++) {
        p->start_text = others[i];
        p->start = lvn_tokenizer_find(t, others[i], (int64_t)strlen(others[i]));
    }
    if (p->start >= 0) return LVN_OK;
    p->start = t->end_id;
    p->start_text = NULL;
    return LVN_OK;
}

enum lvn_status lvn_prompts_open(struct lvn_prompts *p, const struct lvn_benchmark_options *o)
{
    memset(p, 0, sizeof *p);
    p->o = o;
    p->start = -1;
    lvn_arena_init(&p->arena);
    LVN_TRY(lvn_tokenizer_require(o->codec->tokenizer_error, "--tasks"));
    LVN_CHECK(lvn_codec_is_text(o->codec), ARG,
              "'%s' has neither a vocabulary nor a tokenizer in its folder, so it cannot read the texts of tasks",
              o->model);
    if (!o->codec->tokenizer) return LVN_OK;
    if (!(p->encoder = lvn_encoder_new(o->codec->tokenizer))) return LVN_MEMORY;
    return find_start(p);
}

void lvn_prompts_close(struct lvn_prompts *p)
{
    for (int i = 0; i < LVN_PROMPT_SEQUENCES; i++) lvn_ids_release(&p->ids[i]);
    lvn_ids_release(&p->scratch);
    lvn_encoder_free(p->encoder);
    lvn_arena_release(&p->arena);
}

/* --- sequences --- */

void lvn_prompts_begin(struct lvn_prompts *p, const char *path, int64_t line)
{
    p->path = path;
    p->line = line;
    p->n = 0;
}

/* Append the ids of a text; special: with the tokens of the post-processor. */
static enum lvn_status encode(struct lvn_prompts *p, const char *text, int64_t bytes, bool special, struct lvn_ids *ids)
{
    const struct lvn_codec *codec = p->o->codec;
    if (p->encoder && special) {
        p->scratch.n = 0;
        LVN_TRY(lvn_encode(p->encoder, text, bytes, LVN_ENCODE_SPECIAL, &p->scratch));
        return lvn_post_processor_run(codec->tokenizer, &p->scratch, NULL, ids, NULL);
    }
    if (p->encoder) return lvn_encode(p->encoder, text, bytes, LVN_ENCODE_SPECIAL, ids);
    char name[64];
    int64_t n = 0;
    snprintf(name, sizeof name, "the item of line %lld", (long long)p->line);
    LVN_TRY(lvn_ids_reserve(ids, bytes + 1));
    LVN_TRY(lvn_vocab_encode(codec->vocabulary, name, text, bytes, ids->p + ids->n, &n));
    ids->n += n;
    return LVN_OK;
}

static enum lvn_status new_sequence(struct lvn_prompts *p, struct lvn_ids **ids)
{
    LVN_CHECK(p->n < LVN_PROMPT_SEQUENCES, UNSUPPORTED, "%s:%lld: the item has more than %d answers or windows",
              p->path, (long long)p->line, LVN_PROMPT_SEQUENCES);
    *ids = &p->ids[p->n];
    (*ids)->n = 0;
    return LVN_OK;
}

static enum lvn_status add_start(struct lvn_prompts *p, struct lvn_ids *ids)
{
    LVN_CHECK(p->start >= 0, ARG,
              "%s:%lld: a text begins with a token such as bos_token here, and the tokenizer of '%s' names none: use "
              "items with a context, or a tokenizer with a bos_token",
              p->path, (long long)p->line, p->o->model);
    LVN_TRY(lvn_ids_reserve(ids, 1));
    ids->p[ids->n++] = p->start;
    return LVN_OK;
}

/* The post-processor's tokens are left out of a text that begins with the text of the first token. */
static bool adds_special(const struct lvn_prompts *p, const char *text)
{
    return !p->start_text || strncmp(text, p->start_text, strlen(p->start_text)) != 0;
}

int64_t lvn_prompt_space(const char *text, int64_t n)
{
    int64_t at = 0;
    int used;
    while (at < n && lvn_tpl_space(lvn_utf8_decode(text + at, n - at, &used))) at += used;
    return at;
}

int64_t lvn_prompt_stripped(const char *text, int64_t n)
{
    while (n > 0) {
        int64_t last = n - 1;
        int used;
        while (last > 0 && ((unsigned char)text[last] & 0xc0) == 0x80) last--;
        if (!lvn_tpl_space(lvn_utf8_decode(text + last, n - last, &used))) break;
        n = last;
    }
    return n;
}

static enum lvn_status pair_without_context(struct lvn_prompts *p, const char *answer, struct lvn_ids *ids)
{
    LVN_TRY(add_start(p, ids));
    LVN_TRY(encode(p, answer, (int64_t)strlen(answer), false, ids));
    const bool begins = ids->n > 1 && ids->p[1] == p->start; /* the answer's first token is the context then */
    if (begins) memmove(ids->p, ids->p + 1, sizeof *ids->p * (size_t)--ids->n);
    p->scored[p->n] = ids->n - 1;
    return LVN_OK;
}

static enum lvn_status pair(struct lvn_prompts *p, const char *context, const char *answer, struct lvn_ids *ids)
{
    LVN_LOCAL_TEXT(text);
    const int64_t bytes = lvn_prompt_stripped(context, (int64_t)strlen(context));
    lvn_text_add(&text, context);
    lvn_text_add(&text, answer);
    LVN_TRY(lvn_text_status(&text));
    const bool special = adds_special(p, text.p);
    LVN_TRY(encode(p, context, bytes, special, ids));
    const int64_t n = ids->n;
    LVN_CHECK(n > 0, ARG, "%s:%lld: the context has white space alone, which gives no token", p->path,
              (long long)p->line);
    struct lvn_ids whole = {0};
    enum lvn_status status = encode(p, text.p, text.n, special, &whole);
    if (status == LVN_OK && whole.n > n) status = lvn_ids_reserve(ids, whole.n - n);
    if (status == LVN_OK && whole.n > n) {
        memcpy(ids->p + n, whole.p + n, sizeof *ids->p * (size_t)(whole.n - n));
        ids->n = whole.n;
    }
    p->scored[p->n] = ids->n - n;
    lvn_ids_release(&whole);
    return status;
}

enum lvn_status lvn_prompts_pair(struct lvn_prompts *p, const char *context, const char *answer)
{
    struct lvn_ids *ids;
    LVN_TRY(new_sequence(p, &ids));
    LVN_TRY(*context ? pair(p, context, answer, ids) : pair_without_context(p, answer, ids));
    LVN_CHECK(p->scored[p->n] > 0, ARG, "%s:%lld: answer %d is '%.60s', which adds no token to the context", p->path,
              (long long)p->line, p->n + 1, answer);
    LVN_CHECK(p->scored[p->n] <= p->o->context, ARG,
              "%s:%lld: answer %d has %lld tokens, and the model reads %lld: shorten it, or leave the item out",
              p->path, (long long)p->line, p->n + 1, (long long)p->scored[p->n], (long long)p->o->context);
    p->n++;
    return LVN_OK;
}

enum lvn_status lvn_prompts_windows(struct lvn_prompts *p, const char *text)
{
    struct lvn_ids all = {0};
    const int64_t context = p->o->context;
    enum lvn_status status = add_start(p, &all);
    if (status == LVN_OK) status = encode(p, text, (int64_t)strlen(text), adds_special(p, text), &all);
    for (int64_t at = 1; status == LVN_OK && at < all.n; at += context) {
        const int64_t end = at + context < all.n ? at + context : all.n;
        const int64_t first = at == 1 || end - context - 1 < 0 ? 0 : end - context - 1;
        struct lvn_ids *ids;
        status = new_sequence(p, &ids);
        if (status == LVN_OK) status = lvn_ids_reserve(ids, end - first);
        if (status != LVN_OK) break;
        memcpy(ids->p, all.p + first, sizeof *ids->p * (size_t)(end - first));
        ids->n = end - first;
        p->scored[p->n++] = end - at;
    }
    lvn_ids_release(&all);
    LVN_TRY(status);
    LVN_CHECK(p->n > 0, ARG, "%s:%lld: the text is empty", p->path, (long long)p->line);
    return LVN_OK;
}

enum lvn_status lvn_prompts_whole(struct lvn_prompts *p, const char *text, int64_t bytes)
{
    struct lvn_ids *ids;
    LVN_TRY(new_sequence(p, &ids));
    LVN_TRY(add_start(p, ids));
    LVN_TRY(encode(p, text, bytes, false, ids));
    p->n++;
    return LVN_OK;
}

/* --- the item --- */

/* Leave out tokens before the last `most`. */
static enum lvn_status truncate(struct lvn_prompts *p, int64_t most, bool *truncated)
{
    for (int i = 0; i < p->n; i++) {
        struct lvn_ids *ids = &p->ids[i];
        const int64_t left_out = ids->n - most;
        if (left_out <= 0) continue;
        LVN_CHECK(p->scored[i] < most, ARG,
                  "%s:%lld: answer %d has %lld tokens, and the model reads %lld: shorten it, or leave the item out",
                  p->path, (long long)p->line, i + 1, (long long)p->scored[i], (long long)p->o->context);
        memmove(ids->p, ids->p + left_out, sizeof *ids->p * (size_t)most);
        ids->n = most;
        *truncated = true;
    }
    return LVN_OK;
}

/* Number of tokens that all sequences share before the last one that precedes what is scored. */
static int64_t shared_tokens(const struct lvn_prompts *p)
{
    int64_t n = INT64_MAX;
    for (int i = 0; i < p->n; i++) {
        const int64_t before = p->ids[i].n - p->scored[i] - 1;
        if (before < n) n = before;
        for (int64_t k = 0; k < n; k++)
            if (p->ids[i].p[k] != p->ids[0].p[k]) n = k;
    }
    return n > 0 ? n : 0;
}

static const int32_t *copy_ids(struct lvn_arena *a, const int32_t *ids, int64_t n)
{
    int32_t *copy = lvn_arena_alloc(a, sizeof *copy * (size_t)(n + 1));
    if (copy && n) memcpy(copy, ids, sizeof *copy * (size_t)n);
    return copy;
}

static enum lvn_status check_ids(const struct lvn_prompts *p)
{
    for (int i = 0; i < p->n; i++)
        LVN_CHECK(p->ids[i].n > p->scored[i], ARG, "%s:%lld: answer %d has no token before it", p->path,
                  (long long)p->line, i + 1);
    return LVN_OK;
}

enum lvn_status lvn_prompts_item(struct lvn_prompts *p, struct lvn_arena *a, int64_t most,
                                 struct lvn_benchmark_item *out)
{
    LVN_TRY(truncate(p, most, &out->truncated));
    LVN_TRY(check_ids(p));
    out->n_prefix = p->n ? shared_tokens(p) : 0;
    out->n = p->n;
    out->line = p->line;
    out->prefix = copy_ids(a, p->ids[0].p, out->n_prefix);
    out->sequence = lvn_arena_alloc(a, sizeof *out->sequence * (size_t)(p->n + 1));
    if (!out->prefix || !out->sequence) return LVN_MEMORY;
    for (int i = 0; i < p->n; i++) {
        const int64_t n = p->ids[i].n - out->n_prefix;
        out->sequence[i] = (struct lvn_benchmark_sequence){
            .token = copy_ids(a, p->ids[i].p + out->n_prefix, n), .n = n, .scored = p->scored[i]};
        if (!out->sequence[i].token) return LVN_MEMORY;
    }
    return LVN_OK;
}
