/* test_random.c - covers: src/base/random.c
 *
 * The random numbers: known answers of Philox, permutations, and what a normal number should be. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

/* The three known answers for philox4x32 with ten rounds that come with the authors' Random123 library. */
static void test_philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4];
        uint32_t key[2];
        uint32_t expected[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t n = 0; n < sizeof known / sizeof known[0]; n++) {
        const uint32_t *c = known[n].counter;
        struct lvn_philox r = lvn_philox(known[n].key[0] | (uint64_t)known[n].key[1] << 32, c[0], c[1], c[2], c[3]);
        assert_memory_equal(r.v, known[n].expected, sizeof r.v);
    }
}

static void test_name_hash_is_fnv1a(void **state)
{
    (void)state;
    assert_true(lvn_name_hash("") == 0xcbf29ce484222325u);
    assert_true(lvn_name_hash("a") == 0xaf63dc4c8601ec8cu);
    assert_true(lvn_name_hash("foobar") == 0x85944171f73967e8u);
}

static void test_uniform_stays_below_one(void **state)
{
    (void)state;
    assert_true(lvn_uniform(0) == 0);
    assert_true(lvn_uniform(0xffffffff) < 1);
    assert_true(lvn_uniform(0x80000000) == 0.5f);
}

static void test_permutation_is_a_bijection(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000, 4096, 4097, 10007};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        int64_t n = sizes[s], fixed = 0;
        char *seen = calloc((size_t)n, 1);
        assert_non_null(seen);
        for (int64_t i = 0; i < n; i++) {
            int64_t to = lvn_random_permute(9, 2, n, i);
            assert_true(to >= 0 && to < n);
            assert_false(seen[to]);
            seen[to] = 1;
            fixed += to == i;
        }
        if (n >= 1000) assert_true(fixed < 10); /* about one in a random order */
        free(seen);
    }
}

static void test_permutation_depends_on_seed_and_epoch(void **state)
{
    (void)state;
    int same_seed = 0, same_epoch = 0;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t at = lvn_random_permute(1, 1, 1000, i);
        assert_true(at == lvn_random_permute(1, 1, 1000, i));
        same_epoch += at == lvn_random_permute(1, 2, 1000, i);
        same_seed += at == lvn_random_permute(2, 1, 1000, i);
    }
    assert_true(same_seed < 10 && same_epoch < 10);
}

/* Neighbors must not stay neighbors: the mean distance of a random order is a third of its length. */
static void test_permutation_scatters(void **state)
{
    (void)state;
    double sum = 0;
    for (int64_t i = 0; i + 1 < 10007; i++)
        sum += fabs((double)(lvn_random_permute(5, 0, 10007, i + 1) - lvn_random_permute(5, 0, 10007, i)));
    assert_true(fabs(sum / 10006 / 10007 - 1.0 / 3) < 0.01);
}

static void test_below_is_uniform(void **state)
{
    (void)state;
    int count[7] = {0};
    for (uint64_t i = 0; i < 70000; i++) {
        int64_t x = lvn_random_below(3, i, 11, 7);
        assert_true(x >= 0 && x < 7);
        count[x]++;
    }
    for (int k = 0; k < 7; k++) assert_true(abs(count[k] - 10000) < 400); /* four standard deviations: 370 */
    assert_true(lvn_random_below(3, 1, 2, 1) == 0);
    assert_true(lvn_random_below(3, 1, 2, INT64_MAX) >= 0);
}

static void test_uniform_numbers(void **state)
{
    (void)state;
    enum { N = 120001 };
    float *x = malloc(N * sizeof *x), *tail = malloc(N * sizeof *tail);
    assert_true(x && tail);
    lvn_random_uniform(1337, lvn_name_hash("fc1.weight"), 0.25f, 0, N, x);
    double mean = 0, square = 0, neighbors = 0;
    for (int i = 0; i < N; i++) {
        assert_true(x[i] >= -0.25f && x[i] < 0.25f);
        mean += x[i] / 0.25 / N;
        square += x[i] / 0.25 * (x[i] / 0.25) / N;
        if (i) neighbors += x[i] / 0.25 * (x[i - 1] / 0.25) / N;
    }
    /* Of these estimates the standard deviations are sqrt(1/3, 4/45, 1/9 / N). */
    assert_true(fabs(mean) < 0.0067 && fabs(square - 1.0 / 3) < 0.0035 && fabs(neighbors) < 0.0039);
    lvn_random_uniform(1337, lvn_name_hash("fc1.weight"), 0.25f, 0, 1001, tail);
    assert_memory_equal(x, tail, 1001 * sizeof *x);
    lvn_random_uniform(1337, lvn_name_hash("fc1.bias"), 0.25f, 0, 1001, tail);
    assert_true(memcmp(x, tail, 1001 * sizeof *x) != 0);
    free(x);
    free(tail);
}

static void test_normal_numbers(void **state)
{
    (void)state;
    enum { N = 200003 };
    float *x = malloc(N * sizeof *x), *tail = malloc(N * sizeof *tail);
    assert_true(x && tail);
    lvn_random_normal(1337, lvn_name_hash("wte.weight"), 0.02f, 0, N, x);
    double moment[5] = {0}, neighbors = 0;
    int within = 0;
    for (int i = 0; i < N; i++) {
        double z = x[i] / 0.02, power = 1;
        assert_true(isfinite(x[i]));
        for (int k = 1; k <= 4; k++) moment[k] += (power *= z) / N;
        if (i) neighbors += z * x[i - 1] / 0.02 / N;
        within += fabs(z) < 1;
    }
    /* Of the moments' estimates the standard deviations are sqrt(1, 2, 15, 96 / N). */
    assert_true(fabs(moment[1]) < 0.009 && fabs(moment[2] - 1) < 0.013);
    assert_true(fabs(moment[3]) < 0.035 && fabs(moment[4] - 3) < 0.09);
    assert_true(fabs(neighbors) < 0.009);
    assert_true(fabs((double)within / N - 0.682689) < 0.0042);

    /* A value depends only on its index and the name. */
    lvn_random_normal(1337, lvn_name_hash("wte.weight"), 0.02f, 0, 1001, tail);
    assert_memory_equal(x, tail, 1001 * sizeof *x);
    lvn_random_normal(1337, lvn_name_hash("wpe.weight"), 0.02f, 0, 1001, tail);
    int same = 0;
    for (int i = 0; i < 1001; i++) same += x[i] == tail[i];
    assert_true(same < 5);
    free(x);
    free(tail);
}

static void test_dropout_bits(void **state)
{
    (void)state;
    const struct lvn_dropout_key key = {.seed = 7, .step = 5, .op = 99};
    /* Eight neighboring columns share one call of the generator: four words, low half first. */
    for (uint32_t column = 0; column < 40; column++) {
        struct lvn_philox r =
            lvn_philox(7 ^ ((uint64_t)LVN_STREAM_DROPOUT << 56), column / 8, 3, 99 ^ 2 * 0x9E3779B9u, 5);
        uint32_t word = r.v[column % 8 / 2];
        assert_int_equal(lvn_dropout_bits(&key, (uint64_t)2 << 32 | 3, column),
                         column % 2 ? word >> 16 : word & 0xffff);
    }
    assert_int_equal(lvn_dropout_threshold(0), 0);
    assert_int_equal(lvn_dropout_threshold(0.5), 32768);
    assert_int_equal(lvn_dropout_threshold(1), 65536);
}

static void test_secrets_differ(void **state)
{
    unsigned char a[32] = {0}, b[32] = {0};
    (void)state;
    assert_int_equal(lvn_random_secret(a, sizeof a, "a test"), LVN_OK);
    assert_int_equal(lvn_random_secret(b, sizeof b, "a test"), LVN_OK);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_secrets_differ),
        cmocka_unit_test(test_philox_known_answers),
        cmocka_unit_test(test_name_hash_is_fnv1a),
        cmocka_unit_test(test_uniform_stays_below_one),
        cmocka_unit_test(test_permutation_is_a_bijection),
        cmocka_unit_test(test_permutation_depends_on_seed_and_epoch),
        cmocka_unit_test(test_permutation_scatters),
        cmocka_unit_test(test_below_is_uniform),
        cmocka_unit_test(test_uniform_numbers),
        cmocka_unit_test(test_normal_numbers),
        cmocka_unit_test(test_dropout_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
