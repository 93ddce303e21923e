/* assignments.c - Python's arithmetic by recursive descent: see assignments.h.
 *
 * After The Python Language Reference, 6 and 7. Left out, and so unread: calls, attributes, subscripts, comparisons,
 * conditions, containers, f-strings, bytes, complex numbers, += and its kin, assignments to several names. */
#include "formats/assignments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "formats/python_words.h"

enum { MOST_STATEMENTS = 10000, MOST_BYTES = 1 << 20, DEPTH = 64 };

struct reader {
    struct lvn_py_scanner words;
    const struct lvn_assigned *list; /* so far, for names */
    int n_list, depth;
};

static enum lvn_status next(struct reader *r)
{
    return lvn_py_next(&r->words);
}

static bool is_operator(const struct reader *r, const char *what)
{
    return lvn_py_is_operator(&r->words, what);
}

static bool is_token(const struct reader *r, enum lvn_py_token token)
{
    return r->words.token == token;
}

/* --- values; a kind of UNREAD is a value that is not read --- */

static const struct lvn_assigned unread = {.kind = LVN_ASSIGNED_UNREAD};

static struct lvn_assigned of_number(double x, bool whole)
{
    if (!isfinite(x)) return unread;
    return (struct lvn_assigned){.kind = LVN_ASSIGNED_NUMBER, .number = x, .whole = whole};
}

static struct lvn_assigned of_two(struct lvn_assigned a, struct lvn_assigned b, const char *what)
{
    bool numbers = (a.kind == LVN_ASSIGNED_NUMBER || a.kind == LVN_ASSIGNED_BOOL) &&
                   (b.kind == LVN_ASSIGNED_NUMBER || b.kind == LVN_ASSIGNED_BOOL);
    bool whole = (a.whole || a.kind == LVN_ASSIGNED_BOOL) && (b.whole || b.kind == LVN_ASSIGNED_BOOL);
    double x = a.number, y = b.number;
    if (!numbers) return unread;
    if (!strcmp(what, "+")) return of_number(x + y, whole);
    if (!strcmp(what, "-")) return of_number(x - y, whole);
    if (!strcmp(what, "*")) return of_number(x * y, whole);
    if (!strcmp(what, "**")) return x == 0 && y < 0 ? unread : of_number(pow(x, y), whole && y >= 0);
    if (y == 0) return unread;
    if (!strcmp(what, "/")) return of_number(x / y, false);
    if (!strcmp(what, "//")) return of_number(floor(x / y), whole);
    return of_number(x - y * floor(x / y), whole);
}

static enum lvn_status sum(struct reader *r, struct lvn_assigned *v);

static struct lvn_assigned name_value(const struct reader *r)
{
    if (lvn_py_is_name(&r->words, "True") || lvn_py_is_name(&r->words, "False"))
        return (struct lvn_assigned){.kind = LVN_ASSIGNED_BOOL, .number = r->words.n == 4};
    if (lvn_py_is_name(&r->words, "None")) return (struct lvn_assigned){.kind = LVN_ASSIGNED_NONE};
    for (int i = r->n_list - 1; i >= 0; i--) {
        const char *name = r->list[i].name;
        if (name && (int64_t)strlen(name) == r->words.n && !memcmp(name, r->words.at, (size_t)r->words.n))
            return r->list[i];
    }
    return unread;
}

static enum lvn_status atom(struct reader *r, struct lvn_assigned *v)
{
    *v = unread;
    if (is_token(r, LVN_PY_NUMBER)) {
        *v = of_number(r->words.number, r->words.whole);
        return next(r);
    }
    if (is_token(r, LVN_PY_NAME)) {
        *v = name_value(r);
        return next(r);
    }
    if (is_token(r, LVN_PY_STRING)) { /* neighbours are one string */
        *v = (struct lvn_assigned){.kind = LVN_ASSIGNED_TEXT, .text = ""};
        while (is_token(r, LVN_PY_STRING)) {
            v->text = lvn_arena_printf(r->words.arena, "%s%s", v->text, r->words.text);
            if (!v->text) return LVN_MEMORY;
            LVN_TRY(next(r));
        }
        return LVN_OK;
    }
    if (!is_operator(r, "(") || r->depth >= DEPTH) return LVN_OK;
    r->depth++;
    LVN_TRY(next(r));
    LVN_TRY(sum(r, v));
    r->depth--;
    if (!is_operator(r, ")")) {
        *v = unread;
        return LVN_OK;
    }
    return next(r);
}

static enum lvn_status signed_one(struct reader *r, struct lvn_assigned *v);

static enum lvn_status power(struct reader *r, struct lvn_assigned *v)
{
    struct lvn_assigned exponent;
    LVN_TRY(atom(r, v));
    if (!is_operator(r, "**")) return LVN_OK;
    LVN_TRY(next(r));
    LVN_TRY(signed_one(r, &exponent));
    *v = of_two(*v, exponent, "**");
    return LVN_OK;
}

static enum lvn_status signed_one(struct reader *r, struct lvn_assigned *v)
{
    bool minus = is_operator(r, "-");
    if (!minus && !is_operator(r, "+")) return power(r, v);
    if (r->depth >= DEPTH) {
        *v = unread;
        return LVN_OK;
    }
    r->depth++;
    LVN_TRY(next(r));
    LVN_TRY(signed_one(r, v));
    r->depth--;
    *v = of_two(of_number(0, true), *v, minus ? "-" : "+");
    return LVN_OK;
}

static enum lvn_status product(struct reader *r, struct lvn_assigned *v)
{
    struct lvn_assigned right;
    LVN_TRY(signed_one(r, v));
    while (is_operator(r, "*") || is_operator(r, "/") || is_operator(r, "//") || is_operator(r, "%")) {
        char what[4];
        memcpy(what, r->words.sign, sizeof what);
        LVN_TRY(next(r));
        LVN_TRY(signed_one(r, &right));
        *v = of_two(*v, right, what);
    }
    return LVN_OK;
}

static enum lvn_status sum(struct reader *r, struct lvn_assigned *v)
{
    struct lvn_assigned right;
    LVN_TRY(product(r, v));
    while (is_operator(r, "+") || is_operator(r, "-")) {
        char what[4];
        memcpy(what, r->words.sign, sizeof what);
        LVN_TRY(next(r));
        LVN_TRY(product(r, &right));
        if (v->kind == LVN_ASSIGNED_TEXT && right.kind == LVN_ASSIGNED_TEXT && *what == '+') {
            v->text = lvn_arena_printf(r->words.arena, "%s%s", v->text, right.text);
            if (!v->text) return LVN_MEMORY;
        } else {
            *v = of_two(*v, right, what);
        }
    }
    return LVN_OK;
}

/* --- statements --- */

/* The value as text: as a recipe has it. */
static enum lvn_status spell(struct reader *r, struct lvn_assigned *v)
{
    char text[40];
    if (v->kind == LVN_ASSIGNED_TEXT) return LVN_OK;
    if (v->kind == LVN_ASSIGNED_BOOL)
        snprintf(text, sizeof text, "%s", v->number != 0 ? "true" : "false");
    else if (v->kind == LVN_ASSIGNED_NONE)
        snprintf(text, sizeof text, "none");
    else if (v->whole && fabs(v->number) < 1e15)
        snprintf(text, sizeof text, "%.0f", v->number);
    else
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, v->number);
            if (strtod(text, NULL) == v->number) break;
        }
    v->text = lvn_arena_strdup(r->words.arena, text);
    return v->text ? LVN_OK : LVN_MEMORY;
}

/* To the end of the statement. */
static enum lvn_status pass_over(struct reader *r)
{
    while (!is_token(r, LVN_PY_NEWLINE) && !is_token(r, LVN_PY_END)) LVN_TRY(next(r));
    return LVN_OK;
}

/* "=", or "+=" and its kin. */
static bool is_assignment(const struct reader *r)
{
    static const char *const signs[] = {"=", "+=", "-=", "*=", "/=", "%="};
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (is_operator(r, signs[i])) return true;
    return false;
}

/* NAME = VALUE, or NAME: TYPE = VALUE, of which the name is read already. */
static enum lvn_status assignment(struct reader *r, bool indented, struct lvn_assigned *v)
{
    const char *name = v->name;
    int line = v->line;
    *v = unread;
    if (is_operator(r, ":")) {
        LVN_TRY(next(r));
        if (is_token(r, LVN_PY_NAME)) LVN_TRY(next(r));
    }
    bool plain = is_operator(r, "=");
    if (is_assignment(r)) {
        LVN_TRY(next(r));
        LVN_TRY(sum(r, v));
        bool ends = is_token(r, LVN_PY_NEWLINE) || is_token(r, LVN_PY_END) || is_operator(r, ";");
        if (!ends || !plain || indented) *v = unread;
        v->name = name;
    }
    v->line = line;
    return LVN_OK;
}

/* Adds what the statement at hand is to *v; *there false: it says nothing. */
static enum lvn_status statement(struct reader *r, bool indented, struct lvn_assigned *v, bool *there)
{
    const char *from = r->words.at;
    *v = unread;
    v->line = r->words.at_line;
    *there = true;
    if (is_token(r, LVN_PY_STRING) || lvn_py_is_name(&r->words, "pass")) { /* a comment, in Python's way */
        LVN_TRY(next(r));
        *there = !is_token(r, LVN_PY_NEWLINE) && !is_token(r, LVN_PY_END) && !is_operator(r, ";");
    } else if (is_token(r, LVN_PY_NAME)) {
        v->name = lvn_arena_printf(r->words.arena, "%.*s", (int)r->words.n, r->words.at);
        if (!v->name) return LVN_MEMORY;
        LVN_TRY(next(r));
        LVN_TRY(assignment(r, indented, v));
    }
    if (v->kind != LVN_ASSIGNED_UNREAD) return spell(r, v);
    if (!*there) return LVN_OK;
    LVN_TRY(pass_over(r));
    int64_t n = r->words.at - from;
    const char *stop = memchr(from, '\n', (size_t)n);
    if (stop) n = stop - from;
    while (n && (from[n - 1] == ' ' || from[n - 1] == '\r')) n--;
    if (n > 100) /* cut before a character, not within one */
        for (n = 100; n && ((unsigned char)from[n] & 0xc0) == 0x80;) n--;
    v->text = lvn_arena_printf(r->words.arena, "%.*s", (int)n, from);
    return v->text ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status statements(struct reader *r, struct lvn_assigned *list, int *n)
{
    bool indented = false, begins = true;
    for (;;) {
        if (begins) indented = r->words.p < r->words.end && (*r->words.p == ' ' || *r->words.p == '\t');
        LVN_TRY(next(r));
        begins = is_token(r, LVN_PY_NEWLINE);
        if (is_token(r, LVN_PY_END)) return LVN_OK;
        if (is_token(r, LVN_PY_NEWLINE) || is_operator(r, ";")) continue;
        LVN_CHECK(*n < MOST_STATEMENTS, FORMAT, "'%s' has more than %d statements: it is no configuration",
                  r->words.name, MOST_STATEMENTS);
        bool there;
        r->depth = 0;
        LVN_TRY(statement(r, indented, &list[*n], &there));
        *n += there;
        r->n_list = *n;
        begins = is_token(r, LVN_PY_NEWLINE);
        if (is_token(r, LVN_PY_END)) return LVN_OK;
    }
}

enum lvn_status lvn_assignments_parse(struct lvn_arena *a, const char *name, const char *text, int64_t bytes,
                                      const struct lvn_assigned **list, int *n)
{
    struct lvn_assigned *all = lvn_arena_alloc(a, sizeof *all * MOST_STATEMENTS);
    struct reader r = {
        .words = {.arena = a, .name = name, .p = text + lvn_utf8_mark(text, bytes), .end = text + bytes, .line = 1},
        .list = all};
    *n = 0;
    *list = all;
    if (!all) return LVN_MEMORY;
    LVN_CHECK(lvn_utf8_check(text, bytes) < 0 && !memchr(text, 0, (size_t)bytes), FORMAT,
              "'%s' is no text: it is not UTF-8, or holds a NUL", name);
    return statements(&r, all, n);
}

enum lvn_status lvn_assignments_read(struct lvn_arena *a, const char *path, const struct lvn_assigned **list, int *n)
{
    char *text;
    int64_t bytes;
    LVN_TRY(lvn_file_read(path, MOST_BYTES, &text, &bytes));
    enum lvn_status status = lvn_assignments_parse(a, path, text, bytes, list, n);
    free(text);
    return status;
}

const struct lvn_assigned *lvn_assignments_find(const struct lvn_assigned *list, int n, const char *name)
{
    for (int i = n - 1; i >= 0; i--)
        if (list[i].name && list[i].kind != LVN_ASSIGNED_UNREAD && !strcmp(list[i].name, name)) return &list[i];
    return NULL;
}
