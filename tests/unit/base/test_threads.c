/* test_threads.c - covers: src/base/threads.c
 *
 * The team of threads: teams of all sizes, of several callers, within a team, in a forked child. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/threads.h"
#include "host/machine.h"

struct visit {
    int seen[8], after[8];
};

static void visit(void *argument, int thread, int n_threads)
{
    struct visit *v = argument;
    v->seen[thread] = n_threads;
    lvn_team_barrier();
    for (int t = 0; t < n_threads; t++) v->after[thread] += v->seen[t] == n_threads;
}

static void test_team_runs_every_thread_and_meets(void **state)
{
    (void)state;
    for (int n = 1; n <= 8; n++) {
        struct visit v = {0};
        lvn_team_run(n, visit, &v);
        for (int t = 0; t < n; t++) assert_true(v.seen[t] == n && v.after[t] == n);
    }
    lvn_team_barrier(); /* alone: nothing */
    assert_true(lvn_threads_default() >= 1);
}

/* Sums of rounds that depend on each other: every thread reads what its neighbor wrote in the round before. */
enum { ROUNDS = 300, LARGEST = 8 };

struct relay {
    long value[2][LARGEST];
};

static void pass_on(void *argument, int thread, int n_threads)
{
    struct relay *r = argument;
    for (int i = 0; i < ROUNDS; i++) {
        r->value[(i + 1) % 2][thread] = r->value[i % 2][(thread + 1) % n_threads] + 1;
        lvn_team_barrier();
    }
}

static int relays(int n_threads)
{
    struct relay r = {0};
    int wrong = 0;
    lvn_team_run(n_threads, pass_on, &r);
    for (int t = 0; t < n_threads; t++) wrong += r.value[ROUNDS % 2][t] != ROUNDS;
    return wrong;
}

static void test_threads_meet_at_every_barrier(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) assert_int_equal(relays(1 + i % LARGEST), 0);
    for (int i = 0; i < 200; i++) assert_int_equal(relays(2), 0);
}

static void *call_again_and_again(void *argument)
{
    int *wrong = argument;
    for (int i = 0; i < 50; i++) *wrong += relays(2 + i % 3);
    return NULL;
}

static void test_callers_at_the_same_time_have_teams_of_their_own(void **state)
{
    enum { CALLERS = 6 }; /* more than teams are kept */
    pthread_t caller[CALLERS];
    int wrong[CALLERS] = {0};
    (void)state;
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&caller[i], NULL, call_again_and_again, &wrong[i]), 0);
    for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_join(caller[i], NULL), 0);
    for (int i = 0; i < CALLERS; i++) assert_int_equal(wrong[i], 0);
}

static void run_inner(void *argument, int thread, int n_threads)
{
    struct visit *outer = argument;
    struct visit inner = {0};
    lvn_team_run(3, visit, &inner);
    outer->seen[thread] = inner.seen[0] == 1 && !inner.seen[1];
    lvn_team_barrier();
    for (int t = 0; t < n_threads; t++) outer->after[thread] += outer->seen[t];
}

static void test_a_thread_of_a_team_runs_alone(void **state)
{
    struct visit v = {0};
    (void)state;
    lvn_team_run(3, run_inner, &v);
    for (int t = 0; t < 3; t++) assert_int_equal(v.after[t], 3);
}

static void test_a_forked_child_has_teams(void **state)
{
    (void)state;
    assert_int_equal(relays(3), 0); /* the parent's threads exist, and not in the child */
    for (int i = 0; i < 5; i++) {
        int status = 1;
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child) {
            alarm(60); /* a child that waits for the parent's threads would wait forever */
            _exit(relays(3) || relays(2));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(relays(3), 0);
    }
}

static void note_size(void *argument, int thread, int n_threads)
{
    if (thread == 0) *(int *)argument = n_threads;
}

/* Without threads the caller does all of the work. Root may start threads beyond the limit: then there are all. */
static void test_fewer_threads_than_requested(void **state)
{
    int status = 1;
    (void)state;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        int size = 0;
        struct rlimit none = {1, 1};
        bool limited = geteuid() != 0 && !setrlimit(RLIMIT_NPROC, &none);
        lvn_team_run(4, note_size, &size);
        _exit(size == (limited ? 1 : 4) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void note_mask(void *argument, int thread, int n_threads)
{
    (void)n_threads;
    sigset_t set;
    pthread_sigmask(SIG_SETMASK, NULL, &set);
    ((int *)argument)[thread] = sigismember(&set, SIGTERM) * 2 + sigismember(&set, SIGSEGV);
}

static void test_signals_reach_the_caller_alone(void **state)
{
    int mask[3] = {9, 9, 9};
    (void)state;
    lvn_team_run(3, note_mask, mask);
    assert_int_equal(mask[0], 0);
    assert_int_equal(mask[1], 2);
    assert_int_equal(mask[2], 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_team_runs_every_thread_and_meets),
        cmocka_unit_test(test_threads_meet_at_every_barrier),
        cmocka_unit_test(test_callers_at_the_same_time_have_teams_of_their_own),
        cmocka_unit_test(test_a_thread_of_a_team_runs_alone),
        cmocka_unit_test(test_a_forked_child_has_teams),
        cmocka_unit_test(test_fewer_threads_than_requested),
        cmocka_unit_test(test_signals_reach_the_caller_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
