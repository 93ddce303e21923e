/* test_shares.c - covers: src/run/engine/shares.c
 *
 * What shares are as text, and which texts are refused. */
#include <string.h>

#include "engine/shares.h"
#include "io_test.h"

static void refused(const char *text, int64_t units, int size, const char *why)
{
    int64_t first[3];
    lvn_error_clear();
    assert_int_equal(lvn_shares_read(text, units, size, first), LVN_ARG);
    if (!strstr(levin_error_text(), why)) fail_msg("'%s' is not in '%s'", why, levin_error_text());
    lvn_error_clear();
}

static void test_read(void **state)
{
    int64_t first[4];
    (void)state;
    assert_int_equal(lvn_shares_read("6,1,2", 9, 3, first), LVN_OK);
    assert_true(first[1] == 6 && first[2] == 7 && first[3] == 9);
    assert_int_equal(lvn_shares_count("6,1,2"), 3);
    assert_int_equal(lvn_shares_count(""), 0);
    refused("3", 4, 2, "for 1 rank, but 2 are started");
    refused("1,2,1", 4, 2, "for 3 ranks, but 2 are started");
    refused("3,2", 4, 2, "5 in total, but a step has 4");
    refused("4,0", 4, 2, "expected integers from 1 to 4");
    refused("-1,5", 4, 2, "expected integers from 1");
    refused("", 4, 2, "expected integers from 1");
    refused("3,", 4, 2, "expected integers from 1");
    refused("3;1", 4, 2, "expected integers from 1");
    refused("99999999999999999999,1", 4, 2, "expected integers from 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
