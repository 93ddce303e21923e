/* test_failing.c - a test program that fails on purpose: runner/reports_failure.sh checks that this is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void fails(void **state)
{
    (void)state;
    assert_int_equal(1, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
