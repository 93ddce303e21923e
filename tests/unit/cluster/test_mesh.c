/* test_mesh.c - covers: src/ranks/cluster/rendezvous/mesh.c src/ranks/cluster/rendezvous/endpoints.c
 *
 * Ranks connect to each other, each a process: every connection leads to the right rank, even if other programs
 * connect, another process answers at a rank's address, or a rank is stopped.
 *
 *     test_mesh N     seconds until N ranks have N (N - 1) / 2 connections */
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "cluster/rendezvous/member_private.h"
#include "cluster/rendezvous/mesh.h"
#include "unit/cluster_clients.h"

enum { MAX = 1024, SEEN = 400 };
static const double LIMIT = 90;

/* Shared with the ranks. */
static struct shared {
    _Atomic int listening, go, done;
    char key[LVN_MESH_KEY];
    struct {
        char place[LVN_ENDPOINT_TEXT], number[16], error[SEEN];
        _Atomic int pid, status, n_attempts;
        double begun, joined;
    } rank[MAX];
} * shared;

/* How the ranks of a test differ from ordinary ones. */
struct plan {
    int size, stopped; /* stopped: a rank that only listens; -1: none */
    double seconds;    /* limit of the test; 0: LIMIT */
    double patience;   /* timeout of a rank that does not answer; 0: the default */
    const char *other; /* an address that precedes each rank's addresses */
};

static bool until(_Atomic int *n, int wanted)
{
    for (double end = lvn_seconds() + LIMIT; atomic_load(n) < wanted && lvn_seconds() < end;) usleep(2000);
    return atomic_load(n) >= wanted;
}

/* Each sends its number to each other, and receives theirs. */
static bool all_lead_right(const struct lvn_mesh *m)
{
    for (int i = 0; i < m->size; i++)
        if (i != m->rank && write(m->sockets[i], &m->rank, sizeof m->rank) != sizeof m->rank) return false;
    for (int i = 0; i < m->size; i++) {
        int said = -1;
        struct pollfd p = {.fd = m->sockets[i], .events = POLLIN};
        if (i == m->rank) continue;
        if (poll(&p, 1, (int)(1000 * LIMIT)) != 1 || read(p.fd, &said, sizeof said) != sizeof said || said != i)
            return false;
    }
    return true;
}

/* The facts that the rendezvous would have sent. */
static struct lvn_member facts_of(const struct plan *p, struct lvn_fact_group *group)
{
    group[0] = (struct lvn_fact_group){strdup("tcp_key"), shared->key, strdup("0")};
    for (int i = 0; i < p->size; i++)
        group[1 + i] = (struct lvn_fact_group){strdup("tcp"), shared->rank[i].place, shared->rank[i].number};
    return (struct lvn_member){.rank = 0, .size = p->size, .group = group, .n_groups = 1 + p->size};
}

static enum lvn_status live(const struct plan *p, int rank)
{
    static struct lvn_fact_group group[1 + MAX];
    struct lvn_mesh m;
    LVN_TRY(lvn_mesh_listen(&m, rank, p->size, false));
    if (p->patience > 0) m.patience = p->patience;
    if (p->other) { /* another program may listen there */
        close(m.listening);
        LVN_TRY(lvn_listen("127.0.0.1", 0, &m.listening));
        lvn_endpoint_name(m.listening, m.endpoint, sizeof m.endpoint);
    }
    if (!rank) memcpy(shared->key, m.key, sizeof m.key);
    snprintf(shared->rank[rank].number, sizeof shared->rank[rank].number, "%d", rank);
    snprintf(shared->rank[rank].place, LVN_ENDPOINT_TEXT, "%ld,elsewhere%s%s,127.0.0.1", strtol(m.endpoint, NULL, 10),
             p->other ? "," : "", p->other ? p->other : "");
    atomic_fetch_add(&shared->listening, 1);
    if (!until(&shared->go, 1) || rank == p->stopped) {
        until(&shared->done, p->size);
        return lvn_mesh_release(&m), LVN_OK;
    }
    struct lvn_member h = facts_of(p, group);
    shared->rank[rank].begun = lvn_seconds();
    enum lvn_status status = lvn_mesh_connect(&m, &h, p->seconds > 0 ? p->seconds : LIMIT);
    shared->rank[rank].joined = lvn_seconds();
    shared->rank[rank].n_attempts = m.n_attempts;
    if (!status && !all_lead_right(&m)) status = LVN_ARG;
    lvn_mesh_release(&m);
    return status;
}

/* The ranks listen, and wait for `go`. */
static void start(const struct plan *p)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    fflush(stdout);
    for (int i = 0; i < p->size; i++) {
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (!pid) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            shared->rank[i].status = live(p, i);
            snprintf(shared->rank[i].error, SEEN, "%s", levin_error_text());
            atomic_fetch_add(&shared->done, 1);
            _exit(0);
        }
        shared->rank[i].pid = pid;
    }
    assert_true(until(&shared->listening, p->size));
}

static int port_of(int rank)
{
    return (int)strtol(shared->rank[rank].place, NULL, 10);
}

/* Connections that ranks began; how many of them ended well is *good. */
static int finish(const struct plan *p, int *good)
{
    int n_attempts = 0;
    atomic_store(&shared->go, 1);
    if (p->stopped < 0) assert_true(until(&shared->done, p->size));
    *good = 0;
    if (p->stopped >= 0) {
        assert_true(until(&shared->done, p->size - 1));
        kill(shared->rank[p->stopped].pid, SIGKILL);
    }
    for (int i = 0; i < p->size; i++) {
        int code;
        assert_int_equal(waitpid(shared->rank[i].pid, &code, 0), shared->rank[i].pid);
        n_attempts += shared->rank[i].n_attempts;
        *good += shared->rank[i].status == LVN_OK && i != p->stopped;
    }
    return n_attempts;
}

static void all_connected(const struct plan *p, int min, int max)
{
    int good, n_attempts = finish(p, &good);
    for (int i = 0; i < p->size; i++) assert_string_equal(shared->rank[i].error, "");
    assert_int_equal(good, p->size);
    assert_in_range(n_attempts, min, max);
    munmap(shared, sizeof *shared);
}

static int measure(int n)
{
    const struct plan p = {.size = n, .stopped = -1};
    double first = 1e300, last = 0;
    int good;
    start(&p);
    const int n_attempts = finish(&p, &good);
    for (int i = 0; i < n; i++) {
        if (shared->rank[i].begun < first) first = shared->rank[i].begun;
        if (shared->rank[i].joined > last) last = shared->rank[i].joined;
    }
    printf("%d of %d ranks joined, %d connections of %d begun, in %.3f s\n", good, n, n * (n - 1) / 2, n_attempts,
           last - first);
    return good != n;
}

/* --- tests --- */

static void test_all_connect(void **state)
{
    (void)state;
    const struct plan p = {.size = 128, .stopped = -1, .patience = LIMIT};
    start(&p);
    all_connected(&p, 128 * 127 / 2, 128 * 127 / 2); /* each one once */
}

/* Connections that send nothing, half a handshake, one with a wrong key, invalid bytes or too much, to every port
 * before the ranks connect. */
static void test_unidentified(void **state)
{
    (void)state;
    enum { N = 6, KNOCK = 100 };
    static char endless[20000], handshake[96] = "levin 00112233445566778899aabbccddeeff rank 5 to 0 try 1";
    static const struct {
        const char *x;
        size_t n;
    } says[] = {{"", 0}, {"levin ", 6}, {handshake, sizeof handshake}, {"\x01\xff\n\n", 4}, {endless, sizeof endless}};
    const struct plan p = {.size = N, .stopped = -1, .patience = LIMIT};
    int fd[N * KNOCK];
    start(&p);
    for (int i = 0; i < N * KNOCK; i++) {
        fd[i] = knock(port_of(i % N));
        assert_true(fd[i] >= 0);
        (void)send(fd[i], says[i % 5].x, says[i % 5].n, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    all_connected(&p, N * (N - 1) / 2, N * (N - 1) / 2);
    for (int i = 0; i < N * KNOCK; i++) close(fd[i]);
}

/* At the first address of each rank another program listens at the rank's port: it never answers, or answers something
 * else. */
static void other_answers(bool silent)
{
    enum { N = 4 };
    const struct plan p = {.size = N, .stopped = -1, .patience = silent ? 0.2 : LIMIT, .other = "127.0.0.2"};
    int door[N], n = 0;
    start(&p);
    for (int i = 0; i < N; i++) assert_int_equal(LVN_OK, lvn_listen("127.0.0.2", port_of(i), &door[i]));
    const pid_t pid = silent ? 0 : fork();
    if (!silent && !pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (struct pollfd d[N];;) {
            for (int i = 0; i < N; i++) d[i] = (struct pollfd){.fd = door[i], .events = POLLIN};
            poll(d, N, -1);
            for (int i = 0; i < N; i++) {
                int fd = d[i].revents ? accept(door[i], NULL, NULL) : -1;
                if (fd >= 0 && write(fd, "SSH-2.0-OpenSSH_9.2\r\n", 21) < 0) n++;
                if (fd >= 0) close(fd);
            }
        }
    }
    all_connected(&p, N * (N - 1) / 2 + 1, 1000);
    for (int i = 0; i < N; i++) close(door[i]);
    if (pid) kill(pid, SIGKILL), waitpid(pid, NULL, 0);
}

static void test_somebody_else(void **state)
{
    (void)state;
    other_answers(false);
}

static void test_nobody_answers(void **state)
{
    (void)state;
    other_answers(true);
}

/* A rank is stopped: higher ranks report that it does not answer, lower ones that it has not connected, and all end. */
static void test_standstill(void **state)
{
    (void)state;
    const struct plan p = {.size = 5, .stopped = 2, .seconds = 6}; /* the others must have met by then */
    int good;
    start(&p);
    finish(&p, &good);
    assert_int_equal(good, 0);
    for (int i = 0; i < p.size; i++) {
        const char *want = i < 2 ? "rank 2 has not connected to rank" : "cannot reach rank 2 (127.0.0.1 port";
        if (i != 2 && !strstr(shared->rank[i].error, want)) fail_msg("rank %d: %s", i, shared->rank[i].error);
        if (i > 2) assert_non_null(strstr(shared->rank[i].error, "no answer"));
    }
    munmap(shared, sizeof *shared);
}

/* Rank 0 has the connections of the rendezvous and of the mesh; under levin launch only those of the mesh. */
static void test_files(void **state)
{
    (void)state;
    const pid_t pid = fork();
    int code;
    if (!pid) {
        struct lvn_mesh m;
        struct rlimit r = {.rlim_cur = 64, .rlim_max = 600};
        if (setrlimit(RLIMIT_NOFILE, &r)) _exit(1);
        if (lvn_mesh_listen(&m, 1, 300, false) != LVN_OK) _exit(2);
        lvn_mesh_release(&m);
        if (lvn_mesh_listen(&m, 0, 300, false) != LVN_IO) _exit(3);
        lvn_mesh_release(&m);
        if (!strstr(levin_error_text(), "the limit of 600 open files is below the 928 that 300 ranks require"))
            _exit(4);
        setenv("LEVIN_RENDEZVOUS", "127.0.0.1:1", 1);
        _exit(lvn_mesh_listen(&m, 0, 300, false) == LVN_OK ? 0 : 5);
    }
    assert_int_equal(waitpid(pid, &code, 0), pid);
    assert_int_equal(code, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) return measure((int)strtol(argv[1], NULL, 10));
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_connect),   cmocka_unit_test(test_unidentified),
                                       cmocka_unit_test(test_somebody_else), cmocka_unit_test(test_nobody_answers),
                                       cmocka_unit_test(test_standstill),    cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
