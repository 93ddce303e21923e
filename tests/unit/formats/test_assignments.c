/* test_assignments.c - covers: src/files/formats/assignments.c
 *
 * NAME = LITERAL lines of Python: what is read, what is handed back unread, what is refused. */
#include <string.h>

#include "formats/assignments.h"
#include "io_test.h"

static struct lvn_arena arena;

static const struct lvn_assigned *parse(const char *text, const char *name)
{
    const struct lvn_assigned *list;
    int n;
    assert_int_equal(lvn_assignments_parse(&arena, "a.py", text, (int64_t)strlen(text), &list, &n), LVN_OK);
    return lvn_assignments_find(list, n, name);
}

static void is(const char *text, const char *expected)
{
    const struct lvn_assigned *a = parse(text, "x");
    assert_non_null(a);
    assert_int_not_equal(a->kind, LVN_ASSIGNED_UNREAD);
    assert_string_equal(a->text, expected);
}

static void values(void **state)
{
    (void)state;
    is("x = 40", "40");
    is("\xef\xbb\xbfx = 41", "41");
    is("x=5*8", "40");
    is("x = 5 * 2 * .05 # and so on", "0.5");
    is("x = -2 * +3", "-6");
    is("x = 6e-4", "0.0006");
    is("x = .25", "0.25");
    is("x = 9007199254740992", "9007199254740992");
    is("x = 'a \"#\" b' # c", "a \"#\" b");
    is("x = \"it's\"", "it's");
    is("x = ''", "");
    is("x = True", "true");
    is("x = False# no", "false");
    is("x = None", "none");
    is("x = 1\nx = 2", "2");
    is("x = 1\nx = f()", "1"); /* the second one is among the unread */
    is("'''a page\nof words\nx = 2'''\nx = 1", "1");
    is("\"\"\"a page\"\"\"\nx = 1", "1");
    is("x = 1\nprint(\"\"\"\nx = 2\n\"\"\")\n", "1");
    is("x = 1\r\ny = 2\r\n", "1");
}

static void unread(void **state)
{
    static const char *const texts[] = {"x = f(1)",      "x = [1, 2]",  "x = 1 if True else 2",
                                        "x = f'{y}'",    "x = y",       "x = 1 / 2",
                                        "x = 2 ** 3",    "x = 1 +",     "x += 1",
                                        "x = 1e999",     "x = 'a' * 3", "x = b'1'",
                                        "x = 1, 2",      "x = 3 == 3",  "  x = 1",
                                        "x = 5j",        "x = '\\n'",   "x = 'abc",
                                        "x = 1; y = 2",  "x: int = 1",  "x = Trueish",
                                        "x = 0x10",      "x = nan",     "x = --1",
                                        "x = * 2",       "x = 5 *",     "x = '''one'''",
                                        "x = os.environ"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const struct lvn_assigned *list;
        int n;
        assert_null(parse(texts[i], "x"));
        ASSERT_OK(lvn_assignments_parse(&arena, "a.py", texts[i], (int64_t)strlen(texts[i]), &list, &n));
        assert_int_equal(n, 1);
        assert_int_equal(list[0].kind, LVN_ASSIGNED_UNREAD);
        assert_string_equal(list[0].text, texts[i] + strspn(texts[i], " "));
    }
    assert_null(parse("import x", "x"));
    assert_null(parse("x == 1", "y"));
}

static void lines(void **state)
{
    const struct lvn_assigned *list;
    int n;
    const char text[] = "# one\nimport time\n\nif True:\n    x = 4\ny = '''(1 +\n  2)\nv = 3'''\nz = 'a'\n";
    static const int expected[] = {2, 4, 5, 6, 9};
    (void)state;
    assert_int_equal(lvn_assignments_parse(&arena, "a.py", text, sizeof text - 1, &list, &n), LVN_OK);
    assert_int_equal(n, 5);
    for (int i = 0; i < n; i++) assert_int_equal(list[i].line, expected[i]);
    assert_string_equal(list[0].text, "import time");
    assert_int_equal(list[2].kind, LVN_ASSIGNED_UNREAD);
    assert_string_equal(list[4].text, "a");
}

static void refused(void **state)
{
    static const char *const texts[] = {"x = '''a", "\"\"\"a\n'''", "x = \xff"};
    const struct lvn_assigned *list;
    int n;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(lvn_assignments_parse(&arena, "a.py", texts[i], (int64_t)strlen(texts[i]), &list, &n),
                         LVN_FORMAT);
        assert_non_null(strstr(levin_error_text(), "a.py"));
    }
    assert_int_equal(lvn_assignments_parse(&arena, "a.py", "x = 1\0", 6, &list, &n), LVN_FORMAT);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(values), cmocka_unit_test(unread),
                                              cmocka_unit_test(lines), cmocka_unit_test(refused)};
    lvn_arena_init(&arena);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lvn_arena_release(&arena);
    return failed;
}
