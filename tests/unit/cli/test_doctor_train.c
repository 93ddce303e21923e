/* test_doctor_train.c - covers: src/app/cli/doctor/doctor_train.c
 *
 * The difference of two trainings: a loss that is NaN is never hidden by others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The program is no library: the file is compiled in, and what it prints with is replaced. */
#include "cli/doctor/doctor_train.c"

void lvn_cli_add(struct lvn_cli *c, const char *name, json_t *value)
{
    (void)c;
    (void)name;
    json_decref(value);
}

void lvn_doctor_line(const struct lvn_doctor *r, const char *name, const char *format, ...)
{
    (void)r;
    (void)name;
    (void)format;
}

void lvn_doctor_finding(struct lvn_doctor *r, const char *cure, const char *format, ...)
{
    (void)r;
    (void)cure;
    (void)format;
}

static void test_difference(void **state)
{
    (void)state;
    struct pair p;
    for (int i = 0; i < LVN_SYNTHETIC_STEPS; i++) p.one.loss[i] = p.all.loss[i] = 2;
    assert_true(max_difference(&p) == 0);
    p.all.loss[1] = 3;
    assert_true(max_difference(&p) == 0.5);
    for (int i = 0; i < LVN_SYNTHETIC_STEPS; i++) {
        const double loss = p.all.loss[i];
        p.all.loss[i] = NAN;
        assert_true(isnan(max_difference(&p)));
        p.all.loss[i] = loss;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_difference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
