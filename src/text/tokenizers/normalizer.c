/* normalizer.c - see normalizer.h. A normalizer is a row in the table: a function that reads its members, and one that
 * runs it. */
#include "tokenizers/normalizer.h"

#include "tokenizers/load.h"

/* Input and output of one step. */
struct work {
    const uint8_t *p;
    int64_t n;
    struct lvn_text *out;
    struct lvn_regex_scratch *regex;
    bool changed; /* the result is in `out`; false: it is the input */
    bool begins;  /* the first character is that of the whole text */
};

struct buffer;
struct lvn_normalizer_kind {
    const char *name;
    enum lvn_status (*read)(struct lvn_normalizer_step *s, struct lvn_arena *a, const char *name, const json_t *object);
    enum lvn_status (*run)(const struct lvn_normalizer_step *s, struct work *w);
    bool local; /* see lvn_normalizer_is_local() */
    void (*each)(const struct lvn_normalizer_step *s, struct buffer *r, uint32_t code); /* of run_each() */
};

/* Output buffer: one call of lvn_text_add_bytes() for many characters. */
struct buffer {
    struct lvn_text *out;
    int n;
    char text[256];
};

static void flush(struct buffer *r)
{
    lvn_text_add_bytes(r->out, r->text, r->n);
    r->n = 0;
}

static void put_char(struct buffer *r, uint32_t code)
{
    if (r->n > 250) flush(r);
    if (code < 0x80)
        r->text[r->n++] = (char)code;
    else
        r->n += lvn_utf8_encode((int32_t)code, r->text + r->n);
}

static void put_byte(struct buffer *r, uint8_t byte)
{
    if (r->n > 250) flush(r);
    r->text[r->n++] = (char)byte;
}

/* --- normalization forms --- */

static enum lvn_status read_form(struct lvn_normalizer_step *s, struct lvn_arena *a, const char *name,
                                 const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    (void)a;
    (void)name;
    s->form = (type[2] == 'K' ? LVN_COMPATIBLE : 0) | (type[strlen(type) - 1] == 'C' ? LVN_COMPOSED : 0);
    return LVN_OK;
}

static enum lvn_status run_form(const struct lvn_normalizer_step *s, struct work *w)
{
    w->changed = !lvn_unicode_is_normalized(s->form, w->p, w->n);
    if (w->changed) lvn_unicode_normalize(s->form, w->p, w->n, w->out);
    return LVN_OK;
}

/* --- character by character --- */

/* Call the kind's `each` for each character, which writes its result. */
static enum lvn_status run_each(const struct lvn_normalizer_step *s, struct work *w)
{
    struct buffer r = {.out = w->out};
    int bytes;
    for (const uint8_t *p = w->p, *end = p + w->n; p < end; p += bytes) {
        int32_t code = lvn_utf8_decode(p, end - p, &bytes);
        if (code >= 0)
            s->kind->each(s, &r, (uint32_t)code);
        else
            put_byte(&r, *p);
        if (p == w->p && !r.n) w->begins = false;
    }
    flush(&r);
    w->changed = true;
    return LVN_OK;
}

static void put_lower(const struct lvn_normalizer_step *s, struct buffer *r, uint32_t code)
{
    uint32_t low[2];
    int n = lvn_unicode_lower(code, low);
    (void)s;
    if (!n) put_char(r, code);
    for (int i = 0; i < n; i++) put_char(r, low[i]);
}

static void put_base(const struct lvn_normalizer_step *s, struct buffer *r, uint32_t code)
{
    (void)s;
    if (!lvn_char(code)->is_accent) put_char(r, code);
}

/* SentencePiece's rule: control characters are removed, white space of any kind becomes a space. */
static void put_nmt(const struct lvn_normalizer_step *s, struct buffer *r, uint32_t c)
{
    (void)s;
    if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f) return;
    bool space = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                 c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
    put_char(r, space ? ' ' : c);
}

/* --- BERT --- */

static enum lvn_status read_bert(struct lvn_normalizer_step *s, struct lvn_arena *a, const char *name,
                                 const json_t *object)
{
    (void)a;
    *s = lvn_normalizer_bert(true, true, true);
    LVN_TRY(lvn_json_bool(name, object, "clean_text", false, &s->clean));
    LVN_TRY(lvn_json_bool(name, object, "handle_chinese_chars", false, &s->chinese));
    LVN_TRY(lvn_json_bool(name, object, "lowercase", false, &s->lower));
    s->accents = s->lower;
    return lvn_json_bool(name, object, "strip_accents", false, &s->accents);
}

/* The ranges of Hugging Face's tokenizers; in BERT's code the fifth one begins at 2b820. */
static bool is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
           (c >= 0x2a700 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0x2f800 && c <= 0x2fa1f);
}

static void put_case(const struct lvn_normalizer_step *s, struct buffer *r, uint32_t code)
{
    if (s->lower)
        put_lower(s, r, code);
    else
        put_char(r, code);
}

static void put_bert(const struct lvn_normalizer_step *s, struct buffer *r, uint32_t c)
{
    const uint8_t class = lvn_char(c)->word_class;
    uint32_t parts[LVN_NFD_MAX];
    if (s->clean && (class == LVN_WORD_CONTROL || c == 0xfffd)) return;
    if (s->clean && class == LVN_WORD_SPACE) c = ' ';
    bool isolates = s->chinese && is_chinese(c);
    if (isolates) put_char(r, ' ');
    int n = s->accents ? lvn_unicode_nfd(c, parts) : 0;
    if (!s->accents) put_case(s, r, c);
    for (int i = 0; i < n; i++)
        if (lvn_char(parts[i])->word_class != LVN_WORD_ACCENT) put_case(s, r, parts[i]);
    if (isolates) put_char(r, ' ');
}

/* With fast paths for ASCII, and for Hangul syllables, which do not change if accents are retained. */
static enum lvn_status run_bert(const struct lvn_normalizer_step *s, struct work *w)
{
    struct buffer r = {.out = w->out};
    signed char ascii[128];
    for (int c = 0; c < 128; c++) {
        bool removed = s->clean && lvn_char((uint32_t)c)->word_class == LVN_WORD_CONTROL;
        bool space = s->clean && lvn_char((uint32_t)c)->word_class == LVN_WORD_SPACE;
        ascii[c] = (signed char)(removed ? -1 : space ? ' ' : s->lower && c >= 'A' && c <= 'Z' ? c | 32 : c);
    }
    for (const uint8_t *p = w->p, *end = p + w->n; p < end;) {
        int bytes;
        if (*p < 0x80) {
            if (r.n > 250) flush(&r);
            r.text[r.n] = (char)ascii[*p];
            r.n += ascii[*p] >= 0;
            if (ascii[*p] < 0 && p == w->p) w->begins = false;
            p++;
            continue;
        }
        int32_t code = lvn_utf8_decode(p, end - p, &bytes);
        bool syllable = code >= 0xac00 && code <= 0xd7a3 && !s->accents;
        if (syllable) {
            if (r.n > 250) flush(&r);
            memcpy(r.text + r.n, p, 3);
            r.n += 3;
        } else if (code >= 0) { /* bytes that are not UTF-8 are dropped, like U+FFFD */
            put_bert(s, &r, (uint32_t)code);
        }
        if (p == w->p && !r.n) w->begins = false;
        p += bytes;
    }
    flush(&r);
    w->changed = true;
    return LVN_OK;
}

/* --- Strip, Prepend, Replace --- */

static enum lvn_status read_strip(struct lvn_normalizer_step *s, struct lvn_arena *a, const char *name,
                                  const json_t *object)
{
    (void)a;
    s->left = s->right = true;
    LVN_TRY(lvn_json_bool(name, object, "strip_left", false, &s->left));
    return lvn_json_bool(name, object, "strip_right", false, &s->right);
}

static enum lvn_status run_strip(const struct lvn_normalizer_step *s, struct work *w)
{
    const uint8_t *p = w->p, *end = p + w->n, *last = p;
    int bytes;
    while (s->left && p < end && lvn_char_class(p, end, &bytes) == LVN_CHAR_SPACE) p += bytes;
    for (const uint8_t *q = p; q < end; q += bytes)
        if (lvn_char_class(q, end, &bytes) != LVN_CHAR_SPACE) last = q + bytes;
    if (!s->right) last = end;
    if (last < p) last = p;
    if (p > w->p) w->begins = false;
    w->changed = p > w->p || last < end;
    if (w->changed) lvn_text_add_bytes(w->out, p, last - p);
    return LVN_OK;
}

static enum lvn_status read_prepend(struct lvn_normalizer_step *s, struct lvn_arena *a, const char *name,
                                    const json_t *object)
{
    const char *text = "";
    LVN_TRY(lvn_json_string(name, object, "prepend", true, &text));
    return lvn_load_text(a, text, &s->to, &s->n_to);
}

static enum lvn_status run_prepend(const struct lvn_normalizer_step *s, struct work *w)
{
    lvn_text_add_bytes(w->out, s->to, s->n_to);
    lvn_text_add_bytes(w->out, w->p, w->n);
    w->changed = true;
    return LVN_OK;
}

static enum lvn_status read_replace(struct lvn_normalizer_step *s, struct lvn_arena *a, const char *name,
                                    const json_t *object)
{
    const char *expression, *to = "";
    LVN_TRY(lvn_json_string(name, object, "content", true, &to));
    LVN_TRY(lvn_load_text(a, to, &s->to, &s->n_to));
    LVN_TRY(lvn_load_pattern(a, name, object, &s->from, &s->n_from, &expression));
    return expression ? lvn_regex_new(&s->expression, a, name, expression) : LVN_OK;
}

static enum lvn_status run_replace(const struct lvn_normalizer_step *s, struct work *w)
{
    int64_t at = 0, begin, end = -1;
    for (bool found = true; found;) {
        if (s->expression) {
            LVN_TRY(lvn_regex_find(s->expression, w->regex, w->p, w->n, end, &found, &begin, &end));
        } else {
            const uint8_t *match = memmem(w->p + at, (size_t)(w->n - at), s->from, (size_t)s->n_from);
            found = match;
            begin = match ? match - w->p : 0;
            end = begin + s->n_from;
        }
        if (!found) break;
        if (begin == 0 && s->n_to == 0) w->begins = false;
        lvn_text_add_bytes(w->out, w->p + at, begin - at);
        lvn_text_add_bytes(w->out, s->to, s->n_to);
        at = end;
        w->changed = true;
    }
    if (w->changed) lvn_text_add_bytes(w->out, w->p + at, w->n - at);
    return LVN_OK;
}

/* --- Precompiled, the character map of a SentencePiece model ---
 *
 * It is base64 of a trie (Darts' double array: its size, its units) and of the replacements, each ended by a NUL. As in
 * the reference, a grapheme cluster of less than 6 bytes is looked up as a whole, otherwise each character; the
 * shortest prefix of a cluster in the trie determines the replacement, and the rest of the cluster is dropped. */

static enum lvn_status read_precompiled(struct lvn_normalizer_step *s, struct lvn_arena *a, const char *name,
                                        const json_t *object)
{
    const char *text = NULL;
    uint32_t bytes;
    LVN_TRY(lvn_json_string(name, object, "precompiled_charsmap", false, &text));
    if (!text || !*text) return LVN_OK;
    unsigned char *map = lvn_arena_alloc(a, strlen(text) + 1);
    if (!map) return LVN_MEMORY;
    int64_t n = lvn_base64_bytes(text, map, (int64_t)strlen(text));
    bool good = n >= 8;
    if (good) memcpy(&bytes, map, 4);
    good = good && bytes >= 4 && bytes % 4 == 0 && bytes <= n - 4;
    LVN_CHECK(good, FORMAT, "'%s': precompiled_charsmap is not a map of characters of SentencePiece: it is damaged",
              name);
    s->trie = (const uint32_t *)(map + 4); /* the arena's memory is aligned for any type */
    s->n_trie = bytes / 4;
    s->texts = (const char *)map + 4 + bytes;
    s->n_texts = n - 4 - bytes;
    return LVN_OK;
}

/* The offset of the replacement for p[0, n); -1: none. */
static int64_t find_replacement(const struct lvn_normalizer_step *s, const uint8_t *p, int64_t n)
{
    uint32_t unit = s->trie[0];
    uint64_t at = (uint64_t)(unit >> 10) << ((unit & 0x200) >> 6);
    for (int64_t i = 0; i < n && p[i]; i++) {
        at ^= p[i];
        if (at >= (uint64_t)s->n_trie) return -1;
        unit = s->trie[at];
        if ((unit & 0x800000ff) != p[i]) return -1;
        at ^= (uint64_t)(unit >> 10) << ((unit & 0x200) >> 6);
        if (!(unit >> 8 & 1)) continue;
        int64_t text = at < (uint64_t)s->n_trie ? (int64_t)(s->trie[at] & 0x7fffffff) : -1;
        return text < s->n_texts ? text : -1;
    }
    return -1;
}

static bool replace(const struct lvn_normalizer_step *s, const uint8_t *p, int64_t n, struct lvn_text *out)
{
    int64_t text = find_replacement(s, p, n);
    if (text >= 0)
        lvn_text_add_bytes(out, s->texts + text, (int64_t)strnlen(s->texts + text, (size_t)(s->n_texts - text)));
    return text >= 0;
}

static void normalize_precompiled(const struct lvn_normalizer_step *s, const uint8_t *p, int64_t n,
                                  struct lvn_text *out)
{
    enum { SHORT = 6 };
    for (const uint8_t *end = p + n; p < end;) {
        bool plain = *p < 0x80 && (end - p == 1 || p[1] < 0x80) && *p != '\r';
        int64_t cluster = plain ? 1 : lvn_grapheme(p, end - p);
        const uint8_t *stop = p + cluster;
        if (cluster < SHORT && replace(s, p, cluster, out)) p = stop;
        for (int bytes; p < stop; p += bytes) {
            (void)lvn_utf8_decode(p, end - p, &bytes);
            if (!replace(s, p, bytes, out)) lvn_text_add_bytes(out, p, bytes);
        }
    }
}

static enum lvn_status run_precompiled(const struct lvn_normalizer_step *s, struct work *w)
{
    w->changed = s->trie;
    if (s->trie) normalize_precompiled(s, w->p, w->n, w->out);
    return LVN_OK;
}

static const struct lvn_normalizer_kind kinds[] = {
    {"BertNormalizer", read_bert, run_bert, true, NULL},
    {"NFC", read_form, run_form, true, NULL},
    {"NFD", read_form, run_form, true, NULL},
    {"NFKC", read_form, run_form, true, NULL},
    {"NFKD", read_form, run_form, true, NULL},
    {"Lowercase", NULL, run_each, true, put_lower},
    {"StripAccents", NULL, run_each, true, put_base},
    {"Nmt", NULL, run_each, true, put_nmt},
    {"Strip", read_strip, run_strip, false, NULL},
    {"Prepend", read_prepend, run_prepend, false, NULL},
    {"Replace", read_replace, run_replace, false, NULL},
    {"Precompiled", read_precompiled, run_precompiled, false, NULL},
};

bool lvn_normalizer_is_local(const struct lvn_normalizer *steps)
{
    for (int i = 0; i < steps->n; i++)
        if (!steps->step[i].kind->local) return false;
    return true;
}

bool lvn_normalizer_prepends(const struct lvn_normalizer *steps)
{
    for (int i = 0; i < steps->n; i++)
        if (steps->step[i].kind->run == run_prepend) return true;
    return false;
}

struct lvn_normalizer_step lvn_normalizer_bert(bool lower, bool accents, bool chinese)
{
    return (struct lvn_normalizer_step){
        .kind = &kinds[0], .clean = true, .lower = lower, .accents = accents, .chinese = chinese};
}

static enum lvn_status read_step(struct lvn_normalizer *out, struct lvn_arena *a, const char *name,
                                 const json_t *object)
{
    const char *type = lvn_json_type(object);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, type) != 0) continue;
        LVN_CHECK(out->n < LVN_NORMALIZER_MAX, UNSUPPORTED, "'%s' has more than %d normalizers", name,
                  LVN_NORMALIZER_MAX);
        struct lvn_normalizer_step *s = &out->step[out->n++];
        *s = (struct lvn_normalizer_step){0};
        if (kinds[i].read) LVN_TRY(kinds[i].read(s, a, name, object));
        s->kind = &kinds[i];
        return LVN_OK;
    }
    LVN_FAIL(UNSUPPORTED,
             "'%s': the normalizer '%.40s' is not supported; supported are NFC, NFD, NFKC, NFKD, Lowercase, "
             "StripAccents, Strip, Prepend, Replace, Nmt, BertNormalizer, Precompiled and Sequence",
             name, type);
}

enum lvn_status lvn_normalizer_read(struct lvn_normalizer *out, struct lvn_arena *a, const char *name,
                                    const json_t *object)
{
    size_t i;
    json_t *part;
    const json_t *list = NULL;
    if (!object || json_is_null(object)) return LVN_OK;
    if (strcmp(lvn_json_type(object), "Sequence") != 0) return read_step(out, a, name, object);
    LVN_TRY(lvn_json_list(name, object, "normalizers", true, &list));
    json_array_foreach(list, i, part) LVN_TRY(lvn_normalizer_read(out, a, name, part));
    return LVN_OK;
}

void lvn_normalizer_scratch_release(struct lvn_normalizer_scratch *s)
{
    lvn_text_release(&s->text[0]);
    lvn_text_release(&s->text[1]);
    lvn_regex_scratch_release(&s->regex);
}

enum lvn_status lvn_normalizer_run(const struct lvn_normalizer *steps, struct lvn_normalizer_scratch *s,
                                   const uint8_t **p, int64_t *n, bool *begins)
{
    struct work w = {.p = *p, .n = *n, .regex = &s->regex, .begins = *begins};
    for (int i = 0, next = 0; i < steps->n && w.n > 0; i++) {
        w.out = &s->text[next];
        w.changed = false;
        lvn_text_clear(w.out);
        LVN_TRY(steps->step[i].kind->run(&steps->step[i], &w));
        LVN_TRY(lvn_text_status(w.out));
        if (!w.changed) continue;
        w.p = (const uint8_t *)w.out->p;
        w.n = w.out->n;
        next = !next;
    }
    *p = w.p;
    *n = w.n;
    *begins = w.begins;
    return LVN_OK;
}
