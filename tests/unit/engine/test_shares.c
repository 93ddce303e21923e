/* test_shares.c - covers: src/run/engine/shares.c
 *
 * Shares by speed: how they follow from speeds, what they are as text, and when they change. */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "engine/shares.h"
#include "io_test.h"

static void expect(int64_t units, int size, const double *speed, const char *expected)
{
    int64_t share[8], again[8];
    char text[LVN_SHARES_TEXT];
    lvn_shares_divide(units, size, speed, share);
    assert_int_equal(lvn_shares_write(size, share, text), LVN_OK);
    assert_string_equal(text, expected);
    assert_int_equal(lvn_shares_read(text, units, size, again), LVN_OK);
    assert_memory_equal(share, again, sizeof *share * (size_t)size);
}

static void test_divide(void **state)
{
    (void)state;
    expect(8, 2, (double[]){3, 1}, "6,2");
    expect(8, 2, (double[]){1, 1}, "4,4");
    expect(2, 2, (double[]){100, 1}, "1,1");
    expect(4, 3, (double[]){1e-9, 1e9, 1e-9}, "1,2,1");
    expect(5, 4, (double[]){1, 1, 1, 1e6}, "1,1,1,2");
    expect(1000000, 2, (double[]){2, 1}, "666667,333333");
    expect(7, 1, (double[]){0.1}, "7");
}

/* No other shares are done sooner: all of them, for a few ranks. */
static void test_best(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 300; round++) {
        double speed[3];
        int64_t share[3], units = 3 + lvn_random_below(5, 1, round, 20);
        for (uint32_t i = 0; i < 3; i++) speed[i] = 0.05 + lvn_uniform(lvn_philox(5, round, i, 0, 0).v[0]);
        lvn_shares_divide(units, 3, speed, share);
        assert_int_equal(share[0] + share[1] + share[2], units);
        double got = lvn_shares_seconds(3, speed, share);
        for (int64_t a = 1; a < units - 1; a++)
            for (int64_t b = 1; a + b < units; b++)
                assert_true(got <= 1.0000001 * lvn_shares_seconds(3, speed, (int64_t[]){a, b, units - a - b}));
    }
}

static void refused(const char *text, int64_t units, int size, const char *why)
{
    int64_t share[2];
    lvn_error_clear();
    assert_int_equal(lvn_shares_read(text, units, size, share), LVN_ARG);
    if (!strstr(levin_error_text(), why)) fail_msg("'%s' is not in '%s'", why, levin_error_text());
    lvn_error_clear();
}

static void test_read(void **state)
{
    (void)state;
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

/* Rank 0 computes that number of units per second, rank 1 one; with a simulated clock. */
static int64_t steps_until_change(struct lvn_share_balance *w, double fast, int64_t *share, int64_t max)
{
    int64_t better[2];
    for (int64_t n = 1; n <= max; n++) {
        if (!lvn_share_balance_step(w, 2, (double[]){(double)share[0] / fast, (double)share[1]}, share, better))
            continue;
        memcpy(share, better, sizeof better);
        return n;
    }
    return 0;
}

static void test_watch(void **state)
{
    struct lvn_share_balance w;
    int64_t share[2] = {4, 4};
    (void)state;
    assert_int_equal(lvn_share_balance_init(&w, 2), LVN_OK);
    assert_int_equal(steps_until_change(&w, 1, share, 1000), 0); /* all is well */
    assert_int_equal(steps_until_change(&w, 1.05, share, 1000), 0);
    assert_int_equal(steps_until_change(&w, 3, share, 1000), 20); /* two looks of ten steps */
    assert_int_equal(share[0], 6);
    assert_int_equal(steps_until_change(&w, 3, share, 1000), 0);
    assert_int_equal(steps_until_change(&w, 1, share, 1000), 20);
    assert_int_equal(share[0], 4);
    /* a measurement without steps in between starts again */
    assert_int_equal(steps_until_change(&w, 3, share, 10), 0);
    assert_int_equal(steps_until_change(&w, 1, share, 10), 0);
    assert_int_equal(steps_until_change(&w, 3, share, 10), 0);
    assert_int_equal(steps_until_change(&w, 3, share, 10), 10);
    lvn_share_balance_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divide),
        cmocka_unit_test(test_best),
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_watch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
