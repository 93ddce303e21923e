/* test_json.c - covers: src/files/formats/json.c, src/files/formats/json_scan.c
 *
 * What the JSON reader refuses, members of objects, and that writing is stable. */
#include "faults.h"
#include "io_test.h"

#include "base/arena.h"
#include "formats/json.h"
#include "formats/json_scan.h"

static enum lvn_status parse(const char *text)
{
    json_t *value;
    enum lvn_status status = lvn_json_parse("x.json", text, (int64_t)strlen(text), &value);
    json_decref(value);
    return status;
}

static void refused(void **state)
{
    (void)state;
    ASSERT_OK(parse("\xef\xbb\xbf{\"a\": 1}")); /* byte order mark */
    ASSERT_FAILS(FORMAT, "x.json:1: ", parse("\xef\xbb\xbf\xef\xbb\xbf{}"));
    ASSERT_FAILS(FORMAT, "x.json:2: ", parse("{\n\"a\": 1,}"));
    ASSERT_FAILS(FORMAT, "duplicate object key", parse("{\"a\": 1,\n \"a\": 2}"));
    ASSERT_FAILS(FORMAT, "x.json:1: ", parse(""));
    ASSERT_FAILS(FORMAT, "a string has the character U+0000 (\\u0000)", parse("[\"a\\u0000\"]"));
    ASSERT_FAILS(FORMAT, "x.json:1: ", parse("{} {}"));
    ASSERT_FAILS(FORMAT, "unable to decode byte 0xff", parse("{\"a\": \"\xff\"}"));
    ASSERT_FAILS(FORMAT, "x.json:1: ", parse("{\"a\": \"\\ud800\"}"));
    ASSERT_FAILS(FORMAT, "x.json:2: ", parse("{\"a\": 99999999999999999999,\n \"b\": 9223372036854775808x}"));
    ASSERT_FAILS(FORMAT, "x.json:1: ", parse("{\"a\": NaN}"));
    char deep[200];
    memset(deep, '[', 100);
    memset(deep + 100, ']', 99);
    deep[199] = '\0';
    ASSERT_FAILS(FORMAT, "more than 64 levels", parse(deep));
    json_t *value;
    ASSERT_FAILS(IO, "No such file", lvn_json_read(test_path("none.json"), &value));
    assert_null(value);
}

/* Other readers accept these numbers, so a row with a hash of 64 bits must not be lost; others keep their type. */
static void large_numbers(void **state)
{
    (void)state;
    const char *text = "{\"a\": [18446744073709551615,-9223372036854775809, 1e999, -1e999,9223372036854775807, 3], "
                       "\"b\": \"18446744073709551615 \\\" 1e999\", \"c\":-0.5}";
    LVN_LOCAL_TEXT(t);
    json_t *value;
    ASSERT_OK(lvn_json_parse("x.json", text, (int64_t)strlen(text), &value));
    lvn_json_add(&t, lvn_json_begin(), value, 0);
    assert_string_equal(lvn_text_string(&t),
                        "{\"a\": [1.8446744073709552e+19, -9.223372036854776e+18, 1.7976931348623157e+308, "
                        "-1.7976931348623157e+308, 9223372036854775807, 3], "
                        "\"b\": \"18446744073709551615 \\\" 1e999\", \"c\": -0.5}");
    json_decref(value);
}

/* Python writes them; in rows of data they are null. */
static void numbers_that_are_not_finite(void **state)
{
    static const char text[] =
        "{\"NaN\": [NaN,-Infinity, Infinity, -1, 1e999], \"b\": \"NaN \\\" NaN\", \"c\":NaN, \"d\": "
        "-18446744073709551615}";
    static const char *const invalid[] = {"{\"a\": Nan}", "{\"a\": NaNs}", "{\"a\": - Infinity}", "{\"a\": NaN",
                                          "{NaN: 1}"};
    (void)state;
    LVN_LOCAL_TEXT(t);
    json_error_t error;
    json_t *value;
    ASSERT_FAILS(FORMAT, "invalid token near 'NaN'", lvn_json_parse("x.json", text, sizeof text - 1, &value));
    ASSERT_OK(lvn_json_load(text, sizeof text - 1, LVN_JSON_ROW, &value, &error));
    lvn_json_add(&t, lvn_json_begin(), value, 0);
    assert_string_equal(lvn_text_string(&t), "{\"NaN\": [null, null, null, -1, 1.7976931348623157e+308], "
                                             "\"b\": \"NaN \\\" NaN\", \"c\": null, \"d\": \"-18446744073709551615\"}");
    json_decref(value);
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        ASSERT_OK(lvn_json_load(invalid[i], (int64_t)strlen(invalid[i]), LVN_JSON_ROW, &value, &error));
        assert_null(value);
    }
}

static void brackets_in_strings(void **state)
{
    (void)state;
    char text[300] = "{\"a\": \"";
    memset(text + 7, '[', 200);
    strcpy(text + 207, "\\\"[[\"}");
    ASSERT_OK(parse(text));
}

static void members(void **state)
{
    (void)state;
    json_t *o;
    const char *text = "{\"i\": 12, \"r\": 1.5, \"w\": 8.0, \"b\": true, \"s\": \"x\", \"n\": null}";
    ASSERT_OK(lvn_json_parse("c.json", text, (int64_t)strlen(text), &o));
    int64_t i = -1;
    double r = -1;
    bool b = false;
    const char *s = "kept";
    ASSERT_OK(lvn_json_int("c.json", o, "i", true, 1, 12, &i));
    assert_int_equal(i, 12);
    ASSERT_OK(lvn_json_int("c.json", o, "w", true, 1, 12, &i));
    assert_int_equal(i, 8);
    ASSERT_FAILS(FORMAT, "c.json: 'i' is 12, expected a number from 1 to 11",
                 lvn_json_int("c.json", o, "i", true, 1, 11, &i));
    ASSERT_FAILS(FORMAT, "'r' must be a whole number", lvn_json_int("c.json", o, "r", true, 1, 12, &i));
    ASSERT_FAILS(FORMAT, "'q' is missing", lvn_json_int("c.json", o, "q", true, 1, 12, &i));
    ASSERT_FAILS(FORMAT, "'n' is missing", lvn_json_string("c.json", o, "n", true, &s));
    ASSERT_OK(lvn_json_string("c.json", o, "n", false, &s));
    assert_string_equal(s, "kept");
    ASSERT_OK(lvn_json_string("c.json", o, "s", true, &s));
    assert_string_equal(s, "x");
    ASSERT_OK(lvn_json_real("c.json", o, "i", true, &r));
    assert_true(r == 12);
    ASSERT_FAILS(FORMAT, "'s' must be a number, found a string", lvn_json_real("c.json", o, "s", true, &r));
    ASSERT_OK(lvn_json_bool("c.json", o, "b", true, &b));
    assert_true(b);
    ASSERT_FAILS(FORMAT, "'i' must be true or false", lvn_json_bool("c.json", o, "i", true, &b));
    json_decref(o);
}

static void one_number_or_a_list(void **state)
{
    (void)state;
    json_t *o;
    const char *text =
        "{\"one\": 7, \"two\": [8, 9.0], \"none\": [], \"null\": null, \"word\": \"x\", \"mixed\": [1, null]}";
    int64_t *list;
    int n;
    ASSERT_OK(lvn_json_parse("c.json", text, (int64_t)strlen(text), &o));
    ASSERT_OK(lvn_json_ints("c.json", o, "one", 0, 9, &list, &n));
    assert_true(n == 1 && list[0] == 7);
    free(list);
    ASSERT_OK(lvn_json_ints("c.json", o, "two", 0, 9, &list, &n));
    assert_true(n == 2 && list[0] == 8 && list[1] == 9);
    free(list);
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(lvn_json_ints("c.json", o, ((const char *[]){"none", "null", "missing"})[i], 0, 9, &list, &n));
        assert_true(n == 0 && !list);
    }
    ASSERT_FAILS(FORMAT, "'word' must be a whole number or a list of them, found a string",
                 lvn_json_ints("c.json", o, "word", 0, 9, &list, &n));
    ASSERT_FAILS(FORMAT, "'mixed' must be a whole number or a list of them, found null",
                 lvn_json_ints("c.json", o, "mixed", 0, 9, &list, &n));
    ASSERT_FAILS(FORMAT, "'two' is 9, expected a number from 0 to 8",
                 lvn_json_ints("c.json", o, "two", 0, 8, &list, &n));
    assert_true(n == 0 && !list);
    json_decref(o);
}

static void writes(void **state)
{
    (void)state;
    static const char text[] =
        "{\n  \"lr\": 0.1,\n  \"betas\": [0.9, 0.99],\n  \"n\": -3,\n  \"x\": 1e-08,\n  \"one\": 1.0,\n"
        "  \"s\": \"a\\\"\\\\\\n\\u0001\xc3\xa9\",\n  \"o\": {},\n  \"l\": [\n    {\n      \"k\": null\n    },\n"
        "    []\n  ],\n  \"t\": true\n}\n";
    json_t *value, *again;
    ASSERT_OK(lvn_json_parse("x", text, (int64_t)strlen(text), &value));
    ASSERT_OK(lvn_json_write(test_path("out.json"), lvn_json_begin(), value));
    char *back;
    int64_t bytes;
    ASSERT_OK(lvn_file_read(test_path("out.json"), 0, &back, &bytes));
    assert_string_equal(back, text);
    free(back);
    struct lvn_text line = {0};
    lvn_json_add(&line, lvn_json_begin(), value, 0);
    assert_null(strchr(lvn_text_string(&line), '\n'));
    ASSERT_OK(lvn_json_parse("line", line.p, line.n, &again));
    assert_true(json_equal(value, again));
    lvn_text_release(&line);
    json_decref(value);
    json_decref(again);
    double odd[] = {1.0 / 3, 0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, 123456789.123456789, 1e22};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        value = json_pack("[f]", odd[i]);
        lvn_json_add(&line, lvn_json_begin(), value, 0);
        json_decref(value);
        ASSERT_OK(lvn_json_parse("line", line.p, line.n, &again));
        double read = json_real_value(json_array_get(again, 0));
        assert_memory_equal(&read, &odd[i], sizeof read);
        json_decref(again);
        lvn_text_release(&line);
    }
}

/* jansson drops a member silently when memory runs out: the functions that write the value report it. */
static enum lvn_status write_parts(const char *path)
{
    long begun = lvn_json_begin();
    json_t *list = json_array(), *root = json_pack("{s:s, s:{s:i}}", "kind", "parts", "sizes", "one", 1);
    for (int i = 0; i < 20; i++) json_array_append_new(list, json_pack("[i,s]", i, "a name"));
    json_object_set_new(root, "list", list);
    json_object_set_new(root, "last", json_real(0.5));
    enum lvn_status status = lvn_json_write(path, begun, root);
    char *text;
    enum lvn_status dumped = lvn_json_dump(begun, root, JSON_COMPACT, &text);
    assert_true(!text == (dumped != LVN_OK));
    if (text) assert_non_null(strstr(text, "\"last\":0.5}"));
    free(text);
    json_decref(root);
    return status == LVN_OK ? dumped : status;
}

static void memory_that_runs_out(void **state)
{
    (void)state;
    char *expected, *got;
    int64_t n_expected, n_got;
    ASSERT_OK(write_parts(test_path("whole.json")));
    ASSERT_OK(lvn_file_read(test_path("whole.json"), 0, &expected, &n_expected));
    for (long k = 1;; k++) {
        unlink(test_path("parts.json"));
        fault_memory_at(k);
        enum lvn_status status = write_parts(test_path("parts.json"));
        fault_memory_at(0);
        if (lvn_path_exists(test_path("parts.json"))) { /* then it is complete */
            ASSERT_OK(lvn_file_read(test_path("parts.json"), 0, &got, &n_got));
            assert_int_equal(n_got, n_expected);
            assert_memory_equal(got, expected, (size_t)n_expected);
            free(got);
        }
        if (status == LVN_OK) {
            assert_true(k > 100);
            break;
        }
        assert_int_equal(status, LVN_MEMORY);
    }
    free(expected);
}

/* Tokens of all lengths, as the reader's buffer grows by powers of two: it never looks beyond a token that it had no
 * memory for. */
static void tokens_without_memory(void **state)
{
    (void)state;
    static const char *const formats[] = {"[\"%s\", 1]", "{\"%s\": [2]}", "[1%s, 2]",
                                          "[1%s]",       "[0.%se-1]",     "[1%se+12]"};
    for (int f = 0; f < 6; f++) {
        for (int n = 1; n < 70; n++) {
            char digits[80], text[120];
            memset(digits, '7', sizeof digits);
            digits[f == 2 || f == 3 ? n % 18 : n] = '\0';
            snprintf(text, sizeof text, formats[f], digits);
            for (long k = 1;; k++) {
                json_t *value;
                fault_memory_at(k);
                enum lvn_status status = lvn_json_parse("x", text, (int64_t)strlen(text), &value);
                fault_memory_at(0);
                if (status == LVN_OK) {
                    assert_true(k > 4);
                    json_decref(value);
                    break;
                }
                assert_int_equal(status, LVN_MEMORY);
                assert_null(value);
            }
        }
    }
}

static uint32_t draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* The fast reader of rows accepts what lvn_json_load() accepts, with the same values: also for damaged texts. */
static void rows_are_the_same(void **state)
{
    (void)state;
    static const char row[] = " {\"messages\": [{\"role\": \"user\", \"content\": \"a\\n\\u00e9\\ud83d\\ude00 "
                              "\xc3\xa9\"}, {\"weight\": 0, \"n\": "
                              "-1.5e3}], \"ids\": [0, 12, 1000000000000000, 9223372036854775807, -3, 1e2], \"t\": "
                              "[true, false, null], \"e\": "
                              "{}, \"l\": [], \"u\": \"\\u0001\"} ";
    static const char bytes[] = "\"\\{}[],: 0129eE-+.tfnu\xc3\xa9\x01\xff";
    uint64_t seed = 1;
    int accepted = 0;
    for (int i = 0; i < 60000; i++) {
        char text[sizeof row];
        int64_t n = sizeof row - 1;
        memcpy(text, row, sizeof row);
        for (uint32_t edits = i ? 1 + draw(&seed) % 3 : 0; edits--;) {
            const int64_t at = (int64_t)(draw(&seed) % (uint32_t)n);
            if (draw(&seed) % 2)
                text[at] = bytes[draw(&seed) % (sizeof bytes - 1)];
            else
                memmove(text + at, text + at + 1, (size_t)(--n - at));
        }
        json_t *one, *two;
        json_error_t error, other;
        ASSERT_OK(lvn_json_load(text, n, JSON_REJECT_DUPLICATES | LVN_JSON_ROW, &one, &error));
        ASSERT_OK(lvn_json_scan_load(text, n, &two, &other));
        assert_true(!one == !two && (!one || json_equal(one, two)));
        accepted += one != NULL;
        json_decref(one);
        json_decref(two);
    }
    assert_true(accepted > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused),
                                       cmocka_unit_test(large_numbers),
                                       cmocka_unit_test(numbers_that_are_not_finite),
                                       cmocka_unit_test(brackets_in_strings),
                                       cmocka_unit_test(members),
                                       cmocka_unit_test(one_number_or_a_list),
                                       cmocka_unit_test(writes),
                                       cmocka_unit_test(memory_that_runs_out),
                                       cmocka_unit_test(tokens_without_memory),
                                       cmocka_unit_test(rows_are_the_same)};
    return cmocka_run_group_tests(tests, test_dir_make, test_dir_drop);
}
