/* pre_tokenizer.c - see pre_tokenizer.h. A pre-tokenizer is its row in the table, which reads its members into a step;
 * a step finds places, and one rule says for each way which neighbours stay together. */
#include "tokenizers/pre_tokenizer.h"

#include <string.h>

#include "tokenizers/unicode/unicode.h"

/* --- reading --- */

static enum lvn_status keep(struct lvn_arena *a, const char *text, const char **out, int64_t *n)
{
    *out = lvn_arena_strdup(a, text);
    *n = (int64_t)strlen(text);
    return *out ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status read_bytes(struct lvn_pre_step *s, struct lvn_arena *a, const char *name, const json_t *object)
{
    bool space = true, splits = true;
    (void)a;
    LVN_TRY(lvn_json_bool(name, object, "add_prefix_space", false, &space));
    LVN_TRY(lvn_json_bool(name, object, "use_regex", false, &splits));
    *s = (struct lvn_pre_step){.kind = splits ? LVN_PRE_TILES : LVN_PRE_NOTHING,
                               .tiles = LVN_SPLIT_BYTE_LEVEL,
                               .front = space ? LVN_FRONT_ALWAYS : LVN_FRONT_NEVER,
                               .mark = " ",
                               .n_mark = 1,
                               .bytes = true};
    return LVN_OK;
}

static enum lvn_status read_metaspace(struct lvn_pre_step *s, struct lvn_arena *a, const char *name,
                                      const json_t *object)
{
    static const char *const schemes[] = {"never", "first", "always"};
    const char *mark = "\xe2\x96\x81", *scheme = NULL;
    bool splits = true, front = true;
    int used, way = -1;
    LVN_TRY(lvn_json_string(name, object, "replacement", false, &mark));
    LVN_TRY(lvn_json_string(name, object, "prepend_scheme", false, &scheme));
    LVN_TRY(lvn_json_bool(name, object, "add_prefix_space", false, &front)); /* older files */
    LVN_TRY(lvn_json_bool(name, object, "split", false, &splits));
    for (int i = 0; scheme && i < 3; i++)
        if (!strcmp(scheme, schemes[i])) way = i;
    if (!scheme) way = front ? LVN_FRONT_ALWAYS : LVN_FRONT_NEVER;
    LVN_CHECK(way >= 0, FORMAT, "'%s': the prepend_scheme of Metaspace is '%.40s'; there are always, first and never",
              name, scheme);
    LVN_CHECK(*mark && lvn_utf8_decode(mark, (int64_t)strlen(mark), &used) >= 0 && !mark[used], FORMAT,
              "'%s': the replacement of Metaspace is '%.40s'; wanted is one character", name, mark);
    *s = (struct lvn_pre_step){.kind = splits ? LVN_PRE_LITERAL : LVN_PRE_NOTHING,
                               .way = LVN_PRE_WITH_NEXT,
                               .front = (enum lvn_pre_front)way,
                               .spaces = true};
    LVN_TRY(keep(a, mark, &s->mark, &s->n_mark));
    s->literal = s->mark;
    s->n_literal = s->n_mark;
    return LVN_OK;
}

static enum lvn_status read_way(struct lvn_pre_step *s, const char *name, const json_t *object, bool required)
{
    static const char *const ways[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"};
    const char *way = ways[0];
    LVN_TRY(lvn_json_string(name, object, "behavior", required, &way));
    for (int i = 0; i < 5; i++) {
        s->way = (enum lvn_pre_way)i;
        if (!strcmp(way, ways[i])) return LVN_OK;
    }
    LVN_FAIL(UNSUPPORTED, "'%s': the behavior '%.40s' of a pre-tokenizer is not there", name, way);
}

static enum lvn_status read_split(struct lvn_pre_step *s, struct lvn_arena *a, const char *name, const json_t *object)
{
    const json_t *pattern = json_object_get(object, "pattern");
    const char *text = NULL, *expression = NULL;
    LVN_CHECK(json_is_object(pattern), FORMAT, "'%s': Split wants a pattern, {\"String\": ..} or {\"Regex\": ..}",
              name);
    LVN_TRY(lvn_json_string(name, pattern, "String", false, &text));
    LVN_TRY(lvn_json_string(name, pattern, "Regex", !text, &expression));
    LVN_TRY(lvn_json_bool(name, object, "invert", false, &s->invert));
    LVN_TRY(read_way(s, name, object, true));
    if (text && *text) {
        s->kind = LVN_PRE_LITERAL;
        return keep(a, text, &s->literal, &s->n_literal);
    }
    if (text) expression = text; /* "" stands everywhere */
    int known = lvn_split_find(expression);
    if (known >= 0 && s->way == (s->invert ? LVN_PRE_REMOVED : LVN_PRE_ISOLATED)) {
        *s = lvn_pre_tiles((enum lvn_split_kind)known);
        return LVN_OK;
    }
    s->kind = LVN_PRE_EXPRESSION;
    return lvn_regex_new(&s->expression, a, name, expression);
}

static enum lvn_status read_words(struct lvn_pre_step *s, struct lvn_arena *a, const char *name, const json_t *object)
{
    (void)a, (void)name, (void)object;
    *s = (struct lvn_pre_step){.kind = LVN_PRE_WORDS, .way = LVN_PRE_REMOVED, .invert = true};
    return LVN_OK;
}

static enum lvn_status read_space(struct lvn_pre_step *s, struct lvn_arena *a, const char *name, const json_t *object)
{
    (void)a, (void)name, (void)object;
    *s = (struct lvn_pre_step){.kind = LVN_PRE_SPACE, .way = LVN_PRE_REMOVED};
    return LVN_OK;
}

static enum lvn_status read_punctuation(struct lvn_pre_step *s, struct lvn_arena *a, const char *name,
                                        const json_t *object)
{
    (void)a;
    s->kind = LVN_PRE_PUNCTUATION;
    return read_way(s, name, object, false);
}

static enum lvn_status read_digits(struct lvn_pre_step *s, struct lvn_arena *a, const char *name, const json_t *object)
{
    bool single = false;
    (void)a;
    LVN_TRY(lvn_json_bool(name, object, "individual_digits", false, &single));
    *s = (struct lvn_pre_step){.kind = LVN_PRE_DIGIT, .way = single ? LVN_PRE_ISOLATED : LVN_PRE_CONTIGUOUS};
    return LVN_OK;
}

static enum lvn_status read_bert(struct lvn_pre_step *s, struct lvn_arena *a, const char *name, const json_t *object)
{
    (void)a, (void)name, (void)object;
    *s = lvn_pre_bert();
    return LVN_OK;
}

struct lvn_pre_step lvn_pre_bert(void)
{
    return (struct lvn_pre_step){.kind = LVN_PRE_BERT, .way = LVN_PRE_REMOVED, .invert = true};
}

struct lvn_pre_step lvn_pre_tiles(enum lvn_split_kind kind)
{
    return (struct lvn_pre_step){.kind = LVN_PRE_TILES, .tiles = kind};
}

static const struct {
    const char *name;
    enum lvn_status (*read)(struct lvn_pre_step *s, struct lvn_arena *a, const char *name, const json_t *object);
} kinds[] = {{"ByteLevel", read_bytes},  {"Metaspace", read_metaspace},   {"Split", read_split},
             {"Whitespace", read_words}, {"WhitespaceSplit", read_space}, {"Punctuation", read_punctuation},
             {"Digits", read_digits},    {"BertPreTokenizer", read_bert}};

static enum lvn_status read_step(struct lvn_pre_steps *out, struct lvn_arena *a, const char *name, const json_t *object)
{
    const char *type = lvn_json_type(object);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, type) != 0) continue;
        LVN_CHECK(!out->n || !out->step[out->n - 1].bytes, UNSUPPORTED,
                  "'%s': the pre-tokenizer '%.40s' behind ByteLevel is not there", name, type);
        LVN_CHECK(out->n < LVN_PRE_MAX, UNSUPPORTED, "'%s' has more than %d pre-tokenizers", name, LVN_PRE_MAX);
        out->step[out->n] = (struct lvn_pre_step){0};
        return kinds[i].read(&out->step[out->n++], a, name, object);
    }
    LVN_FAIL(UNSUPPORTED,
             "'%s': the pre-tokenizer '%.40s' is not there; there are ByteLevel, Metaspace, Split, Whitespace, "
             "WhitespaceSplit, Punctuation, Digits, BertPreTokenizer and Sequence",
             name, type);
}

enum lvn_status lvn_pre_read(struct lvn_pre_steps *out, struct lvn_arena *a, const char *name, const json_t *object)
{
    size_t i;
    json_t *part;
    const json_t *list = NULL;
    if (!object || json_is_null(object)) return LVN_OK;
    if (strcmp(lvn_json_type(object), "Sequence") != 0) return read_step(out, a, name, object);
    LVN_TRY(lvn_json_list(name, object, "pretokenizers", true, &list));
    json_array_foreach(list, i, part) LVN_TRY(lvn_pre_read(out, a, name, part));
    return LVN_OK;
}

/* --- places --- */

static bool is_punctuation(const uint8_t *p, const uint8_t *end, int *bytes)
{
    int32_t code = lvn_utf8_decode(p, end - p, bytes);
    return code >= 0 && lvn_word_class((uint32_t)code) == LVN_WORD_MARKER;
}

static bool is_wordly(const uint8_t *p, const uint8_t *end, int *bytes)
{
    int32_t code = lvn_utf8_decode(p, end - p, bytes);
    return code >= 0 && lvn_is_wordly((uint32_t)code);
}

const uint8_t *lvn_pre_bert_word(const uint8_t *p, const uint8_t *end, int64_t *bytes)
{
    int one;
    while (p < end && lvn_char_class(p, end, &one) == LVN_CHAR_SPACE) p += one;
    if (p == end) return NULL;
    const uint8_t *q = p;
    while (q < end && lvn_char_class(q, end, &one) != LVN_CHAR_SPACE && !is_punctuation(q, end, &one)) q += one;
    *bytes = q > p ? q - p : one;
    return p;
}

/* The first run at or after p of characters of words, or of those that are neither that nor white space. */
static const uint8_t *find_word(const uint8_t *p, const uint8_t *end, int64_t *bytes)
{
    int one;
    while (p < end && !is_wordly(p, end, &one) && lvn_char_class(p, end, &one) == LVN_CHAR_SPACE) p += one;
    if (p == end) return NULL;
    bool word = is_wordly(p, end, &one);
    const uint8_t *q = p;
    while (q < end && is_wordly(q, end, &one) == word && (word || lvn_char_class(q, end, &one) != LVN_CHAR_SPACE))
        q += one;
    *bytes = q - p;
    return p;
}

/* The first place of one character at or after p. */
static const uint8_t *find_character(enum lvn_pre_kind kind, const uint8_t *p, const uint8_t *end, int64_t *bytes)
{
    for (int one; p < end; p += one) {
        enum lvn_char_class class = lvn_char_class(p, end, &one);
        *bytes = one;
        if (kind == LVN_PRE_SPACE && class == LVN_CHAR_SPACE) return p;
        if (kind == LVN_PRE_DIGIT && class == LVN_CHAR_NUMBER) return p;
        if (kind == LVN_PRE_PUNCTUATION && is_punctuation(p, end, &one)) return p;
    }
    return NULL;
}

/* The first place at or behind the end of the last one; *end < 0: there was none. */
static enum lvn_status find(const struct lvn_pre_step *step, struct lvn_pre_scratch *s, const uint8_t *p, int64_t n,
                            int64_t *begin, int64_t *end)
{
    int64_t from = *end < 0 ? 0 : *end;
    const uint8_t *at = NULL, *stop = p + n;
    int64_t bytes = 0;
    bool found = false;
    switch (step->kind) {
    case LVN_PRE_EXPRESSION:
        LVN_TRY(lvn_regex_find(step->expression, &s->places, p, n, *end, &found, begin, end));
        if (!found) *begin = *end = n;
        return LVN_OK;
    case LVN_PRE_NOTHING:
        break;
    case LVN_PRE_TILES:
        at = p + from;
        bytes = lvn_split_next(step->tiles, at, n - from);
        break;
    case LVN_PRE_LITERAL:
        bytes = step->n_literal;
        at = memmem(p + from, (size_t)(n - from), step->literal, (size_t)bytes);
        break;
    case LVN_PRE_WORDS:
        at = find_word(p + from, stop, &bytes);
        break;
    case LVN_PRE_BERT:
        at = lvn_pre_bert_word(p + from, stop, &bytes);
        break;
    default:
        at = find_character(step->kind, p + from, stop, &bytes);
    }
    *begin = at ? at - p : n;
    *end = at ? *begin + bytes : n;
    return LVN_OK;
}

/* --- pieces --- */

struct run {
    const uint8_t *p;
    enum lvn_pre_way way;
    bool begins, open, place; /* open: a piece waits; place: its last part is a place */
    int64_t from, to;         /* of the piece */
    lvn_pre_piece *piece;
    void *context;
};

static enum lvn_status close_piece(struct run *r)
{
    bool open = r->open;
    r->open = false;
    return open && r->to > r->from ? r->piece(r->context, r->p + r->from, r->to - r->from, r->begins && r->from == 0)
                                   : LVN_OK;
}

/* A part of the text: a place (an empty one, too), or what lies between two. */
static enum lvn_status part(struct run *r, int64_t from, int64_t to, bool place)
{
    bool joins = r->open && ((r->way == LVN_PRE_CONTIGUOUS && place == r->place) ||
                             (r->way == LVN_PRE_WITH_PREVIOUS && place && !r->place) ||
                             (r->way == LVN_PRE_WITH_NEXT && !place && r->place));
    if (!joins) {
        LVN_TRY(close_piece(r));
        r->from = from;
        r->open = !(place && r->way == LVN_PRE_REMOVED);
    }
    r->to = to;
    r->place = place;
    return LVN_OK;
}

static enum lvn_status cut(const struct lvn_pre_step *step, struct lvn_pre_scratch *s, struct run *r, int64_t n)
{
    for (int64_t at = 0, begin, end = -1; at < n; at = end) {
        LVN_TRY(find(step, s, r->p, n, &begin, &end));
        if (begin > at) LVN_TRY(part(r, at, begin, step->invert));
        if (begin < n) LVN_TRY(part(r, begin, end, !step->invert));
    }
    return close_piece(r);
}

void lvn_pre_scratch_release(struct lvn_pre_scratch *s)
{
    lvn_text_release(&s->marked);
    lvn_regex_scratch_release(&s->places);
}

/* Marks in front of the text, and in the place of spaces. */
static enum lvn_status mark(const struct lvn_pre_step *step, struct lvn_pre_scratch *s, const uint8_t **p, int64_t *n,
                            bool begins)
{
    const uint8_t *at = *p, *end = at + *n;
    bool there = (*n >= step->n_mark && !memcmp(at, step->mark, (size_t)step->n_mark)) || (step->spaces && *at == ' ');
    bool front = !there && (step->front == LVN_FRONT_ALWAYS || (step->front == LVN_FRONT_FIRST && begins));
    if (!front && !(step->spaces && memchr(at, ' ', (size_t)*n))) return LVN_OK;
    lvn_text_clear(&s->marked);
    if (front) lvn_text_add_bytes(&s->marked, step->mark, step->n_mark);
    while (at < end) {
        const uint8_t *space = step->spaces ? memchr(at, ' ', (size_t)(end - at)) : NULL;
        lvn_text_add_bytes(&s->marked, at, (space ? space : end) - at);
        if (space) lvn_text_add_bytes(&s->marked, step->mark, step->n_mark);
        at = space ? space + 1 : end;
    }
    LVN_TRY(lvn_text_status(&s->marked));
    *p = (const uint8_t *)s->marked.p;
    *n = s->marked.n;
    return LVN_OK;
}

enum lvn_status lvn_pre_run(const struct lvn_pre_step *step, struct lvn_pre_scratch *s, const uint8_t *p, int64_t n,
                            bool begins, lvn_pre_piece *piece, void *context)
{
    if (n <= 0) return LVN_OK;
    if (step->front != LVN_FRONT_NEVER || step->spaces) LVN_TRY(mark(step, s, &p, &n, begins));
    if (step->kind == LVN_PRE_NOTHING) return piece(context, p, n, begins);
    struct run r = {.p = p, .way = step->way, .begins = begins, .piece = piece, .context = context};
    return cut(step, s, &r, n);
}
