/* test_replace.c - covers: src/text/data/replace.c
 *
 * data.replace: what expressions and their groups replace, what is refused, and the rule of NSMC's recipes. */
#include "faults.h"
#include "io_test.h"

#include <jansson.h>

#include "base/arena.h"
#include "data/replace.h"
#include "settings/settings.h"

static struct lvn_replace *made(const char *option)
{
    struct lvn_replace *r;
    if (lvn_replace_new(&r, option) != LVN_OK) fail_msg("%s: %s", option, levin_error_text());
    return r;
}

static void replaced(void **state)
{
    static const char *const rows[][3] = {
        {"[{pattern: '[0-9]+', with: '#'}]", "1 and 22, 333", "# and #, #"},
        {"[{pattern: b, with: ''}]", "bbabb", "a"},
        {"[{pattern: a, with: b}, {pattern: bb, with: c}]", "ab aa", "c c"}, /* each reads what the one before left */
        {"[{pattern: '([a-z]+) ([a-z]+)', with: '\\2 \\1'}]", "one two, three four", "two one, four three"},
        {"[{pattern: '(.)\\1+', with: '\\1'}]", "aabbbcdd", "abcd"},
        {"[{pattern: '(가|나)\\1', with: '<\\1>'}]", "가가나가나나", "<가>나가<나>"},
        {"[{pattern: '(a)|b', with: '[\\1]'}]", "ab", "[a][]"}, /* a group that is not in the match is empty */
        {"[{pattern: '(?:(a)|(b))c', with: '\\2\\1'}]", "acbc", "ab"},
        {"[{pattern: '\\\\', with: '\\\\\\\\'}]", "a\\b", "a\\\\b"},
        {"[{pattern: 'x*', with: '-'}]", "axb", "-a-b-"}, /* empty matches, but not at the end of another one */
        {"[{pattern: '^', with: '> '}]", "a\nb", "> a\n> b"},
        {"[{pattern: '\\x{1F600}|\\u00e9', with: e}]", "\xf0\x9f\x98\x80\xc3\xa9", "ee"},
        {"[{pattern: 1, with: 2}]", "212", "222"},
        {"[{pattern: a, with: ''}]", "a", ""},
        {"[{pattern: a, with: ''}]", "", ""},
    };
    struct lvn_text out = {0};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lvn_replace *r = made(rows[i][0]);
        for (int twice = 0; twice < 2; twice++) {
            ASSERT_OK(lvn_replace_run(r, rows[i][1], (int64_t)strlen(rows[i][1]), &out));
            assert_string_equal(lvn_text_string(&out), rows[i][2]);
        }
        lvn_replace_free(r);
    }
    lvn_text_release(&out);
    assert_null(made(""));
    assert_null(made("[]"));
}

static void refused(void **state)
{
    static const char *const rows[][2] = {
        {"[{pattern: a, wit: b}]", "data.replace, entry 1: unknown key 'wit'; there are pattern and with"},
        {"[{pattern: a, with: b}, {with: b}]",
         "data.replace, entry 2: pattern is missing; give a regular expression, as "},
        {"[{pattern: '', with: b}]", "data.replace, entry 1: pattern is empty; give a regular expression, as "},
        {"[{pattern: a}]", "data.replace, entry 1 (a): with is missing; give a text, '' to remove what matches"},
        {"[{pattern: 'a(b', with: ''}]", "'data.replace, entry 1': the expression 'a(b' has a group without an end"},
        {"[{pattern: '[a', with: ''}]", "has a class without an end, at ''"},
        {"[{pattern: 'a)', with: ''}]", "has a bracket that nothing opens, at ')'"},
        {"[{pattern: '*', with: ''}]", "has a repetition of nothing, at '*'"},
        {"[{pattern: '\\bword\\b', with: ''}]", "has an escape, at '\\bword\\b', which is not supported"},
        {"[{pattern: '(?<=a)b', with: ''}]", "has a group, at '?<=a)b'"},
        {"[{pattern: '\\1(a)', with: ''}]", "has a reference to a group that has not ended before it, at '\\1(a)'"},
        {"[{pattern: '(a\\1)', with: ''}]", "has a reference to a group that has not ended before it, at '\\1)'"},
        {"[{pattern: '(a)\\10', with: ''}]", "has a reference of two digits, at '\\10'"},
        {"[{pattern: '(a)(?i:\\1)', with: ''}]", "has a reference in (?i:..), at '\\1)'"},
        {"[{pattern: '(a*)\\1*', with: ''}]", "has an endless repetition of what may be empty"},
        {"[{pattern: '\\x{110000}', with: ''}]", "has an escape, at '\\x{110000}'"},
        {"[{pattern: a, with: '\\1'}]", "data.replace, entry 1: with has '\\1', and the pattern has 0 groups (..)"},
        {"[{pattern: '(a)', with: '\\2'}]", "with has '\\2', and the pattern has 1 group (..)"},
        {"[{pattern: '(a)', with: '\\n'}]", "data.replace, entry 1: with has '\\n' at '\\n'; a backslash must be "
                                            "followed by the number of a group, 1 to 9, or "
                                            "another backslash"},
        {"[{pattern: a, with: 'b\\'}]", "with has '\\' at '\\'"},
        {"{pattern: a, with: b}", "data.replace must be a list of maps"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lvn_replace *r;
        assert_int_equal(lvn_replace_new(&r, rows[i][0]), LVN_ARG);
        assert_null(r);
        if (!strstr(levin_error_text(), rows[i][1])) fail_msg("'%s' is not in: %s", rows[i][1], levin_error_text());
    }
}

/* Expressions that try too much end with a sentence. */
static void endless(void **state)
{
    struct lvn_text out = {0}, text = {0};
    struct lvn_replace *r = made("[{pattern: x, with: y}, {pattern: '(a|aa)+b', with: ''}]");
    (void)state;
    for (int i = 0; i < 60; i++) lvn_text_add(&text, "a");
    ASSERT_FAILS(FORMAT,
                 "data.replace, entry 2: a regular expression needs more than 20000000 attempts to match one text",
                 lvn_replace_run(r, text.p, text.n, &out));
    lvn_replace_free(r);
    /* without a single backtracking step, but every letter is compared with all that follow it */
    for (int i = 0; i < 10; i++) lvn_text_add_bytes(&text, memcpy((char[60 << 10]){0}, text.p, (size_t)text.n), text.n);
    r = made("[{pattern: '[a-z]++!', with: ''}]");
    ASSERT_FAILS(FORMAT, "data.replace, entry 1: a regular expression compares a text of 61440 bytes again and again",
                 lvn_replace_run(r, text.p, text.n, &out));
    lvn_replace_free(r);
    /* a match at each letter, which looks at all that follow it */
    r = made("[{pattern: 'a(?=[a-z]++)', with: ''}]");
    ASSERT_FAILS(FORMAT, "data.replace, entry 1: the pattern compares a text of 61440 bytes again and again",
                 lvn_replace_run(r, text.p, text.n, &out));
    lvn_replace_free(r);
    /* each entry reads twice what the one before has read */
    struct lvn_text twice = {0};
    for (int i = 0; i < 40; i++) lvn_text_printf(&twice, "%s{pattern: '(.)', with: '\\1\\1'}", i ? ", " : "[");
    lvn_text_add(&twice, "]");
    r = made(twice.p);
    ASSERT_FAILS(FORMAT, "data.replace, entry 21: the text grows to more than 1048576 bytes",
                 lvn_replace_run(r, "a", 1, &out));
    assert_int_equal(lvn_replace_run(r, "", 0, &out), LVN_OK);
    lvn_replace_free(r);
    lvn_text_release(&twice);
    lvn_text_release(&text);
    lvn_text_release(&out);
}

/* The recipes' expressions, on texts whose cleaned form is in a file. */
static void nsmc(void **state)
{
    static const char *const recipes[] = {"nsmc-small", "nsmc-kcbert-base", "nsmc-kcbert-large"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        char path[64], line[2000];
        struct levin_settings s;
        struct lvn_text out = {0};
        int lines = 0, changed = 0;
        snprintf(path, sizeof path, "recipes/%s.yaml", recipes[i]);
        ASSERT_OK(lvn_settings_init(&s));
        ASSERT_OK(lvn_settings_load(&s, path));
        struct lvn_replace *r = made(s.values.data.replace);
        assert_non_null(r);
        FILE *f = fopen("tests/golden/nsmc-cleaned.jsonl", "r");
        assert_non_null(f);
        for (; fgets(line, sizeof line, f); lines++) {
            json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL), *text = json_object_get(row, "text"),
                   *expected = json_object_get(row, "cleaned");
            assert_non_null(expected);
            ASSERT_OK(lvn_replace_run(r, json_string_value(text), (int64_t)json_string_length(text), &out));
            if (out.n != (int64_t)json_string_length(expected) ||
                memcmp(out.p, json_string_value(expected), (size_t)out.n) != 0)
                fail_msg("%s, line %d: '%s'", recipes[i], lines + 1, out.p);
            changed += !json_equal(text, expected);
            json_decref(row);
        }
        fclose(f);
        assert_int_equal(lines, 400);
        assert_true(changed > 300);
        lvn_replace_free(r);
        lvn_text_release(&out);
        lvn_settings_release(&s);
    }
}

static void memory_that_runs_out(void **state)
{
    (void)state;
    for (long k = 1;; k++) {
        struct lvn_replace *r;
        struct lvn_text out = {0};
        fault_memory_at(k);
        enum lvn_status status = lvn_replace_new(&r, "[{pattern: '(a)\\1', with: '\\1'}, {pattern: b, with: c}]");
        if (status == LVN_OK) status = lvn_replace_run(r, "aab", 3, &out);
        fault_memory_at(0);
        if (status == LVN_OK) assert_string_equal(lvn_text_string(&out), "ac");
        lvn_replace_free(r);
        lvn_text_release(&out);
        if (status == LVN_OK) {
            assert_true(k > 5);
            break;
        }
        assert_int_equal(status, LVN_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replaced),
        cmocka_unit_test(refused),
        cmocka_unit_test(endless),
        cmocka_unit_test(nsmc),
        cmocka_unit_test(memory_that_runs_out),
    };
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}
