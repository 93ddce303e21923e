/* tokenizer_json.c - see tokenizer_json.h. The rest is the text without the long values, but with their line ends, so
 * that messages name the right line. */
#include "tokenizers/tokenizer_json.h"

#include <string.h>

static bool is_key(const char *key, int64_t bytes, const char *wanted)
{
    return bytes == (int64_t)strlen(wanted) && !memcmp(key, wanted, (size_t)bytes);
}

/* Appends the text from *done to the scan, and an empty value instead of the next one, which the scan skips. */
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

static enum lvn_status scan_model(struct lvn_tokenizer_json *j, struct lvn_json_scan *s, struct lvn_text *rest,
                                  const char **done)
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

static enum lvn_status scan_root(struct lvn_tokenizer_json *j, struct lvn_json_scan *s, struct lvn_text *rest)
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

enum lvn_status lvn_tokenizer_json_read(struct lvn_tokenizer_json *j, const char *name, const char *text, int64_t bytes)
{
    LVN_LOCAL_ARENA(keys);
    LVN_LOCAL_TEXT(rest);
    *j = (struct lvn_tokenizer_json){0};
    struct lvn_json_scan s = lvn_json_scan_begin(name, text, bytes, &keys);
    LVN_TRY(scan_root(j, &s, &rest));
    return lvn_json_parse(name, lvn_text_string(&rest), rest.n, &j->root);
}

void lvn_tokenizer_json_release(struct lvn_tokenizer_json *j)
{
    json_decref(j->root);
    *j = (struct lvn_tokenizer_json){0};
}
