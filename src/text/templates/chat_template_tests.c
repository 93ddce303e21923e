/* chat_template_tests.c - see chat_template_private.h: the tests of Jinja, as `x is defined`. */
#include "templates/chat_template_private.h"

/* in is NULL or not used where a test looks only at the arguments. */
#define TEST(name)                                                                                                     \
    static enum lvn_status name(struct lvn_tpl_run *r, const struct lvn_tpl_value *in,                                 \
                                const struct lvn_tpl_value *const *a, struct lvn_tpl_value *out)
#define ANSWER(condition)                                                                                              \
    do {                                                                                                               \
        (void)r;                                                                                                       \
        (void)a;                                                                                                       \
        *out = lvn_tpl_bool(condition);                                                                                \
        return LVN_OK;                                                                                                 \
    } while (0)

TEST(is_defined)
{
    ANSWER(in->kind != LVN_TPL_UNDEFINED);
}
TEST(is_undefined)
{
    ANSWER(in->kind == LVN_TPL_UNDEFINED);
}
TEST(is_none)
{
    ANSWER(in->kind == LVN_TPL_NONE);
}
TEST(is_string)
{
    ANSWER(in->kind == LVN_TPL_STRING);
}
TEST(is_number)
{
    ANSWER(in->kind == LVN_TPL_BOOL || in->kind == LVN_TPL_INT || in->kind == LVN_TPL_FLOAT);
}
TEST(is_integer)
{
    ANSWER(in->kind == LVN_TPL_INT);
}
TEST(is_float)
{
    ANSWER(in->kind == LVN_TPL_FLOAT);
}
TEST(is_boolean)
{
    ANSWER(in->kind == LVN_TPL_BOOL);
}
TEST(is_true)
{
    ANSWER(in->kind == LVN_TPL_BOOL && in->b);
}
TEST(is_false)
{
    ANSWER(in->kind == LVN_TPL_BOOL && !in->b);
}
TEST(is_mapping)
{
    ANSWER(in->kind == LVN_TPL_DICT);
}
TEST(is_iterable)
{
    ANSWER(in->kind == LVN_TPL_STRING || in->kind == LVN_TPL_LIST || in->kind == LVN_TPL_DICT ||
           in->kind == LVN_TPL_UNDEFINED || in->kind == LVN_TPL_LOOP);
}
TEST(is_sequence) /* as Python: it has a length and __getitem__() */
{
    ANSWER(in->kind == LVN_TPL_STRING || in->kind == LVN_TPL_DICT || in->kind == LVN_TPL_UNDEFINED ||
           (in->kind == LVN_TPL_LIST && in->form != LVN_LIST_LAZY));
}
TEST(is_callable)
{
    ANSWER(in->kind == LVN_TPL_MACRO || in->kind == LVN_TPL_METHOD || in->kind == LVN_TPL_GLOBAL);
}
TEST(is_equal)
{
    ANSWER(lvn_tpl_equal(in, a[0]));
}
TEST(is_unequal)
{
    ANSWER(!lvn_tpl_equal(in, a[0]));
}
TEST(is_same)
{
    if (in->kind == LVN_TPL_FLOAT || in->kind == LVN_TPL_LIST)
        LVN_TPL_FAIL(r, UNSUPPORTED, "'is sameas' does not support a value of type %s", lvn_tpl_type(in));
    ANSWER(in->kind == a[0]->kind && (in->kind == LVN_TPL_DICT ? in->dict == a[0]->dict : lvn_tpl_equal(in, a[0])));
}
TEST(is_in)
{
    bool is;
    LVN_TRY(lvn_tpl_contains(r, in, a[0], &is));
    ANSWER(is);
}

static enum lvn_status order(struct lvn_tpl_run *r, const struct lvn_tpl_value *in, const struct lvn_tpl_value *other,
                             int sign, bool equal, struct lvn_tpl_value *out)
{
    int found;
    LVN_TRY(lvn_tpl_compare(r, in, other, &found));
    *out = lvn_tpl_bool(found == 0 ? equal : (found > 0) == (sign > 0));
    return LVN_OK;
}
TEST(is_less)
{
    return order(r, in, a[0], -1, false, out);
}
TEST(is_at_most)
{
    return order(r, in, a[0], -1, true, out);
}
TEST(is_greater)
{
    return order(r, in, a[0], 1, false, out);
}
TEST(is_at_least)
{
    return order(r, in, a[0], 1, true, out);
}

static enum lvn_status divides(struct lvn_tpl_run *r, const struct lvn_tpl_value *in, int64_t by, int64_t rest,
                               struct lvn_tpl_value *out)
{
    struct lvn_tpl_value divisor = lvn_tpl_int(by), remainder = lvn_tpl_int(rest), found;
    LVN_TRY(lvn_tpl_binary(r, LVN_SIGN_MOD, in, &divisor, &found));
    *out = lvn_tpl_bool(lvn_tpl_equal(&found, &remainder));
    return LVN_OK;
}
TEST(is_odd)
{
    (void)a;
    return divides(r, in, 2, 1, out);
}
TEST(is_even)
{
    (void)a;
    return divides(r, in, 2, 0, out);
}
TEST(is_divisible)
{
    if (a[0]->kind != LVN_TPL_INT) LVN_TPL_FAIL(r, FORMAT, "'is divisibleby' needs an integer");
    return divides(r, in, a[0]->i, 0, out);
}

static const struct lvn_tpl_builtin tests[] = {
    {"defined", "", 0, false, is_defined},    {"undefined", "", 0, false, is_undefined},
    {"none", "", 0, false, is_none},          {"string", "", 0, false, is_string},
    {"number", "", 0, false, is_number},      {"integer", "", 0, false, is_integer},
    {"float", "", 0, false, is_float},        {"boolean", "", 0, false, is_boolean},
    {"true", "", 0, false, is_true},          {"false", "", 0, false, is_false},
    {"mapping", "", 0, false, is_mapping},    {"iterable", "", 0, false, is_iterable},
    {"sequence", "", 0, false, is_sequence},  {"callable", "", 0, false, is_callable},
    {"eq", "other", 1, false, is_equal},      {"equalto", "other", 1, false, is_equal},
    {"ne", "other", 1, false, is_unequal},    {"sameas", "other", 1, false, is_same},
    {"in", "seq", 1, false, is_in},           {"lt", "other", 1, false, is_less},
    {"lessthan", "other", 1, false, is_less}, {"le", "other", 1, false, is_at_most},
    {"gt", "other", 1, false, is_greater},    {"greaterthan", "other", 1, false, is_greater},
    {"ge", "other", 1, false, is_at_least},   {"odd", "", 0, false, is_odd},
    {"even", "", 0, false, is_even},          {"divisibleby", "num", 1, false, is_divisible},
};

const struct lvn_tpl_builtin *lvn_tpl_test(const char *name, int64_t n)
{
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if ((int64_t)strlen(tests[i].name) == n && memcmp(tests[i].name, name, (size_t)n) == 0) return &tests[i];
    return NULL;
}
