/* test_idx.c - covers: src/files/formats/idx.c
 *
 * Arrays of bytes in IDX files: read whole, plain and compressed; what is wrong is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "formats/idx.h"
#include "tmp_folder.h"

static char path[256];

static int set_up(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "%s/levin-idx-%d", tmp_folder(), (int)getpid());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

#define BYTES(...) (const unsigned char[]){__VA_ARGS__}, (int64_t)sizeof((const unsigned char[]){__VA_ARGS__})

static enum lvn_status read_of(const unsigned char *p, int64_t n, struct lvn_idx *x)
{
    assert_int_equal(lvn_file_write(path, p, n), LVN_OK);
    return lvn_idx_read(x, path);
}

static void test_reads(void **state)
{
    (void)state;
    struct lvn_idx x;
    assert_int_equal(read_of(BYTES(0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 10, 20, 30, 40, 50, 255), &x), LVN_OK);
    assert_int_equal(x.rank, 2);
    assert_int_equal(x.dim[0], 2);
    assert_int_equal(x.dim[1], 3);
    assert_memory_equal(x.data, ((unsigned char[]){10, 20, 30, 40, 50, 255}), 6);
    lvn_idx_release(&x);
    assert_int_equal(read_of(BYTES(0, 0, 8, 1, 0, 0, 0, 0), &x), LVN_OK);
    assert_int_equal(x.dim[0], 0);
    lvn_idx_release(&x);
}

/* gzip of {0, 0, 8, 1, 0, 0, 0, 4, 1, 2, 3, 4} */
static void test_reads_gzip(void **state)
{
    (void)state;
    struct lvn_idx x;
    enum lvn_status status = read_of(BYTES(0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 0x03, 0x01, 0x0c, 0x00, 0xf3, 0xff, 0, 0,
                                           8, 1, 0, 0, 0, 4, 1, 2, 3, 4, 0xc9, 0x10, 0x81, 0x1d, 0x0c, 0, 0, 0),
                                     &x);
    if (status == LVN_UNSUPPORTED) skip(); /* libarchive is not installed */
    if (status != LVN_OK) fail_msg("%s", levin_error_text());
    assert_int_equal(x.dim[0], 4);
    assert_memory_equal(x.data, ((unsigned char[]){1, 2, 3, 4}), 4);
    lvn_idx_release(&x);
}

static void refused(const unsigned char *p, int64_t n, enum lvn_status status, const char *why)
{
    struct lvn_idx x;
    assert_int_equal(read_of(p, n, &x), status);
    assert_non_null(strstr(levin_error_text(), path));
    if (!strstr(levin_error_text(), why)) fail_msg("'%s' does not say '%s'", levin_error_text(), why);
    lvn_error_clear();
}

static void test_refuses(void **state)
{
    (void)state;
    refused((const unsigned char *)"", 0, LVN_FORMAT, "has 0 bytes, too few for an IDX file: it is empty");
    refused(BYTES(0, 0, 8), LVN_FORMAT, "has 3 bytes, too few for an IDX file: it is truncated");
    refused(BYTES('P', 'K', 3, 4, 0, 0, 0, 0), LVN_FORMAT, "begins with 80, 75");
    refused(BYTES(0, 0, 0x0d, 1, 0, 0, 0, 1, 0, 0, 0, 0), LVN_UNSUPPORTED, "type 0x0d");
    refused(BYTES(0, 0, 8, 0), LVN_FORMAT, "0 dimensions");
    refused(BYTES(0, 0, 8, 5, 0, 0, 0, 1), LVN_FORMAT, "5 dimensions");
    refused(BYTES(0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1), LVN_FORMAT, "ends within its 3 dimensions");
    refused(BYTES(0, 0, 8, 1, 0, 0, 0, 3, 1, 2), LVN_FORMAT, "has 2 elements, expected 3 from its dimensions");
    refused(BYTES(0, 0, 8, 1, 0, 0, 0, 1, 1, 2), LVN_FORMAT, "has 2 elements, expected 1 from its dimensions");
    refused(BYTES(0, 0, 8, 4, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255),
            LVN_FORMAT, "its dimensions are damaged");
    refused(BYTES(0, 0, 8, 4, 255, 255, 1, 0, 255, 20, 0, 0, 0, 0, 0, 0, 0, 0, 24, 0), LVN_FORMAT, /* times nothing */
            "its dimensions are damaged");
}

static void test_missing_file_is_named(void **state)
{
    (void)state;
    struct lvn_idx x;
    assert_int_equal(lvn_idx_read(&x, "/nowhere/train-images"), LVN_IO);
    assert_non_null(strstr(levin_error_text(), "/nowhere/train-images"));
    lvn_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reads_gzip, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refuses, set_up, tear_down),
        cmocka_unit_test(test_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
