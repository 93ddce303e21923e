/* decoder.c - see decoder.h: decoding, and the decoders of a tokenizer.json. The text of each token is computed once,
 * when the files are read: decoders change each token independently, except for the first one of a text.
 *
 * ByteLevel, ByteFallback, Fuse, Strip, Metaspace, Replace (of a literal text), WordPiece, and Sequence of these. Byte
 * tokens become their bytes, even if these are not UTF-8. Left out, and refused by name: all others. */
#include "tokenizers/decoder.h"

#include "tokenizers/load.h"

enum { SLACK = 16, MAX = 16 };

struct decoder {
    enum { REPLACE, BYTES, STRIP, WORDPIECE } kind;
    const char *from; /* REPLACE: the text; STRIP: the character; WORDPIECE: the prefix, NULL: none */
    const char *to;   /* REPLACE */
    int64_t start;    /* STRIP: maximum number of characters removed at the beginning */
    int64_t stop;     /* STRIP: maximum number of characters removed at the end */
    bool clean;       /* WORDPIECE: cleanup */
};

struct lvn_decoders {
    struct decoder step[MAX];
    int n;
    bool fused; /* later decoders see one text instead of tokens */
};

static enum lvn_status add(struct lvn_tokenizer *t, const char *name, struct decoder step)
{
    struct lvn_decoders *d = t->decoder;
    LVN_CHECK(d->n < MAX, UNSUPPORTED, "'%s' has more than %d decoders", name, MAX);
    if (step.from && !(step.from = lvn_arena_strdup(&t->arena, step.from))) return LVN_MEMORY;
    if (step.to && !(step.to = lvn_arena_strdup(&t->arena, step.to))) return LVN_MEMORY;
    d->step[d->n++] = step;
    return LVN_OK;
}

static enum lvn_status read_strip(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    struct decoder s = {.kind = STRIP, .from = " "};
    LVN_TRY(lvn_json_string(name, object, "content", false, &s.from));
    LVN_TRY(lvn_json_int(name, object, "start", false, 0, INT32_MAX, &s.start));
    LVN_TRY(lvn_json_int(name, object, "stop", false, 0, INT32_MAX, &s.stop));
    if (!t->decoder->fused) return add(t, name, s);
    LVN_CHECK(
        !s.stop && t->strip_first + s.start <= 1 && (!s.start || !strcmp(s.from, " ")), UNSUPPORTED,
        "'%s': the decoder Strip may remove only one space at the beginning of a text; anything else is not supported",
        name);
    t->strip_first += s.start;
    return LVN_OK;
}

static enum lvn_status read_metaspace(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    struct decoder s = {.kind = REPLACE, .from = "\xe2\x96\x81", .to = " "};
    const char *scheme = NULL;
    bool front = true;
    LVN_TRY(lvn_json_string(name, object, "replacement", false, &s.from));
    LVN_TRY(lvn_json_string(name, object, "prepend_scheme", false, &scheme));
    LVN_TRY(lvn_json_bool(name, object, "add_prefix_space", false, &front));
    const bool stripped = scheme ? strcmp(scheme, "never") != 0 : front;
    if (stripped && !(t->metaspace = lvn_arena_strdup(&t->arena, s.from))) return LVN_MEMORY;
    return add(t, name, s);
}

static enum lvn_status read_replace(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    struct decoder s = {.kind = REPLACE, .to = ""};
    const json_t *pattern = json_object_get(object, "pattern");
    LVN_CHECK(json_is_object(pattern) && !json_object_get(pattern, "Regex"), UNSUPPORTED,
              "'%s': the decoder Replace expects a text to look for, {\"String\": ..}; expressions are not supported",
              name);
    LVN_TRY(lvn_json_string(name, pattern, "String", true, &s.from));
    LVN_TRY(lvn_json_string(name, object, "content", true, &s.to));
    return add(t, name, s);
}

static enum lvn_status read_wordpiece(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    struct decoder s = {.kind = WORDPIECE, .from = "##", .clean = true};
    LVN_TRY(lvn_json_string(name, object, "prefix", false, &s.from));
    LVN_TRY(lvn_json_bool(name, object, "cleanup", false, &s.clean));
    t->keep_first = true;
    return add(t, name, s);
}

static enum lvn_status read_one(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    const char *type = lvn_json_type(object);
    size_t i;
    json_t *part;
    if (!strcmp(type, "Sequence")) {
        const json_t *list = NULL;
        LVN_TRY(lvn_json_list(name, object, "decoders", true, &list));
        json_array_foreach(list, i, part) LVN_TRY(read_one(t, name, part));
        return LVN_OK;
    }
    if (!strcmp(type, "Fuse")) {
        t->decoder->fused = true;
        return LVN_OK;
    }
    if (!strcmp(type, "ByteFallback")) return add(t, name, (struct decoder){.kind = BYTES});
    if (!strcmp(type, "Strip")) return read_strip(t, name, object);
    if (!strcmp(type, "Metaspace")) return read_metaspace(t, name, object);
    if (!strcmp(type, "Replace")) return read_replace(t, name, object);
    if (!strcmp(type, "WordPiece")) return read_wordpiece(t, name, object);
    LVN_FAIL(UNSUPPORTED,
             "'%s': the decoder '%.40s' is not supported for this model; supported are ByteLevel for byte-level BPE, "
             "and ByteFallback, Fuse, Strip, Metaspace, Replace, WordPiece and Sequence",
             name, type);
}

/* --- one token --- */

static void swap(struct lvn_text *a, struct lvn_text *b)
{
    const struct lvn_text first = *a;
    *a = *b;
    *b = first;
}

static void replace(struct lvn_text *text, struct lvn_text *other, const char *from, const char *to)
{
    const char *p = text->p ? text->p : "", *end = p + text->n, *found;
    size_t n = strlen(from);
    if (!n || !memmem(p, (size_t)(end - p), from, n)) return;
    lvn_text_clear(other);
    for (; (found = memmem(p, (size_t)(end - p), from, n)); p = found + n) {
        lvn_text_add_bytes(other, p, found - p);
        lvn_text_add(other, to);
    }
    lvn_text_add_bytes(other, p, end - p);
    swap(text, other);
}

/* <0x0A> */
static void decode_byte(struct lvn_text *t)
{
    if (t->n != 6 || memcmp(t->p, "<0x", 3) != 0 || t->p[5] != '>') return;
    char byte;
    if (!lvn_hex_bytes(t->p + 3, 1, &byte)) return;
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
    swap(t, other);
}

static void decode_word(struct lvn_text *t, struct lvn_text *other, const struct decoder *s)
{
    static const char *const cleaned[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                             {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                             {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    size_t n = s->from ? strlen(s->from) : 0;
    bool inner = s->from && t->n >= (int64_t)n && !memcmp(t->p, s->from, n);
    lvn_text_clear(other);
    if (!inner) lvn_text_add(other, " ");
    lvn_text_add_bytes(other, t->p + (inner ? n : 0), t->n - (int64_t)(inner ? n : 0));
    swap(t, other);
    for (size_t i = 0; s->clean && i < sizeof cleaned / sizeof cleaned[0]; i++)
        replace(t, other, cleaned[i][0], cleaned[i][1]);
}

/* Stop if memory is exhausted: a buffer may then be NULL. */
static void run(const struct lvn_decoders *d, struct lvn_text *text, struct lvn_text *other)
{
    for (int i = 0; i < d->n && !text->failed && !other->failed; i++) {
        const struct decoder *s = &d->step[i];
        if (s->kind == REPLACE) replace(text, other, s->from, s->to);
        if (s->kind == BYTES) decode_byte(text);
        if (s->kind == STRIP) strip(text, other, s);
        if (s->kind == WORDPIECE) decode_word(text, other, s);
    }
}

enum lvn_status lvn_decoder_run(struct lvn_tokenizer *t)
{
    const struct lvn_decoders *d = t->decoder;
    if (!d) { /* its tokens are their bytes */
        t->decoded = t->byte;
        t->decoded_start = t->start;
        return LVN_OK;
    }
    struct lvn_text all = {0}, text = {0}, other = {0};
    t->decoded_start = lvn_arena_alloc(&t->arena, sizeof *t->decoded_start * (size_t)(t->n + 1));
    const struct lvn_added_token **added = lvn_calloc((size_t)t->n, sizeof *added);
    if (!t->decoded_start || !added) {
        free(added);
        return LVN_MEMORY;
    }
    for (int i = 0; i < t->n_added; i++)
        if (t->added[i].normalized) added[t->added[i].id] = &t->added[i];
    for (int64_t id = 0; id < t->n; id++) {
        int64_t bytes = t->start[id + 1] - t->start[id];
        t->decoded_start[id] = (uint32_t)all.n;
        if (!bytes) continue;
        lvn_text_clear(&text);
        if (added[id])
            lvn_text_add_bytes(&text, added[id]->pattern, added[id]->n_pattern);
        else
            lvn_text_add_bytes(&text, t->byte + t->start[id], bytes);
        run(d, &text, &other);
        if (text.n) lvn_text_add_bytes(&all, text.p, text.n);
    }
    free(added);
    t->decoded_start[t->n] = (uint32_t)all.n;
    enum lvn_status status = lvn_text_status(&all);
    if (status == LVN_OK) status = lvn_text_status(&text);
    if (status == LVN_OK) status = lvn_text_status(&other);
    if (status == LVN_OK && !(t->decoded = lvn_arena_alloc(&t->arena, (size_t)all.n + SLACK))) status = LVN_MEMORY;
    if (status == LVN_OK && all.n) memcpy(t->decoded, all.p, (size_t)all.n);
    lvn_text_release(&all);
    lvn_text_release(&text);
    lvn_text_release(&other);
    return status;
}

static bool begin(struct lvn_tokenizer *t)
{
    t->strip_first = 0;
    t->metaspace = NULL;
    t->keep_first = false;
    return (t->decoder = lvn_arena_alloc(&t->arena, sizeof *t->decoder));
}

enum lvn_status lvn_decoder_read(struct lvn_tokenizer *t, const char *name, const json_t *object)
{
    if (t->model == LVN_TOKENIZER_BYTES) return LVN_OK; /* its tokens are their bytes */
    if (!begin(t)) return LVN_MEMORY;
    if (object && !json_is_null(object)) return read_one(t, name, object);
    t->keep_first = true; /* tokens separated by spaces */
    return add(t, name, (struct decoder){.kind = WORDPIECE});
}

enum lvn_status lvn_decoder_wordpiece(struct lvn_tokenizer *t)
{
    if (!begin(t)) return LVN_MEMORY;
    t->keep_first = true;
    return add(t, t->path, (struct decoder){.kind = WORDPIECE, .from = "##"});
}

enum lvn_status lvn_decoder_sentencepiece(struct lvn_tokenizer *t, bool strips)
{
    if (!begin(t)) return LVN_MEMORY;
    t->strip_first = strips;
    LVN_TRY(add(t, t->path, (struct decoder){.kind = REPLACE, .from = "\xe2\x96\x81", .to = " "}));
    return add(t, t->path, (struct decoder){.kind = BYTES});
}

/* --- using it --- */

const void *lvn_token_bytes(const struct lvn_tokenizer *t, int64_t id, int64_t *bytes)
{
    if (id < 0 || id >= t->n || t->start[id] == t->start[id + 1]) return NULL;
    *bytes = t->decoded_start[id + 1] - t->decoded_start[id];
    return t->decoded + t->decoded_start[id];
}

/* The text of a token before the decoders. */
static int64_t decoder_input(const struct lvn_tokenizer *t, int64_t id, const unsigned char **text)
{
    for (int i = 0; i < t->n_added; i++) {
        if (t->added[i].id != id || !t->added[i].normalized) continue;
        *text = (const unsigned char *)t->added[i].pattern;
        return t->added[i].n_pattern;
    }
    *text = t->byte + t->start[id];
    return t->start[id + 1] - t->start[id];
}

const void *lvn_token_bytes_first(const struct lvn_tokenizer *t, int64_t id, int64_t *bytes)
{
    const unsigned char *p = lvn_token_bytes(t, id, bytes), *input;
    if (!p) return NULL;
    int64_t n = decoder_input(t, id, &input), max = t->strip_first;
    if (t->keep_first) {
        *bytes = n;
        return input;
    }
    if (t->metaspace) { /* only spaces that were metaspaces */
        const int64_t n_metaspace = (int64_t)strlen(t->metaspace);
        for (max = 0; n_metaspace && n >= n_metaspace && !memcmp(input, t->metaspace, (size_t)n_metaspace);
             input += n_metaspace, n -= n_metaspace)
            max++;
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
        LVN_CHECK(p, ARG, "%d is not a token id of '%s': it has %lld", ids[i], t->path, (long long)t->n);
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
