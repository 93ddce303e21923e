/* test_wire.c - covers: src/ranks/cluster/rendezvous/membership.c src/ranks/cluster/rendezvous/wire.c
 *
 * The encoding of messages between ranks, and messages about ranks for people. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/rendezvous/member.h"
#include "cluster/rendezvous/wire.h"

/* --- messages --- */

static void words(void **state)
{
    (void)state;
    struct lvn_text t = {0};
    struct lvn_message m;
    lvn_message_add(&t, LVN_MESSAGE_PEER, (int64_t)-3, (int64_t)1 << 40, "a b\n%\x01\xc3\xa4");
    assert_string_equal(lvn_text_string(&t), "PEER -3 1099511627776 a%20b%0A%25%01\xc3\xa4\n");
    t.p[t.n - 1] = '\0';
    assert_true(lvn_message_parse(t.p, &m));
    assert_true(m.kind == LVN_MESSAGE_PEER && m.i[0] == -3 && m.i[1] == (int64_t)1 << 40);
    assert_string_equal(m.t[0], "a b\n%\x01\xc3\xa4");
    lvn_text_clear(&t);
    lvn_message_add(&t, LVN_MESSAGE_FACT, "", "x");
    t.p[t.n - 1] = '\0';
    assert_true(lvn_message_parse(t.p, &m) && !*m.t[0] && !strcmp(m.t[1], "x"));
    lvn_text_release(&t);
    static const char *const bad[] = {"",
                                      " ",
                                      "PEER",
                                      "PEER 1 2",
                                      "PEER 1 2 a b",
                                      "PEER x 2 a",
                                      "PEER 1 2 a%",
                                      "PEER 1 2 %0",
                                      "PEER 1 2 %00",
                                      "PEER 1 2 %g0",
                                      "PEER  1 2 a",
                                      "PEER 1 2 a ",
                                      "peer 1 2 a",
                                      "PEER 99999999999999999999 2 a",
                                      "WELCOME 1 1x",
                                      "READY ",
                                      "READY 1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char line[64];
        snprintf(line, sizeof line, "%s", bad[i]);
        assert_false(lvn_message_parse(line, &m));
    }
}

static void sentences(void **state)
{
    (void)state;
    struct lvn_text t = {0};
    struct lvn_straggler s = {0};
    struct lvn_peer p[4] = {0};
    char text[400];
    bool flag[8] = {1, 1, 1, 0, 0, 1, 1, 0};
    lvn_ranks_text(flag, 8, 0, &t);
    assert_string_equal(t.p, "0-2,5,6");
    for (int i = 0; i < 4; i++) {
        p[i] = (struct lvn_peer){.rank = i, .state = LVN_PEER_HERE, .step = 10, .compute_s = 1};
        snprintf(p[i].host, sizeof p[i].host, "n%d", i / 2);
    }
    p[2].state = p[3].state = LVN_PEER_LOST;
    p[2].step = 0;
    lvn_text_clear(&t);
    lvn_lost_text(p, 4, &t);
    assert_string_equal(t.p, "ranks 2,3 on n1 have sent no heartbeat since the start");
    p[2].reason = "its process is gone";
    lvn_text_clear(&t);
    lvn_lost_text(p, 4, &t);
    assert_string_equal(t.p, "ranks 2,3 on n1 have sent no heartbeat since the start (rank 2: its process is gone)");
    p[2].reason = NULL;
    p[1].state = LVN_PEER_LOST;
    p[2].step = 9;
    p[0].collective = 1, p[0].collectives = 3;
    lvn_text_clear(&t);
    lvn_lost_text(p, 4, &t);
    assert_string_equal(t.p,
                        "rank 1 on n0 and 2 others have sent no heartbeat since step 9; rank 0 waits in reduction 1 "
                        "of 3");
    lvn_text_release(&t);
    /* slow in five steps, not in one; reported once, and again after some time */
    for (int step = 0; step < 30; step++) {
        for (int i = 0; i < 4; i++) p[i].step = step + 1;
        p[1].compute_s = step == 2 || step >= 10 ? 2 : 1.1;
        bool said = lvn_straggler_find(&s, p, 4, 100 + step, text);
        assert_false(lvn_straggler_find(&s, p, 4, 100 + step, text)); /* the same step */
        assert_int_equal(said, step == 14);
    }
    assert_string_equal(text, "rank 1 on n0 is slow: it computes 2 s per step; the median of the ranks is 1 s (without "
                              "time spent waiting)");
    for (int i = 0; i < 4; i++) p[i].step = 31;
    assert_true(lvn_straggler_find(&s, p, 4, 5000, text));
    assert_true(lvn_is_slow(p, 4, 1, NULL) && !lvn_is_slow(p, 4, 0, NULL) && !lvn_is_slow(p, 1, 0, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(sentences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
