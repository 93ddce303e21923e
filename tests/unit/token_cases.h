/* token_cases.h - compares a tokenizer with cases of a reference implementation: {"cases": [[text, ids, decoded text
 * (or none)], ...], "frames": [[text, text or null, ids, types], ...]}. */
#ifndef LVN_TOKEN_CASES_H
#define LVN_TOKEN_CASES_H

#include <stdio.h>
#include <string.h>

#include "formats/json.h"
#include "tokenizers/decoder.h"
#include "tokenizers/post_processor.h"
#include "unit/io_test.h"

static inline struct lvn_tokenizer *open_tokenizer(const char *path)
{
    struct lvn_tokenizer *t;
    if (lvn_tokenizer_open(&t, path) != LVN_OK) fail_msg("%s\n%s", levin_error_text(), levin_error_trace());
    return t;
}

static inline void encode(struct lvn_encoder *e, const char *text, int64_t n, enum lvn_encoding mode,
                          struct lvn_ids *ids)
{
    ids->n = 0;
    if (lvn_encode(e, text, n, mode, ids) != LVN_OK) fail_msg("%s", levin_error_text());
}

static inline void check_round(const struct lvn_tokenizer *t, const char *text, int64_t n, const struct lvn_ids *ids)
{
    struct lvn_text back = {0};
    assert_int_equal(lvn_decode(t, ids->p, ids->n, &back), LVN_OK);
    assert_int_equal(back.n, n);
    if (n) assert_memory_equal(back.p, text, (size_t)n);
    lvn_text_release(&back);
}

static inline void fail_ids(const char *what, const json_t *row, const json_t *want, const struct lvn_ids *ids)
{
    char *wanted = json_dumps(want, 0), *readable = json_dumps(row, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    fprintf(stderr, "%s, %s\nexpected %s\nfound ", what, readable, wanted);
    for (int64_t i = 0; i < ids->n; i++) fprintf(stderr, " %d", ids->p[i]);
    fail_msg("other ids");
}

static inline bool same_ids(const json_t *want, const struct lvn_ids *ids)
{
    bool same = ids->n == (int64_t)json_array_size(want);
    for (int64_t i = 0; same && i < ids->n; i++)
        same = ids->p[i] == json_integer_value(json_array_get(want, (size_t)i));
    return same;
}

/* Replace each invalid part of a UTF-8 sequence by one U+FFFD, as the texts of the reference have it. */
static inline void add_readable(struct lvn_text *out, const char *text, int64_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    for (int64_t i = 0, used; i < n; i += used) {
        int bytes;
        int32_t code = lvn_utf8_decode(p + i, n - i, &bytes);
        used = bytes;
        if (code >= 0) {
            lvn_text_add_bytes(out, p + i, bytes);
            continue;
        }
        /* The longest prefix of a valid sequence. */
        int want = p[i] >= 0xf0 ? 4 : p[i] >= 0xe0 ? 3 : 2;
        unsigned char low = p[i] == 0xe0 ? 0xa0 : p[i] == 0xf0 ? 0x90 : 0x80;
        unsigned char high = p[i] == 0xed ? 0x9f : p[i] == 0xf4 ? 0x8f : 0xbf;
        bool begins = p[i] >= 0xc2 && p[i] <= 0xf4;
        while (begins && used < want && i + used < n && p[i + used] >= low && p[i + used] <= high) {
            used++;
            low = 0x80;
            high = 0xbf;
        }
        lvn_text_add(out, "\xef\xbf\xbd");
    }
}

/* Compare the decoded text with that of the file. */
static inline void check_text(const struct lvn_tokenizer *t, const json_t *row, const struct lvn_ids *ids)
{
    const json_t *want = json_array_get(row, 2);
    struct lvn_text back = {0}, text = {0};
    if (!want) return;
    assert_int_equal(lvn_decode(t, ids->p, ids->n, &back), LVN_OK);
    add_readable(&text, back.p, back.n);
    if (text.n != (int64_t)json_string_length(want) ||
        (text.n && memcmp(text.p, json_string_value(want), (size_t)text.n) != 0))
        fail_msg("'%s' came back as '%s'", json_string_value(want), lvn_text_string(&text));
    lvn_text_release(&back);
    lvn_text_release(&text);
}

/* Texts and pairs with the post-processor's tokens, and the token types. */
static inline void check_frames(const struct lvn_tokenizer *t, struct lvn_encoder *e, const json_t *frames)
{
    struct lvn_ids text[2] = {{0}, {0}}, ids = {0}, types = {0};
    json_t *row;
    size_t k;
    json_array_foreach(frames, k, row)
    {
        bool pair = json_is_string(json_array_get(row, 1));
        for (int i = 0; i < (pair ? 2 : 1); i++)
            encode(e, json_string_value(json_array_get(row, (size_t)i)),
                   (int64_t)json_string_length(json_array_get(row, (size_t)i)), LVN_ENCODE_SPECIAL, &text[i]);
        ids.n = types.n = 0;
        assert_int_equal(lvn_post_processor_run(t, &text[0], pair ? &text[1] : NULL, &ids, &types), LVN_OK);
        assert_int_equal(ids.n, text[0].n + (pair ? text[1].n : 0) + lvn_post_processor_added_tokens(t, pair));
        if (!same_ids(json_array_get(row, 2), &ids)) fail_ids("a frame", row, json_array_get(row, 2), &ids);
        if (!same_ids(json_array_get(row, 3), &types))
            fail_ids("types of a frame", row, json_array_get(row, 3), &types);
    }
    for (int i = 0; i < 2; i++) lvn_ids_release(&text[i]);
    lvn_ids_release(&ids);
    lvn_ids_release(&types);
}

/* Every case of a file, twice: the second time from the encoder's cache. Returns the number of cases. */
static inline int check_cases(const char *tokenizer, const char *cases)
{
    struct lvn_tokenizer *t = open_tokenizer(tokenizer);
    struct lvn_encoder *e = lvn_encoder_new(t);
    struct lvn_ids ids = {0};
    json_error_t error;
    json_t *root = json_load_file(cases, JSON_ALLOW_NUL, &error), *row;
    if (!root) fail_msg("%s: %s", cases, error.text);
    const json_t *list = json_object_get(root, "cases");
    /* The ids of files without tokenizer.json are those of the vocabulary alone. */
    const bool whole = !strcmp(t->file[0].name, "tokenizer.json");
    const enum lvn_encoding mode = whole ? LVN_ENCODE_SPECIAL : LVN_ENCODE_ORDINARY;
    size_t k;
    for (int again = 0; again < 2; again++) json_array_foreach(list, k, row)
        {
            const json_t *text = json_array_get(row, 0), *want = json_array_get(row, 1);
            const char *p = json_string_value(text);
            int64_t n = (int64_t)json_string_length(text);
            encode(e, p, n, mode, &ids);
            if (!same_ids(want, &ids)) fail_ids(cases, text, want, &ids);
            check_text(t, row, &ids);
            bool rstrip = false;
            for (int i = 0; i < t->n_added; i++) rstrip = rstrip || t->added[i].rstrip;
            if (t->model == LVN_TOKENIZER_BYTES && !t->missing_bytes && !t->normalizer.n && !rstrip)
                check_round(t, p, n, &ids);
        }
    int count = (int)json_array_size(list);
    check_frames(t, e, json_object_get(root, "frames"));
    json_decref(root);
    lvn_ids_release(&ids);
    lvn_encoder_free(e);
    lvn_tokenizer_close(t);
    return count;
}

#endif
