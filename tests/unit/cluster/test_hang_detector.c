/* test_hang_detector.c - covers: src/ranks/cluster/rendezvous/hang_detector.c
 *
 * A run whose heartbeats all arrive and which makes no progress, judged from tables and times that the test makes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/rendezvous/hang_detector.h"

enum { N = 4 };
static const double LIMIT = 600;

/* One rank per host; all are heard of at `now`, and have done a step. */
static void begin(struct lvn_peer *p, double now)
{
    memset(p, 0, sizeof *p * N);
    for (int i = 0; i < N; i++) {
        p[i] = (struct lvn_peer){
            .rank = i, .state = LVN_PEER_HERE, .last_heard = now, .last_progress = now, .step = 12, .waits_done = 40};
        snprintf(p[i].host, sizeof p[i].host, "h%d", i + 1);
    }
}

static void heartbeat(struct lvn_peer *p, struct lvn_peer next, double now)
{
    struct lvn_peer before = *p;
    p->step = next.step;
    p->collective = next.collective;
    p->collectives = next.collectives;
    p->waits_done = next.waits_done;
    p->work_count = next.work_count;
    memcpy(p->operation, next.operation, sizeof p->operation);
    memcpy(p->activity, next.activity, sizeof p->activity);
    p->last_heard = now;
    lvn_hang_detector_heard(p, &before, now);
}

/* The table at a time when all ranks in state HERE have been heard of. */
static struct lvn_peer *at(struct lvn_peer *p, double now)
{
    for (int i = 0; i < N; i++)
        if (p[i].state == LVN_PEER_HERE) p[i].last_heard = now;
    return p;
}

static void assert_text(struct lvn_peer *p, double now, const char *expected)
{
    struct lvn_text t = {0};
    lvn_hang_detector_text(at(p, now), N, LIMIT, &t);
    assert_string_equal(lvn_text_string(&t), expected);
    lvn_text_release(&t);
}

/* Heartbeats without progress: a hang is suspected at half of the limit, and detected at the limit. */
static void nobody_moves(void **state)
{
    (void)state;
    struct lvn_peer p[N];
    begin(p, 1000);
    for (double now = 1000.5; now < 1700; now += 0.5) {
        for (int i = 0; i < N; i++) heartbeat(&p[i], p[i], now);
        enum lvn_hang_state expected = now < 1300 ? LVN_HANG_NONE : now < 1600 ? LVN_HANG_SUSPECTED : LVN_HANG_DETECTED;
        assert_int_equal(lvn_hang_detector_state(at(p, now), N, LIMIT), expected);
        assert_int_equal(lvn_hang_detector_state(at(p, now), N, 0), LVN_HANG_NONE);
    }
}

/* A rank that is not heard of may have made progress. */
static void one_is_silent(void **state)
{
    (void)state;
    struct lvn_peer p[N];
    begin(p, 1000);
    at(p, 2000);
    p[1].last_heard = 1299;
    assert_int_equal(lvn_hang_detector_state(p, N, LIMIT), LVN_HANG_NONE);
    p[1].last_heard = 1301;
    assert_int_equal(lvn_hang_detector_state(p, N, LIMIT), LVN_HANG_SUSPECTED);
    p[1].last_heard = 1601;
    assert_int_equal(lvn_hang_detector_state(p, N, LIMIT), LVN_HANG_DETECTED);
}

/* Any progress of one rank counts, because the others may be waiting for it. */
static void one_moves(void **state)
{
    (void)state;
    for (int what = 0; what < 6; what++) {
        struct lvn_peer p[N];
        begin(p, 0.5);
        struct lvn_peer next = p[2];
        if (what == 0) next.step++;
        if (what == 1) next.collective = 1, next.collectives = 2;
        if (what == 2) next.waits_done++;
        if (what == 3) next.work_count += 1 << 20; /* bytes of a save */
        if (what == 4) snprintf(next.operation, sizeof next.operation, "an agreement");
        if (what == 5) snprintf(next.activity, sizeof next.activity, "a validation");
        heartbeat(&p[2], next, 599);
        assert_int_equal(lvn_hang_detector_state(at(p, 898), N, LIMIT), LVN_HANG_NONE);
        assert_int_equal(lvn_hang_detector_state(at(p, 899), N, LIMIT), LVN_HANG_SUSPECTED);
        assert_int_equal(lvn_hang_detector_state(at(p, 1198), N, LIMIT), LVN_HANG_SUSPECTED);
        assert_int_equal(lvn_hang_detector_state(at(p, 1199), N, LIMIT), LVN_HANG_DETECTED);
        p[2].state = LVN_PEER_DONE; /* the others may not have been heard of since */
        assert_int_equal(lvn_hang_detector_state(at(p, 898), N, LIMIT), LVN_HANG_NONE);
        assert_int_equal(lvn_hang_detector_state(at(p, 1199), N, LIMIT), LVN_HANG_DETECTED);
    }
}

/* Steps of 100 s: 2,000 s may pass. The first observed steps do not count toward the step time. */
static void slow_steps(void **state)
{
    (void)state;
    struct lvn_peer p[N];
    begin(p, 1);
    for (int i = 0; i < N; i++) p[i].step = 0;
    for (int k = 0; k < 5; k++) {
        assert_true(lvn_hang_detector_limit(p, N, LIMIT) == (k < 2 ? LIMIT : 2000));
        struct lvn_peer next = p[0];
        next.step = 30 + k;
        heartbeat(&p[0], next, 100 + 100.0 * k);
    }
    assert_int_equal(lvn_hang_detector_state(at(p, 500 + 999), N, LIMIT), LVN_HANG_NONE);
    assert_int_equal(lvn_hang_detector_state(at(p, 500 + 1001), N, LIMIT), LVN_HANG_SUSPECTED);
    assert_int_equal(lvn_hang_detector_state(at(p, 500 + 2001), N, LIMIT), LVN_HANG_DETECTED);
    assert_true(lvn_hang_detector_limit(p, N, 5000) == 5000);
    assert_true(lvn_hang_detector_limit(p, N, 0) == 0);
    for (int i = 0; i < N; i++) p[i].step = p[i].first_step;
    assert_true(lvn_hang_detector_limit(p, N, 0.1) == 2);
}

static void reduce(struct lvn_peer *p, int k, int n, int waits_done)
{
    p->collective = k;
    p->collectives = n;
    p->waits_done = waits_done;
}

static void who_is_behind(void **state)
{
    (void)state;
    struct lvn_peer p[N];
    begin(p, 1);
    reduce(&p[0], 2, 2, 41);
    reduce(&p[1], 2, 2, 41);
    reduce(&p[2], 1, 2, 40);
    p[3].state = LVN_PEER_DONE;
    assert_int_equal(lvn_hang_detector_behind(p, N), 2);
    assert_text(
        p, 301,
        "no rank has made progress for 5 min, since step 12: ranks 0,1 wait in reduction 2 of 2; rank 2 on h3 is "
        "in reduction 1 of 2; messages do not reach rank 2 on h3: check its links; the run ends in 5 min unless one "
        "makes progress (trainer.stall_timeout)");
    assert_text(
        p, 601,
        "no rank has made progress for 10 min, since step 12: ranks 0,1 wait in reduction 2 of 2; rank 2 on h3 is "
        "in reduction 1 of 2; messages do not reach rank 2 on h3: check its links");
    p[2].waits_for = 2;
    assert_text(
        p, 601,
        "no rank has made progress for 10 min, since step 12: ranks 0,1 wait in reduction 2 of 2; rank 2 on h3 is "
        "in reduction 1 of 2; messages of rank 1 on h2 do not reach rank 2 on h3: check the link between them");
    reduce(&p[1], 1, 2, 40);
    p[2].waits_for = 0;
    assert_text(
        p, 601,
        "no rank has made progress for 10 min, since step 12: rank 0 on h1 waits in reduction 2 of 2; ranks 1,2 are "
        "in reduction 1 of 2; messages do not reach all of ranks 1,2: check their links");
    p[2].waits_for = 2;
    assert_text(
        p, 601,
        "no rank has made progress for 10 min, since step 12: rank 0 on h1 waits in reduction 2 of 2; ranks 1,2 are "
        "in reduction 1 of 2; rank 2 on h3 waits for rank 1 on h2");
    p[1].waits_for = 1; /* packets from rank 0 are lost: it has sent all its data and continued */
    assert_text(
        p, 601,
        "no rank has made progress for 10 min, since step 12: rank 0 on h1 waits in reduction 2 of 2; ranks 1,2 are "
        "in reduction 1 of 2; messages of rank 0 on h1 do not reach rank 1 on h2: check the link between them");
    reduce(&p[1], 2, 2, 41);
    p[1].waits_for = 0;
    p[2].waits_for = 4; /* rank 3 has signed off */
    assert_text(
        p, 601,
        "no rank has made progress for 10 min, since step 12: ranks 0,1 wait in reduction 2 of 2; rank 2 on h3 is "
        "in reduction 1 of 2; messages do not reach rank 2 on h3: check its links");
    /* a rank that is not waiting has made less progress than one that is */
    begin(p, 1);
    for (int i = 0; i < N; i++) snprintf(p[i].operation, sizeof p[i].operation, i == 1 ? "" : "a sum over ranks");
    assert_int_equal(lvn_hang_detector_behind(p, N), 1);
    assert_text(
        p, 601,
        "no rank has made progress for 10 min, since step 12: ranks 0,2,3 wait in a sum over ranks; rank 1 on h2 "
        "is computing");
    snprintf(p[1].activity, sizeof p[1].activity, "reading data");
    for (int i = 0; i < N; i++) p[i].step = 0;
    assert_text(p, 601,
                "no rank has made progress for 10 min: ranks 0,2,3 wait in a sum over ranks; rank 1 on h2 is busy: "
                "reading data");
}

/* Rank 3 is still in the reduction of the previous step: messages that the others sent in it have not arrived. */
static void one_wait_behind(void **state)
{
    (void)state;
    struct lvn_peer p[N];
    begin(p, 1);
    for (int i = 0; i < N; i++) reduce(&p[i], 1, 1, i == 3 ? 40 : 41);
    p[3].step--;
    snprintf(p[3].activity, sizeof p[3].activity, "a validation");
    assert_int_equal(lvn_hang_detector_behind(p, N), 3);
    assert_text(
        p, 601,
        "no rank has made progress for 10 min, since step 11: ranks 0-2 wait in reduction 1 of 1 of step 13; rank 3 "
        "on h4 is in reduction 1 of 1 of step 12; messages do not reach rank 3 on h4: check its links");
}

static void nobody_is_behind(void **state)
{
    (void)state;
    struct lvn_peer p[N];
    begin(p, 1);
    for (int i = 0; i < N; i++) reduce(&p[i], 3, 5, 41);
    assert_int_equal(lvn_hang_detector_behind(p, N), -1);
    assert_text(p, 601,
                "no rank has made progress for 10 min, since step 12: ranks 0-3 wait in reduction 3 of 5; all have the "
                "same progress: "
                "check that all of them reach each other");
    /* a link between ranks 1 and 3: they wait for each other, and the others for them */
    const int waits_for[] = {2, 4, 2, 2};
    int link[2] = {-1, -1};
    assert_false(lvn_hang_detector_link(p, N, link));
    for (int i = 0; i < N; i++) p[i].waits_for = waits_for[i];
    assert_true(lvn_hang_detector_link(p, N, link));
    assert_int_equal(link[0], 1);
    assert_int_equal(link[1], 3);
    assert_text(
        p, 601,
        "no rank has made progress for 10 min, since step 12: ranks 0-3 wait in reduction 3 of 5; rank 1 on h2 and "
        "rank 3 on h4 wait for each other: check the link between them");
    begin(p, 1);
    for (int i = 0; i < N; i++) snprintf(p[i].activity, sizeof p[i].activity, "a save");
    assert_int_equal(lvn_hang_detector_behind(p, N), -1);
    assert_text(p, 601, "no rank has made progress for 10 min, since step 12: ranks 0-3 are busy: a save");
    for (int i = 0; i < N; i++) p[i].state = LVN_PEER_DONE;
    assert_int_equal(lvn_hang_detector_state(at(p, 1e9), N, LIMIT), LVN_HANG_NONE);
}

/* Many different states: the message remains short and still names the ranks with the least progress. */
static void everybody_elsewhere(void **state)
{
    (void)state;
    enum { MANY = 64 };
    struct lvn_peer p[MANY] = {0};
    struct lvn_text t = {0};
    for (int i = 0; i < MANY; i++) {
        p[i] = (struct lvn_peer){.rank = i, .state = LVN_PEER_HERE, .last_heard = 700, .last_progress = 1};
        snprintf(p[i].host, sizeof p[i].host, "h%d", i);
        reduce(&p[i], i + 1, MANY, i);
    }
    assert_int_equal(lvn_hang_detector_behind(p, MANY), 0);
    lvn_hang_detector_text(p, MANY, LIMIT, &t);
    assert_string_equal(
        lvn_text_string(&t),
        "no rank has made progress for 12 min: rank 63 on h63 waits in reduction 64 of 64; rank 62 on h62 waits in "
        "reduction 63 of 64; rank 61 on h61 waits in reduction 62 of 64; ... ; rank 0 on h0 is "
        "in reduction 1 of 64; messages do not reach rank 0 on h0: check its links");
    lvn_text_release(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_moves),     cmocka_unit_test(one_is_silent),       cmocka_unit_test(one_moves),
        cmocka_unit_test(slow_steps),       cmocka_unit_test(who_is_behind),       cmocka_unit_test(one_wait_behind),
        cmocka_unit_test(nobody_is_behind), cmocka_unit_test(everybody_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
