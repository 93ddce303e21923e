/* load_json.c - tokenizer.json, as Hugging Face's tokenizers library writes it: {"normalizer", "pre_tokenizer",
 * "added_tokens", "model", "post_processor", "decoder"}. Merges are "a b" in older files, ["a", "b"] in newer ones.
 *
 * Members that affect ids or text are read or refused; others (padding, truncation) are ignored. */

#include "formats/json_scan.h"
#include "tokenizers/decoder.h"
#include "tokenizers/encoder_private.h"
#include "tokenizers/load.h"
#include "tokenizers/post_processor.h"
#include "tokenizers/unicode/unicode.h"
#include "tokenizers/unigram.h"
#include "tokenizers/wordpiece.h"

/* --- the file's parts --- */

/* Vocabulary and merges, with hundreds of thousands of entries, are scanned without building a tree. The rest is
 * parsed: the text without these values, but with their line ends, so that messages name the right line. */
struct parts {
    json_t *root;                /* with model.vocab and model.merges empty */
    struct lvn_json_scan vocab;  /* at the value of model.vocab; at NULL: it is not a list or object */
    struct lvn_json_scan merges; /* the same for model.merges, a list */
    int64_t n_vocab;             /* entries */
    int64_t n_merges;
};

static bool is_key(const char *key, int64_t bytes, const char *expected)
{
    return bytes == (int64_t)strlen(expected) && !memcmp(key, expected, (size_t)bytes);
}

/* Append the text from *done to the scan, and an empty value instead of the next one, which the scan skips. */
static enum lvn_status cut_out(struct lvn_json_scan *s, struct lvn_text *rest, const char **done,
                               struct lvn_json_scan *value, int64_t *entries)
{
    bool list = lvn_json_scan_peek(s) == '[';
    *value = *s;
    lvn_text_add_bytes(rest, *done, s->at - *done);
    LVN_TRY(lvn_json_scan_skip(s, entries));
    lvn_text_add(rest, list ? "[" : "{");
    for (const char *p = value->at; (p = memchr(p, '\n', (size_t)(s->at - p))); p++) lvn_text_add(rest, "\n");
    lvn_text_add(rest, list ? "]" : "}");
    *done = s->at;
    return LVN_OK;
}

static enum lvn_status scan_model(struct parts *j, struct lvn_json_scan *s, struct lvn_text *rest, const char **done)
{
    const char *key;
    int64_t bytes;
    bool more;
    LVN_TRY(lvn_json_scan_enter(s, '{'));
    for (int64_t i = 0;; i++) {
        LVN_TRY(lvn_json_scan_next(s, '}', i, &more));
        if (!more) return LVN_OK;
        LVN_TRY(lvn_json_scan_key(s, &key, &bytes));
        char first = lvn_json_scan_peek(s);
        if (is_key(key, bytes, "vocab") && (first == '{' || first == '['))
            LVN_TRY(cut_out(s, rest, done, &j->vocab, &j->n_vocab));
        else if (is_key(key, bytes, "merges") && first == '[')
            LVN_TRY(cut_out(s, rest, done, &j->merges, &j->n_merges));
        else
            LVN_TRY(lvn_json_scan_skip(s, NULL));
    }
}

static enum lvn_status scan_root(struct parts *j, struct lvn_json_scan *s, struct lvn_text *rest)
{
    const char *key, *done = s->at;
    int64_t bytes;
    bool more = lvn_json_scan_peek(s) == '{';
    if (more) LVN_TRY(lvn_json_scan_enter(s, '{'));
    for (int64_t i = 0; more; i++) {
        LVN_TRY(lvn_json_scan_next(s, '}', i, &more));
        if (!more) break;
        LVN_TRY(lvn_json_scan_key(s, &key, &bytes));
        if (is_key(key, bytes, "model") && lvn_json_scan_peek(s) == '{')
            LVN_TRY(scan_model(j, s, rest, &done));
        else
            LVN_TRY(lvn_json_scan_skip(s, NULL));
    }
    lvn_text_add_bytes(rest, done, s->end - done);
    return lvn_text_status(rest);
}

/* `name` and `text` must outlive the parts. release_parts() must follow, after a failure too. */
static enum lvn_status read_parts(struct parts *j, const char *name, const char *text, int64_t bytes)
{
    LVN_LOCAL_ARENA(keys);
    LVN_LOCAL_TEXT(rest);
    *j = (struct parts){0};
    struct lvn_json_scan s = lvn_json_scan_begin(name, text, bytes, &keys);
    LVN_TRY(scan_root(j, &s, &rest));
    return lvn_json_parse(name, lvn_text_string(&rest), rest.n, &j->root);
}

static void release_parts(struct parts *j)
{
    json_decref(j->root);
    *j = (struct parts){0};
}

/* --- added tokens --- */

static enum lvn_status added_token(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    const char *content = NULL;
    int64_t id = -1;
    struct lvn_added_token *a = &t->added[t->n_added];
    LVN_TRY(lvn_json_string(name, object, "content", true, &content));
    LVN_TRY(lvn_json_int(name, object, "id", true, 0, (1 << 24) - 1, &id));
    if (!*content) return LVN_OK; /* the tokenizers library ignores it, too */
    a->text = lvn_arena_strdup(&t->arena, content);
    if (!a->text) return LVN_MEMORY;
    a->bytes = (int64_t)strlen(content);
    a->id = (int32_t)id;
    LVN_TRY(lvn_json_bool(name, object, "special", false, &a->special));
    LVN_TRY(lvn_json_bool(name, object, "single_word", false, &a->single_word));
    LVN_TRY(lvn_json_bool(name, object, "lstrip", false, &a->lstrip));
    LVN_TRY(lvn_json_bool(name, object, "rstrip", false, &a->rstrip));
    LVN_TRY(lvn_json_bool(name, object, "normalized", false, &a->normalized));
    t->n_added++;
    return LVN_OK;
}

static enum lvn_status added_tokens(struct lvn_tokenizer *t, const char *name, const json_t *root)
{
    size_t i;
    const json_t *list;
    json_t *object;
    LVN_TRY(lvn_json_list(name, root, "added_tokens", false, &list));
    size_t capacity = json_array_size(list) + 1;
    t->added = lvn_arena_alloc(&t->arena, sizeof *t->added * capacity);
    if (!t->added) return LVN_MEMORY;
    json_array_foreach(list, i, object)
    {
        LVN_CHECK(json_is_object(object), FORMAT, "'%s': added_tokens must be a list of objects", name);
        LVN_TRY(added_token(t, name, object));
    }
    return LVN_OK;
}

/* --- the models --- */

static enum lvn_status check_bpe(const char *name, const json_t *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int i = 0; i < 2; i++) {
        const char *affix = json_string_value(json_object_get(model, affixes[i]));
        LVN_CHECK(!affix || !*affix, UNSUPPORTED, "'%s': %s is '%.20s'; BPE with affixes is not supported", name,
                  affixes[i], affix);
    }
    const json_t *dropout = json_object_get(model, "dropout");
    LVN_CHECK(!json_is_number(dropout) || json_number_value(dropout) == 0, UNSUPPORTED,
              "'%s': merges that are dropped at random (dropout) are not supported", name);
    LVN_CHECK(json_is_object(json_object_get(model, "vocab")) && json_is_array(json_object_get(model, "merges")),
              FORMAT, "'%s': model.vocab and model.merges are missing: it is not a tokenizer.json of BPE", name);
    return LVN_OK;
}

/* "a b" */
static enum lvn_status merge_text(struct lvn_merge_reader *r, int64_t i, const char *text, int64_t bytes)
{
    const char *gap = bytes ? memchr(text, ' ', (size_t)bytes) : NULL;
    LVN_CHECK(gap, FORMAT, "'%s': model.merges[%lld] must be a text of two tokens or a list of two", r->name,
              (long long)i);
    return lvn_merges_add(r, i, text, gap - text, gap + 1, text + bytes - gap - 1);
}

/* ["a", "b"] */
static enum lvn_status merge_list(struct lvn_merge_reader *r, struct lvn_json_scan *s, int64_t i)
{
    const char *token[2] = {"", ""};
    int64_t bytes[2] = {0}, n = 0;
    bool more;
    LVN_TRY(lvn_json_scan_enter(s, '['));
    for (;; n++) {
        LVN_TRY(lvn_json_scan_next(s, ']', n, &more));
        if (!more || n == 2 || lvn_json_scan_peek(s) != '"') break;
        LVN_TRY(lvn_json_scan_string(s, &token[n], &bytes[n]));
    }
    LVN_CHECK(!more && n == 2, FORMAT, "'%s': model.merges[%lld] must be a text of two tokens or a list of two",
              r->name, (long long)i);
    return lvn_merges_add(r, i, token[0], bytes[0], token[1], bytes[1]);
}

static enum lvn_status merges(struct lvn_merge_reader *r, struct lvn_json_scan *s)
{
    const char *text = "";
    int64_t bytes = 0;
    bool more;
    LVN_TRY(lvn_json_scan_enter(s, '['));
    for (int64_t i = 0;; i++) {
        LVN_TRY(lvn_json_scan_next(s, ']', i, &more));
        if (!more) return lvn_merges_end(r);
        if (lvn_json_scan_peek(s) == '[') {
            LVN_TRY(merge_list(r, s, i));
            continue;
        }
        if (lvn_json_scan_peek(s) == '"') LVN_TRY(lvn_json_scan_string(s, &text, &bytes));
        LVN_TRY(merge_text(r, i, text, bytes));
        bytes = 0;
    }
}

/* Set t->unknown, if the model names unk_token and unknown characters are possible. */
static enum lvn_status find_unknown(struct lvn_tokenizer *t, const json_t *model, const struct lvn_token_map *map)
{
    const char *text = NULL;
    LVN_TRY(lvn_json_string(map->name, model, "unk_token", false, &text));
    if (!text || (t->model == LVN_TOKENIZER_BYTES && !t->missing_bytes)) return LVN_OK;
    t->unknown = lvn_token_map_find(map, text);
    LVN_CHECK(t->unknown >= 0, FORMAT, "'%s': the vocabulary lacks the unk_token '%.60s'", map->name, text);
    return LVN_OK;
}

/* Can text be split before each run of metaspaces without changing its ids? No token may contain a metaspace after
 * another character, and the metaspace must be a token. */
static bool can_split_at_metaspace(const struct lvn_tokenizer *t)
{
    static const uint8_t metaspace[3] = {0xe2, 0x96, 0x81};
    if (t->ignore_merges || lvn_token_index_find(t, metaspace, 3) < 0) return false;
    for (int64_t id = 0; id < t->n; id++) {
        const uint8_t *p = t->byte + t->start[id];
        int64_t n = t->start[id + 1] - t->start[id], prefix = 0;
        while (prefix + 3 <= n && !memcmp(p + prefix, metaspace, 3)) prefix += 3;
        if (t->in_model[id] && memmem(p + prefix, (size_t)(n - prefix), metaspace, 3)) return false;
    }
    return true;
}

void lvn_load_split_words(struct lvn_tokenizer *t)
{
    struct lvn_pre_tokenizer *pre = &t->pre_tokenizer;
    bool splits = pre->n && pre->step[pre->n - 1].kind != LVN_PRE_NOTHING;
    if (!splits && pre->n < LVN_PRE_TOKENIZER_MAX && can_split_at_metaspace(t))
        pre->step[pre->n++] = lvn_pre_tokenizer_split(LVN_SPLIT_METASPACE);
}

/* The vocabulary and the merges. */
static enum lvn_status bpe_lists(struct lvn_tokenizer *t, const char *name, struct parts *j)
{
    LVN_LOCAL_ARENA(escaped);
    struct lvn_token_map map = {0};
    struct lvn_merge_reader r = {.bpe = &t->bpe, .map = &map, .name = name};
    enum lvn_status status = lvn_bpe_init(&t->bpe, j->n_merges);
    if (status == LVN_OK) status = lvn_token_map_read(&map, &j->vocab);
    if (status == LVN_OK) status = lvn_load_tokens(t, &map);
    if (status == LVN_OK) status = find_unknown(t, json_object_get(j->root, "model"), &map);
    j->merges.arena = &escaped;
    if (status == LVN_OK) status = merges(&r, &j->merges);
    lvn_token_map_release(&map);
    return status;
}

static enum lvn_status read_bpe(struct lvn_tokenizer *t, const char *name, struct parts *j)
{
    const json_t *model = json_object_get(j->root, "model");
    struct lvn_pre_tokenizer *pre = &t->pre_tokenizer;
    LVN_TRY(check_bpe(name, model));
    t->model = pre->n && pre->step[pre->n - 1].bytes ? LVN_TOKENIZER_BYTES : LVN_TOKENIZER_CHARACTERS;
    LVN_TRY(lvn_json_bool(name, model, "ignore_merges", false, &t->ignore_merges));
    LVN_TRY(lvn_json_bool(name, model, "byte_fallback", false, &t->byte_fallback));
    LVN_TRY(lvn_json_bool(name, model, "fuse_unk", false, &t->fuse_unknown));
    LVN_TRY(bpe_lists(t, name, j));
    if (t->model == LVN_TOKENIZER_BYTES) return t->ignore_merges || t->missing_bytes ? lvn_load_index(t) : LVN_OK;
    LVN_TRY(lvn_load_index(t));
    lvn_load_split_words(t);
    return LVN_OK;
}

static enum lvn_status read_wordpiece(struct lvn_tokenizer *t, const char *name, struct parts *j)
{
    const json_t *model = json_object_get(j->root, "model");
    const char *prefix = "##", *unknown = "[UNK]";
    int64_t max_word = 100;
    struct lvn_token_map map = {0};
    LVN_CHECK(json_is_object(json_object_get(model, "vocab")), FORMAT,
              "'%s': model.vocab is missing: it is not a tokenizer.json of WordPiece", name);
    LVN_TRY(lvn_json_string(name, model, "continuing_subword_prefix", false, &prefix));
    LVN_TRY(lvn_json_string(name, model, "unk_token", false, &unknown));
    LVN_TRY(lvn_json_int(name, model, "max_input_chars_per_word", false, 1, INT32_MAX, &max_word));
    t->model = LVN_TOKENIZER_WORDPIECE;
    enum lvn_status status = lvn_token_map_read(&map, &j->vocab);
    if (status == LVN_OK) status = lvn_load_tokens(t, &map);
    lvn_token_map_release(&map);
    return status == LVN_OK ? lvn_wordpiece_new(t, name, prefix, max_word, unknown) : status;
}

/* [[token, score], ...] */
static enum lvn_status read_scores(struct lvn_json_scan *s, int64_t n, struct lvn_raw_token *list, double *score)
{
    bool more, is = false;
    LVN_TRY(lvn_json_scan_enter(s, '['));
    for (int64_t i = 0;; i++) {
        LVN_TRY(lvn_json_scan_next(s, ']', i, &more));
        if (!more) return LVN_OK;
        bool good = i < n && lvn_json_scan_peek(s) == '[';
        if (good) LVN_TRY(lvn_json_scan_enter(s, '['));
        for (int64_t k = 0; good; k++) {
            LVN_TRY(lvn_json_scan_next(s, ']', k, &more));
            if (!more) {
                good = k == 2;
                break;
            }
            good = k == 0 ? lvn_json_scan_peek(s) == '"' : k == 1;
            if (good && k == 0) LVN_TRY(lvn_json_scan_string(s, &list[i].text, &list[i].bytes));
            if (good && k == 1) LVN_TRY(lvn_json_scan_real(s, &score[i], &is));
            good = good && (k == 0 || is);
        }
        LVN_CHECK(good, FORMAT, "'%s': model.vocab[%lld] must be a list of a token and its score", s->name,
                  (long long)i);
    }
}

/* FORMAT if a token occurs twice. */
static enum lvn_status check_once(const struct lvn_tokenizer *t, const char *name)
{
    for (int64_t id = 0; id < t->n; id++) {
        int64_t n = t->start[id + 1] - t->start[id];
        if (!t->in_model[id] || !n) continue;
        int32_t other = lvn_token_index_find(t, t->byte + t->start[id], n);
        LVN_CHECK(other == id, FORMAT, "'%s': the token '%.*s' is in the vocabulary twice, as %lld and %lld", name,
                  (int)(n < 60 ? n : 60), (const char *)t->byte + t->start[id], (long long)(other < id ? other : id),
                  (long long)(other < id ? id : other));
    }
    return LVN_OK;
}

static enum lvn_status read_unigram(struct lvn_tokenizer *t, const char *name, struct parts *j)
{
    LVN_LOCAL_ARENA(escaped);
    const json_t *model = json_object_get(j->root, "model");
    int64_t unknown = -1, n = j->n_vocab;
    LVN_CHECK(json_is_array(json_object_get(model, "vocab")) && n > 0, FORMAT,
              "'%s': model.vocab must be a list of tokens and scores: it is not a tokenizer.json of Unigram", name);
    LVN_TRY(lvn_json_int(name, model, "unk_id", false, 0, n - 1, &unknown));
    LVN_CHECK(unknown >= 0, UNSUPPORTED, "'%s': a Unigram without unk_id, the token for unknown text, is not supported",
              name);
    LVN_TRY(lvn_json_bool(name, model, "byte_fallback", false, &t->byte_fallback));
    t->unknown = (int32_t)unknown;
    t->model = LVN_TOKENIZER_UNIGRAM;
    struct lvn_raw_token *list = lvn_calloc((size_t)n, sizeof *list);
    double *score = lvn_arena_alloc(&t->arena, sizeof *score * (size_t)n);
    j->vocab.arena = &escaped;
    enum lvn_status status = list && score ? read_scores(&j->vocab, n, list, score) : LVN_MEMORY;
    if (status == LVN_OK) status = lvn_load_list(t, name, list, n);
    free(list);
    LVN_TRY(status);
    LVN_TRY(lvn_load_index(t));
    LVN_TRY(check_once(t, name));
    return lvn_unigram_new(t, score);
}

static enum lvn_status read_model(struct lvn_tokenizer *t, const char *name, struct parts *j)
{
    static const struct {
        const char *type;
        enum lvn_status (*read)(struct lvn_tokenizer *t, const char *name, struct parts *j);
    } kinds[] = {{"BPE", read_bpe}, {"WordPiece", read_wordpiece}, {"Unigram", read_unigram}};
    const json_t *model = json_object_get(j->root, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    if (!type) /* absent in old files */
        type = json_is_array(json_object_get(model, "vocab")) ? "Unigram"
               : json_object_get(model, "merges")             ? "BPE"
                                                              : "WordPiece";
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (!strcmp(kinds[i].type, type)) return kinds[i].read(t, name, j);
    LVN_FAIL(UNSUPPORTED, "'%s' is a tokenizer of the kind '%.40s'; there are BPE, WordPiece and Unigram", name, type);
}

static enum lvn_status read_root(struct lvn_tokenizer *t, const char *name, struct parts *j)
{
    const json_t *root = j->root;
    LVN_CHECK(json_is_object(json_object_get(root, "model")), FORMAT, "'%s' has no 'model': it is not a tokenizer.json",
              name);
    t->unknown = -1;
    LVN_TRY(lvn_normalizer_read(&t->normalizer, &t->arena, name, json_object_get(root, "normalizer")));
    LVN_TRY(lvn_pre_tokenizer_read(&t->pre_tokenizer, &t->arena, name, json_object_get(root, "pre_tokenizer")));
    LVN_TRY(added_tokens(t, name, root));
    LVN_TRY(read_model(t, name, j));
    for (int i = 0; i < t->pre_tokenizer.n; i++)
        LVN_CHECK(t->model == LVN_TOKENIZER_BYTES || !t->pre_tokenizer.step[i].bytes, UNSUPPORTED,
                  "'%s': the pre-tokenizer ByteLevel is supported for BPE alone, and this model is another one", name);
    LVN_TRY(lvn_post_processor_read(t, name, json_object_get(root, "post_processor")));
    LVN_TRY(lvn_added_sets(t));
    return lvn_decoder_read(t, name, json_object_get(root, "decoder"));
}

enum lvn_status lvn_load_json(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes)
{
    struct parts j;
    enum lvn_status status = read_parts(&j, name, text, bytes);
    if (status == LVN_OK) status = read_root(t, name, &j);
    release_parts(&j);
    if (status == LVN_OK) lvn_load_add_file(t, "tokenizer.json", text, bytes);
    return status;
}
