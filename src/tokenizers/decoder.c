/* decoder.c - ids to text. What a token becomes in text is worked out once, when the files are read: the decoders of a
 * tokenizer.json change each token for itself, but for what they do to the first of a text.
 *
 * ByteLevel, ByteFallback, Fuse, Strip, Metaspace, Replace (of a text), WordPiece, and Sequence of these. Bytes that
 * fallback wrote come back as they were, whether they are UTF-8 or not. */
#include <stdlib.h>
#include <string.h>

#include "tokenizers/load.h"

enum { SLACK = 16, MAX = 16 };

struct decoder {
    enum { REPLACE, BYTES, STRIP, WORDPIECE } kind;
    const char *from, *to; /* REPLACE; from: STRIP's character, WORDPIECE's prefix, NULL: none */
    int64_t start, stop;   /* STRIP */
    bool clean;            /* WORDPIECE */
};

struct decoders {
    struct decoder step[MAX];
    int n;
    bool fused; /* what follows sees one text, no tokens */
};

static enum lvn_status add(struct decoders *d, const char *name, struct decoder step)
{
    LVN_CHECK(d->n < MAX, UNSUPPORTED, "'%s' has more than %d decoders", name, MAX);
    d->step[d->n++] = step;
    return LVN_OK;
}

static enum lvn_status read_strip(struct lvn_tokenizer *t, struct decoders *d, const char *name, const json_t *object)
{
    struct decoder s = {.kind = STRIP, .from = " "};
    LVN_TRY(lvn_json_string(name, object, "content", false, &s.from));
    LVN_TRY(lvn_json_int(name, object, "start", false, 0, INT32_MAX, &s.start));
    LVN_TRY(lvn_json_int(name, object, "stop", false, 0, INT32_MAX, &s.stop));
    if (!d->fused) return add(d, name, s);
    LVN_CHECK(
        !s.stop && t->first_stripped + s.start <= 1 && (!s.start || !strcmp(s.from, " ")), UNSUPPORTED,
        "'%s': the decoder Strip takes something else off a whole text than one space of its beginning, which is not "
        "there",
        name);
    t->first_stripped += s.start;
    return LVN_OK;
}

static enum lvn_status read_metaspace(struct lvn_tokenizer *t, struct decoders *d, const char *name,
                                      const json_t *object)
{
    struct decoder s = {.kind = REPLACE, .from = "\xe2\x96\x81", .to = " "};
    const char *scheme = NULL;
    bool front = true;
    LVN_TRY(lvn_json_string(name, object, "replacement", false, &s.from));
    LVN_TRY(lvn_json_string(name, object, "prepend_scheme", false, &scheme));
    LVN_TRY(lvn_json_bool(name, object, "add_prefix_space", false, &front));
    const bool stripped = scheme ? strcmp(scheme, "never") != 0 : front;
    if (stripped && !(t->mark = lvn_arena_strdup(&t->arena, s.from))) return LVN_MEMORY;
    return add(d, name, s);
}

static enum lvn_status read_replace(struct decoders *d, const char *name, const json_t *object)
{
    struct decoder s = {.kind = REPLACE, .to = ""};
    const json_t *pattern = json_object_get(object, "pattern");
    LVN_CHECK(json_is_object(pattern) && !json_object_get(pattern, "Regex"), UNSUPPORTED,
              "'%s': the decoder Replace wants a text to look for, {\"String\": ..}; expressions are not there", name);
    LVN_TRY(lvn_json_string(name, pattern, "String", true, &s.from));
    LVN_TRY(lvn_json_string(name, object, "content", true, &s.to));
    return add(d, name, s);
}

static enum lvn_status read_words(struct lvn_tokenizer *t, struct decoders *d, const char *name, const json_t *object)
{
    struct decoder s = {.kind = WORDPIECE, .from = "##", .clean = true};
    LVN_TRY(lvn_json_string(name, object, "prefix", false, &s.from));
    LVN_TRY(lvn_json_bool(name, object, "cleanup", false, &s.clean));
    t->first_as_written = true;
    return add(d, name, s);
}

static enum lvn_status read_one(struct lvn_tokenizer *t, struct decoders *d, const char *name, const json_t *object)
{
    const char *type = lvn_json_type(object);
    size_t i;
    json_t *part;
    if (!strcmp(type, "Sequence")) {
        const json_t *list = NULL;
        LVN_TRY(lvn_json_list(name, object, "decoders", true, &list));
        json_array_foreach(list, i, part) LVN_TRY(read_one(t, d, name, part));
        return LVN_OK;
    }
    if (!strcmp(type, "Fuse")) {
        d->fused = true;
        return LVN_OK;
    }
    if (!strcmp(type, "ByteFallback")) return add(d, name, (struct decoder){.kind = BYTES});
    if (!strcmp(type, "Strip")) return read_strip(t, d, name, object);
    if (!strcmp(type, "Metaspace")) return read_metaspace(t, d, name, object);
    if (!strcmp(type, "Replace")) return read_replace(d, name, object);
    if (!strcmp(type, "WordPiece")) return read_words(t, d, name, object);
    LVN_FAIL(UNSUPPORTED,
             "'%s': the decoder '%.40s' is not there for this model; there are ByteLevel for byte-level BPE, and "
             "ByteFallback, Fuse, Strip, Metaspace, Replace, WordPiece and Sequence",
             name, type);
}

/* --- one token --- */

static void replace(struct lvn_text *text, struct lvn_text *other, const char *from, const char *to)
{
    const char *p = text->p ? text->p : "", *end = p + text->n, *there;
    size_t n = strlen(from);
    if (!n || !memmem(p, (size_t)(end - p), from, n)) return;
    lvn_text_clear(other);
    for (; (there = memmem(p, (size_t)(end - p), from, n)); p = there + n) {
        lvn_text_add_bytes(other, p, there - p);
        lvn_text_add(other, to);
    }
    lvn_text_add_bytes(other, p, end - p);
    struct lvn_text swap = *text;
    *text = *other;
    *other = swap;
}

static int digit(char c)
{
    static const char all[] = "0123456789ABCDEF";
    const char *at = c ? memchr(all, c >= 'a' ? c & ~32 : c, 16) : NULL;
    return at ? (int)(at - all) : -1;
}

/* <0x0A> */
static void byte_of(struct lvn_text *t)
{
    if (t->n != 6 || memcmp(t->p, "<0x", 3) != 0 || t->p[5] != '>') return;
    int high = digit(t->p[3]), low = digit(t->p[4]);
    if (high < 0 || low < 0) return;
    char byte = (char)(high * 16 + low);
    lvn_text_clear(t);
    lvn_text_add_bytes(t, &byte, 1);
}

static void strip(struct lvn_text *t, struct lvn_text *other, const struct decoder *s)
{
    int64_t n = (int64_t)strlen(s->from), from = 0, to = t->n;
    for (int64_t i = 0; n && i < s->start && to - from >= n && !memcmp(t->p + from, s->from, (size_t)n); i++) from += n;
    for (int64_t i = 0; n && i < s->stop && to - from >= n && !memcmp(t->p + to - n, s->from, (size_t)n); i++) to -= n;
    if (from == 0 && to == t->n) return;
    lvn_text_clear(other);
    lvn_text_add_bytes(other, t->p + from, to - from);
    struct lvn_text swap = *t;
    *t = *other;
    *other = swap;
}

static void word(struct lvn_text *t, struct lvn_text *other, const struct decoder *s)
{
    static const char *const cleaned[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                             {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                             {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    size_t n = s->from ? strlen(s->from) : 0;
    bool inner = s->from && t->n >= (int64_t)n && !memcmp(t->p, s->from, n);
    lvn_text_clear(other);
    if (!inner) lvn_text_add(other, " ");
    lvn_text_add_bytes(other, t->p + (inner ? n : 0), t->n - (int64_t)(inner ? n : 0));
    struct lvn_text swap = *t;
    *t = *other;
    *other = swap;
    for (size_t i = 0; s->clean && i < sizeof cleaned / sizeof cleaned[0]; i++)
        replace(t, other, cleaned[i][0], cleaned[i][1]);
}

static void run(const struct decoders *d, struct lvn_text *text, struct lvn_text *other)
{
    for (int i = 0; i < d->n; i++) {
        const struct decoder *s = &d->step[i];
        if (s->kind == REPLACE) replace(text, other, s->from, s->to);
        if (s->kind == BYTES) byte_of(text);
        if (s->kind == STRIP) strip(text, other, s);
        if (s->kind == WORDPIECE) word(text, other, s);
    }
}

/* All tokens, one behind the other. Added tokens that are sought in normalized text are what they are there. */
static enum lvn_status make(struct lvn_tokenizer *t, const struct decoders *d)
{
    struct lvn_text all = {0}, text = {0}, other = {0};
    t->shown_start = lvn_arena_alloc(&t->arena, sizeof *t->shown_start * (size_t)(t->n + 1));
    const struct lvn_added_token **added = lvn_calloc((size_t)t->n, sizeof *added);
    if (!t->shown_start || !added) {
        free(added);
        return LVN_MEMORY;
    }
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].normalized) added[t->added[i].id] = &t->added[i];
    for (int64_t id = 0; id < t->n; id++) {
        int64_t bytes = t->start[id + 1] - t->start[id];
        t->shown_start[id] = (uint32_t)all.n;
        if (!bytes) continue;
        lvn_text_clear(&text);
        if (added[id])
            lvn_text_add_bytes(&text, added[id]->sought, added[id]->n_sought);
        else
            lvn_text_add_bytes(&text, t->byte + t->start[id], bytes);
        run(d, &text, &other);
        if (text.n) lvn_text_add_bytes(&all, text.p, text.n);
    }
    free(added);
    t->shown_start[t->n] = (uint32_t)all.n;
    enum lvn_status status = lvn_text_status(&all);
    if (status == LVN_OK) status = lvn_text_status(&text);
    if (status == LVN_OK) status = lvn_text_status(&other);
    if (status == LVN_OK && !(t->shown = lvn_arena_alloc(&t->arena, (size_t)all.n + SLACK))) status = LVN_MEMORY;
    if (status == LVN_OK && all.n) memcpy(t->shown, all.p, (size_t)all.n);
    lvn_text_release(&all);
    lvn_text_release(&text);
    lvn_text_release(&other);
    return status;
}

enum lvn_status lvn_decoder_read(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    struct decoders d = {.n = 0};
    bool none = !object || json_is_null(object);
    if (t->model == LVN_MODEL_BYTES) return LVN_OK; /* its tokens are their bytes */
    if (none) {                                     /* tokens with spaces between them */
        t->first_as_written = true;
        LVN_TRY(add(&d, name, (struct decoder){.kind = WORDPIECE}));
    } else {
        LVN_TRY(read_one(t, &d, name, object));
    }
    return make(t, &d);
}

enum lvn_status lvn_decoder_wordpiece(struct lvn_tokenizer *t)
{
    struct decoders d = {.step = {{.kind = WORDPIECE, .from = "##"}}, .n = 1};
    t->first_as_written = true;
    return make(t, &d);
}

/* --- using it --- */

const void *lvn_token_bytes(const struct lvn_tokenizer *t, int64_t id, int64_t *bytes)
{
    if (id < 0 || id >= t->n || t->start[id] == t->start[id + 1]) return NULL;
    *bytes = t->shown_start[id + 1] - t->shown_start[id];
    return t->shown + t->shown_start[id];
}

/* A token as the decoders get it. */
static int64_t text_of(const struct lvn_tokenizer *t, int64_t id, const unsigned char **text)
{
    for (int i = 0; i < t->n_added; i++) {
        if (t->added[i].id != id || !t->added[i].normalized) continue;
        *text = (const unsigned char *)t->added[i].sought;
        return t->added[i].n_sought;
    }
    *text = t->byte + t->start[id];
    return t->start[id + 1] - t->start[id];
}

const void *lvn_token_bytes_first(const struct lvn_tokenizer *t, int64_t id, int64_t *bytes)
{
    const unsigned char *p = lvn_token_bytes(t, id, bytes), *written;
    if (!p) return NULL;
    int64_t n = text_of(t, id, &written), max = t->first_stripped;
    if (t->first_as_written) {
        *bytes = n;
        return written;
    }
    if (t->mark) { /* spaces that were marks, no others */
        const int64_t mark = (int64_t)strlen(t->mark);
        for (max = 0; mark && n >= mark && !memcmp(written, t->mark, (size_t)mark); written += mark, n -= mark) max++;
    }
    for (int64_t i = 0; i < max && *bytes && *p == ' '; i++) p++, --*bytes;
    return p;
}

enum lvn_status lvn_decode(const struct lvn_tokenizer *t, const int32_t *ids, int64_t n, struct lvn_text *out)
{
    enum { STEP = 16 };
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes;
        const void *p = i ? lvn_token_bytes(t, ids[i], &bytes) : lvn_token_bytes_first(t, ids[i], &bytes);
        LVN_CHECK(p, ARG, "%d is no token id of '%s': it has %lld", ids[i], t->path, (long long)t->n);
        if (bytes <= STEP && out->capacity - out->n > STEP) { /* most tokens: a copy of fixed length */
            memcpy(out->p + out->n, p, STEP);
            out->n += bytes;
        } else {
            lvn_text_add_bytes(out, p, bytes);
        }
    }
    if (out->p) out->p[out->n] = '\0';
    return lvn_text_status(out);
}
