/* vocab.c - see vocab.h: the set of characters, text to ids and back, JSON. */
#include "data/vocab.h"

#include <jansson.h>

#include "base/arena.h"
#include "base/text.h"
#include "base/work.h"
#include "formats/json.h"

struct lvn_vocab *lvn_vocab_new(void)
{
    return lvn_calloc(1, sizeof(struct lvn_vocab));
}

void lvn_vocab_free(struct lvn_vocab *v)
{
    if (!v) return;
    free(v->points);
    free(v);
}

struct lvn_vocab *lvn_vocab_copy(const struct lvn_vocab *v)
{
    struct lvn_vocab *copy = lvn_vocab_new();
    if (!copy) return NULL;
    memcpy(copy->bits, v->bits, sizeof v->bits);
    if (lvn_vocab_seal(copy) == LVN_OK) return copy;
    lvn_vocab_free(copy);
    return NULL;
}

enum lvn_status lvn_vocab_add(struct lvn_vocab *v, const char *name, const void *text, int64_t bytes, int64_t *n_chars)
{
    const uint8_t *begin = text, *p = begin, *end = begin + bytes;
    int64_t n = 0;
    while (p < end) {
        int length;
        int32_t c = lvn_utf8_decode(p, end - p, &length);
        LVN_CHECK(c >= 0, FORMAT,
                  "%s is not UTF-8 text: byte 0x%02x at offset %lld does not belong to a character; " LVN_UTF8_ADVICE,
                  name, *p, (long long)(p - begin));
        LVN_CHECK(c, FORMAT, "%s is a binary file, not text: it contains a NUL byte at offset %lld", name,
                  (long long)(p - begin));
        v->bits[c >> 6] |= (uint64_t)1 << (c & 63);
        p += length;
        if (++n % (1 << 20) == 0) lvn_work_done(1 << 20);
    }
    *n_chars = n;
    return LVN_OK;
}

enum lvn_status lvn_vocab_seal(struct lvn_vocab *v)
{
    int64_t n = 0;
    for (int64_t w = 0; w < LVN_VOCAB_WORDS; w++) {
        v->before[w] = (int32_t)n;
        n += __builtin_popcountll(v->bits[w]);
    }
    uint32_t *points = lvn_malloc((size_t)(n ? n : 1) * sizeof *points);
    if (!points) return LVN_MEMORY;
    n = 0;
    for (int64_t w = 0; w < LVN_VOCAB_WORDS; w++)
        for (uint64_t bits = v->bits[w]; bits; bits &= bits - 1)
            points[n++] = (uint32_t)(w * 64 + __builtin_ctzll(bits));
    free(v->points);
    v->points = points;
    v->n = n;
    return LVN_OK;
}

enum lvn_status lvn_vocab_refuse(const struct lvn_vocab *v, const char *name, uint32_t point, int64_t offset)
{
    char text[5] = "";
    text[lvn_utf8_encode((int32_t)point, text)] = '\0';
    bool shows = point >= 0x20 && point != 0x7f;
    LVN_FAIL(ARG,
             "%s has the character %s%s%sU+%04X%s at byte %lld, which the model's vocabulary of %lld characters lacks",
             name, shows ? "'" : "", shows ? text : "", shows ? "' (" : "", (unsigned)point, shows ? ")" : "",
             (long long)offset, (long long)v->n);
}

enum lvn_status lvn_vocab_encode(const struct lvn_vocab *v, const char *name, const void *text, int64_t bytes,
                                 int32_t *ids, int64_t *n_ids)
{
    const uint8_t *begin = text, *p = begin, *end = begin + bytes;
    int64_t n = 0;
    while (p < end) {
        int length;
        int32_t c = lvn_utf8_decode(p, end - p, &length);
        LVN_CHECK(c >= 0, ARG, "%s is not UTF-8 text: byte 0x%02x at offset %lld does not belong to a character", name,
                  *p, (long long)(p - begin));
        ids[n] = lvn_vocab_id(v, (uint32_t)c);
        if (ids[n] < 0) return lvn_vocab_refuse(v, name, (uint32_t)c, p - begin);
        p += length;
        n++;
    }
    *n_ids = n;
    return LVN_OK;
}

int lvn_vocab_decode(const struct lvn_vocab *v, int64_t id, char out[5])
{
    int n = lvn_utf8_encode(id >= 0 && id < v->n ? (int32_t)v->points[id] : 0xfffd, out);
    out[n] = '\0';
    return n;
}

enum lvn_status lvn_vocab_to_json(const struct lvn_vocab *v, char **json)
{
    char *text = lvn_malloc((size_t)v->n * 4 + 1);
    if (!text) return LVN_MEMORY;
    size_t bytes = 0;
    for (int64_t i = 0; i < v->n; i++) bytes += (size_t)lvn_utf8_encode((int32_t)v->points[i], text + bytes);
    long begun = lvn_json_begin();
    json_t *root =
        json_pack("{s:s, s:I, s:s%}", "kind", "chars", "vocab_size", (json_int_t)v->n, "vocabulary", text, bytes);
    enum lvn_status status = lvn_json_dump(begun, root, JSON_COMPACT, json);
    json_decref(root);
    free(text);
    LVN_TRY_WHILE(status, "writing the vocabulary");
    return LVN_OK;
}

const char lvn_vocab_tokenizer_config[] =
    "{\"tokenizer_class\": \"PreTrainedTokenizerFast\", \"clean_up_tokenization_spaces\": false}\n";

enum lvn_status lvn_vocab_to_tokenizer(const struct lvn_vocab *v, char **json)
{
    long begun = lvn_json_begin();
    json_t *ids = json_object();
    char text[8];
    for (int64_t i = 0; i < v->n; i++) { /* U+0000 cannot be a key: its id has no token there */
        text[lvn_utf8_encode((int32_t)v->points[i], text)] = '\0';
        if (*text) json_object_set_new(ids, text, json_integer((json_int_t)i));
    }
    json_t *root = json_pack("{s:s, s:[], s:n, s:n, s:n, s:{s:s}, s:{s:s, s:n, s:b, s:o, s:[]}}", "version", "1.0",
                             "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder", "type", "Fuse",
                             "model", "type", "BPE", "unk_token", "byte_fallback", 0, "vocab", ids, "merges");
    enum lvn_status status = lvn_json_dump(begun, root, JSON_INDENT(1), json);
    json_decref(root);
    LVN_TRY_WHILE(status, "writing the vocabulary");
    return LVN_OK;
}

enum lvn_status lvn_vocab_from_text(struct lvn_vocab **out, const char *name, const char *text, int64_t bytes)
{
    *out = NULL;
    struct lvn_vocab *v = lvn_vocab_new();
    if (!v) return LVN_MEMORY;
    int64_t n_chars = 0;
    enum lvn_status status = lvn_vocab_add(v, name, text, bytes, &n_chars);
    if (status == LVN_OK) status = lvn_vocab_seal(v);
    if (status == LVN_OK) {
        const uint8_t *p = (const uint8_t *)text, *end = p + bytes;
        int64_t i = 0;
        bool same = n_chars == v->n && n_chars > 0;
        for (int length; same && p < end; i++, p += length)
            same = v->points[i] == (uint32_t)lvn_utf8_decode(p, end - p, &length);
        if (!same)
            status =
                lvn_fail(LVN_FORMAT, "the vocabulary of %s must be distinct characters sorted by code point", name);
    }
    if (status == LVN_OK)
        *out = v;
    else
        lvn_vocab_free(v);
    return status;
}

enum lvn_status lvn_vocab_from_json(struct lvn_vocab **out, const char *name, const char *json, int64_t bytes)
{
    *out = NULL;
    json_error_t error;
    json_t *root;
    LVN_TRY_WHILE(lvn_json_load(json, bytes, JSON_REJECT_DUPLICATES, &root, &error), "reading %s", name);
    LVN_CHECK(root, FORMAT, "%s is not JSON: %s in line %d", name, error.text, error.line);
    json_t *text = json_object_get(root, "vocabulary");
    enum lvn_status status;
    if (json_is_string(text))
        status = lvn_vocab_from_text(out, name, json_string_value(text), (int64_t)json_string_length(text));
    else
        status = lvn_fail(LVN_FORMAT, "%s has no string \"vocabulary\"", name);
    json_decref(root);
    return status;
}
