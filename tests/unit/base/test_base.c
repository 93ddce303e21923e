/* test_base.c - covers: src/base/status.c src/base/tensor.c src/base/arena.c src/base/work.c src/base/threads.c
 *
 * The error record, the arena, failing allocations, partitions of threads, descriptions of tensors. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/output.h"
#include "base/random.h"
#include "base/redact.h"
#include "base/tensor.h"
#include "base/text.h"
#include "base/threads.h"
#include "base/work.h"
#include "faults.h"
#include "host/machine.h"

/* --- the error record --- */

static enum lvn_status inner(int x)
{
    LVN_CHECK(x != 1, SHAPE, "x is %d, something else is wanted", x);
    return LVN_OK;
}

static enum lvn_status middle(int x)
{
    LVN_TRY_WHILE(inner(x), "looking at %s", "x");
    return LVN_OK;
}

static enum lvn_status outer(int x)
{
    LVN_TRY(middle(x));
    LVN_CHECK(x != 2, ARG, "x is two");
    return LVN_OK;
}

static void test_status_keeps_sentence_and_trace(void **state)
{
    (void)state;
    lvn_error_clear();
    assert_int_equal(outer(0), LVN_OK);
    assert_string_equal(levin_error_text(), "");
    assert_int_equal(lvn_while_at(outer(1), "starting"), LVN_SHAPE);
    assert_string_equal(levin_error_text(), "x is 1, something else is wanted");
    assert_string_equal(levin_error_trace(), "while looking at x\nwhile starting\n");
    assert_memory_equal(lvn_error_location(), "test_base.c:", 12);
    /* A new failure starts a new record. */
    assert_int_equal(outer(2), LVN_ARG);
    assert_string_equal(levin_error_text(), "x is two");
    assert_string_equal(levin_error_trace(), "");
    lvn_error_clear();
    assert_string_equal(levin_error_text(), "");
    assert_string_equal(lvn_error_location(), "");
}

static void test_status_may_quote_itself(void **state)
{
    (void)state;
    (void)lvn_fail_at("a/b/c.c", 3, LVN_IO, "first");
    assert_string_equal(lvn_error_location(), "c.c:3");
    (void)lvn_fail_at("c.c", 4, LVN_IO, "second, after: %s", levin_error_text());
    assert_string_equal(levin_error_text(), "second, after: first");
}

static void test_status_cuts_what_is_too_long(void **state)
{
    (void)state;
    static char text[5000];
    memset(text, 'x', sizeof text - 1);
    (void)lvn_fail_at("c.c", 1, LVN_IO, "%s", text);
    assert_true(strlen(levin_error_text()) > 1000 && strlen(levin_error_text()) < sizeof text);
    for (int i = 0; i < 100; i++) (void)lvn_while_at(LVN_IO, "%s", text);
    assert_true(strlen(levin_error_trace()) > 1000 && strlen(levin_error_trace()) < sizeof text);
    lvn_error_clear();
}

static void each_thread_fails(void *argument, int thread, int n_threads)
{
    (void)n_threads;
    char *const *texts = argument;
    (void)lvn_fail_at("c.c", thread, LVN_IO, "thread %d", thread);
    lvn_team_barrier();
    snprintf(texts[thread], 32, "%s", levin_error_text());
}

static void test_status_belongs_to_its_thread(void **state)
{
    (void)state;
    char a[32], b[32], c[32], *texts[] = {a, b, c};
    lvn_team_run(3, each_thread_fails, texts);
    assert_string_equal(a, "thread 0");
    assert_string_equal(b, "thread 1");
    assert_string_equal(c, "thread 2");
    lvn_error_clear();
}

static void test_status_is_set_aside_and_put_back(void **state)
{
    (void)state;
    assert_int_equal(lvn_while_at(outer(2), "starting"), LVN_ARG);
    lvn_error_save();
    assert_int_equal(outer(1), LVN_SHAPE);
    lvn_error_clear();
    lvn_error_restore();
    assert_string_equal(levin_error_text(), "x is two");
    assert_string_equal(levin_error_trace(), "while starting\n");
    lvn_error_clear();
}

static void test_status_texts(void **state)
{
    (void)state;
    assert_string_equal(lvn_status_text(LVN_OK), "no error");
    assert_string_equal(lvn_status_text(LVN_STOPPED), "stopped on request");
    assert_string_equal(lvn_status_text((enum lvn_status)99), "unknown status");
}

/* --- memory --- */

static void test_arena_gives_zeroed_aligned_memory(void **state)
{
    (void)state;
    struct lvn_arena a;
    lvn_arena_init(&a);
    char *before = NULL;
    size_t used = 0;
    static const size_t sizes[] = {1, 7, 16, 100, 65536, 3, 70000, 65535, 0, 9};
    for (size_t round = 0; round < 20; round++)
        for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
            char *p = lvn_arena_alloc(&a, sizes[n]);
            assert_non_null(p);
            assert_true((uintptr_t)p % _Alignof(max_align_t) == 0);
            assert_true(p != before || sizes[n] == 0 || n == 0 || sizes[n - 1] == 0);
            for (size_t i = 0; i < sizes[n]; i++) assert_int_equal(p[i], 0);
            memset(p, 0xab, sizes[n]); /* would corrupt an overlapping block */
            before = p;
            used += sizes[n];
        }
    assert_true(a.used >= used);
    assert_string_equal(lvn_arena_strdup(&a, "one"), "one");
    assert_string_equal(lvn_arena_printf(&a, "%s.%d", "h", 12), "h.12");
    lvn_arena_release(&a);
    assert_null(a.blocks);
    lvn_arena_release(&a); /* a second release does nothing */
}

static void test_allocations_fail_on_request(void **state)
{
    (void)state;
    struct lvn_arena a;
    lvn_arena_init(&a);
    fault_memory_at(2);
    void *p = lvn_malloc(8);
    assert_non_null(p);
    assert_null(lvn_arena_alloc(&a, 8));
    assert_non_null(strstr(levin_error_text(), "not enough memory"));
    assert_non_null(lvn_arena_alloc(&a, 8)); /* only the k-th fails */
    fault_memory_at(1);
    assert_null(lvn_realloc(p, 100));
    memset(p, 1, 8); /* still valid */
    fault_memory_at(1);
    assert_null(lvn_strdup("x"));
    fault_memory_at(0);
    assert_null(lvn_arena_alloc(&a, SIZE_MAX - 3));
    free(p);
    lvn_arena_release(&a);
    lvn_error_clear();
}

/* --- threads --- */

static void test_shares_cover_everything_once(void **state)
{
    (void)state;
    static const int64_t counts[] = {0, 1, 2, 15, 16, 17, 63, 1000, 4097}, grains[] = {1, 4, 16, 64};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (size_t g = 0; g < sizeof grains / sizeof grains[0]; g++)
            for (int n = 1; n <= 9; n++) {
                int64_t next = 0, begin, end;
                for (int t = 0; t < n; t++) {
                    lvn_thread_range(counts[c], grains[g], t, n, &begin, &end);
                    assert_true(begin == next && end >= begin);
                    assert_true(begin == counts[c] || begin % grains[g] == 0);
                    next = end;
                }
                assert_true(next == counts[c]);
            }
}

/* --- tensors --- */

/* --- timeouts, progress --- */

struct blocked {
    int pipe[2];
    bool over;
};

static void read_one(void *argument)
{
    struct blocked *h = argument;
    char c;
    h->over = read(h->pipe[0], &c, 1) == 1;
}

static void test_waits_within(void **state)
{
    (void)state;
    static struct blocked h[2]; /* the second thread may still run after the test */
    for (int i = 0; i < 2; i++) assert_int_equal(pipe(h[i].pipe), 0);
    assert_int_equal(write(h[0].pipe[1], "x", 1), 1);
    assert_true(lvn_thread_with_timeout(60, read_one, &h[0]));
    assert_true(h[0].over);
    assert_false(lvn_thread_with_timeout(0.01, read_one, &h[1]));
    assert_int_equal(write(h[1].pipe[1], "x", 1), 1); /* it continues */
    for (int bytes = 1; bytes;) assert_int_equal(ioctl(h[1].pipe[0], FIONREAD, &bytes), 0);
}

static void test_work_counts(void **state)
{
    (void)state;
    const char *before = lvn_work_begin("a validation");
    assert_null(before);
    const char *outer = lvn_work_begin("a save");
    assert_string_equal(outer, "a validation");
    assert_string_equal(lvn_work_name(), "a save");
    int64_t count = lvn_work_count();
    lvn_work_end(outer);
    assert_string_equal(lvn_work_name(), "a validation");
    assert_true(lvn_work_count() > count); /* an end is progress */
    lvn_work_end(before);
    assert_null(lvn_work_name());
    /* bytes written to a file */
    char data[1000] = {0}, path[] = "/tmp/levin-work-XXXXXX";
    int fd = mkstemp(path);
    struct lvn_output o;
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(lvn_output_open(&o, path), LVN_OK);
    count = lvn_work_count();
    assert_int_equal(lvn_output_write(&o, data, sizeof data), LVN_OK);
    assert_int_equal(lvn_output_close(&o), LVN_OK);
    assert_int_equal(lvn_work_count(), count + (int64_t)sizeof data);
    unlink(path);
}

static void test_tensor_descriptions(void **state)
{
    (void)state;
    char text[LVN_SHAPE_TEXT];
    struct lvn_desc d = LVN_DESC(LVN_F32, 12, 64, 128);
    assert_true(d.rank == 3 && d.stride[0] == 64 * 128 && d.stride[1] == 128 && d.stride[2] == 1 && d.offset == 0);
    assert_true(lvn_desc_count(&d) == 12 * 64 * 128);
    assert_true(lvn_desc_rows(&d) == 12 * 64);
    assert_string_equal(lvn_shape_text(&d, text), "(12, 64, 128)");

    struct lvn_desc scalar = lvn_desc_make(LVN_F64, 0, NULL), vector = LVN_DESC(LVN_BF16, 7);
    assert_true(lvn_desc_count(&scalar) == 1 && lvn_desc_rows(&vector) == 1);
    assert_string_equal(lvn_shape_text(&scalar, text), "()");
    assert_true(lvn_desc_contiguous(&scalar) && lvn_desc_contiguous(&vector));

    struct lvn_desc huge = LVN_DESC(LVN_F32, INT64_MAX, INT64_MAX, 3, INT64_MAX), negative = LVN_DESC(LVN_F32, 3, -1);
    assert_true(lvn_desc_count(&huge) == -1 && lvn_desc_count(&negative) == -1);
    assert_true(strlen(lvn_shape_text(&huge, text)) < sizeof text);
    struct lvn_desc empty = LVN_DESC(LVN_F32, 0, 5);
    assert_true(lvn_desc_count(&empty) == 0);
}

static void test_tensor_views(void **state)
{
    (void)state;
    struct lvn_desc a = LVN_DESC(LVN_F32, 2, 3, 4), b = LVN_DESC(LVN_I32, 2, 3, 4), c = LVN_DESC(LVN_F32, 2, 12);
    assert_true(lvn_desc_same_shape(&a, &b));
    assert_false(lvn_desc_same_shape(&a, &c));
    struct lvn_desc view = a;
    view.offset = 5; /* may be anything */
    assert_true(lvn_desc_contiguous(&view));
    view.stride[1] = 8;
    assert_false(lvn_desc_contiguous(&view));
    struct lvn_desc one = LVN_DESC(LVN_F32, 1, 1, 4);
    one.stride[0] = one.stride[1] = 99; /* strides of dims of size 1 are unused */
    assert_true(lvn_desc_contiguous(&one));
}

static void test_dtypes(void **state)
{
    (void)state;
    assert_true(lvn_dtype_bytes(LVN_F32) == 4 && lvn_dtype_bytes(LVN_F64) == 8 && lvn_dtype_bytes(LVN_BF16) == 2);
    assert_string_equal(lvn_dtype_name(LVN_BF16), "bf16");
    for (int t = 0; t < LVN_DTYPE_COUNT; t++) assert_true(lvn_dtype_bytes((enum lvn_dtype)t) > 0);
}

static void test_texts_fit_whole_or_not_at_all(void **state)
{
    (void)state;
    char text[5];
    assert_true(lvn_fit(text, sizeof text, "%d", 1234));
    assert_string_equal(text, "1234");
    assert_false(lvn_fit(text, sizeof text, "%d", 12345));
    assert_string_equal(text, "");
    assert_int_equal(lvn_copy_bytes(text, sizeof text, "a thing", "abcdef", 4), LVN_OK);
    assert_string_equal(text, "abcd");
    assert_int_equal(lvn_copy_bytes(text, sizeof text, "a thing", "secret", 6), LVN_ARG);
    assert_string_equal(text, "");
    assert_string_equal(levin_error_text(), "a thing has 6 bytes; at most 4 are supported");
}

/* The same characters as printf's: numbers of all sizes, short ones, and those next to a rounding boundary. */
static void test_numbers_are_printed_as_printf_does(void **state)
{
    (void)state;
    static const double nasty[] = {
        0,           -0.0,      1,      -1,  9.5,      10.5,      0.5, 1e-5, 9.9999e-5,       1e15,
        999999999.5, 1e300,     5e-324, NAN, INFINITY, -INFINITY, 0.1, 1e22, 123456789012345, 1e9,
        99999999.95, 0.00012345};
    enum { NASTY = sizeof nasty / sizeof *nasty };
    LVN_LOCAL_TEXT(text);
    char expected[64];
    for (int i = 0; i < 200000; i++) {
        const struct lvn_philox drawn = lvn_philox(1, (uint32_t)i, 0, 0, LVN_STREAM_TEST);
        const uint64_t bits = (uint64_t)drawn.v[0] << 32 | drawn.v[1];
        const int digits = 1 + i % 17;
        double value;
        memcpy(&value, &bits, sizeof value);
        if (i % 4 == 1) value = (double)((int64_t)bits >> 20 >> bits % 44) * 0.5;
        if (i % 4 == 2) value = ldexp((double)bits, -(int)(bits % 128));
        if (i % 4 == 3) value = (double)(float)(bits % 1000000) * 1e-6;
        if (i < 17 * NASTY) value = nasty[i / 17];
        snprintf(expected, sizeof expected, "%.*g", digits, value);
        lvn_text_clear(&text);
        lvn_text_number(&text, value, digits);
        assert_string_equal(text.p, expected);
    }
}

/* --- redaction --- */

static void test_sizes_of_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes;
    } cases[] = {{"5GB", 5000000000}, {"1.5 GiB", 3LL << 29},
                 {"4096", 4096},      {"2kb", 2000},
                 {"3MiB", 3 << 20},   {"1T", 1000000000000},
                 {"7 B", 7},          {"", -1},
                 {"-1", -1},          {"GB", -1},
                 {"0x10", -1},        {"1e30", -1},
                 {"5GBs", -1},        {"five", -1},
                 {"1 2", -1},         {" 5GB", -1},
                 {"5Gi", 5LL << 30},  {"nan", -1},
                 {"1e3", 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (lvn_bytes_of_text(cases[i].text) != cases[i].bytes)
            fail_msg("'%s' is %lld", cases[i].text, (long long)lvn_bytes_of_text(cases[i].text));
}

static void test_secrets_of_addresses_are_hidden(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"https://me:pw@host/a", "https://***@host/a"},
        {"cannot read 'http://token@host:80/a?b=1': it's 'x@y'", "cannot read 'http://***@host:80/a?b=1': it's 'x@y'"},
        {"http://a@b:c@host?X-Amz-Signature=0&x-goog-credential=a%2Fb#c",
         "http://***@host?X-Amz-Signature=*&x-goog-credential=***#c"},
        {"t?SIG=abcd&n=1&token=&AWSAccessKeyId=AK", "t?SIG=***&n=1&token=&AWSAccessKeyId=**"},
        {"'s3://bucket/key?' and https://host/me@here", "'s3://bucket/key?' and https://host/me@here"},
        {"", ""},
        {"?", "?"},
        {"a://", "a://"},
        {"&key=", "&key="},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[200];
        bool some = strcmp(pairs[i][0], pairs[i][1]) != 0;
        snprintf(text, sizeof text, "%s", pairs[i][0]);
        assert_false(lvn_secrets_hidden(text));
        assert_true(lvn_secrets_hide(text) == some);
        assert_string_equal(text, pairs[i][1]);
        assert_true(lvn_secrets_hidden(text) == some);
        (void)lvn_secrets_hide(text); /* idempotent */
        assert_string_equal(text, pairs[i][1]);
    }
}

static void test_secret_headers_are_hidden(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"403 Forbidden: x-amz-date:2026\nx-amz-security-token:FwoG/abc==\n",
         "403 Forbidden: x-amz-date:2026 x-amz-security-token:***"},
        {"{\"headers\": {\"Authorization\": \"Bearer hf_abc\", \"Host\": \"h\"}}",
         "{\"headers\": {\"Authorization\": \"***\", \"Host\": \"h\"}}"},
        {"<X-Amz-Security-Token>FwoG</X-Amz-Security-Token><b>1</b>",
         "<X-Amz-Security-Token>***</X-Amz-Security-Token><b>1</b>"},
        {"Cookie: a=b; c=d", "Cookie: ***"},
        {"the header Authorization is missing; x-amz-security-token;host",
         "the header Authorization is missing; x-amz-security-token;host"},
        {"proxy-authorization=", "proxy-authorization="},
        {"token: 'a', key: b", "token: 'a', key: b"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char text[200], again[200];
        assert_string_equal(lvn_redacted(text, sizeof text, pairs[i][0]), pairs[i][1]);
        assert_string_equal(lvn_redacted(again, sizeof again, text), pairs[i][1]);
    }
}

static void test_bytes_are_read_from_hexadecimal_digits(void **state)
{
    static const unsigned char bytes[] = {0x00, 0x9a, 0xff, 0x0b};
    static const char *const wrong[] = {"1 ", " 1", "0x", "-1", "g0", "0g", "1", ""};
    unsigned char read[sizeof bytes];
    char text[2 * sizeof bytes + 1];
    (void)state;
    lvn_hex_text(bytes, sizeof bytes, text);
    assert_string_equal(text, "009aff0b");
    assert_true(lvn_hex_bytes(text, sizeof bytes, read));
    assert_memory_equal(read, bytes, sizeof bytes);
    assert_true(lvn_hex_bytes("009AFF0B", sizeof bytes, read));
    assert_memory_equal(read, bytes, sizeof bytes);
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) assert_false(lvn_hex_bytes(wrong[k], 1, read));
}

static void test_control_characters_are_escaped(void **state)
{
    (void)state;
    char text[64], small[8];
    assert_string_equal(lvn_redacted(text, sizeof text,
                                     "a\x1b[31mb\x7f\xc2\x9b"
                                     "1m\r\nä\xff\xc3"),
                        "a\\x1b[31mb\\x7f\\x9b1m  ä\\xff\\xc3");
    /* what changes the direction of the text around it, but not the letters themselves */
    assert_string_equal(lvn_redacted(text, sizeof text, "a\u202egnp\u2066\u2069 \u05d0\u200d"),
                        "a\\u202egnp\\u2066\\u2069 \u05d0\u200d");
    assert_string_equal(lvn_control_find("ab\u202ec"), "\u202ec");
    assert_null(lvn_control_find("\u05d0 \xff ä"));
    assert_string_equal(lvn_redacted(small, sizeof small, "abcd\x01zz"), "abcd");
    assert_string_equal(lvn_redacted(small, sizeof small, "abcdefä"), "abcdef");
    lvn_fail(LVN_IO, "the server said \x1b]0;%s of http://u:p@h", "title\x07");
    lvn_while_at(LVN_IO, "asking \x1b");
    assert_string_equal(levin_error_text(), "the server said \\x1b]0;title\\x07 of http://***@h");
    assert_string_equal(levin_error_trace(), "while asking \\x1b\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_keeps_sentence_and_trace),
        cmocka_unit_test(test_status_may_quote_itself),
        cmocka_unit_test(test_status_cuts_what_is_too_long),
        cmocka_unit_test(test_status_belongs_to_its_thread),
        cmocka_unit_test(test_status_is_set_aside_and_put_back),
        cmocka_unit_test(test_status_texts),
        cmocka_unit_test(test_arena_gives_zeroed_aligned_memory),
        cmocka_unit_test(test_allocations_fail_on_request),
        cmocka_unit_test(test_shares_cover_everything_once),
        cmocka_unit_test(test_waits_within),
        cmocka_unit_test(test_work_counts),
        cmocka_unit_test(test_tensor_descriptions),
        cmocka_unit_test(test_tensor_views),
        cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_texts_fit_whole_or_not_at_all),
        cmocka_unit_test(test_numbers_are_printed_as_printf_does),
        cmocka_unit_test(test_sizes_of_texts),
        cmocka_unit_test(test_secrets_of_addresses_are_hidden),
        cmocka_unit_test(test_secret_headers_are_hidden),
        cmocka_unit_test(test_bytes_are_read_from_hexadecimal_digits),
        cmocka_unit_test(test_control_characters_are_escaped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
