/* chat_template_tests.c - see chat_template_private.h: the tests of Jinja, as `x is defined`. */
#include "templates/chat_template_private.h"

/* Kinds of values as bits, and results of a comparison. */
enum {
    ANY = ~0,
    UNDEFINED = 1 << LVN_TPL_UNDEFINED,
    NONE = 1 << LVN_TPL_NONE,
    BOOL = 1 << LVN_TPL_BOOL,
    INT = 1 << LVN_TPL_INT,
    FLOAT = 1 << LVN_TPL_FLOAT,
    STRING = 1 << LVN_TPL_STRING,
    LIST = 1 << LVN_TPL_LIST,
    DICT = 1 << LVN_TPL_DICT,
    LOOP = 1 << LVN_TPL_LOOP,
    CALLABLE = 1 << LVN_TPL_MACRO | 1 << LVN_TPL_METHOD | 1 << LVN_TPL_GLOBAL,
    LESS = 1,
    EQUAL = 2,
    GREATER = 4,
};

static LVN_TPL_FUNCTION(is_kind)
{
    *out = lvn_tpl_bool(mode >> in->kind & 1);
    return LVN_OK;
}
static LVN_TPL_FUNCTION(is_sequence) /* as Python: it has a length and __getitem__() */
{
    const bool lazy = in->kind == LVN_TPL_LIST && in->form == LVN_LIST_LAZY;
    *out = lvn_tpl_bool(!lazy && mode >> in->kind & 1);
    return LVN_OK;
}
static LVN_TPL_FUNCTION(is_bool)
{
    *out = lvn_tpl_bool(in->kind == LVN_TPL_BOOL && in->b == mode);
    return LVN_OK;
}
static LVN_TPL_FUNCTION(is_equal)
{
    *out = lvn_tpl_bool(lvn_tpl_equal(in, a[0]) == mode);
    return LVN_OK;
}
static LVN_TPL_FUNCTION(is_same)
{
    if (in->kind == LVN_TPL_FLOAT || in->kind == LVN_TPL_LIST)
        LVN_TPL_FAIL(r, UNSUPPORTED, "'is sameas' does not support a value of type %s", lvn_tpl_type(in));
    *out = lvn_tpl_bool(in->kind == a[0]->kind &&
                        (in->kind == LVN_TPL_DICT ? in->dict == a[0]->dict : lvn_tpl_equal(in, a[0])));
    return LVN_OK;
}
static LVN_TPL_FUNCTION(is_in)
{
    bool is;
    LVN_TRY(lvn_tpl_contains(r, in, a[0], &is));
    *out = lvn_tpl_bool(is);
    return LVN_OK;
}
static LVN_TPL_FUNCTION(compares)
{
    int sign;
    LVN_TRY(lvn_tpl_compare(r, in, a[0], &sign));
    *out = lvn_tpl_bool(mode & (sign < 0 ? LESS : sign > 0 ? GREATER : EQUAL));
    return LVN_OK;
}
static LVN_TPL_FUNCTION(has_remainder) /* mode: the remainder of the division by the argument, or by 2 */
{
    if (a[0] && a[0]->kind != LVN_TPL_INT) LVN_TPL_FAIL(r, FORMAT, "'is divisibleby' needs an integer");
    struct lvn_tpl_value divisor = lvn_tpl_int(a[0] ? a[0]->i : 2), remainder = lvn_tpl_int(mode), found;
    LVN_TRY(lvn_tpl_binary(r, LVN_SIGN_MOD, in, &divisor, &found));
    *out = lvn_tpl_bool(lvn_tpl_equal(&found, &remainder));
    return LVN_OK;
}

static const struct lvn_tpl_builtin tests[] = {
    {"defined", "", 0, false, is_kind, ANY & ~UNDEFINED},
    {"undefined", "", 0, false, is_kind, UNDEFINED},
    {"none", "", 0, false, is_kind, NONE},
    {"string", "", 0, false, is_kind, STRING},
    {"number", "", 0, false, is_kind, BOOL | INT | FLOAT},
    {"integer", "", 0, false, is_kind, INT},
    {"float", "", 0, false, is_kind, FLOAT},
    {"boolean", "", 0, false, is_kind, BOOL},
    {"true", "", 0, false, is_bool, true},
    {"false", "", 0, false, is_bool, false},
    {"mapping", "", 0, false, is_kind, DICT},
    {"iterable", "", 0, false, is_kind, STRING | LIST | DICT | UNDEFINED | LOOP},
    {"sequence", "", 0, false, is_sequence, STRING | LIST | DICT | UNDEFINED},
    {"callable", "", 0, false, is_kind, CALLABLE},
    {"eq", "other", 1, false, is_equal, true},
    {"equalto", "other", 1, false, is_equal, true},
    {"ne", "other", 1, false, is_equal, false},
    {"sameas", "other", 1, false, is_same, 0},
    {"in", "seq", 1, false, is_in, 0},
    {"lt", "other", 1, false, compares, LESS},
    {"lessthan", "other", 1, false, compares, LESS},
    {"le", "other", 1, false, compares, LESS | EQUAL},
    {"gt", "other", 1, false, compares, GREATER},
    {"greaterthan", "other", 1, false, compares, GREATER},
    {"ge", "other", 1, false, compares, GREATER | EQUAL},
    {"odd", "", 0, false, has_remainder, 1},
    {"even", "", 0, false, has_remainder, 0},
    {"divisibleby", "num", 1, false, has_remainder, 0},
};

const struct lvn_tpl_builtin *lvn_tpl_test(const char *name, int64_t n)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if ((int64_t)strlen(tests[i].name) == n && memcmp(tests[i].name, name, (size_t)n) == 0) return &tests[i];
    return NULL;
}
