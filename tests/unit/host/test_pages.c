/* test_pages.c - covers: src/base/host/pages.c src/base/host/isa.c
 *
 * Large buffers and the choice of instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"
#include "host/isa.h"
#include "host/pages.h"

static void pages_are_aligned_and_zero(void **state)
{
    (void)state;
    static const int64_t sizes[] = {0, 1, 4096, 100000, (2 << 20) - 1, 2 << 20, (2 << 20) + 1, 9 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *p = lvn_pages_alloc(sizes[i]);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (int64_t at = 0; at < sizes[i]; at += 511) assert_int_equal(p[at], 0);
        if (sizes[i]) memset(p, 0xff, (size_t)sizes[i]);
        lvn_pages_free(p, sizes[i]);
    }
    lvn_pages_free(NULL, 5);
}

static void too_much_is_an_error(void **state)
{
    (void)state;
    assert_null(lvn_pages_alloc(INT64_MAX / 4));
    assert_non_null(strstr(levin_error_text(), "memory"));
    lvn_error_clear();
    assert_null(lvn_pages_alloc(-1));
    lvn_error_clear();
}

static void isa_is_held_down(void **state)
{
    (void)state;
    unsetenv("LEVIN_ISA");
    enum lvn_isa best = lvn_isa_best();
    for (int isa = 0; isa < LVN_ISA_COUNT; isa++) {
        setenv("LEVIN_ISA", lvn_isa_name((enum lvn_isa)isa), 1);
        assert_int_equal(lvn_isa_best(), isa < (int)best ? isa : (int)best);
    }
    setenv("LEVIN_ISA", "nonsense", 1);
    assert_int_equal(lvn_isa_best(), best);
    unsetenv("LEVIN_ISA");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_aligned_and_zero),
        cmocka_unit_test(too_much_is_an_error),
        cmocka_unit_test(isa_is_held_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
