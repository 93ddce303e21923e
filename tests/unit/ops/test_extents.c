/* test_extents.c - covers: src/core/ops/extents_cpu.h
 *
 * Threads divide a range of a flat buffer, parameter by parameter: each element belongs to exactly one thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ops/extents_cpu.h"

enum { MAX = 4096 };
static const int64_t start[] = {0, 64, 1088, 1152, 4096}; /* a bias, a weight, a bias, a weight */
static const struct lvn_extents parameters = {4, start};

static void is_shared(const struct lvn_extents *e, int64_t first, int64_t n, int n_threads)
{
    char seen[MAX] = {0};
    for (int thread = 0; thread < n_threads; thread++)
        for (int k = 0; k < extents_count(e); k++) {
            const struct extent x = extent_of(e, k, first, n, thread, n_threads);
            assert_true(x.begin >= 0 && x.begin <= x.end && x.end <= n);
            assert_true(x.begin == x.end || (first + x.begin) % 64 == 0);
            for (int64_t i = x.begin; i < x.end; i++) assert_int_equal(seen[i]++, 0);
        }
    for (int64_t i = 0; i < n; i++) assert_int_equal(seen[i], 1);
}

static void each_element_is_one_threads(void **state)
{
    (void)state;
    for (int n_threads = 1; n_threads < 9; n_threads++) {
        is_shared(NULL, 0, MAX, n_threads);
        is_shared(NULL, 128, 1000, n_threads);
        is_shared(&parameters, 0, MAX, n_threads);
        is_shared(&parameters, 64, 1088, n_threads);   /* a group of them */
        is_shared(&parameters, 512, 1024, n_threads);  /* a rank's shard, which begins and ends within weights */
        is_shared(&parameters, 2048, 640, n_threads);  /* within one */
        is_shared(&parameters, 1152, 2944, n_threads); /* to the end */
    }
}

static void a_thread_has_its_part_of_each(void **state)
{
    (void)state;
    const struct extent a = extent_of(&parameters, 1, 0, MAX, 1, 2), b = extent_of(&parameters, 3, 0, MAX, 1, 2);
    assert_int_equal(a.begin, 64 + 512);
    assert_int_equal(a.end, 64 + 1024);
    assert_int_equal(b.begin, 1152 + 1472);
    assert_int_equal(b.end, 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_element_is_one_threads),
        cmocka_unit_test(a_thread_has_its_part_of_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
