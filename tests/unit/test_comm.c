/* test_comm.c - communication: the tree of sums, one rank, and several ranks that are threads of this program.
 *
 * The threads' transport keeps messages in memory and delivers them late and in pieces of luck, so that every order of
 * events comes up; real MPIs are tested by tests/cluster/comm_*.sh. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/engine.h"

/* --- the tree --- */

/* Whether [from, to) is a node of the tree over [lo, hi). */
static bool is_node(int64_t lo, int64_t hi, int64_t from, int64_t to)
{
    if (from == lo && to == hi) return true;
    if (hi - lo < 2) return false;
    int64_t half = 1;
    while (2 * half < hi - lo) half *= 2;
    return from < lo + half ? to <= lo + half && is_node(lo, lo + half, from, to) : is_node(lo + half, hi, from, to);
}

static void test_subtrees(void **state)
{
    (void)state;
    struct lvn_subtree s[LVN_MAX_SUBTREES];
    for (int64_t n = 1; n <= 40; n++)
        for (int64_t lo = 0; lo <= n; lo++)
            for (int64_t hi = lo; hi <= n; hi++) {
                int k = lvn_subtrees(n, lo, hi, s);
                int64_t at = lo;
                for (int i = 0; i < k; i++) {
                    assert_int_equal(s[i].first, at);
                    assert_true(s[i].end > s[i].first && is_node(0, n, s[i].first, s[i].end));
                    at = s[i].end;
                }
                assert_int_equal(at, hi);
                /* The largest: no two of them together are a node. */
                for (int i = 0; i < k; i++)
                    for (int j = i + 1; j < k; j++) assert_false(is_node(0, n, s[i].first, s[j].end));
            }
    assert_int_equal(lvn_subtrees(7, 4, 7, s), 1); /* the right edge of a tree that is no power of two */
    assert_int_equal(lvn_subtrees(8, 1, 7, s), 4);
    assert_true(lvn_subtrees(INT64_MAX, 1, INT64_MAX - 1, s) <= LVN_MAX_SUBTREES);
    assert_int_equal(lvn_subtrees(4, 4, 9, s), 0);
}

/* --- one rank --- */

static void test_self(void **state)
{
    (void)state;
    struct lvn_comm *c;
    struct lvn_request r;
    float x[4] = {1, 2, 3, 4}, out[4] = {0};
    int64_t first[] = {0, 4}, leaf[] = {0, 5};
    assert_int_equal(lvn_comm_open(&c, &(struct lvn_comm_options){.rank = 0, .size = 1}), LVN_OK);
    assert_int_equal(lvn_comm_size(c), 1);
    assert_int_equal(lvn_comm_rank(c), 0);
    assert_int_equal(lvn_comm_all_reduce_now(c, x, 4, LVN_F32, LVN_SUM), LVN_OK);
    assert_int_equal(lvn_comm_broadcast_now(c, x, 16, 0), LVN_OK);
    lvn_comm_reduce_scatter(c, &r, x, first, LVN_F32);
    assert_int_equal(lvn_comm_wait(c, &r), LVN_OK);
    assert_int_equal(r.number, 2);
    lvn_comm_all_gather(c, &r, x, first, LVN_F32);
    assert_true(lvn_request_done(&r));
    struct lvn_tree *t;
    assert_int_equal(lvn_tree_new(&t, c, leaf), LVN_OK);
    lvn_comm_tree_reduce(c, &r, t, (void *[]){x}, out, first, LVN_F32, true);
    assert_int_equal(lvn_comm_wait(c, &r), LVN_OK);
    assert_memory_equal(out, ((float[]){1, 2, 3, 4}), sizeof out);
    lvn_tree_free(t);
    leaf[1] = 0;
    assert_int_equal(lvn_tree_new(&t, c, leaf), LVN_ARG);
    lvn_comm_close(c);
    lvn_comm_close(NULL);
    assert_int_equal(lvn_comm_open(&c, &(struct lvn_comm_options){.rank = 1, .size = 1}), LVN_ARG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_subtrees), cmocka_unit_test(test_self)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
