/* template_functions.c - the functions of templates: those of Go and of Helm that the chart in deploy/helm/levin calls,
 * with their results. A further one is a row of the table at the end. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "formats/template/template_private.h"

#define FUNCTION(name)                                                                                                 \
    static enum lvn_status name(struct lvn_template_run *r, const struct lvn_variant *const *argument, int n,          \
                                const struct lvn_variant **out)

static enum lvn_status want_text(struct lvn_template_run *r, const char *function, const struct lvn_variant *v)
{
    LVN_TEMPLATE_CHECK(v->kind == LVN_VARIANT_TEXT, r, "%s wants a text, and got %s", function,
                       lvn_variant_kind_text(v));
    return LVN_OK;
}

static enum lvn_status give_text(struct lvn_template_run *r, struct lvn_text *t, const struct lvn_variant **out)
{
    const char *string = lvn_text_string(t);
    *out = string ? lvn_variant_text(r->arena, string) : NULL;
    return *out ? LVN_OK : LVN_MEMORY;
}

/* --- texts --- */

FUNCTION(quote)
{
    LVN_LOCAL_TEXT(plain);
    LVN_LOCAL_TEXT(t);
    for (int i = 0; i < n; i++) {
        if (argument[i]->kind == LVN_VARIANT_NULL) continue;
        LVN_TEMPLATE_CHECK(argument[i]->kind < LVN_VARIANT_MAP, r, "quote wants a text, and got a %s",
                           lvn_variant_kind_text(argument[i]));
        lvn_text_clear(&plain);
        lvn_variant_print(&plain, argument[i]);
        if (t.n) lvn_text_add(&t, " ");
        lvn_variant_quote(&t, plain.p ? plain.p : "");
        t.failed |= plain.failed;
    }
    return give_text(r, &t, out);
}

FUNCTION(to_yaml)
{
    (void)n;
    LVN_LOCAL_TEXT(t);
    LVN_TRY(lvn_variant_yaml(r->arena, &t, argument[0]));
    return give_text(r, &t, out);
}

FUNCTION(nindent)
{
    (void)n;
    LVN_LOCAL_TEXT(t);
    LVN_TEMPLATE_CHECK(argument[0]->kind == LVN_VARIANT_INT && argument[0]->i >= 0 && argument[0]->i <= 100, r,
                       "nindent wants a number of blanks from 0 to 100");
    LVN_TRY(want_text(r, "nindent", argument[1]));
    const char *line = argument[1]->text;
    for (size_t length;; line += length + 1) {
        length = strcspn(line, "\n");
        lvn_text_printf(&t, "\n%*s", (int)argument[0]->i, "");
        lvn_text_add_bytes(&t, line, (int64_t)length);
        if (!line[length]) break;
    }
    return give_text(r, &t, out);
}

FUNCTION(trim_suffix)
{
    (void)n;
    LVN_TRY(want_text(r, "trimSuffix", argument[0]));
    LVN_TRY(want_text(r, "trimSuffix", argument[1]));
    const char *text = argument[1]->text;
    size_t length = strlen(text), tail = strlen(argument[0]->text);
    if (!lvn_ends_with(text, argument[0]->text)) tail = 0;
    char *cut = lvn_arena_strdup(r->arena, text);
    if (!cut) return LVN_MEMORY;
    cut[length - tail] = '\0';
    *out = lvn_variant_text(r->arena, cut);
    return LVN_OK;
}

FUNCTION(has_prefix)
{
    (void)n;
    LVN_TRY(want_text(r, "hasPrefix", argument[0]));
    LVN_TRY(want_text(r, "hasPrefix", argument[1]));
    *out = lvn_variant_bool(r->arena, !strncmp(argument[1]->text, argument[0]->text, strlen(argument[0]->text)));
    return LVN_OK;
}

/* --- maps --- */

FUNCTION(has_key)
{
    (void)n;
    LVN_TEMPLATE_CHECK(argument[0]->kind == LVN_VARIANT_MAP, r, "hasKey wants a map, and got %s",
                       lvn_variant_kind_text(argument[0]));
    LVN_TRY(want_text(r, "hasKey", argument[1]));
    *out = lvn_variant_bool(r->arena, lvn_variant_get(argument[0], argument[1]->text) != NULL);
    return LVN_OK;
}

FUNCTION(kind_is)
{
    (void)n;
    static const char *const kinds[] = {
        [LVN_VARIANT_NULL] = "invalid", [LVN_VARIANT_BOOL] = "bool",   [LVN_VARIANT_INT] = "float64",
        [LVN_VARIANT_REAL] = "float64", [LVN_VARIANT_TEXT] = "string", [LVN_VARIANT_MAP] = "map",
        [LVN_VARIANT_LIST] = "slice"};
    LVN_TRY(want_text(r, "kindIs", argument[0]));
    *out = lvn_variant_bool(r->arena, !strcmp(kinds[argument[1]->kind], argument[0]->text));
    return LVN_OK;
}

FUNCTION(length)
{
    (void)n;
    const struct lvn_variant *v = argument[0];
    LVN_TEMPLATE_CHECK(v->kind >= LVN_VARIANT_TEXT, r, "len wants a text, a map or a list, and got %s",
                       lvn_variant_kind_text(v));
    *out = lvn_variant_int(r->arena, v->kind == LVN_VARIANT_TEXT ? (int64_t)strlen(v->text) : v->n);
    return LVN_OK;
}

FUNCTION(include)
{
    (void)n;
    LVN_LOCAL_TEXT(t);
    LVN_TRY(want_text(r, "include", argument[0]));
    LVN_TRY(lvn_template_include(r, argument[0]->text, argument[1], &t));
    return give_text(r, &t, out);
}

/* --- conditions --- */

FUNCTION(default_of)
{
    (void)r;
    (void)n;
    *out = argument[lvn_variant_is_true(argument[1])];
    return LVN_OK;
}

FUNCTION(not )
{
    (void)n;
    *out = lvn_variant_bool(r->arena, !lvn_variant_is_true(argument[0]));
    return LVN_OK;
}

/* Values of two kinds are no error where one is null; texts, numbers and booleans are compared with their like. */
static enum lvn_status equal(struct lvn_template_run *r, const struct lvn_variant *a, const struct lvn_variant *b,
                             bool *is)
{
    *is = false;
    if (a->kind == LVN_VARIANT_NULL || b->kind == LVN_VARIANT_NULL) {
        *is = a->kind == b->kind;
        return LVN_OK;
    }
    LVN_TEMPLATE_CHECK(a->kind == b->kind && a->kind < LVN_VARIANT_MAP, r, "eq compares %s with %s",
                       lvn_variant_kind_text(a), lvn_variant_kind_text(b));
    *is = a->kind == LVN_VARIANT_TEXT   ? !strcmp(a->text, b->text)
          : a->kind == LVN_VARIANT_INT  ? a->i == b->i
          : a->kind == LVN_VARIANT_REAL ? a->r == b->r
                                        : a->b == b->b;
    return LVN_OK;
}

FUNCTION(eq)
{
    bool is = false;
    for (int i = 1; i < n && !is; i++) LVN_TRY(equal(r, argument[0], argument[i], &is));
    *out = lvn_variant_bool(r->arena, is);
    return LVN_OK;
}

FUNCTION(ne)
{
    (void)n;
    bool is;
    LVN_TRY(equal(r, argument[0], argument[1], &is));
    *out = lvn_variant_bool(r->arena, !is);
    return LVN_OK;
}

FUNCTION(fail)
{
    (void)n;
    LVN_TRY(want_text(r, "fail", argument[0]));
    r->failed = true;
    *out = argument[0];
    LVN_FAIL(ARG, "%s", argument[0]->text);
}

/* --- whole numbers --- */

FUNCTION(to_int)
{
    (void)n;
    const struct lvn_variant *v = argument[0];
    int64_t i = 0;
    LVN_TEMPLATE_CHECK(v->kind < LVN_VARIANT_MAP, r, "int wants a number, and got a %s", lvn_variant_kind_text(v));
    if (v->kind == LVN_VARIANT_INT) i = v->i;
    if (v->kind == LVN_VARIANT_BOOL) i = v->b;
    if (v->kind == LVN_VARIANT_REAL && v->r > -9e18 && v->r < 9e18) i = (int64_t)v->r;
    if (v->kind == LVN_VARIANT_TEXT) {
        char *end;
        errno = 0;
        long long number = strtoll(v->text, &end, 10);
        if (!errno && !*end) i = number;
    }
    *out = lvn_variant_int(r->arena, i);
    return LVN_OK;
}

static enum lvn_status want_numbers(struct lvn_template_run *r, const char *function,
                                    const struct lvn_variant *const *argument)
{
    LVN_TEMPLATE_CHECK(argument[0]->kind == LVN_VARIANT_INT && argument[1]->kind == LVN_VARIANT_INT, r,
                       "%s wants two whole numbers, and got %s and %s; put int before them", function,
                       lvn_variant_kind_text(argument[0]), lvn_variant_kind_text(argument[1]));
    return LVN_OK;
}

FUNCTION(gt)
{
    (void)n;
    LVN_TRY(want_numbers(r, "gt", argument));
    *out = lvn_variant_bool(r->arena, argument[0]->i > argument[1]->i);
    return LVN_OK;
}

FUNCTION(mul)
{
    (void)n;
    int64_t product;
    LVN_TRY(want_numbers(r, "mul", argument));
    LVN_TEMPLATE_CHECK(!__builtin_mul_overflow(argument[0]->i, argument[1]->i, &product), r,
                       "mul: the product of %lld and %lld is too large", (long long)argument[0]->i,
                       (long long)argument[1]->i);
    *out = lvn_variant_int(r->arena, product);
    return LVN_OK;
}

FUNCTION(mod)
{
    (void)n;
    LVN_TRY(want_numbers(r, "mod", argument));
    LVN_TEMPLATE_CHECK(argument[1]->i > 0, r, "mod wants a divisor above 0");
    *out = lvn_variant_int(r->arena, argument[0]->i % argument[1]->i);
    return LVN_OK;
}

enum { MANY = LVN_TEMPLATE_ARGUMENTS };
static const struct lvn_template_function functions[] = {
    {"and", 1, MANY, NULL},
    {"or", 1, MANY, NULL},
    {"not", 1, 1, not },
    {"eq", 2, MANY, eq},
    {"ne", 2, 2, ne},
    {"gt", 2, 2, gt},
    {"int", 1, 1, to_int},
    {"mul", 2, 2, mul},
    {"mod", 2, 2, mod},
    {"len", 1, 1, length},
    {"default", 2, 2, default_of},
    {"quote", 1, MANY, quote},
    {"toYaml", 1, 1, to_yaml},
    {"nindent", 2, 2, nindent},
    {"include", 2, 2, include},
    {"hasKey", 2, 2, has_key},
    {"kindIs", 2, 2, kind_is},
    {"hasPrefix", 2, 2, has_prefix},
    {"trimSuffix", 2, 2, trim_suffix},
    {"fail", 1, 1, fail},
};

const struct lvn_template_function *lvn_template_function_find(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name)) return &functions[i];
    return NULL;
}

void lvn_template_function_names(struct lvn_text *t)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        lvn_text_printf(t, "%s%s", i ? ", " : "", functions[i].name);
}
