/* variant.c - see variant.h. */
#include "formats/variant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"

struct lvn_variant *lvn_variant_new(struct lvn_arena *a, enum lvn_variant_kind kind)
{
    struct lvn_variant *v = lvn_arena_alloc(a, sizeof *v);
    if (v) v->kind = kind;
    return v;
}

struct lvn_variant *lvn_variant_text(struct lvn_arena *a, const char *text)
{
    struct lvn_variant *v = lvn_variant_new(a, LVN_VARIANT_TEXT);
    if (v) v->text = lvn_arena_strdup(a, text);
    return v && v->text ? v : NULL;
}

struct lvn_variant *lvn_variant_int(struct lvn_arena *a, int64_t i)
{
    struct lvn_variant *v = lvn_variant_new(a, LVN_VARIANT_INT);
    if (v) v->i = i;
    return v;
}

struct lvn_variant *lvn_variant_bool(struct lvn_arena *a, bool b)
{
    struct lvn_variant *v = lvn_variant_new(a, LVN_VARIANT_BOOL);
    if (v) v->b = b;
    return v;
}

/* --- scalars --- */

static bool is_word(const char *text, const char *const *words)
{
    for (; *words; words++)
        if (!strcmp(text, *words)) return true;
    return false;
}

/* Is it written like a number: an optional sign, then a digit, or a point and a digit? */
static bool begins_like_number(const char *p)
{
    p += *p == '-' || *p == '+';
    p += *p == '.';
    return *p >= '0' && *p <= '9';
}

/* Digits, a point and an exponent, or digits alone? */
static bool is_decimal(const char *p, bool *whole)
{
    static const char digits[] = "0123456789";
    p += *p == '-' || *p == '+';
    size_t n = strspn(p, digits), fraction = 0;
    *whole = p[n] == '\0';
    p += n;
    if (*p == '.') fraction = strspn(++p, digits);
    p += fraction;
    if (!n && !fraction) return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        p += *p == '-' || *p == '+';
        size_t exponent = strspn(p, digits);
        if (!exponent) return false;
        p += exponent;
    }
    return *p == '\0';
}

/* Numbers that readers of YAML take for something else than they seem: 010, 0x10, 0o17, 1_000. */
static bool is_ambiguous(const char *p, bool decimal)
{
    p += *p == '-' || *p == '+';
    if (decimal) return p[0] == '0' && p[1] >= '0' && p[1] <= '9';
    if (p[0] == '0' && p[1] && strchr("xXoObB", p[1])) return true;
    return p[strspn(p, "0123456789_")] == '\0' && strchr(p, '_');
}

static enum lvn_status number(struct lvn_arena *a, const char *text, bool whole, struct lvn_variant **out)
{
    errno = 0;
    int64_t i = whole ? strtoll(text, NULL, 10) : 0;
    whole = whole && !errno;
    struct lvn_variant *v = lvn_variant_new(a, whole ? LVN_VARIANT_INT : LVN_VARIANT_REAL);
    if (!v) return LVN_MEMORY;
    v->i = i;
    v->r = strtod(text, NULL);
    v->text = lvn_arena_strdup(a, text);
    *out = v;
    return v->text ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_variant_plain(struct lvn_arena *a, const char *text, struct lvn_variant **out)
{
    static const char *const null[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", NULL};
    static const char *const no[] = {"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", NULL};
    bool whole = false, decimal = begins_like_number(text) && is_decimal(text, &whole);
    LVN_CHECK(
        !begins_like_number(text) || !is_ambiguous(text, decimal), ARG,
        "readers of YAML do not agree on the number %.40s; write it in plain digits, or in quotes if it is a text",
        text);
    if (is_word(text, null)) {
        *out = lvn_variant_new(a, LVN_VARIANT_NULL);
    } else if (is_word(text, yes) || is_word(text, no)) {
        *out = lvn_variant_bool(a, is_word(text, yes));
    } else if (decimal) {
        return number(a, text, whole, out);
    } else {
        *out = lvn_variant_text(a, text);
    }
    return *out ? LVN_OK : LVN_MEMORY;
}

/* --- trees --- */

enum lvn_status lvn_variant_from_yaml(struct lvn_arena *a, const struct lvn_yaml *y, const char *name,
                                      struct lvn_variant **out)
{
    struct lvn_variant *v = NULL;
    if (y->kind == LVN_YAML_SCALAR && !y->quoted) {
        LVN_TRY_WHILE(lvn_variant_plain(a, y->text, &v), "reading %s, line %d", name, y->line);
    } else if (y->kind == LVN_YAML_SCALAR) {
        v = lvn_variant_text(a, y->text);
    } else {
        v = lvn_variant_new(a, y->kind == LVN_YAML_MAP ? LVN_VARIANT_MAP : LVN_VARIANT_LIST);
    }
    if (!v) return LVN_MEMORY;
    v->where = name;
    v->line = y->line;
    struct lvn_variant **end = &v->child;
    for (const struct lvn_yaml *c = y->child; c; c = c->next) {
        LVN_TRY(lvn_variant_from_yaml(a, c, name, end));
        (*end)->key = c->key;
        end = &(*end)->next;
        v->n++;
    }
    *out = v;
    return LVN_OK;
}

const struct lvn_variant *lvn_variant_get(const struct lvn_variant *v, const char *key)
{
    if (!v || v->kind != LVN_VARIANT_MAP) return NULL;
    for (const struct lvn_variant *c = v->child; c; c = c->next)
        if (!strcmp(c->key, key)) return c;
    return NULL;
}

static struct lvn_variant *copy_of(struct lvn_arena *a, const char *key, const struct lvn_variant *value)
{
    struct lvn_variant *v = lvn_variant_new(a, value->kind);
    if (!v) return NULL;
    *v = *value;
    v->next = NULL;
    v->key = key ? lvn_arena_strdup(a, key) : NULL;
    return key && !v->key ? NULL : v;
}

enum lvn_status lvn_variant_set(struct lvn_arena *a, struct lvn_variant *map, const char *key,
                                const struct lvn_variant *value)
{
    struct lvn_variant *v = copy_of(a, key, value), **at = &map->child;
    if (!v) return LVN_MEMORY;
    while (*at && strcmp((*at)->key, key)) at = &(*at)->next;
    if (*at)
        v->next = (*at)->next;
    else
        map->n++;
    *at = v;
    return LVN_OK;
}

enum lvn_status lvn_variant_append(struct lvn_arena *a, struct lvn_variant *list, const struct lvn_variant *value)
{
    struct lvn_variant *v = copy_of(a, NULL, value), **at = &list->child;
    if (!v) return LVN_MEMORY;
    while (*at) at = &(*at)->next;
    *at = v;
    list->n++;
    return LVN_OK;
}

enum lvn_status lvn_variant_merge(struct lvn_arena *a, const struct lvn_variant *base, const struct lvn_variant *over,
                                  struct lvn_variant **out)
{
    struct lvn_variant *v = lvn_variant_new(a, LVN_VARIANT_MAP);
    if (!v) return LVN_MEMORY;
    v->where = over->where;
    v->line = over->line;
    for (const struct lvn_variant *c = base->child; c; c = c->next)
        if (!lvn_variant_get(over, c->key)) LVN_TRY(lvn_variant_set(a, v, c->key, c));
    for (const struct lvn_variant *c = over->child; c; c = c->next) {
        const struct lvn_variant *below = lvn_variant_get(base, c->key);
        struct lvn_variant *merged = NULL;
        if (c->kind == LVN_VARIANT_NULL && below) continue;
        if (c->kind == LVN_VARIANT_MAP && below && below->kind == LVN_VARIANT_MAP)
            LVN_TRY(lvn_variant_merge(a, below, c, &merged));
        LVN_TRY(lvn_variant_set(a, v, c->key, merged ? merged : c));
    }
    *out = v;
    return LVN_OK;
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(const struct lvn_variant *const *)a)->key, (*(const struct lvn_variant *const *)b)->key);
}

const struct lvn_variant **lvn_variant_sorted(struct lvn_arena *a, const struct lvn_variant *v)
{
    const struct lvn_variant **list = lvn_arena_alloc(a, sizeof *list * (size_t)(v->n + 1));
    int n = 0;
    for (const struct lvn_variant *c = v->child; list && c; c = c->next) list[n++] = c;
    if (list && v->kind == LVN_VARIANT_MAP) qsort(list, (size_t)n, sizeof *list, by_key);
    return list;
}

bool lvn_variant_is_true(const struct lvn_variant *v)
{
    if (!v) return false;
    switch (v->kind) {
    case LVN_VARIANT_NULL:
        return false;
    case LVN_VARIANT_BOOL:
        return v->b;
    case LVN_VARIANT_INT:
        return v->i != 0;
    case LVN_VARIANT_REAL:
        return v->r != 0;
    case LVN_VARIANT_TEXT:
        return *v->text;
    case LVN_VARIANT_MAP:
    case LVN_VARIANT_LIST:
        break;
    }
    return v->n > 0;
}

const char *lvn_variant_kind_text(const struct lvn_variant *v)
{
    static const char *const words[] = {
        [LVN_VARIANT_NULL] = "null",   [LVN_VARIANT_BOOL] = "true or false", [LVN_VARIANT_INT] = "whole number",
        [LVN_VARIANT_REAL] = "number", [LVN_VARIANT_TEXT] = "text",          [LVN_VARIANT_MAP] = "map",
        [LVN_VARIANT_LIST] = "list"};
    return words[v ? v->kind : LVN_VARIANT_NULL];
}

/* --- as YAML --- */

void lvn_variant_quote(struct lvn_text *t, const char *text)
{
    lvn_text_add(t, "\"");
    int used;
    for (size_t left = strlen(text); left > 0; text += used, left -= (size_t)used) {
        int32_t code = lvn_utf8_decode(text, (int64_t)left, &used);
        if (code == '"' || code == '\\')
            lvn_text_printf(t, "\\%c", (char)code);
        else if (code == '\n')
            lvn_text_add(t, "\\n");
        else if (code == '\t')
            lvn_text_add(t, "\\t");
        else if (code < 0)
            lvn_text_add(t, "\\ufffd");
        else if (code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 || code == 0xfeff)
            lvn_text_printf(t, "\\u%04x", (unsigned)code);
        else
            lvn_text_add_bytes(t, text, used);
    }
    lvn_text_add(t, "\"");
}

/* Does the text, without quotes, read as itself? */
static bool is_plain(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char inside[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-:";
    static const char *const others[] = {"y",     "Y",   "yes", "Yes", "YES",  "true", "True", "TRUE",  "on",
                                         "On",    "ON",  "n",   "N",   "no",   "No",   "NO",   "false", "False",
                                         "FALSE", "off", "Off", "OFF", "null", "Null", "NULL", NULL};
    size_t n = strlen(text);
    return n && strchr(letters, *text) && !text[strspn(text, inside)] && text[n - 1] != ':' && !is_word(text, others);
}

static void add_text(struct lvn_text *t, const char *text)
{
    if (is_plain(text))
        lvn_text_add(t, text);
    else
        lvn_variant_quote(t, text);
}

void lvn_variant_print(struct lvn_text *t, const struct lvn_variant *v)
{
    if (!v) return;
    if (v->kind == LVN_VARIANT_BOOL)
        lvn_text_add(t, v->b ? "true" : "false");
    else if (v->kind == LVN_VARIANT_INT)
        lvn_text_printf(t, "%lld", (long long)v->i);
    else if (v->kind == LVN_VARIANT_REAL && v->text)
        lvn_text_add(t, v->text);
    else if (v->kind == LVN_VARIANT_REAL)
        lvn_text_printf(t, "%.17g", v->r);
    else if (v->kind == LVN_VARIANT_TEXT)
        lvn_text_add(t, v->text);
}

/* `first`: the cursor is where the first line of v belongs; further lines are indented. */
static enum lvn_status add(struct lvn_arena *a, struct lvn_text *t, const struct lvn_variant *v, int indent)
{
    const bool map = v->kind == LVN_VARIANT_MAP, list = v->kind == LVN_VARIANT_LIST;
    if (v->kind == LVN_VARIANT_NULL) {
        lvn_text_add(t, "null");
    } else if (v->kind == LVN_VARIANT_TEXT) {
        add_text(t, v->text);
    } else if (!map && !list) {
        lvn_variant_print(t, v);
    } else if (!v->n) {
        lvn_text_add(t, map ? "{}" : "[]");
    } else {
        const struct lvn_variant **child = lvn_variant_sorted(a, v);
        if (!child) return LVN_MEMORY;
        for (int i = 0; i < v->n; i++) {
            const bool nested = child[i]->n > 0, below = map && nested;
            if (i) lvn_text_printf(t, "\n%*s", indent, "");
            if (map) add_text(t, child[i]->key);
            lvn_text_add(t, map ? ":" : "- ");
            if (map && !nested) lvn_text_add(t, " ");
            if (below) lvn_text_printf(t, "\n%*s", indent + 2, "");
            LVN_TRY(add(a, t, child[i], indent + 2));
        }
    }
    return lvn_text_status(t);
}

enum lvn_status lvn_variant_yaml(struct lvn_arena *a, struct lvn_text *t, const struct lvn_variant *v)
{
    const struct lvn_variant null = {.kind = LVN_VARIANT_NULL};
    return add(a, t, v ? v : &null, 0);
}
