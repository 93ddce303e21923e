/* pre_tokenizer.c - see pre_tokenizer.h. A pre-tokenizer is a row in the table, whose function reads its members into a
 * step. A step finds matches, and one function applies each behavior to matches and the text between them. */
#include "tokenizers/pre_tokenizer.h"

#include "tokenizers/load.h"
#include "tokenizers/unicode/unicode.h"

/* --- reading --- */

static enum lvn_status read_bytes(struct lvn_pre_tokenizer_step *s, struct lvn_arena *a, const char *name,
                                  const json_t *object)
{
    bool space = true, splits = true;
    (void)a;
    LVN_TRY(lvn_json_bool(name, object, "add_prefix_space", false, &space));
    LVN_TRY(lvn_json_bool(name, object, "use_regex", false, &splits));
    *s = (struct lvn_pre_tokenizer_step){.kind = splits ? LVN_PRE_SPLIT : LVN_PRE_NOTHING,
                                         .split = LVN_SPLIT_BYTE_LEVEL,
                                         .prepend = space ? LVN_PREPEND_ALWAYS : LVN_PREPEND_NEVER,
                                         .replacement = " ",
                                         .n_replacement = 1,
                                         .bytes = true};
    return LVN_OK;
}

static enum lvn_status read_metaspace(struct lvn_pre_tokenizer_step *s, struct lvn_arena *a, const char *name,
                                      const json_t *object)
{
    static const char *const schemes[] = {"never", "first", "always"};
    const char *replacement = "\xe2\x96\x81", *scheme = NULL;
    bool splits = true, front = true;
    int used, prepend = -1;
    LVN_TRY(lvn_json_string(name, object, "replacement", false, &replacement));
    LVN_TRY(lvn_json_string(name, object, "prepend_scheme", false, &scheme));
    LVN_TRY(lvn_json_bool(name, object, "add_prefix_space", false, &front)); /* older files */
    LVN_TRY(lvn_json_bool(name, object, "split", false, &splits));
    for (int i = 0; scheme && i < 3; i++)
        if (!strcmp(scheme, schemes[i])) prepend = i;
    if (!scheme) prepend = front ? LVN_PREPEND_ALWAYS : LVN_PREPEND_NEVER;
    LVN_CHECK(prepend >= 0, FORMAT,
              "'%s': the prepend_scheme of Metaspace is '%.40s'; there are always, first and never", name, scheme);
    LVN_CHECK(*replacement && lvn_utf8_decode(replacement, (int64_t)strlen(replacement), &used) >= 0 &&
                  !replacement[used],
              FORMAT, "'%s': the replacement of Metaspace is '%.40s'; expected one character", name, replacement);
    *s = (struct lvn_pre_tokenizer_step){.kind = splits ? LVN_PRE_LITERAL : LVN_PRE_NOTHING,
                                         .behavior = LVN_SPLIT_MERGED_WITH_NEXT,
                                         .prepend = (enum lvn_prepend_scheme)prepend,
                                         .replace_spaces = true};
    LVN_TRY(lvn_load_text(a, replacement, &s->replacement, &s->n_replacement));
    s->literal = s->replacement;
    s->n_literal = s->n_replacement;
    return LVN_OK;
}

static enum lvn_status read_behavior(struct lvn_pre_tokenizer_step *s, const char *name, const json_t *object,
                                     bool required)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"};
    const char *scheme = names[0];
    LVN_TRY(lvn_json_string(name, object, "behavior", required, &scheme));
    for (int i = 0; i < 5; i++) {
        s->behavior = (enum lvn_split_behavior)i;
        if (!strcmp(scheme, names[i])) return LVN_OK;
    }
    LVN_FAIL(UNSUPPORTED, "'%s': the behavior '%.40s' of a pre-tokenizer is not supported", name, scheme);
}

enum lvn_status lvn_pre_tokenizer_expression(struct lvn_pre_tokenizer_step *s, struct lvn_arena *a, const char *name,
                                             const char *expression)
{
    const int known = lvn_split_find(expression);
    if (known >= 0) {
        *s = lvn_pre_tokenizer_split((enum lvn_split_kind)known);
        return LVN_OK;
    }
    s->kind = LVN_PRE_EXPRESSION;
    return lvn_regex_new(&s->expression, a, name, expression);
}

static enum lvn_status read_split(struct lvn_pre_tokenizer_step *s, struct lvn_arena *a, const char *name,
                                  const json_t *object)
{
    const char *expression;
    LVN_TRY(lvn_load_pattern(a, name, object, &s->literal, &s->n_literal, &expression));
    LVN_TRY(lvn_json_bool(name, object, "invert", false, &s->invert));
    LVN_TRY(read_behavior(s, name, object, true));
    s->kind = expression ? LVN_PRE_EXPRESSION : LVN_PRE_LITERAL;
    if (expression && s->behavior == (s->invert ? LVN_SPLIT_REMOVED : LVN_SPLIT_ISOLATED))
        return lvn_pre_tokenizer_expression(s, a, name, expression);
    return expression ? lvn_regex_new(&s->expression, a, name, expression) : LVN_OK;
}

static enum lvn_status read_punctuation(struct lvn_pre_tokenizer_step *s, struct lvn_arena *a, const char *name,
                                        const json_t *object)
{
    (void)a;
    s->kind = LVN_PRE_PUNCTUATION;
    return read_behavior(s, name, object, false);
}

static enum lvn_status read_digits(struct lvn_pre_tokenizer_step *s, struct lvn_arena *a, const char *name,
                                   const json_t *object)
{
    bool single = false;
    (void)a;
    LVN_TRY(lvn_json_bool(name, object, "individual_digits", false, &single));
    *s = (struct lvn_pre_tokenizer_step){.kind = LVN_PRE_DIGIT,
                                         .behavior = single ? LVN_SPLIT_ISOLATED : LVN_SPLIT_CONTIGUOUS};
    return LVN_OK;
}

#define OF_BERT                                                                                                        \
    {                                                                                                                  \
        .kind = LVN_PRE_BERT, .behavior = LVN_SPLIT_REMOVED, .invert = true                                            \
    }

struct lvn_pre_tokenizer_step lvn_pre_tokenizer_bert(void)
{
    return (struct lvn_pre_tokenizer_step)OF_BERT;
}

struct lvn_pre_tokenizer_step lvn_pre_tokenizer_split(enum lvn_split_kind kind)
{
    return (struct lvn_pre_tokenizer_step){.kind = LVN_PRE_SPLIT, .split = kind};
}

static const struct {
    const char *name;
    enum lvn_status (*read)(struct lvn_pre_tokenizer_step *s, struct lvn_arena *a, const char *name,
                            const json_t *object); /* NULL: the step is `ready` */
    struct lvn_pre_tokenizer_step ready;
} kinds[] = {
    {"ByteLevel", read_bytes, {0}},
    {"Metaspace", read_metaspace, {0}},
    {"Split", read_split, {0}},
    {"Whitespace", NULL, {.kind = LVN_PRE_WORDS, .behavior = LVN_SPLIT_REMOVED, .invert = true}},
    {"WhitespaceSplit", NULL, {.kind = LVN_PRE_SPACE, .behavior = LVN_SPLIT_REMOVED}},
    {"Punctuation", read_punctuation, {0}},
    {"Digits", read_digits, {0}},
    {"BertPreTokenizer", NULL, OF_BERT},
};

static enum lvn_status read_step(struct lvn_pre_tokenizer *out, struct lvn_arena *a, const char *name,
                                 const json_t *object)
{
    const char *type = lvn_json_type(object);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, type) != 0) continue;
        LVN_CHECK(!out->n || !out->step[out->n - 1].bytes, UNSUPPORTED,
                  "'%s': the pre-tokenizer '%.40s' after ByteLevel is not supported", name, type);
        LVN_CHECK(out->n < LVN_PRE_TOKENIZER_MAX, UNSUPPORTED, "'%s' has more than %d pre-tokenizers", name,
                  LVN_PRE_TOKENIZER_MAX);
        struct lvn_pre_tokenizer_step *s = &out->step[out->n++];
        *s = kinds[i].ready;
        return kinds[i].read ? kinds[i].read(s, a, name, object) : LVN_OK;
    }
    LVN_FAIL(UNSUPPORTED,
             "'%s': the pre-tokenizer '%.40s' is not supported; supported are ByteLevel, Metaspace, Split, Whitespace, "
             "WhitespaceSplit, Punctuation, Digits, BertPreTokenizer and Sequence",
             name, type);
}

enum lvn_status lvn_pre_tokenizer_read(struct lvn_pre_tokenizer *out, struct lvn_arena *a, const char *name,
                                       const json_t *object)
{
    size_t i;
    json_t *add_part;
    const json_t *list = NULL;
    if (!object || json_is_null(object)) return LVN_OK;
    if (strcmp(lvn_json_type(object), "Sequence") != 0) return read_step(out, a, name, object);
    LVN_TRY(lvn_json_list(name, object, "pretokenizers", true, &list));
    json_array_foreach(list, i, add_part) LVN_TRY(lvn_pre_tokenizer_read(out, a, name, add_part));
    return LVN_OK;
}

/* --- matches --- */

static bool is_punctuation(const uint8_t *p, const uint8_t *end, int *bytes)
{
    int32_t code = lvn_utf8_decode(p, end - p, bytes);
    return code >= 0 && lvn_char((uint32_t)code)->word_class == LVN_WORD_PUNCTUATION;
}

static bool is_word_char(const uint8_t *p, const uint8_t *end, int *bytes)
{
    int32_t code = lvn_utf8_decode(p, end - p, bytes);
    return code >= 0 && lvn_char((uint32_t)code)->is_word_char;
}

const uint8_t *lvn_pre_tokenizer_bert_word(const uint8_t *p, const uint8_t *end, int64_t *bytes)
{
    int one;
    while (p < end && lvn_char_class(p, end, &one) == LVN_CHAR_SPACE) p += one;
    if (p == end) return NULL;
    const uint8_t *q = p;
    while (q < end && lvn_char_class(q, end, &one) != LVN_CHAR_SPACE && !is_punctuation(q, end, &one)) q += one;
    *bytes = q > p ? q - p : one;
    return p;
}

/* The first run at or after p of word characters, or of characters that are neither these nor white space. */
static const uint8_t *find_word(const uint8_t *p, const uint8_t *end, int64_t *bytes)
{
    int one;
    while (p < end && !is_word_char(p, end, &one) && lvn_char_class(p, end, &one) == LVN_CHAR_SPACE) p += one;
    if (p == end) return NULL;
    bool word = is_word_char(p, end, &one);
    const uint8_t *q = p;
    while (q < end && is_word_char(q, end, &one) == word && (word || lvn_char_class(q, end, &one) != LVN_CHAR_SPACE))
        q += one;
    *bytes = q - p;
    return p;
}

/* The first match of a single character at or after p. */
static const uint8_t *find_character(enum lvn_pre_tokenizer_kind kind, const uint8_t *p, const uint8_t *end,
                                     int64_t *bytes)
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

/* The first match at or after the end of the previous one; *end < 0: there was none. */
static enum lvn_status find_match(const struct lvn_pre_tokenizer_step *step, struct lvn_pre_tokenizer_scratch *s,
                                  const uint8_t *p, int64_t n, int64_t *begin, int64_t *end)
{
    int64_t start = *end < 0 ? 0 : *end;
    const uint8_t *at = NULL, *stop = p + n;
    int64_t bytes = 0;
    bool found = false;
    switch (step->kind) {
    case LVN_PRE_EXPRESSION:
        LVN_TRY(lvn_regex_find(step->expression, &s->regex, p, n, *end, &found, begin, end));
        if (!found) *begin = *end = n;
        return LVN_OK;
    case LVN_PRE_NOTHING:
        break;
    case LVN_PRE_SPLIT:
        at = p + start;
        bytes = lvn_split_next(step->split, at, n - start);
        break;
    case LVN_PRE_LITERAL:
        bytes = step->n_literal;
        at = memmem(p + start, (size_t)(n - start), step->literal, (size_t)bytes);
        break;
    case LVN_PRE_WORDS:
        at = find_word(p + start, stop, &bytes);
        break;
    case LVN_PRE_BERT:
        at = lvn_pre_tokenizer_bert_word(p + start, stop, &bytes);
        break;
    default:
        at = find_character(step->kind, p + start, stop, &bytes);
    }
    *begin = at ? at - p : n;
    *end = at ? *begin + bytes : n;
    return LVN_OK;
}

/* --- pieces --- */

struct run {
    const uint8_t *p;
    enum lvn_split_behavior behavior;
    bool begins;   /* the text is the beginning of the whole text */
    bool open;     /* a piece was begun and not emitted */
    bool is_match; /* the last part of the piece is a match */
    int64_t start; /* of the piece */
    int64_t end;   /* of the piece */
    lvn_pre_tokenizer_piece *piece;
    void *context; /* for piece() */
};

static enum lvn_status emit_piece(struct run *r)
{
    bool open = r->open;
    r->open = false;
    return open && r->end > r->start
               ? r->piece(r->context, r->p + r->start, r->end - r->start, r->begins && r->start == 0)
               : LVN_OK;
}

/* Add a part of the text to the piece, or begin a new one: a match (possibly empty), or the text between two. */
static enum lvn_status add_part(struct run *r, int64_t start, int64_t end, bool is_match)
{
    bool joins = r->open && ((r->behavior == LVN_SPLIT_CONTIGUOUS && is_match == r->is_match) ||
                             (r->behavior == LVN_SPLIT_MERGED_WITH_PREVIOUS && is_match && !r->is_match) ||
                             (r->behavior == LVN_SPLIT_MERGED_WITH_NEXT && !is_match && r->is_match));
    if (!joins) {
        LVN_TRY(emit_piece(r));
        r->start = start;
        r->open = !(is_match && r->behavior == LVN_SPLIT_REMOVED);
    }
    r->end = end;
    r->is_match = is_match;
    return LVN_OK;
}

static enum lvn_status split_matches(const struct lvn_pre_tokenizer_step *step, struct lvn_pre_tokenizer_scratch *s,
                                     struct run *r, int64_t n)
{
    for (int64_t at = 0, begin, end = -1; at < n; at = end) {
        LVN_TRY(find_match(step, s, r->p, n, &begin, &end));
        if (begin > at) LVN_TRY(add_part(r, at, begin, step->invert));
        if (begin < n) LVN_TRY(add_part(r, begin, end, !step->invert));
    }
    return emit_piece(r);
}

void lvn_pre_tokenizer_scratch_release(struct lvn_pre_tokenizer_scratch *s)
{
    lvn_text_release(&s->text);
    lvn_regex_scratch_release(&s->regex);
}

/* Prepend the replacement, and replace spaces by it. */
static enum lvn_status replace_spaces(const struct lvn_pre_tokenizer_step *step, struct lvn_pre_tokenizer_scratch *s,
                                      const uint8_t **p, int64_t *n, bool begins)
{
    const uint8_t *at = *p, *end = at + *n;
    bool has_replacement = (*n >= step->n_replacement && !memcmp(at, step->replacement, (size_t)step->n_replacement)) ||
                           (step->replace_spaces && *at == ' ');
    bool front =
        !has_replacement && (step->prepend == LVN_PREPEND_ALWAYS || (step->prepend == LVN_PREPEND_FIRST && begins));
    if (!front && !(step->replace_spaces && memchr(at, ' ', (size_t)*n))) return LVN_OK;
    lvn_text_clear(&s->text);
    if (front) lvn_text_add_bytes(&s->text, step->replacement, step->n_replacement);
    while (at < end) {
        const uint8_t *space = step->replace_spaces ? memchr(at, ' ', (size_t)(end - at)) : NULL;
        lvn_text_add_bytes(&s->text, at, (space ? space : end) - at);
        if (space) lvn_text_add_bytes(&s->text, step->replacement, step->n_replacement);
        at = space ? space + 1 : end;
    }
    LVN_TRY(lvn_text_status(&s->text));
    *p = (const uint8_t *)s->text.p;
    *n = s->text.n;
    return LVN_OK;
}

enum lvn_status lvn_pre_tokenizer_run(const struct lvn_pre_tokenizer_step *step, struct lvn_pre_tokenizer_scratch *s,
                                      const uint8_t *p, int64_t n, bool begins, lvn_pre_tokenizer_piece *piece,
                                      void *context)
{
    if (n <= 0) return LVN_OK;
    if (step->prepend != LVN_PREPEND_NEVER || step->replace_spaces) LVN_TRY(replace_spaces(step, s, &p, &n, begins));
    if (step->kind == LVN_PRE_NOTHING) return piece(context, p, n, begins);
    struct run r = {.p = p, .behavior = step->behavior, .begins = begins, .piece = piece, .context = context};
    return split_matches(step, s, &r, n);
}
