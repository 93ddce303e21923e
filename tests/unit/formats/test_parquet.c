/* test_parquet.c - covers: src/files/formats/parquet/parquet.c src/files/formats/parquet/parquet_codec.c
 * src/files/formats/parquet/parquet_lines.c src/files/formats/parquet/parquet_numbers.c
 * src/files/formats/parquet/parquet_page.c src/files/formats/parquet/parquet_thrift.c
 *
 * Small files of pyarrow (tools/make_parquet.py) of every codec and encoding have the rows that pyarrow wrote; cut and
 * damaged ones are refused with a sentence that names the file; memory that runs out. */
#include "faults.h"
#include "io_test.h"

#include <jansson.h>

#include "formats/parquet/parquet_private.h"

#define GOLDEN "tests/golden/parquet"

static char *rows; /* of rows.jsonl: NAME, a tab, a row */

struct check {
    const char *at; /* the next expected row */
    int64_t n;
};

/* The row that `at` begins with; NULL: `at` is not of this file. */
static json_t *expected(struct check *c, const char *name)
{
    const size_t n = strlen(name);
    if (strncmp(c->at, name, n) != 0 || c->at[n] != '\t') return NULL;
    const char *end = strchr(c->at, '\n');
    json_t *row = json_loadb(c->at + n + 1, (size_t)(end - c->at) - n - 1, JSON_ALLOW_NUL, NULL);
    c->at = end + 1;
    c->n++;
    return row;
}

static const char *current; /* name of the file */

/* Remove the members that are null, also below; of the row itself only those below. */
static void drop_nulls(json_t *value, bool all)
{
    const char *key;
    json_t *one;
    void *next;
    size_t i;
    json_array_foreach(value, i, one) drop_nulls(one, true);
    json_object_foreach_safe(value, next, key, one)
    {
        drop_nulls(one, true);
        if (all && json_is_null(one)) json_object_del(value, key);
    }
}

static enum lvn_status same_line(void *context, const char *line, int64_t bytes)
{
    json_t *row = json_loadb(line, (size_t)bytes, JSON_ALLOW_NUL, NULL), *want = expected(context, current);
    assert_non_null(row);
    drop_nulls(want, false);
    if (!json_equal(row, want)) fail_msg("%s: %.*s", current, (int)bytes, line);
    json_decref(row);
    json_decref(want);
    return LVN_OK;
}

static enum lvn_status same_text(void *context, int64_t row, const void *text, int64_t bytes)
{
    json_t *want = expected(context, current), *value = json_object_get(want, "text");
    (void)row;
    assert_int_equal(text == NULL, json_is_null(value));
    if (text) assert_int_equal(bytes, json_string_length(value));
    if (text) assert_memory_equal(text, json_string_value(value), (size_t)bytes);
    json_decref(want);
    return LVN_OK;
}

static void read_whole(const char *path, struct check *lines, struct check *texts)
{
    struct lvn_parquet *p;
    int column = -1;
    ASSERT_OK(lvn_parquet_open(&p, path));
    ASSERT_OK(lvn_parquet_column(p, "text", &column));
    assert_int_equal(lvn_parquet_groups(p), 2);
    for (int64_t group = 0; group < 2; group++) {
        ASSERT_OK(lvn_parquet_read_lines(p, group, true, same_line, lines));
        ASSERT_OK(lvn_parquet_read(p, group, column, same_text, texts));
    }
    ASSERT_OK(lvn_parquet_column(p, "s.a.b", &column));
    ASSERT_FAILS(FORMAT, "has no column 'body'; it has id, text, messages, tags, map, s",
                 lvn_parquet_column(p, "body", &column));
    ASSERT_FAILS(FORMAT, "the column 'id' has the type INT64, not text", lvn_parquet_column(p, "id", &column));
    ASSERT_FAILS(FORMAT, "the column 'messages' is a list", lvn_parquet_column(p, "messages", &column));
    ASSERT_FAILS(FORMAT, "the column 's' is a struct", lvn_parquet_column(p, "s", &column));
    ASSERT_FAILS(FORMAT, "is a list, not text", lvn_parquet_column(p, "messages.list.element.role", &column));
    lvn_parquet_close(p);
}

static void every_setting(void **state)
{
    (void)state;
    int files = 0;
    struct check lines = {.at = rows}, texts = lines;
    while (*lines.at) {
        char name[100], path[200];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(lines.at, "\t"), lines.at);
        snprintf(path, sizeof path, GOLDEN "/%s", name);
        current = name;
        const int64_t before = lines.n;
        read_whole(path, &lines, &texts);
        assert_int_equal(lines.n - before, 24);
        files++;
    }
    assert_int_equal(files, 16);
    assert_int_equal(texts.n, lines.n);
}

/* Numbers and booleans of every encoding. */

struct numbers {
    const char *at; /* the next expected line */
    int64_t n;
};

static enum lvn_status same_numbers(void *context, const char *line, int64_t bytes)
{
    struct numbers *e = context;
    const char *end = strchr(e->at, '\n');
    json_t *row = json_loadb(line, (size_t)bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    json_t *want = json_loadb(e->at, (size_t)(end - e->at), JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    assert_non_null(row);
    drop_nulls(want, false);
    if (!json_equal(row, want)) fail_msg("row %d: %.*s", (int)e->n, (int)bytes, line);
    json_decref(row);
    json_decref(want);
    e->at = end + 1;
    e->n++;
    return LVN_OK;
}

/* The file has the rows of `lines`. */
static void same_rows(const char *name, const char *lines, bool lists, int64_t n)
{
    struct lvn_parquet *p;
    struct numbers e = {.at = lines};
    char path[200];
    snprintf(path, sizeof path, GOLDEN "/%s.parquet", name);
    ASSERT_OK(lvn_parquet_open(&p, path));
    for (int64_t group = 0; group < lvn_parquet_groups(p); group++)
        ASSERT_OK(lvn_parquet_read_lines(p, group, lists, same_numbers, &e));
    assert_int_equal(e.n, n);
    lvn_parquet_close(p);
}

static void numbers(void **state)
{
    static const char *const names[] = {"dictionary", "plain", "delta"};
    char *lines = NULL, name[100];
    int64_t bytes;
    (void)state;
    ASSERT_OK(lvn_file_read(GOLDEN "/numbers.jsonl", 0, &lines, &bytes));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "numbers-%s", names[i]);
        same_rows(name, lines, false, 40);
    }
    free(lines);
}

/* Booleans and numbers in lists of structs, lists of numbers, and columns of JSON. */
static void numbers_in_lists(void **state)
{
    static const char *const names[] = {"chat", "ids", "json"};
    int column = 0;
    struct lvn_parquet *p;
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *lines = NULL, path[200];
        int64_t bytes;
        snprintf(path, sizeof path, GOLDEN "/%s.jsonl", names[i]);
        ASSERT_OK(lvn_file_read(path, 0, &lines, &bytes));
        same_rows(names[i], lines, true, 12);
        free(lines);
    }
    ASSERT_OK(lvn_parquet_open(&p, GOLDEN "/ids.parquet"));
    assert_true(lvn_parquet_has(p, "labels") && !lvn_parquet_has(p, "body"));
    ASSERT_FAILS(FORMAT, "has no column of texts", lvn_parquet_read_lines(p, 0, false, same_numbers, NULL));
    assert_null(lvn_parquet_unread(p, &column));
    lvn_parquet_close(p);
    ASSERT_OK(lvn_parquet_open(&p, GOLDEN "/dates.parquet"));
    column = 0;
    assert_string_equal(lvn_parquet_unread(p, &column), "messages.list.element.at");
    assert_string_equal(lvn_parquet_unread(p, &column), "tools.list.element.since");
    assert_null(lvn_parquet_unread(p, &column));
    lvn_parquet_close(p);
}

/* --- damage --- */

static enum lvn_status count_line(void *context, const char *line, int64_t bytes)
{
    assert_true(bytes > 0 && line[bytes - 1] == '\n');
    ++*(int64_t *)context;
    return LVN_OK;
}

static enum lvn_status count_text(void *context, int64_t row, const void *text, int64_t bytes)
{
    int64_t letters = 0;
    for (int64_t i = 0; i < bytes; i++) letters += ((const char *)text)[i] != 0; /* readable */
    *(int64_t *)context += row >= 0 && letters >= 0;
    return LVN_OK;
}

/* Everything in a file of this many bytes in memory of exactly that size; the first error. */
static enum lvn_status read_bytes(const char *bytes, int64_t n)
{
    struct lvn_parquet *p;
    int column;
    int64_t count = 0;
    char *copy = test_malloc((size_t)n + (n == 0));
    memcpy(copy, bytes, (size_t)n);
    enum lvn_status status = lvn_parquet_open_memory(&p, "damaged.parquet", copy, n);
    for (int64_t i = 0; status == LVN_OK && i < lvn_parquet_groups(p); i++) {
        status = lvn_parquet_column(p, "text", &column);
        if (status == LVN_OK) status = lvn_parquet_read(p, i, column, count_text, &count);
        if (status == LVN_OK) status = lvn_parquet_read_lines(p, i, true, count_line, &count);
    }
    lvn_parquet_close(p);
    test_free(copy);
    return status;
}

static const char *const damaged[] = {"snappy-dictionary", "snappy-delta_byte_array",      "none-plain",
                                      "gzip-dictionary",   "zstd-delta_length_byte_array", "lz4-dictionary"};
enum { DAMAGED = sizeof damaged / sizeof *damaged };

static char *load(const char *name, int64_t *bytes)
{
    char path[200], *text;
    snprintf(path, sizeof path, GOLDEN "/%s.parquet", name);
    ASSERT_OK(lvn_file_read(path, 0, &text, bytes));
    return text;
}

/* Cuts and changed bytes: a sentence with the name, or other rows. */
static void cut_and_changed(void **state)
{
    (void)state;
    int64_t bytes, refused = 0, all = 0;
    for (int k = 0; k < DAMAGED; k++) {
        char *text = load(damaged[k], &bytes);
        for (int64_t n = 0; n < bytes; n += 31)
            ASSERT_FAILS(FORMAT, "'damaged.parquet' cannot be read as a Parquet file", read_bytes(text, n));
        for (int64_t i = k; i < bytes; i += 3) {
            const char was = text[i];
            text[i] ^= i % 2 ? 0x10 : 0x7f;
            const enum lvn_status status = read_bytes(text, bytes);
            if (status != LVN_OK && status != LVN_MEMORY)
                assert_non_null(strstr(levin_error_text(), "'damaged.parquet'"));
            refused += status != LVN_OK;
            all++;
            text[i] = was;
        }
        ASSERT_OK(read_bytes(text, bytes));
        free(text);
    }
    assert_true(refused > all / 3);
}

static void snappy(void **state)
{
    (void)state;
    unsigned char out[64 + LVN_PARQUET_SLACK];
    static const unsigned char good[] = {10, 0x04, 'a', 'b', 0x11, 0x02}; /* "ab", then 8 bytes from 2 before */
    assert_true(lvn_snappy_decompress(good, sizeof good, out, 10));
    assert_memory_equal(out, "ababababab", 10);
    assert_false(lvn_snappy_decompress(good, sizeof good, out, 11));                        /* another size */
    assert_false(lvn_snappy_decompress(good, sizeof good - 1, out, 10));                    /* cut */
    assert_false(lvn_snappy_decompress((const unsigned char[]){4, 0x01, 0x01}, 3, out, 4)); /* before the beginning */
    assert_false(lvn_snappy_decompress((const unsigned char[]){4, 0xfc, 0xff, 0xff, 0xff, 0xff}, 6, out, 4));
    assert_false(lvn_snappy_decompress((const unsigned char[]){0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 6, out, 4));
}

static void other_files(void **state)
{
    (void)state;
    struct lvn_parquet *p;
    char bytes[32] = "PAR1";
    ASSERT_FAILS(FORMAT, "it has fewer than 12 bytes", lvn_parquet_open_memory(&p, "x", bytes, 4));
    ASSERT_FAILS(FORMAT, "it does not end with PAR1", lvn_parquet_open_memory(&p, "x", bytes, 32));
    memcpy(bytes + 24, "\x10\0\0\0PARE", 8);
    ASSERT_FAILS(UNSUPPORTED, "'x' is an encrypted Parquet file", lvn_parquet_open_memory(&p, "x", bytes, 32));
    memcpy(bytes + 24, "\x20\0\0\0PAR1", 8);
    ASSERT_FAILS(FORMAT, "the size of its footer is wrong", lvn_parquet_open_memory(&p, "x", bytes, 32));
    ASSERT_FAILS(IO, "no.parquet", lvn_parquet_open(&p, "no.parquet"));
}

static void no_memory(void **state)
{
    (void)state;
    int64_t bytes;
    char *text = load("snappy-delta_byte_array", &bytes);
    enum lvn_status status = LVN_MEMORY;
    for (long k = 1; status != LVN_OK; k++) {
        fault_memory_at(k);
        status = read_bytes(text, bytes);
        fault_memory_at(0);
        if (status != LVN_OK) assert_int_equal(status, LVN_MEMORY);
        assert_true(status != LVN_OK || k > 50);
    }
    free(text);
}

int main(void)
{
    int64_t bytes;
    if (lvn_file_read(GOLDEN "/rows.jsonl", 0, &rows, &bytes) != LVN_OK) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_setting),   cmocka_unit_test(numbers), cmocka_unit_test(numbers_in_lists),
        cmocka_unit_test(cut_and_changed), cmocka_unit_test(snappy),  cmocka_unit_test(other_files),
        cmocka_unit_test(no_memory),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(rows);
    return failed;
}
