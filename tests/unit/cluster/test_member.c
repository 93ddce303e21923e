/* test_member.c - covers: src/ranks/cluster/rendezvous/member.c src/ranks/cluster/rendezvous/member_thread.c
 * src/ranks/cluster/rendezvous/member_facts.c
 *
 * Ranks that join at rank 0, send heartbeats, die, are stopped, and fail. */
#include <sys/stat.h>

#include "cluster_ranks.h"

/* --- no fault --- */

static void other_build(struct plan *p)
{
    if (p->index == 2) p->build = "other";
}

static void meeting(void **state)
{
    (void)state;
    start_all(4, calm, other_build);
    for (int i = 0; i < 4; i++) assert_true(until(&shared->rank[i].ready));
    assert_status("\"state\": \"running\"");
    atomic_store(&shared->go, 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(end_of(i), 0);
        assert_string_equal(shared->rank[i].difference, "rank 2 on node2 has build 'other', the other 3 have 'same'");
    }
    assert_status("\"state\": \"done\"");
    assert_status("\"step\": 412");
    assert_status("{\"rank\": 3, \"host\": \"node3\"");
}

static void alone(void **state)
{
    (void)state;
    start_all(1, calm, NULL);
    assert_true(all_opened(1));
    atomic_store(&shared->go, 1);
    assert_int_equal(end_of(0), 0);
    assert_status("\"state\": \"done\"");
}

/* --- a rank is lost --- */

static void strike(int n, struct plan p, int rank, int signal)
{
    start_all(n, p, NULL);
    assert_true(all_opened(n));
    kill(shared->rank[rank].pid, signal);
}

/* Kill a process that the test has stopped. */
static void bury(int rank)
{
    kill(shared->rank[rank].pid, SIGKILL);
    assert_int_equal(end_of(rank), -SIGKILL);
}

static void killed(void **state)
{
    (void)state;
    strike(4, calm, 2, SIGKILL);
    assert_reported(4, 2, 0,
                    "rank 2 on node2 has sent no heartbeat since step 412 (its process is gone); the others wait in "
                    "reduction 7 of 12");
    bury(2);
}

static void killed_server(void **state)
{
    (void)state;
    strike(4, calm, 0, SIGKILL);
    assert_reported(4, 0, 1,
                    "rank 0 on node0 has sent no heartbeat since step 412 (its process is gone); the others wait");
    bury(0);
}

static void stopped(void **state)
{
    (void)state;
    strike(3, hasty, 1, SIGSTOP);
    assert_reported(3, 1, 0, "rank 1 on node1 has sent no heartbeat since step 412 (its process does not respond)");
    bury(1);
}

static void stopped_server(void **state)
{
    (void)state;
    strike(3, hasty, 0, SIGSTOP);
    assert_reported(3, 0, ANY, "rank 0 on node0 has sent no heartbeat since step 412 (its process does not respond)");
    bury(0);
}

/* Before a status.json exists that records the report: the lowest living rank of this host is the reporter. */
static void stopped_server_early(void **state)
{
    (void)state;
    struct plan p = hasty;
    p.early = true;
    strike(4, p, 0, SIGSTOP);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(end_of(i), 1);
        assert_int_equal(shared->rank[i].is_reporter, i == 1);
        assert_says(shared->rank[i].text, "rank 0 on node0 has sent no heartbeat");
    }
    bury(0);
}

static void one_fails(struct plan *p)
{
    p->then = p->index == 2 ? FAIL : HOLD;
}

static void failing(void **state)
{
    (void)state;
    start_all(3, calm, one_fails);
    assert_true(all_opened(3));
    atomic_store(&shared->go, 1);
    assert_int_equal(end_of(2), 5);
    assert_false(shared->rank[2].is_reporter_now);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(end_of(i), 1);
        assert_int_equal(shared->rank[i].is_reporter, i == 0);
        assert_says(shared->rank[i].text, "rank 2 on node2, after step 412: the loss is not a number");
    }
}

/* Communication fails because another rank died: that is reported. */
static void some_fail_after(struct plan *p)
{
    p->then = p->index < 2 ? FAIL_AFTER : HOLD;
}

static void failing_after(void **state)
{
    (void)state;
    start_all(3, calm, some_fail_after);
    assert_true(all_opened(3));
    kill(shared->rank[2].pid, SIGKILL);
    atomic_store(&shared->go, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(end_of(i), 5);
        assert_int_equal(shared->rank[i].is_reporter_now, i == 0);
    }
    assert_says(shared->rank[0].text, "rank 2 on node2 has sent no heartbeat since step 412");
    assert_int_equal(end_of(2), -SIGKILL);
}

/* --- all ranks send heartbeats, but none makes progress --- */

static void standing(void **state)
{
    (void)state;
    start_all(3, (struct plan){.timeout = 60, .stall_timeout = 1, .then = HOLD}, NULL);
    assert_reported(3, -1, 0, "no rank has made progress for ");
    for (int i = 0; i < 3; i++) assert_says(shared->rank[i].text, ", since step 412: ");
}

/* The file system of the reporter is blocked as well: one of its threads waits for a file forever. */
static void standing_files(void **state)
{
    (void)state;
    char path[128];
    start_all(3, (struct plan){.timeout = 60, .stall_timeout = 3, .then = HOLD}, NULL);
    assert_true(all_opened(3));
    snprintf(path, sizeof path, "%s/.status.json.tmp-%d", folder, (int)shared->rank[0].pid);
    while (mkfifo(path, 0600)) usleep(200);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(end_of(i), 1);
        assert_int_equal(shared->rank[i].is_reporter, i == 0);
        assert_says(shared->rank[i].text, "no rank has made progress for ");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANKS_TEST(meeting),
        RANKS_TEST(alone),
        RANKS_TEST(killed),
        RANKS_TEST(killed_server),
        RANKS_TEST(stopped),
        RANKS_TEST(stopped_server),
        RANKS_TEST(stopped_server_early),
        RANKS_TEST(failing),
        RANKS_TEST(failing_after),
        RANKS_TEST(standing),
        RANKS_TEST(standing_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
