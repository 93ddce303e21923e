/* template_parse.c - from the text of a template to its tree: see template.h for the language.
 *
 * One pass over the text, which recurses at {{ if }}, {{ range }}, {{ define }} and at parentheses, to a limited
 * depth. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/template/template_private.h"

enum { DEPTH = 32 };

struct parser {
    struct lvn_templates *templates;
    struct lvn_arena *arena;
    const char *file;
    const char *p;   /* cursor */
    const char *end; /* of the action that is read, its "-}}" or "}}"; of the file between actions */
    int line;        /* of the cursor */
    int depth;       /* of blocks and parentheses */
    bool trim;       /* the last action ended in -}} */
};

static enum lvn_status error(const struct parser *s, const char *format, ...) LVN_PRINTF(2, 3);
static enum lvn_status error(const struct parser *s, const char *format, ...)
{
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return lvn_fail(LVN_ARG, "%s:%d: %s", s->file, s->line, text);
}
#define CHECK(condition, s, ...)                                                                                       \
    do {                                                                                                               \
        if (!(condition)) return error(s, __VA_ARGS__);                                                                \
    } while (0)

/* --- within an action --- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(struct parser *s)
{
    for (; s->p < s->end && is_blank(*s->p); s->p++) s->line += *s->p == '\n';
}

static bool accept(struct parser *s, const char *text)
{
    size_t n = strlen(text);
    skip_blanks(s);
    if ((size_t)(s->end - s->p) < n || strncmp(s->p, text, n)) return false;
    s->p += n;
    return true;
}

/* The next word, if it is this one. */
static bool accept_word(struct parser *s, const char *word)
{
    skip_blanks(s);
    const char *before = s->p;
    if (accept(s, word) && (s->p >= s->end || (!is_letter(*s->p) && !is_digit(*s->p)))) return true;
    s->p = before;
    return false;
}

/* The name at the cursor, "" if there is none. */
static char *name(struct parser *s)
{
    const char *first = s->p;
    while (s->p < s->end && (is_letter(*s->p) || (s->p > first && is_digit(*s->p)))) s->p++;
    return lvn_arena_printf(s->arena, "%.*s", (int)(s->p - first), first);
}

static enum lvn_status read_fields(struct parser *s, struct lvn_template_name **out)
{
    while (s->p < s->end && *s->p == '.') {
        s->p++;
        struct lvn_template_name *field = lvn_arena_alloc(s->arena, sizeof *field);
        if (!field || !(field->name = name(s))) return LVN_MEMORY;
        CHECK(*field->name, s, "a name is missing behind '.'");
        *out = field;
        out = &field->next;
    }
    return LVN_OK;
}

static enum lvn_status read_text(struct parser *s, const struct lvn_variant **out)
{
    LVN_LOCAL_TEXT(text);
    for (s->p++; s->p < s->end && *s->p != '"' && *s->p != '\n'; s->p++) {
        char c = *s->p;
        if (c == '\\') {
            s->p++;
            c = s->p < s->end ? *s->p : '\0';
            CHECK(c && strchr("nt\"\\", c), s, "a text may hold \\n, \\t, \\\" and \\\\, and no other '\\'");
            c = (char)(c == 'n' ? '\n' : c == 't' ? '\t' : c);
        }
        lvn_text_add_bytes(&text, &c, 1);
    }
    CHECK(s->p < s->end && *s->p == '"', s, "the closing quote of a text is missing");
    s->p++;
    const char *string = lvn_text_string(&text);
    *out = string ? lvn_variant_text(s->arena, string) : NULL;
    return *out ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status read_number(struct parser *s, const struct lvn_variant **out)
{
    char *end;
    errno = 0;
    long long i = strtoll(s->p, &end, 10);
    CHECK(!errno && end <= s->end && (end == s->end || (!is_letter(*end) && *end != '.')), s,
          "'%.20s' is not a whole number; templates take no others", s->p);
    s->p = end;
    *out = lvn_variant_int(s->arena, i);
    return *out ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status read_pipeline(struct parser *s, struct lvn_template_command **out);

/* A word: true, false, nil or a function. */
static enum lvn_status read_word(struct parser *s, struct lvn_template_term *t)
{
    LVN_LOCAL_TEXT(names);
    char *word = name(s);
    if (!word) return LVN_MEMORY;
    if (!strcmp(word, "true") || !strcmp(word, "false"))
        t->value = lvn_variant_bool(s->arena, *word == 't');
    else if (!strcmp(word, "nil"))
        t->value = lvn_variant_new(s->arena, LVN_VARIANT_NULL);
    if (t->value) return LVN_OK;
    t->kind = LVN_TERM_FUNCTION;
    t->name = word;
    t->call = lvn_template_function_find(word);
    if (t->call) return LVN_OK;
    lvn_template_function_names(&names);
    return error(s, "there is no function '%.40s'; there are %.300s", word, names.p ? names.p : "none");
}

static enum lvn_status read_term(struct parser *s, struct lvn_template_term *t)
{
    if (*s->p == '"') return read_text(s, &t->value);
    if (is_digit(*s->p) || *s->p == '-') return read_number(s, &t->value);
    if (is_letter(*s->p)) return read_word(s, t);
    if (*s->p == '.') {
        t->kind = LVN_TERM_DOT;
        if (s->p + 1 >= s->end || !is_letter(s->p[1])) {
            s->p++;
            return LVN_OK;
        }
    } else if (*s->p == '$') {
        s->p++;
        t->kind = LVN_TERM_VARIABLE;
        t->name = name(s);
        if (!t->name) return LVN_MEMORY;
    } else if (*s->p == '(') {
        s->p++;
        t->kind = LVN_TERM_PIPELINE;
        CHECK(++s->depth <= DEPTH, s, "more than %d levels of blocks and parentheses", DEPTH);
        LVN_TRY(read_pipeline(s, &t->pipeline));
        s->depth--;
        CHECK(accept(s, ")"), s, "')' is missing before '%.20s'", s->p);
    } else {
        return error(s, "'%.1s' is not understood here", s->p);
    }
    return read_fields(s, &t->fields);
}

static enum lvn_status read_command(struct parser *s, struct lvn_template_command *c)
{
    struct lvn_template_term **end = &c->terms;
    int n = 0;
    for (;; n++) {
        skip_blanks(s);
        if (s->p >= s->end || *s->p == '|' || *s->p == ')') break;
        CHECK(n <= LVN_TEMPLATE_ARGUMENTS - 1, s, "more than %d arguments", LVN_TEMPLATE_ARGUMENTS - 1);
        struct lvn_template_term *t = *end = lvn_arena_alloc(s->arena, sizeof *t);
        if (!t) return LVN_MEMORY;
        LVN_TRY(read_term(s, t));
        CHECK(s->p >= s->end || is_blank(*s->p) || *s->p == ')' || *s->p == '|', s, "'%.20s' is not understood here",
              s->p);
        end = &t->next;
    }
    CHECK(n, s, "a value or a function is missing");
    CHECK(n == 1 || c->terms->kind == LVN_TERM_FUNCTION, s, "only a function takes arguments");
    for (const struct lvn_template_term *t = c->terms->next; t; t = t->next)
        CHECK(t->kind != LVN_TERM_FUNCTION, s, "put the function '%.40s' and its arguments into parentheses", t->name);
    return LVN_OK;
}

static enum lvn_status read_pipeline(struct parser *s, struct lvn_template_command **out)
{
    for (struct lvn_template_command **end = out;; end = &(*end)->next) {
        *end = lvn_arena_alloc(s->arena, sizeof **end);
        if (!*end) return LVN_MEMORY;
        LVN_TRY(read_command(s, *end));
        CHECK(end == out || (*end)->terms->kind == LVN_TERM_FUNCTION, s, "a function is missing behind '|'");
        if (!accept(s, "|")) return LVN_OK;
    }
}

/* --- actions and text --- */

/* Go to the next action and append the text before it; false: the file ends here. */
static enum lvn_status read_until_action(struct parser *s, struct lvn_template_node **node, bool *found)
{
    const char *first = s->p, *open = strstr(s->p, "{{"), *last = open ? open : s->p + strlen(s->p);
    *node = NULL;
    *found = open != NULL;
    if (s->trim)
        while (first < last && is_blank(*first)) first++;
    if (open && open[2] == '-' && is_blank(open[3]))
        while (last > first && is_blank(last[-1])) last--;
    if (last > first) {
        *node = lvn_arena_alloc(s->arena, sizeof **node);
        if (!*node) return LVN_MEMORY;
        **node = (struct lvn_template_node){
            .kind = LVN_NODE_TEXT, .file = s->file, .line = s->line, .text = first, .bytes = last - first};
    }
    for (const char *end = open ? open : last; s->p < end; s->p++) s->line += *s->p == '\n';
    if (!open) return LVN_OK;
    s->p += open[2] == '-' && is_blank(open[3]) ? 3 : 2;
    return LVN_OK;
}

/* Find the end of the action at the cursor: the first }} outside of texts. A comment is skipped. */
static enum lvn_status find_end(struct parser *s, bool *comment)
{
    const char *p = s->p;
    while (is_blank(*p)) p++;
    *comment = !strncmp(p, "/*", 2);
    if (*comment) {
        p = strstr(p, "*/");
        CHECK(p, s, "the end */ of a comment is missing");
        p += 2;
        while (is_blank(*p)) p++;
        if (*p == '-') p++;
        CHECK(!strncmp(p, "}}", 2), s, "a comment must be alone in its {{ }}");
    } else {
        for (bool text = false; *p && (text || strncmp(p, "}}", 2)); p++) {
            if (text && *p == '\\' && p[1])
                p++;
            else if (*p == '"')
                text = !text;
        }
        CHECK(*p, s, "the closing }} is missing");
    }
    s->trim = p > s->p + 1 && p[-1] == '-' && (is_blank(p[-2]) || *comment);
    s->end = s->trim ? p - 1 : p;
    return LVN_OK;
}

static void skip_action_end(struct parser *s)
{
    const char *end = s->end + (s->trim ? 3 : 2);
    for (; s->p < end; s->p++) s->line += *s->p == '\n';
}

static enum lvn_status end_of_action(struct parser *s)
{
    skip_blanks(s);
    CHECK(s->p == s->end, s, "'%.*s' is too much here", (int)(s->end - s->p > 40 ? 40 : s->end - s->p), s->p);
    skip_action_end(s);
    return LVN_OK;
}

enum stop { STOP_FILE, STOP_END, STOP_ELSE };
static enum lvn_status read_nodes(struct parser *s, struct lvn_template_node **out, enum stop *stop);

/* $x := or $k, $v := at the cursor; else nothing is read. */
static enum lvn_status read_variables(struct parser *s, struct lvn_template_node *n)
{
    skip_blanks(s);
    const char *before = s->p;
    if (s->p >= s->end || *s->p != '$') return LVN_OK;
    s->p++;
    n->variable = name(s);
    if (n->variable && n->kind == LVN_NODE_RANGE && accept(s, ",")) {
        n->key = n->variable;
        CHECK(accept(s, "$"), s, "a second variable is missing behind ','");
        n->variable = name(s);
    }
    if (!n->variable) return LVN_MEMORY;
    if (accept(s, ":=")) return *n->variable ? LVN_OK : error(s, "a variable is called $ and a name");
    s->p = before;
    n->key = n->variable = NULL;
    return LVN_OK;
}

/* The body of {{ if }} or {{ range }}, from behind the word; `else if` is an IF in `otherwise`. */
static enum lvn_status read_block(struct parser *s, struct lvn_template_node *n)
{
    enum stop stop;
    const int line = s->line;
    if (n->kind == LVN_NODE_RANGE) LVN_TRY(read_variables(s, n));
    LVN_TRY(read_pipeline(s, &n->pipeline));
    LVN_TRY(end_of_action(s));
    LVN_TRY(read_nodes(s, &n->body, &stop));
    if (stop == STOP_ELSE && accept_word(s, "if")) {
        struct lvn_template_node *other = n->otherwise = lvn_arena_alloc(s->arena, sizeof *other);
        CHECK(n->kind == LVN_NODE_IF, s, "`else if` belongs to an if");
        CHECK(++s->depth <= DEPTH, s, "more than %d levels of blocks and parentheses", DEPTH);
        if (!other) return LVN_MEMORY;
        *other = (struct lvn_template_node){.kind = LVN_NODE_IF, .file = s->file, .line = s->line};
        LVN_TRY(read_block(s, other));
        s->depth--;
        return LVN_OK;
    }
    if (stop == STOP_ELSE) {
        LVN_TRY(end_of_action(s));
        LVN_TRY(read_nodes(s, &n->otherwise, &stop));
        CHECK(stop != STOP_ELSE, s, "a second else");
    }
    s->line = stop == STOP_FILE ? line : s->line;
    CHECK(stop == STOP_END, s, "the {{ end }} of this %s is missing", n->kind == LVN_NODE_IF ? "if" : "range");
    return LVN_OK;
}

static enum lvn_status read_define(struct parser *s)
{
    const struct lvn_variant *title;
    enum stop stop;
    const int line = s->line;
    skip_blanks(s);
    CHECK(s->p < s->end && *s->p == '"', s, "define wants a name in quotes");
    LVN_TRY(read_text(s, &title));
    LVN_TRY(end_of_action(s));
    struct lvn_template_define *d = lvn_arena_alloc(s->arena, sizeof *d);
    if (!d) return LVN_MEMORY;
    d->name = title->text;
    LVN_TRY(read_nodes(s, &d->body, &stop));
    s->line = stop == STOP_FILE ? line : s->line;
    CHECK(stop == STOP_END, s, "the {{ end }} of the define of \"%.60s\" is missing", d->name);
    d->next = s->templates->defines;
    s->templates->defines = d;
    return LVN_OK;
}

/* One action; *node stays NULL for those that leave nothing in the tree. */
static enum lvn_status read_action(struct parser *s, struct lvn_template_node **node, enum stop *stop, bool *stops)
{
    *stops = accept_word(s, "end") || accept_word(s, "else");
    if (*stops) {
        *stop = s->p[-1] == 'd' ? STOP_END : STOP_ELSE;
        return *stop == STOP_END ? end_of_action(s) : LVN_OK;
    }
    if (accept_word(s, "define")) {
        CHECK(s->depth == 1, s, "define stands outside of all blocks");
        return read_define(s);
    }
    struct lvn_template_node *n = *node = lvn_arena_alloc(s->arena, sizeof *n);
    if (!n) return LVN_MEMORY;
    *n = (struct lvn_template_node){.kind = LVN_NODE_OUTPUT, .file = s->file, .line = s->line};
    if (accept_word(s, "if")) {
        n->kind = LVN_NODE_IF;
        return read_block(s, n);
    }
    if (accept_word(s, "range")) {
        n->kind = LVN_NODE_RANGE;
        return read_block(s, n);
    }
    LVN_TRY(read_variables(s, n));
    if (n->variable) n->kind = LVN_NODE_ASSIGN;
    LVN_TRY(read_pipeline(s, &n->pipeline));
    return end_of_action(s);
}

/* Read up to {{ end }}, {{ else (without what follows the word) or the end of the file. */
static enum lvn_status read_nodes(struct parser *s, struct lvn_template_node **out, enum stop *stop)
{
    bool found = true, stops = false, comment;
    CHECK(++s->depth <= DEPTH, s, "more than %d levels of blocks and parentheses", DEPTH);
    *stop = STOP_FILE;
    while (!stops) {
        struct lvn_template_node *node = NULL;
        LVN_TRY(read_until_action(s, out, &found));
        if (*out) out = &(*out)->next;
        if (!found) break;
        LVN_TRY(find_end(s, &comment));
        if (comment) {
            skip_action_end(s);
            continue;
        }
        LVN_TRY(read_action(s, &node, stop, &stops));
        *out = node;
        if (node) out = &node->next;
    }
    s->depth--;
    return LVN_OK;
}

enum lvn_status lvn_template_parse(struct lvn_templates *t, const char *file, const char *text)
{
    struct parser s = {.templates = t, .arena = t->arena, .file = file, .p = text, .end = text, .line = 1};
    struct lvn_template_define *d = lvn_arena_alloc(t->arena, sizeof *d);
    enum stop stop;
    if (!d) return LVN_MEMORY;
    d->name = file;
    LVN_TRY(read_nodes(&s, &d->body, &stop));
    CHECK(stop == STOP_FILE, &s, "an {{ %s }} without an if or a range before it", stop == STOP_END ? "end" : "else");
    d->next = t->defines;
    t->defines = d;
    return LVN_OK;
}
