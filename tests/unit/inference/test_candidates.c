/* test_candidates.c - covers: src/run/inference/candidates.c
 *
 * Tokens are chosen as by sorting the whole vocabulary, without sorting it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "inference/candidates.h"

enum { MAX = 5000 };

static int by_logit(const void *a, const void *b)
{
    const struct lvn_candidate *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* What temperature, top_k and top_p mean, written down plainly. (Sums of another order may differ in their last bits;
 * the numbers here are none that such a bit decides.) */
static int32_t by_sorting(const float *logits, int64_t n, const struct lvn_choice *s, double at)
{
    static struct lvn_candidate list[MAX];
    static double weight[MAX];
    double all = 0.0, kept = 0.0, sum = 0.0;
    for (int64_t i = 0; i < n; i++) list[i] = (struct lvn_candidate){logits[i], (int32_t)i};
    qsort(list, (size_t)n, sizeof *list, by_logit);
    if (s->top_k > 0 && s->top_k < n) n = s->top_k;
    for (int64_t i = 0; i < n; i++) {
        weight[i] = (float)exp(((double)list[i].value - (double)list[0].value) / s->temperature);
        all += weight[i];
    }
    int64_t left = 0;
    bool by_share = s->top_p > 0.0 && s->top_p < 1.0;
    while (left < n && !(by_share && left > 0 && kept >= s->top_p * all)) kept += weight[left++];
    for (int64_t i = 0; i < left; i++) {
        sum += weight[i];
        if (at * kept < sum) return list[i].id;
    }
    return list[left - 1].id;
}

/* Logits of a spread as models have it; every third stands twice. */
static void make_logits(float *logits, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        struct lvn_philox r = lvn_philox(seed, (uint32_t)i, 0, 0, 0);
        double u = ((double)r.v[0] + 1.0) * 0x1p-32, v = (double)r.v[1] * 0x1p-32;
        logits[i] = (float)(3.0 * sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v));
        if (i % 3 == 2) logits[i] = logits[i - 1];
    }
}

static void chooses_as_by_sorting(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 7, 64, 65, 1000, MAX}, ks[] = {0, 1, 2, 5, 40, 200, MAX, 2 * MAX};
    static const double temperatures[] = {1.0, 0.6, 20.0, 1e-3}, shares[] = {1.0, 0.0, 0.9, 0.3, 1e-9, 0.999999};
    static float logits[MAX];
    uint32_t turn = 0;
    for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++) {
        struct lvn_candidates c;
        assert_int_equal(lvn_candidates_init(&c, sizes[a]), LVN_OK);
        for (size_t b = 0; b < sizeof ks / sizeof *ks; b++)
            for (size_t d = 0; d < 4; d++)
                for (size_t e = 0; e < sizeof shares / sizeof *shares; e++) {
                    struct lvn_choice s = {.temperature = temperatures[d], .top_k = ks[b], .top_p = shares[e]};
                    make_logits(logits, sizes[a], ++turn);
                    for (int i = 0; i <= 4; i++) {
                        double at = i == 4 ? 0.999999 : (i + (turn % 97) / 97.0) / 4.0;
                        int32_t id = lvn_candidates_choose(&c, logits, &s, at);
                        assert_int_equal(id, by_sorting(logits, sizes[a], &s, at));
                    }
                }
        lvn_candidates_release(&c);
    }
}

/* Taken are those that the choice needs. */
static void takes_few(void **state)
{
    (void)state;
    static float logits[MAX];
    struct lvn_candidates c;
    assert_int_equal(lvn_candidates_init(&c, MAX), LVN_OK);
    make_logits(logits, MAX, 5);
    lvn_candidates_choose(&c, logits, &(struct lvn_choice){.temperature = 1.0, .top_k = 40}, 0.99);
    assert_int_equal(c.taken, 40);
    lvn_candidates_choose(&c, logits, &(struct lvn_choice){.temperature = 1.0}, 0.0);
    assert_int_equal(c.taken, 1);
    lvn_candidates_choose(&c, logits, &(struct lvn_choice){.temperature = 0.3, .top_p = 0.9}, 0.5);
    assert_in_range(c.taken, 2, MAX / 10);
    lvn_candidates_release(&c);
}

static void greedy_takes_the_first_of_equals(void **state)
{
    (void)state;
    const float logits[] = {-1, 3, 3, 2, 3};
    struct lvn_candidates c;
    assert_int_equal(lvn_candidates_init(&c, 5), LVN_OK);
    assert_int_equal(lvn_candidates_choose(&c, logits, &(struct lvn_choice){.temperature = 0}, 0.9), 1);
    lvn_candidates_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chooses_as_by_sorting),
        cmocka_unit_test(takes_few),
        cmocka_unit_test(greedy_takes_the_first_of_equals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
