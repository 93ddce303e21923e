/* gguf_tokenizer.c - see gguf_tokenizer.h: from metadata to the texts of a tokenizer.json and its configuration. */
#include "tokenizers/gguf_tokenizer.h"

#include "base/list.h"
#include "base/log.h"
#include "tokenizers/load.h"

#define KEY(name) "tokenizer.ggml." name

/* What the metadata say. */
struct source {
    struct lvn_gguf *file;
    const struct lvn_gguf_value *tokens, *types; /* types NULL: all are normal */
    struct lvn_raw_token *token;                 /* [tokens->n] in the file's text */
    bool sentencepiece;
    const struct lvn_gguf_pre *pre;
    bool adds_bos, adds_eos, adds_space;
    int64_t bos, eos, unknown, pad; /* -1: none */
};

static int type_of(const struct source *s, int64_t id)
{
    return s->types && id < s->types->n ? (int)lvn_gguf_number(s->types, id) : LVN_GGUF_TOKEN_NORMAL;
}

static bool is_added(const struct source *s, int64_t id)
{
    const int type = type_of(s, id);
    return type == LVN_GGUF_TOKEN_CONTROL || type == LVN_GGUF_TOKEN_USER ||
           (type == LVN_GGUF_TOKEN_UNKNOWN && s->sentencepiece);
}

/* Is the text one of byte-level BPE, whose bytes are written as printable characters? */
static bool in_alphabet(const struct lvn_raw_token *token)
{
    for (int64_t i = 0; i < token->bytes;) {
        int used;
        const int32_t code = lvn_utf8_decode(token->text + i, token->bytes - i, &used);
        if (code < 0 || code >= LVN_ALPHABET || lvn_alphabet_byte(code) < 0) return false;
        i += used;
    }
    return true;
}

/* --- reading --- */

static enum lvn_status read_id(const struct source *s, const char *key, int64_t *id)
{
    int64_t found = -1;
    *id = -1;
    LVN_TRY(lvn_gguf_int(s->file, key, false, 0, UINT32_MAX, &found));
    LVN_CHECK(found == UINT32_MAX || found < s->tokens->n, FORMAT, "'%s': '%s' is %lld, and there are %lld tokens",
              s->file->path, key, (long long)found, (long long)s->tokens->n);
    if (found != UINT32_MAX) *id = found;
    return LVN_OK;
}

static enum lvn_status read_tokens(struct source *s, struct lvn_arena *a)
{
    LVN_TRY(lvn_gguf_list(s->file, KEY("tokens"), LVN_GGUF_STRING, true, &s->tokens));
    LVN_TRY(lvn_gguf_list(s->file, KEY("token_type"), LVN_GGUF_I32, false, &s->types));
    LVN_CHECK(s->tokens->n > 0 && s->tokens->n < LVN_TOKENS_MAX, FORMAT, "'%s': '%s' has %lld items", s->file->path,
              s->tokens->key, (long long)s->tokens->n);
    LVN_CHECK(!s->types || s->types->n == s->tokens->n, FORMAT, "'%s': there are %lld tokens and %lld types of tokens",
              s->file->path, (long long)s->tokens->n, (long long)s->types->n);
    s->token = lvn_arena_alloc(a, sizeof *s->token * (size_t)s->tokens->n);
    if (!s->token) return LVN_MEMORY;
    const unsigned char *at = s->tokens->data;
    for (int64_t i = 0; i < s->tokens->n; i++) {
        struct lvn_raw_token *t = &s->token[i];
        lvn_gguf_next(&at, &t->text, &t->bytes);
        LVN_CHECK(lvn_utf8_check(t->text, t->bytes) < 0 && (!t->bytes || !memchr(t->text, 0, (size_t)t->bytes)), FORMAT,
                  "'%s': token %lld is not text in UTF-8", s->file->path, (long long)i);
    }
    return LVN_OK;
}

static enum lvn_status find_pre(struct source *s)
{
    const char *pre = NULL;
    LVN_TRY(lvn_gguf_string(s->file, KEY("pre"), false, &pre));
    s->pre = lvn_gguf_pre_find(pre ? pre : "gpt-2");
    if (!pre)
        lvn_log_once(LVN_LOG_WARN, "'%s' does not say how its tokenizer splits text (%s): it is split as in GPT-2",
                     s->file->path, KEY("pre"));
    if (s->pre) return LVN_OK;
    LVN_LOCAL_TEXT(names);
    for (const struct lvn_gguf_pre *p = lvn_gguf_pre_tokenizers; p->names; p++)
        lvn_text_printf(&names, "%s%s", names.n ? " " : "", p->names);
    LVN_FAIL(UNSUPPORTED,
             "'%s': its tokenizer splits text by the rules '%.40s' (%s), which levin does not have; it has "
             "%s",
             s->file->path, pre, KEY("pre"), names.p ? names.p : "none");
}

static enum lvn_status read_source(struct source *s, struct lvn_arena *a)
{
    const char *model;
    LVN_TRY(lvn_gguf_string(s->file, KEY("model"), true, &model));
    s->sentencepiece = strcmp(model, "llama") == 0;
    LVN_CHECK(s->sentencepiece || strcmp(model, "gpt2") == 0, UNSUPPORTED,
              "'%s' has a tokenizer of the kind '%.40s' (%s); levin reads gpt2 and llama", s->file->path, model,
              KEY("model"));
    LVN_TRY(read_tokens(s, a));
    if (!s->sentencepiece) LVN_TRY(find_pre(s));
    s->adds_bos = s->pre ? s->pre->adds_bos : true;
    s->adds_space = s->sentencepiece;
    LVN_TRY(lvn_gguf_bool(s->file, KEY("add_bos_token"), &s->adds_bos));
    LVN_TRY(lvn_gguf_bool(s->file, KEY("add_eos_token"), &s->adds_eos));
    if (s->sentencepiece) LVN_TRY(lvn_gguf_bool(s->file, KEY("add_space_prefix"), &s->adds_space));
    LVN_TRY(read_id(s, KEY("bos_token_id"), &s->bos));
    LVN_TRY(read_id(s, KEY("eos_token_id"), &s->eos));
    LVN_TRY(read_id(s, KEY("unknown_token_id"), &s->unknown));
    return read_id(s, KEY("padding_token_id"), &s->pad);
}

/* --- the text of a tokenizer.json --- */

static void add_quoted(struct lvn_text *t, const char *p, int64_t n)
{
    int64_t done = 0;
    lvn_text_add(t, "\"");
    for (int64_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)p[i];
        if (c >= ' ' && c != '"' && c != '\\') continue;
        lvn_text_add_bytes(t, p + done, i - done);
        lvn_text_printf(t, c < ' ' ? "\\u%04x" : "\\%c", c);
        done = i + 1;
    }
    lvn_text_add_bytes(t, p + done, n - done);
    lvn_text_add(t, "\"");
}

static void add_token(struct lvn_text *t, const struct source *s, int64_t id)
{
    add_quoted(t, s->token[id].text, s->token[id].bytes);
}

static void add_added(struct lvn_text *t, const struct source *s)
{
    const char *comma = "";
    lvn_text_add(t, "\"added_tokens\":[");
    for (int64_t id = 0; id < s->tokens->n; id++) {
        if (!is_added(s, id) || !s->token[id].bytes) continue;
        lvn_text_printf(t, "%s{\"id\":%lld,\"content\":", comma, (long long)id);
        add_token(t, s, id);
        lvn_text_printf(t,
                        ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":%s}",
                        type_of(s, id) == LVN_GGUF_TOKEN_USER ? "false" : "true");
        comma = ",";
    }
    lvn_text_add(t, "],");
}

/* {"token": id}. Added tokens whose text is not in the alphabet of bytes are not part of byte-level BPE. */
static void add_vocabulary(struct lvn_text *t, const struct source *s)
{
    const char *comma = "{";
    for (int64_t id = 0; id < s->tokens->n; id++) {
        if (!s->token[id].bytes || (!s->sentencepiece && is_added(s, id) && !in_alphabet(&s->token[id]))) continue;
        lvn_text_add(t, comma);
        add_token(t, s, id);
        lvn_text_printf(t, ":%lld", (long long)id);
        comma = ",";
    }
    lvn_text_add(t, *comma == '{' ? "{}" : "}");
}

static enum lvn_status add_merges(struct lvn_text *t, const struct source *s)
{
    const struct lvn_gguf_value *merges;
    const char *text;
    int64_t bytes;
    LVN_TRY(lvn_gguf_list(s->file, KEY("merges"), LVN_GGUF_STRING, true, &merges));
    const unsigned char *at = merges->data;
    lvn_text_add(t, "[");
    for (int64_t i = 0; i < merges->n; i++) {
        lvn_gguf_next(&at, &text, &bytes);
        LVN_CHECK(lvn_utf8_check(text, bytes) < 0, FORMAT, "'%s': merge %lld is not text in UTF-8", s->file->path,
                  (long long)i);
        if (i) lvn_text_add(t, ",");
        add_quoted(t, text, bytes);
    }
    lvn_text_add(t, "]");
    return LVN_OK;
}

/* A pair of tokens that SentencePiece would merge. */
struct pair {
    float score;         /* of the merged token */
    int32_t left, right; /* ids */
    int32_t merged;      /* id */
    int32_t n_left;      /* characters */
    int32_t n_right;
};

/* The best score first; the order of equal ones is that of the library transformers. */
static int by_score(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    if (x->n_left != y->n_left) return y->n_left - x->n_left;
    if (x->n_right != y->n_right) return y->n_right - x->n_right;
    if (x->merged != y->merged) return x->merged < y->merged ? -1 : 1;
    return x->left != y->left ? (x->left > y->left) - (x->left < y->left)
                              : (x->right > y->right) - (x->right < y->right);
}

struct pairs {
    struct pair *list;
    int64_t n, capacity;
};

static int32_t characters(const char *p, int64_t n)
{
    int32_t count = 0;
    for (int64_t i = 0; i < n; i++) count += ((unsigned char)p[i] & 0xc0) != 0x80;
    return count;
}

/* Add all ways to write token `id` as two tokens. */
static enum lvn_status add_splits(struct pairs *pairs, const struct source *s, const struct lvn_token_map *map,
                                  int64_t id, float score)
{
    const struct lvn_raw_token *t = &s->token[id];
    for (int64_t cut = 1; cut < t->bytes; cut++) {
        if (((unsigned char)t->text[cut] & 0xc0) == 0x80) continue;
        const int32_t left = lvn_token_map_find_bytes(map, t->text, cut);
        const int32_t right = left < 0 ? -1 : lvn_token_map_find_bytes(map, t->text + cut, t->bytes - cut);
        if (right < 0) continue;
        if (!lvn_list_reserve(&pairs->list, &pairs->capacity, pairs->n + 1, sizeof *pairs->list)) return LVN_MEMORY;
        pairs->list[pairs->n++] = (struct pair){
            score, left, right, (int32_t)id, characters(t->text, cut), characters(t->text + cut, t->bytes - cut)};
    }
    return LVN_OK;
}

static enum lvn_status find_pairs(struct pairs *pairs, const struct source *s, const struct lvn_token_map *map)
{
    const struct lvn_gguf_value *scores;
    LVN_TRY(lvn_gguf_list(s->file, KEY("scores"), LVN_GGUF_F32, true, &scores));
    LVN_CHECK(scores->n == s->tokens->n, FORMAT, "'%s': there are %lld tokens and %lld scores", s->file->path,
              (long long)s->tokens->n, (long long)scores->n);
    for (int64_t id = 0; id < s->tokens->n; id++) {
        const int type = type_of(s, id);
        if (type == LVN_GGUF_TOKEN_NORMAL || type == LVN_GGUF_TOKEN_USER)
            LVN_TRY(add_splits(pairs, s, map, id, (float)lvn_gguf_number(scores, id)));
    }
    if (pairs->n) qsort(pairs->list, (size_t)pairs->n, sizeof *pairs->list, by_score);
    return LVN_OK;
}

/* SentencePiece merges the pair whose result has the best score: the merges in the order of these scores. */
static enum lvn_status add_scored(struct lvn_text *t, const struct source *s)
{
    LVN_LOCAL_TEXT(vocabulary);
    struct lvn_token_map map;
    struct pairs pairs = {0};
    add_vocabulary(&vocabulary, s);
    const char *text = lvn_text_string(&vocabulary);
    if (!text) return LVN_MEMORY;
    struct lvn_json_scan scan = lvn_json_scan_begin(s->file->path, text, vocabulary.n, NULL);
    enum lvn_status status = lvn_token_map_read(&map, &scan);
    if (status == LVN_OK) status = find_pairs(&pairs, s, &map);
    lvn_text_add(t, "[");
    for (int64_t i = 0; i < pairs.n && status == LVN_OK; i++) {
        lvn_text_add(t, i ? ",[" : "[");
        add_token(t, s, pairs.list[i].left);
        lvn_text_add(t, ",");
        add_token(t, s, pairs.list[i].right);
        lvn_text_add(t, "]");
    }
    lvn_text_add(t, "]");
    free(pairs.list);
    lvn_token_map_release(&map);
    return status;
}

static enum lvn_status add_model(struct lvn_text *t, const struct source *s)
{
    lvn_text_add(t, "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (s->sentencepiece && s->unknown >= 0)
        add_token(t, s, s->unknown);
    else
        lvn_text_add(t, "null");
    lvn_text_printf(t,
                    ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":%s,"
                    "\"byte_fallback\":%s,\"ignore_merges\":%s,\"vocab\":",
                    s->sentencepiece ? "true" : "false", s->sentencepiece ? "true" : "false",
                    s->pre && s->pre->ignores_merges ? "true" : "false");
    add_vocabulary(t, s);
    lvn_text_add(t, ",\"merges\":");
    LVN_TRY(s->sentencepiece ? add_scored(t, s) : add_merges(t, s));
    lvn_text_add(t, "}}");
    return LVN_OK;
}

static void add_special(struct lvn_text *t, const struct source *s, int64_t id, int type)
{
    lvn_text_add(t, "{\"SpecialToken\":{\"id\":");
    add_token(t, s, id);
    lvn_text_printf(t, ",\"type_id\":%d}}", type);
}

/* The tokens around one text, or around a pair of texts. */
static void add_template(struct lvn_text *t, const struct source *s, const char *name, bool pair)
{
    lvn_text_printf(t, "\"%s\":[", name);
    for (int type = 0; type <= pair; type++) {
        lvn_text_add(t, type ? "," : "");
        if (s->adds_bos) add_special(t, s, s->bos, type);
        lvn_text_printf(t, "%s{\"Sequence\":{\"id\":\"%s\",\"type_id\":%d}}", s->adds_bos ? "," : "", type ? "B" : "A",
                        type);
        if (s->adds_eos) lvn_text_add(t, ",");
        if (s->adds_eos) add_special(t, s, s->eos, type);
    }
    lvn_text_add(t, "],");
}

static void add_post_processor(struct lvn_text *t, struct source *s)
{
    s->adds_bos = s->adds_bos && s->bos >= 0;
    s->adds_eos = s->adds_eos && s->eos >= 0;
    if (!s->adds_bos && !s->adds_eos) {
        lvn_text_add(t, "\"post_processor\":null,");
        return;
    }
    lvn_text_add(t, "\"post_processor\":{\"type\":\"TemplateProcessing\",");
    add_template(t, s, "single", false);
    add_template(t, s, "pair", true);
    lvn_text_add(t, "\"special_tokens\":{");
    for (int i = 0; i < 2; i++) {
        const int64_t id = i ? s->eos : s->bos;
        if (!(i ? s->adds_eos : s->adds_bos) || (i && s->adds_bos && s->eos == s->bos)) continue;
        if (i && s->adds_bos) lvn_text_add(t, ",");
        add_token(t, s, id);
        lvn_text_add(t, ":{\"id\":");
        add_token(t, s, id);
        lvn_text_printf(t, ",\"ids\":[%lld],\"tokens\":[", (long long)id);
        add_token(t, s, id);
        lvn_text_add(t, "]}");
    }
    lvn_text_add(t, "}},");
}

#define SPACE "\xe2\x96\x81" /* SentencePiece's sign for a space */

static enum lvn_status make_tokenizer(struct lvn_text *t, struct source *s)
{
    static const char to_spaces[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}";
    lvn_text_add(t, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,");
    add_added(t, s);
    if (!s->sentencepiece)
        lvn_text_printf(t, "\"normalizer\":%s,\"pre_tokenizer\":%s,", s->pre->nfc, s->pre->steps);
    else if (s->adds_space)
        lvn_text_printf(
            t,
            "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":\"" SPACE
            "\"},%s]},\"pre_tokenizer\":null,",
            to_spaces);
    else
        lvn_text_printf(t, "\"normalizer\":%s,\"pre_tokenizer\":null,", to_spaces);
    add_post_processor(t, s);
    if (!s->sentencepiece)
        lvn_text_add(t, "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
                        "\"use_regex\":true},");
    else
        lvn_text_printf(
            t,
            "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{\"String\":"
            "\"" SPACE "\"},\"content\":\" \"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}%s]},",
            s->adds_space ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
    LVN_TRY(add_model(t, s));
    return lvn_text_status(t);
}

/* The named tokens and the chat template. */
static enum lvn_status make_config(struct lvn_text *t, const struct source *s)
{
    const struct {
        const char *name;
        int64_t id;
    } named[] = {{"bos_token", s->bos}, {"eos_token", s->eos}, {"unk_token", s->unknown}, {"pad_token", s->pad}};
    const char *chat;
    LVN_TRY(lvn_gguf_string(s->file, "tokenizer.chat_template", false, &chat));
    lvn_text_add(t, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"");
    for (int i = 0; i < 4; i++) {
        if (named[i].id < 0) continue;
        lvn_text_printf(t, ",\n  \"%s\": ", named[i].name);
        add_token(t, s, named[i].id);
    }
    if (chat) lvn_text_add(t, ",\n  \"chat_template\": ");
    if (chat) add_quoted(t, chat, (int64_t)strlen(chat));
    lvn_text_add(t, "\n}\n");
    return lvn_text_status(t);
}

/* The tokenizer owns the text from here on. */
static const char *keep(struct lvn_tokenizer *t, struct lvn_text *text)
{
    char *p = text->p;
    t->text[t->n_texts++] = p;
    *text = (struct lvn_text){0};
    return p;
}

enum lvn_status lvn_gguf_tokenizer_parse(struct lvn_tokenizer *t, struct lvn_gguf *file)
{
    LVN_LOCAL_ARENA(a);
    LVN_LOCAL_TEXT(tokenizer);
    LVN_LOCAL_TEXT(config);
    struct source s = {.file = file};
    LVN_TRY(read_source(&s, &a));
    LVN_TRY(make_tokenizer(&tokenizer, &s));
    LVN_TRY(make_config(&config, &s));
    const int64_t n = tokenizer.n, n_config = config.n;
    LVN_TRY(lvn_load_json(t, t->path, keep(t, &tokenizer), n));
    lvn_load_add_file(t, "tokenizer_config.json", keep(t, &config), n_config);
    return LVN_OK;
}

enum lvn_status lvn_gguf_tokenizer_read(struct lvn_tokenizer *t, const char *path)
{
    struct lvn_gguf file;
    int parts;
    const char *first = lvn_gguf_part(&t->arena, path, 1, &parts); /* has the metadata */
    LVN_TRY(lvn_gguf_open(&file, first ? first : path));
    const enum lvn_status status = lvn_gguf_tokenizer_parse(t, &file);
    lvn_gguf_close(&file);
    return status;
}

bool lvn_gguf_tokenizer_exists(const char *path)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_gguf file;
    const char *model;
    int parts;
    const char *first = lvn_gguf_part(&a, path, 1, &parts);
    if (first) path = first;
    if (!lvn_gguf_is_file(path) || lvn_gguf_open(&file, path) != LVN_OK) {
        lvn_error_clear();
        return false;
    }
    const bool known = lvn_gguf_string(&file, KEY("model"), false, &model) == LVN_OK;
    if (!known) lvn_error_clear();
    const bool is = !known || (model && strcmp(model, "none") != 0 && strcmp(model, "no_vocab") != 0);
    lvn_gguf_close(&file);
    return is;
}
