/* load_wordpiece.c - see load.h: reads vocab.txt, and case, accents and names of tokens from tokenizer_config.json.
 */

#include "base/text.h"
#include "tokenizers/decoder.h"
#include "tokenizers/encoder_private.h"
#include "tokenizers/load.h"
#include "tokenizers/post_processor.h"
#include "tokenizers/wordpiece.h"

enum { LONGEST_WORD = 100 };

/* One token a line. An empty line has an id without a token. */
static enum lvn_status read_lines(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes)
{
    const char *end = text + bytes;
    int64_t lines = 0, wrong = lvn_utf8_check(text, bytes);
    text += lvn_utf8_bom(text, bytes);
    const char *zero = memchr(text, 0, (size_t)(end - text));
    LVN_CHECK(
        wrong < 0 && !zero, FORMAT,
        "'%s' is not a vocabulary of WordPiece: expected one token in each line, and the bytes at %lld are not text",
        name, (long long)(wrong < 0 ? bytes - (end - zero) : wrong));
    for (const char *p = text; p < end; lines++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        p = stop ? stop + 1 : end;
    }
    LVN_CHECK(lines > 0 && lines <= LVN_TOKENS_MAX, FORMAT, "'%s' has %lld tokens; expected 1 to %d, one a line", name,
              (long long)lines, LVN_TOKENS_MAX);
    struct lvn_raw_token *list = lvn_calloc((size_t)lines, sizeof *list);
    if (!list) return LVN_MEMORY;
    for (int64_t id = 0; id < lines; id++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        int64_t n = (stop ? stop : end) - text;
        if (n && text[n - 1] == '\r') n--;
        if (n) list[id] = (struct lvn_raw_token){.text = text, .bytes = n};
        text = stop ? stop + 1 : end;
    }
    enum lvn_status status = lvn_load_list(t, name, list, lines);
    free(list);
    return status;
}

static enum lvn_status check_once(const struct lvn_tokenizer *t, const char *name)
{
    for (int64_t id = 0; id < t->n; id++) {
        const char *p = (const char *)t->byte + t->start[id];
        int64_t n = t->start[id + 1] - t->start[id];
        int32_t other = n ? lvn_token_index_find(t, (const uint8_t *)p, n) : (int32_t)id;
        LVN_CHECK(other == id, FORMAT,
                  "'%s': the token '%.*s' is in line %lld and again in line %lld; expected each once", name,
                  (int)(n < 60 ? n : 60), p, (long long)(other < id ? other : id) + 1,
                  (long long)(other < id ? id : other) + 1);
    }
    return LVN_OK;
}

enum { UNK, CLS, SEP, N_NAMES };

/* The text of a token: a string, or an object with `content`. */
static enum lvn_status read_name(struct lvn_tokenizer *t, const json_t *value, const char **out)
{
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
    if (text && *text && !(*out = lvn_arena_strdup(&t->arena, text))) return LVN_MEMORY;
    return LVN_OK;
}

/* BERT's defaults (lower case, accents stripped, Chinese characters split, names of tokens), unless the file differs.
 */
static enum lvn_status read_config(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes,
                                   const char *names[N_NAMES])
{
    static const char *const keys[] = {"unk_token", "cls_token", "sep_token"};
    bool lower = true, chinese = true, accents;
    enum lvn_status status = LVN_OK;
    json_t *root = NULL;
    if (text) LVN_TRY(lvn_json_parse(name, text, bytes, &root));
    if (root && !json_is_object(root)) status = lvn_fail(LVN_FORMAT, "'%s' must be an object", name);
    if (root && status == LVN_OK) status = lvn_json_bool(name, root, "do_lower_case", false, &lower);
    accents = lower;
    if (root && status == LVN_OK) status = lvn_json_bool(name, root, "strip_accents", false, &accents);
    if (root && status == LVN_OK) status = lvn_json_bool(name, root, "tokenize_chinese_chars", false, &chinese);
    for (int i = 0; i < N_NAMES && root && status == LVN_OK; i++)
        status = read_name(t, json_object_get(root, keys[i]), &names[i]);
    json_decref(root);
    t->normalizer = (struct lvn_normalizer){.step = {lvn_normalizer_bert(lower, accents, chinese)}, .n = 1};
    t->pre_tokenizer = (struct lvn_pre_tokenizer){.step = {lvn_pre_tokenizer_bert()}, .n = 1};
    return status;
}

enum lvn_status lvn_load_wordpiece(struct lvn_tokenizer *t, const char *name, const char *text, int64_t bytes,
                                   const char *config_name, const char *config, int64_t config_bytes)
{
    const char *names[N_NAMES] = {"[UNK]", "[CLS]", "[SEP]"};
    int32_t id[N_NAMES];
    t->model = LVN_TOKENIZER_WORDPIECE;
    LVN_TRY(read_config(t, config_name, config, config_bytes, names));
    LVN_TRY(read_lines(t, name, text, bytes));
    LVN_TRY(lvn_load_index(t));
    LVN_TRY(check_once(t, name));
    LVN_TRY(lvn_wordpiece_new(t, name, "##", LONGEST_WORD, names[UNK]));
    for (int i = CLS; i < N_NAMES; i++) {
        id[i] = lvn_token_index_find(t, (const uint8_t *)names[i], (int64_t)strlen(names[i]));
        LVN_CHECK(id[i] >= 0, FORMAT,
                  "'%s' has no token %s: it is not a vocabulary of WordPiece (as BERT's is), or it is cut", name,
                  names[i]);
    }
    lvn_post_processor_bert(t, id[CLS], id[SEP], false, true);
    LVN_TRY(lvn_decoder_wordpiece(t));
    lvn_load_add_file(t, "vocab.txt", text, bytes);
    if (config) lvn_load_add_file(t, "tokenizer_config.json", config, config_bytes);
    return lvn_added_sets(t);
}
