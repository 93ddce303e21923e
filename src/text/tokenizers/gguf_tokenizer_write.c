/* gguf_tokenizer_write.c - see gguf_tokenizer.h: a tokenizer as metadata of a GGUF file. */

#include "base/log.h"
#include "tokenizers/gguf_tokenizer.h"
#include "tokenizers/load.h"
#include "tokenizers/tokenizer_config.h"

#define KEY(name) "tokenizer.ggml." name

/* What is written of a tokenizer. */
struct target {
    const struct lvn_tokenizer *t;
    struct lvn_gguf_writer *w;
    int64_t rows;
    json_t *json, *config; /* tokenizer.json, tokenizer_config.json; NULL: none */
    json_t *named;         /* see lvn_tokenizer_named() */
    bool sentencepiece;
    int *type; /* [rows] enum lvn_gguf_token */
};

static enum lvn_status parse_file(const struct lvn_tokenizer *t, const char *name, json_t **out)
{
    *out = NULL;
    for (int i = 0; i < t->n_files; i++)
        if (strcmp(t->file[i].name, name) == 0) return lvn_json_parse(name, t->file[i].text, t->file[i].bytes, out);
    return LVN_OK;
}

static bool is_type(const json_t *o, const char *type)
{
    return strcmp(lvn_json_type(o), type) == 0;
}

/* Does the object, or one in its list, have this type? */
static const json_t *part_of(const json_t *o, const char *list, const char *type)
{
    size_t i;
    const json_t *one;
    if (is_type(o, type)) return o;
    json_array_foreach((json_t *)(uintptr_t)json_object_get(o, list), i, one) if (is_type(one, type)) return one;
    return NULL;
}

/* --- how text is split --- */

/* Is this a step of SentencePiece at spaces, which llama.cpp has too? */
static bool is_of_sentencepiece(const json_t *step)
{
    const char *at = json_string_value(json_object_get(json_object_get(step, "pattern"), "String"));
    return is_type(step, "Prepend") || is_type(step, "Metaspace") ||
           ((is_type(step, "Replace") || is_type(step, "Split")) && at && strcmp(at, " ") == 0);
}

/* The steps of a normalizer or pre-tokenizer: *list, or the object itself if it is NULL. */
static size_t steps_of(const json_t *o, const char *key, const json_t **list)
{
    *list = is_type(o, "Sequence") ? json_object_get(o, key) : NULL;
    return *list ? json_array_size(*list) : o && !json_is_null(o);
}

/* UNSUPPORTED if the tokenizer changes text before it is split, other than by SentencePiece's steps, or by NFC (*nfc).
 */
static enum lvn_status check_normalizer(const struct target *x, bool *nfc)
{
    const json_t *normalizer = json_object_get(x->json, "normalizer"), *list;
    const size_t n = steps_of(normalizer, "normalizers", &list);
    *nfc = false;
    for (size_t i = 0; i < n; i++) {
        const json_t *step = list ? json_array_get(list, i) : normalizer;
        const bool is = !x->sentencepiece && is_type(step, "NFC");
        *nfc |= is;
        LVN_CHECK(is || (x->sentencepiece && is_of_sentencepiece(step)), UNSUPPORTED,
                  "the tokenizer '%s' has the normalizer %.40s, which llama.cpp does not have", x->t->path,
                  lvn_json_type(step));
    }
    return LVN_OK;
}

static enum lvn_status put_bytes(struct target *x)
{
    bool nfc;
    LVN_TRY(check_normalizer(x, &nfc));
    const struct lvn_gguf_pre *pre =
        x->json ? lvn_gguf_pre_of(json_object_get(x->json, "pre_tokenizer"), nfc, x->t->ignore_merges)
                : lvn_gguf_pre_find(x->t->pre_tokenizer.step[0].split == LVN_SPLIT_QWEN2 ? "qwen2" : "gpt-2");
    LVN_CHECK(pre, UNSUPPORTED,
              "the tokenizer '%s' splits text in a way for which levin knows no name in llama.cpp (pre_tokenizer of "
              "tokenizer.json)",
              x->t->path);
    const char *end = strchr(pre->names, ' ');
    lvn_gguf_put_string(x->w, KEY("model"), "gpt2", 4);
    lvn_gguf_put_string(x->w, KEY("pre"), pre->names, end ? end - pre->names : (int64_t)strlen(pre->names));
    return LVN_OK;
}

static enum lvn_status put_sentencepiece(struct target *x)
{
    const json_t *normalizer = json_object_get(x->json, "normalizer"), *pre = json_object_get(x->json, "pre_tokenizer");
    const json_t *space = part_of(pre, "pretokenizers", "Metaspace"), *list;
    const char *scheme = json_string_value(json_object_get(space, "prepend_scheme"));
    bool nfc;
    const bool prepends =
        part_of(normalizer, "normalizers", "Prepend") ||
        (space && (scheme ? strcmp(scheme, "never") != 0 : !json_is_false(json_object_get(space, "add_prefix_space"))));
    LVN_CHECK(x->t->byte_fallback && (space || part_of(normalizer, "normalizers", "Replace")), UNSUPPORTED,
              "the tokenizer '%s' is a BPE of characters that is not SentencePiece's, which llama.cpp does not have",
              x->t->path);
    LVN_TRY(check_normalizer(x, &nfc));
    const size_t n = steps_of(pre, "pretokenizers", &list);
    for (size_t i = 0; i < n; i++) {
        const json_t *step = list ? json_array_get(list, i) : pre;
        LVN_CHECK(is_of_sentencepiece(step), UNSUPPORTED,
                  "the tokenizer '%s' has the pre-tokenizer %.40s, which llama.cpp does not have beside SentencePiece",
                  x->t->path, lvn_json_type(step));
    }
    if (scheme && strcmp(scheme, "first") == 0)
        lvn_log_once(
            LVN_LOG_WARN,
            "the tokenizer '%s' puts a space only before a text; llama.cpp also puts one after special tokens, "
            "so text after these has other ids",
            x->t->path);
    lvn_gguf_put_string(x->w, KEY("model"), "llama", 5);
    lvn_gguf_put_string(x->w, KEY("pre"), "default", 7);
    lvn_gguf_put_int(x->w, KEY("add_space_prefix"), LVN_GGUF_BOOL, prepends);
    return LVN_OK;
}

/* --- tokens --- */

static void put_token(struct target *x, int64_t id, struct lvn_text *text)
{
    const struct lvn_tokenizer *t = x->t;
    lvn_text_clear(text);
    const bool is = id < t->n && t->start[id + 1] > t->start[id];
    if (!is) lvn_text_printf(text, "[PAD%lld]", (long long)id);
    for (uint32_t i = is ? t->start[id] : 0; is && i < t->start[id + 1]; i++) {
        char code[4];
        if (t->model == LVN_TOKENIZER_BYTES && t->in_model[id])
            lvn_text_add_bytes(text, code, lvn_utf8_encode(lvn_alphabet_code(t->byte[i]), code));
        else
            lvn_text_add_bytes(text, &t->byte[i], 1);
    }
}

static void find_types(struct target *x)
{
    const struct lvn_tokenizer *t = x->t;
    for (int64_t id = 0; id < x->rows; id++)
        x->type[id] = id < t->n && t->start[id + 1] > t->start[id] ? LVN_GGUF_TOKEN_NORMAL : LVN_GGUF_TOKEN_UNUSED;
    for (int i = 0; i < 256 && x->sentencepiece; i++)
        if (t->fallback[i] >= 0) x->type[t->fallback[i]] = LVN_GGUF_TOKEN_BYTE;
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].id >= 0 && t->added[i].id < x->rows)
            x->type[t->added[i].id] = t->added[i].special ? LVN_GGUF_TOKEN_CONTROL : LVN_GGUF_TOKEN_USER;
    if (x->sentencepiece && t->unknown >= 0) x->type[t->unknown] = LVN_GGUF_TOKEN_UNKNOWN;
}

static int by_rank(const void *a, const void *b)
{
    const struct lvn_bpe_slot *x = a, *y = b;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The merges by rank; NULL: out of memory. */
static struct lvn_bpe_slot *sorted_merges(const struct lvn_bpe *b, int64_t *n)
{
    struct lvn_bpe_slot *list = lvn_malloc(((size_t)b->n + 1) * sizeof *list);
    *n = 0;
    for (uint64_t i = 0; list && b->n && i <= b->mask; i++)
        if (b->slot[i].pair != LVN_BPE_EMPTY) list[(*n)++] = b->slot[i];
    if (list && *n) qsort(list, (size_t)*n, sizeof *list, by_rank);
    return list;
}

/* "left right" */
static void put_merges(struct target *x, const struct lvn_bpe_slot *merge, int64_t n)
{
    LVN_LOCAL_TEXT(left);
    LVN_LOCAL_TEXT(right);
    lvn_gguf_put_list(x->w, KEY("merges"), LVN_GGUF_STRING, n);
    for (int64_t i = 0; i < n; i++) {
        put_token(x, (int64_t)(merge[i].pair >> 32), &left);
        put_token(x, (int64_t)(merge[i].pair & UINT32_MAX), &right);
        lvn_text_add(&left, " ");
        lvn_text_add_bytes(&left, right.p, right.n);
        lvn_gguf_item_string(x->w, left.p, left.n);
    }
}

/* SentencePiece merges the pair whose result has the best score: a token's score is the negative rank of its first
 * merge. */
static enum lvn_status put_scores(struct target *x, const struct lvn_bpe_slot *merge, int64_t n)
{
    float *score = lvn_malloc((size_t)x->rows * sizeof *score);
    if (!score) return LVN_MEMORY;
    for (int64_t id = 0; id < x->rows; id++)
        score[id] = x->type[id] == LVN_GGUF_TOKEN_NORMAL || x->type[id] == LVN_GGUF_TOKEN_USER ? -(float)n : 0;
    for (int64_t i = n - 1; i >= 0; i--)
        if (merge[i].id < x->rows) score[merge[i].id] = -(float)merge[i].rank;
    lvn_gguf_put_list(x->w, KEY("scores"), LVN_GGUF_F32, x->rows);
    for (int64_t id = 0; id < x->rows; id++) lvn_gguf_item_real(x->w, score[id]);
    free(score);
    return LVN_OK;
}

static enum lvn_status put_tokens(struct target *x)
{
    LVN_LOCAL_TEXT(text);
    lvn_gguf_put_list(x->w, KEY("tokens"), LVN_GGUF_STRING, x->rows);
    for (int64_t id = 0; id < x->rows; id++) {
        put_token(x, id, &text);
        LVN_CHECK(lvn_utf8_check(text.p, text.n) < 0, UNSUPPORTED,
                  "the tokenizer '%s': token %lld is not a text, which llama.cpp requires", x->t->path, (long long)id);
        lvn_gguf_item_string(x->w, text.p, text.n);
    }
    LVN_TRY(lvn_text_status(&text));
    lvn_gguf_put_list(x->w, KEY("token_type"), LVN_GGUF_I32, x->rows);
    for (int64_t id = 0; id < x->rows; id++) lvn_gguf_item_int(x->w, x->type[id]);
    int64_t n;
    struct lvn_bpe_slot *merges = sorted_merges(&x->t->bpe, &n);
    enum lvn_status status = merges ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK && x->sentencepiece) status = put_scores(x, merges, n);
    if (status == LVN_OK && !x->sentencepiece) put_merges(x, merges, n);
    free(merges);
    return status;
}

/* --- named tokens, and those around a text --- */

static int64_t named_id(const struct target *x, const char *name)
{
    return x->t ? lvn_tokenizer_named_id(x->t, x->named, name) : -1;
}

static void put_id(struct target *x, const char *key, int64_t id)
{
    if (id >= 0 && id < x->rows) lvn_gguf_put_int(x->w, key, LVN_GGUF_U32, id);
}

/* The tokens that the tokenizer's template puts around a text. */
struct around {
    int64_t bos;
    bool adds_bos, adds_eos;
};

static enum lvn_status find_around(const struct target *x, int64_t eos, struct around *out)
{
    const struct lvn_template *single = &x->t->single;
    bool before = true, known = true;
    for (int i = 0; i < single->n; i++) {
        const struct lvn_template_piece *p = &single->piece[i];
        if (p->kind != LVN_TEMPLATE_TOKEN) {
            before = false;
            continue;
        }
        bool *adds = before ? &out->adds_bos : &out->adds_eos;
        if (before && !*adds) out->bos = p->id;
        known = known && !*adds && (before || p->id == eos);
        *adds = true;
    }
    LVN_CHECK(known, UNSUPPORTED,
              "the tokenizer '%s' adds other tokens to a text than one that begins and one that ends it "
              "(post_processor of tokenizer.json), which llama.cpp does not have",
              x->t->path);
    return LVN_OK;
}

static enum lvn_status put_named(struct target *x, const struct lvn_gguf_named_tokens *named)
{
    const int64_t own = x->t ? x->t->end_id : -1, eos = own >= 0 || !named->n_ends ? own : named->ends[0];
    struct around around = {.bos = named_id(x, "bos_token")};
    int64_t other = -1;
    if (around.bos < 0) around.bos = named->bos;
    if (x->t) LVN_TRY(find_around(x, eos, &around));
    for (int i = named->n_ends - 1; i >= 0; i--)
        if (named->ends[i] != eos) other = named->ends[i];
    put_id(x, KEY("bos_token_id"), around.bos);
    put_id(x, KEY("eos_token_id"), eos);
    put_id(x, KEY("eot_token_id"), other);
    put_id(x, KEY("unknown_token_id"), x->t && x->t->unknown >= 0 ? x->t->unknown : named_id(x, "unk_token"));
    put_id(x, KEY("padding_token_id"), named_id(x, "pad_token"));
    if (x->t) lvn_gguf_put_int(x->w, KEY("add_bos_token"), LVN_GGUF_BOOL, around.adds_bos);
    if (x->t) lvn_gguf_put_int(x->w, KEY("add_eos_token"), LVN_GGUF_BOOL, around.adds_eos);
    return LVN_OK;
}

static void put_template(struct target *x)
{
    const json_t *value = json_object_get(x->config, "chat_template"), *one;
    const char *text = json_string_value(value);
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)value, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        if (name && strcmp(name, "default") == 0) text = json_string_value(json_object_get(one, "template"));
    }
    int64_t bytes = text ? (int64_t)strlen(text) : 0;
    for (int k = 0; k < x->t->n_files; k++) {
        if (strcmp(x->t->file[k].name, "chat_template.jinja") != 0) continue;
        text = x->t->file[k].text;
        bytes = x->t->file[k].bytes;
    }
    if (text) lvn_gguf_put_string(x->w, "tokenizer.chat_template", text, bytes);
}

static enum lvn_status write_all(struct target *x, const struct lvn_gguf_named_tokens *named)
{
    LVN_CHECK(x->t->model == LVN_TOKENIZER_BYTES || x->t->model == LVN_TOKENIZER_CHARACTERS, UNSUPPORTED,
              "the tokenizer '%s' is no BPE, and levin writes only BPE into GGUF files", x->t->path);
    LVN_CHECK(x->t->n <= x->rows, UNSUPPORTED,
              "the tokenizer '%s' has %lld tokens, and the model's embedding has only %lld rows", x->t->path,
              (long long)x->t->n, (long long)x->rows);
    find_types(x);
    LVN_TRY(x->sentencepiece ? put_sentencepiece(x) : put_bytes(x));
    LVN_TRY(put_tokens(x));
    LVN_TRY(put_named(x, named));
    put_template(x);
    return lvn_text_status(&x->w->metadata);
}

enum lvn_status lvn_gguf_tokenizer_write(const struct lvn_tokenizer *t, int64_t rows,
                                         const struct lvn_gguf_named_tokens *named, struct lvn_gguf_writer *w)
{
    LVN_LOCAL_ARENA(a);
    struct target x = {.t = t, .w = w, .rows = rows};
    if (!t) {
        lvn_gguf_put_string(w, KEY("model"), "none", 4);
        LVN_TRY(put_named(&x, named));
        return lvn_text_status(&w->metadata);
    }
    x.sentencepiece = t->model == LVN_TOKENIZER_CHARACTERS;
    x.type = lvn_arena_alloc(&a, (size_t)rows * sizeof *x.type);
    if (!x.type) return LVN_MEMORY;
    enum lvn_status status = parse_file(t, "tokenizer.json", &x.json);
    if (status == LVN_OK) status = parse_file(t, "tokenizer_config.json", &x.config);
    if (status == LVN_OK) status = lvn_tokenizer_named(t, &x.named);
    if (status == LVN_OK) status = write_all(&x, named);
    json_decref(x.json);
    json_decref(x.config);
    json_decref(x.named);
    return status;
}
