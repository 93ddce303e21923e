/* codec.c - see codec.h: loading, comparing, encoding, decoding. */
#include "data/codec.h"

#include "base/files.h"
#include "base/log.h"
#include "tokenizers/decoder.h"
#include "tokenizers/post_processor.h"

#define REPLACEMENT "\xef\xbf\xbd"

void lvn_codec_release(struct lvn_codec *c)
{
    lvn_vocab_free(c->vocabulary);
    lvn_tokenizer_close(c->tokenizer);
    free(c->tokenizer_error);
    *c = (struct lvn_codec){0};
}

static enum lvn_status read_vocabulary(struct lvn_vocab **out, const char *path)
{
    char *text;
    int64_t bytes;
    LVN_TRY(lvn_file_read(path, 64 << 20, &text, &bytes));
    enum lvn_status status = lvn_vocab_from_json(out, path, text, bytes);
    free(text);
    return status;
}

enum lvn_status lvn_tokenizer_open_optional(struct lvn_tokenizer **t, char **error, const char *dir)
{
    *error = NULL;
    enum lvn_status status = lvn_tokenizer_open(t, dir);
    if (status == LVN_OK || status == LVN_MEMORY) return status;
    *error = lvn_strdup(levin_error_text());
    if (!*error) return LVN_MEMORY;
    lvn_error_clear();
    return LVN_OK;
}

enum lvn_status lvn_tokenizer_require(const char *error, const char *user)
{
    LVN_CHECK(!error, FORMAT, "%s needs the tokenizer, which cannot be read: %s", user, error);
    return LVN_OK;
}

void lvn_tokenizer_warn(const char *error)
{
    if (error) lvn_log(LVN_LOG_WARN, "the tokenizer cannot be read and is left out, so there are only ids: %s", error);
}

enum lvn_status lvn_codec_load(struct lvn_codec *out, const char *model_dir)
{
    LVN_LOCAL_ARENA(a);
    *out = (struct lvn_codec){0};
    const char *path = lvn_path_join(&a, model_dir, "state/vocabulary.json");
    enum lvn_status status = path ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK && lvn_path_is_file(path)) {
        status = read_vocabulary(&out->vocabulary, path);
    } else if (status == LVN_OK && lvn_tokenizer_exists(model_dir)) {
        status = lvn_tokenizer_open_optional(&out->tokenizer, &out->tokenizer_error, model_dir);
    }
    return status;
}

/* Are the tokenizer's tokens exactly these characters? Model directories have such a tokenizer for other programs. */
static bool is_of_characters(const struct lvn_tokenizer *t, const struct lvn_vocab *v)
{
    if (t->model != LVN_TOKENIZER_CHARACTERS || t->n != v->n) return false;
    for (int32_t id = 0; id < t->n; id++) {
        char text[5];
        const int n = (int)lvn_vocab_decode(v, id, text);
        if ((int64_t)t->start[id + 1] - t->start[id] != n || memcmp(t->byte + t->start[id], text, (size_t)n))
            return false;
    }
    return true;
}

bool lvn_codec_agree(const struct lvn_codec *a, const struct lvn_codec *b)
{
    if (!lvn_codec_is_text(a) || !lvn_codec_is_text(b)) return true;
    if (a->tokenizer && b->tokenizer) return a->tokenizer->sum == b->tokenizer->sum;
    if (a->tokenizer) return is_of_characters(a->tokenizer, b->vocabulary);
    if (b->tokenizer) return is_of_characters(b->tokenizer, a->vocabulary);
    return a->vocabulary->n == b->vocabulary->n &&
           !memcmp(a->vocabulary->points, b->vocabulary->points, (size_t)a->vocabulary->n * sizeof(uint32_t));
}

static void count_bytes(const struct lvn_codec *c, struct lvn_token_bytes *out)
{
    const struct lvn_tokenizer *t = c->tokenizer;
    char text[5];
    for (int64_t id = 0; id < out->n; id++) {
        int64_t n = 0;
        if (t && !lvn_token_bytes(t, id, &n)) n = 0;
        out->bytes[id] = (uint32_t)(t ? n : lvn_vocab_decode(c->vocabulary, id, text));
    }
    for (int i = 0; t && i < t->n_added; i++)
        if (t->added[i].special) out->bytes[t->added[i].id] = 0;
    if (t && t->unknown >= 0) out->bytes[t->unknown] = 0;
    if (t && t->end_id >= 0) out->bytes[t->end_id] = 0;
}

enum lvn_status lvn_codec_token_bytes(const struct lvn_codec *c, struct lvn_token_bytes **out)
{
    *out = NULL;
    if (!lvn_codec_is_text(c)) return LVN_OK;
    const int64_t n = lvn_codec_size(c);
    *out = lvn_malloc(sizeof **out + (size_t)n * sizeof *(*out)->bytes);
    if (!*out) return LVN_MEMORY;
    (*out)->n = n;
    count_bytes(c, *out);
    return LVN_OK;
}

/* With the tokens of the post-processor, as Hugging Face's tokenizers add them: also if the text begins with them. */
static enum lvn_status encode_tokens(const struct lvn_tokenizer *t, const char *user, const char *text, int64_t bytes,
                                     int32_t **ids, int64_t *n)
{
    struct lvn_ids made = {0}, plain = {0};
    struct lvn_encoder *e = lvn_encoder_new(t);
    if (!e) return LVN_MEMORY;
    enum lvn_status status = lvn_ids_reserve(&made, 1);
    if (status == LVN_OK) status = lvn_encode(e, text, bytes, LVN_ENCODE_SPECIAL, &plain);
    if (status == LVN_OK) status = lvn_post_processor_run(t, &plain, NULL, &made, NULL);
    const int32_t plain_first = plain.n ? *plain.p : 0;
    const struct lvn_encoder_notes notes = lvn_encoder_take_notes(e);
    lvn_encoder_notes_report(t, user, notes.unknown, notes.ids, true);
    lvn_ids_release(&plain);
    lvn_encoder_free(e);
    if (status == LVN_OK && lvn_post_processor_is_doubled(t, made.p, made.n)) {
        const uint32_t *at = t->start + plain_first;
        lvn_log_once(
            LVN_LOG_WARN,
            "%s begins with %.*s, which the tokenizer also adds, so the model reads it twice; remove it from the "
            "text",
            user, (int)(at[1] - at[0]), (const char *)t->byte + at[0]);
    }
    if (status != LVN_OK) lvn_ids_release(&made);
    *ids = made.p;
    *n = made.n;
    return status;
}

enum lvn_status lvn_codec_encode(const struct lvn_codec *c, const char *user, const char *text, int64_t bytes,
                                 int32_t **ids, int64_t *n)
{
    *ids = NULL;
    LVN_TRY(lvn_tokenizer_require(c->tokenizer_error, user));
    LVN_CHECK(lvn_codec_is_text(c), ARG,
              "this model has neither a vocabulary nor a tokenizer in its folder, so %s cannot be text: give ids, as "
              "--prompt-ids=5,6,7",
              user);
    if (c->tokenizer) return encode_tokens(c->tokenizer, user, text, bytes, ids, n);
    *ids = lvn_malloc(sizeof **ids * (size_t)(bytes + 1));
    if (!*ids) return LVN_MEMORY;
    enum lvn_status status = lvn_vocab_encode(c->vocabulary, user, text, bytes, *ids, n);
    if (status == LVN_OK) return LVN_OK;
    free(*ids);
    *ids = NULL;
    return status;
}

/* Could these bytes be the beginning of a longer UTF-8 sequence? */
static bool is_incomplete(const char *p, int n)
{
    unsigned char lead = (unsigned char)p[0];
    int length = lead >= 0xf0 && lead < 0xf5   ? 4
                 : lead >= 0xe0 && lead < 0xf0 ? 3
                 : lead >= 0xc2 && lead < 0xe0 ? 2
                                               : 1;
    for (int i = 1; i < n; i++)
        if (((unsigned char)p[i] & 0xc0) != 0x80) return false;
    if (n > 1) { /* no overlong forms, no surrogates, nothing beyond the last code point */
        unsigned char next = (unsigned char)p[1];
        if ((lead == 0xe0 && next < 0xa0) || (lead == 0xed && next > 0x9f) || (lead == 0xf0 && next < 0x90) ||
            (lead == 0xf4 && next > 0x8f))
            return false;
    }
    return n < length;
}

static void add_byte(struct lvn_codec_stream *s, char byte, struct lvn_text *out)
{
    int used;
    s->pending[s->n++] = byte;
    while (s->n) {
        if (lvn_utf8_decode(s->pending, s->n, &used) >= 0)
            lvn_text_add_bytes(out, s->pending, used);
        else if (is_incomplete(s->pending, s->n))
            return;
        else
            lvn_text_add(out, REPLACEMENT);
        s->n -= used;
        memmove(s->pending, s->pending + used, (size_t)s->n);
    }
}

void lvn_codec_decode(const struct lvn_codec *c, struct lvn_codec_stream *s, int32_t id, struct lvn_text *out)
{
    if (c->tokenizer) {
        int64_t n;
        if (!s->started && lvn_post_processor_is_prefix(c->tokenizer, id)) return;
        const char *p =
            s->started ? lvn_token_bytes(c->tokenizer, id, &n) : lvn_token_bytes_first(c->tokenizer, id, &n);
        if (!p) lvn_codec_decode_end(s, out);
        if (!p) lvn_text_add(out, REPLACEMENT);
        for (int64_t i = 0; p && i < n; i++) add_byte(s, p[i], out);
    } else if (c->vocabulary) {
        char text[5];
        lvn_text_add_bytes(out, text, lvn_vocab_decode(c->vocabulary, id, text));
    } else {
        lvn_text_printf(out, s->started ? " %d" : "%d", id);
    }
    s->started = true;
}

void lvn_codec_decode_end(struct lvn_codec_stream *s, struct lvn_text *out)
{
    if (s->n) lvn_text_add(out, REPLACEMENT);
    s->n = 0;
}
