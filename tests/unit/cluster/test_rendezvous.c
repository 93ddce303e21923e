/* test_rendezvous.c - covers: src/ranks/cluster/rendezvous/server.c src/ranks/cluster/rendezvous/endpoints.c
 *
 * The rendezvous server as levin launch runs it: ranks that die, claim a wrong rank or size or do not join,
 * strangers, a cut connection, and bad addresses. */
#include "base/clock.h"
#include "cluster_ranks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "cluster/rendezvous/server_private.h"

/* --- levin launch's server, outside of the ranks --- */

static struct lvn_server *outside;

static void serve(int size, double timeout, double join)
{
    struct lvn_server_options o = {
        .size = size, .listen = "127.0.0.1", .timeout = timeout, .join_timeout = join, .outside = true};
    assert_int_equal(lvn_server_start(&outside, &o), LVN_OK);
}

static const struct plan guest = {.timeout = 60, .guest = true};

static void invite(void)
{
    snprintf(shared->address, sizeof shared->address, "%s", lvn_server_address(outside));
    snprintf(shared->token, sizeof shared->token, "%s", lvn_server_token(outside));
    atomic_store(&shared->invited, 1);
}

static void await_end(void)
{
    for (double end = lvn_seconds() + LIMIT; lvn_server_phase(outside) < LVN_SERVER_ENDED && lvn_seconds() < end;)
        usleep(1000);
    assert_true(lvn_server_phase(outside) >= LVN_SERVER_ENDED);
}

static void outside_lost(void **state)
{
    (void)state;
    struct lvn_peer table[3];
    int rank;
    start_all(3, guest, NULL);
    serve(3, 60, 60);
    invite();
    assert_true(all_opened(3));
    assert_int_equal(lvn_server_phase(outside), LVN_SERVER_RUNNING);
    kill(shared->rank[0].pid, SIGKILL);
    await_end();
    assert_int_equal(lvn_server_phase(outside), LVN_SERVER_FAULT);
    assert_says(lvn_server_fault(outside, &rank), "rank 0 on node0 has sent no heartbeat since step 412");
    assert_int_equal(rank, 0);
    assert_false(lvn_server_fault_is_permanent(outside));
    lvn_server_table(outside, table);
    assert_int_equal(table[0].state, LVN_PEER_LOST);
    assert_true(table[1].step == 412 && table[1].collective == 7);
    assert_int_equal(end_of(0), -SIGKILL);
    assert_reported(3, 0, NONE, "rank 0 on node0");
    lvn_server_stop(outside, 5);
}

static void outside_ends(void **state)
{
    (void)state;
    start_all(2, guest, NULL);
    serve(2, 60, 60);
    invite();
    assert_true(all_opened(2));
    atomic_store(&shared->go, 1);
    await_end();
    assert_int_equal(lvn_server_phase(outside), LVN_SERVER_ENDED);
    assert_int_equal(end_of(0), 0);
    assert_int_equal(end_of(1), 0);
    assert_string_equal(lvn_server_fault(outside, NULL), "");
    lvn_server_stop(outside, 5);
}

static void both_one(struct plan *p)
{
    p->claims_rank = 1;
}

static void duplicates(void **state)
{
    (void)state;
    start_all(2, guest, both_one);
    serve(2, 60, 60);
    invite();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(end_of(i), 3);
        assert_says(shared->rank[i].text, "two processes claim to be rank 1: pid ");
        assert_says(shared->rank[i].text, " on node1");
        assert_false(shared->rank[i].is_reporter_now);
    }
    assert_says(lvn_server_fault(outside, NULL), "two processes claim to be rank 1");
    assert_true(lvn_server_fault_is_permanent(outside));
    lvn_server_stop(outside, 5);
}

static void each_alone(struct plan *p)
{
    p->claims_rank = 0;
    p->claims_size = 1;
}

static void singletons(void **state)
{
    (void)state;
    start_all(2, guest, each_alone);
    serve(2, 60, 60);
    invite();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(end_of(i), 3);
        assert_says(shared->rank[i].text, "claims to be rank 0 of 1, but this run has 2 ranks");
        assert_says(shared->rank[i].text, "trainer.mpi_library");
    }
    lvn_server_stop(outside, 5);
}

static void missing(void **state)
{
    (void)state;
    struct plan p = guest;
    memset(shared, 0, sizeof *shared);
    p.size = p.claims_size = 3;
    p.index = p.claims_rank = 1;
    start(&p);
    serve(3, 60, 2);
    invite();
    assert_int_equal(end_of(1), 3);
    assert_says(shared->rank[1].text, "ranks 0,2 of 3 have not joined within 2 s");
    lvn_server_stop(outside, 5);
}

static void wrong_token(void **state)
{
    (void)state;
    struct plan p = guest;
    p.token = "no";
    p.size = p.claims_size = 2;
    memset(shared, 0, sizeof *shared);
    start(&p);
    serve(2, 60, 60);
    invite();
    assert_int_equal(end_of(0), 3);
    assert_says(shared->rank[0].text, "rejected this rank: its token is not this run's");
    assert_true(shared->rank[0].is_reporter_now);
    assert_int_equal(lvn_server_phase(outside), LVN_SERVER_GATHERING);
    lvn_server_stop(outside, 0);
}

static int dial(const char *address)
{
    int place, fd;
    assert_int_equal(lvn_endpoint_connect(address, "it", 10, 0, &place, &fd), LVN_OK);
    return fd;
}

/* True when the other side closes. */
static bool closes(int fd)
{
    char text[256];
    for (double end = lvn_seconds() + LIMIT; lvn_seconds() < end; usleep(1000)) {
        ssize_t n = recv(fd, text, sizeof text, 0);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return true;
    }
    return false;
}

static int64_t looks_of(struct lvn_server *s)
{
    pthread_mutex_lock(&s->lock);
    int64_t looks = s->polls;
    pthread_mutex_unlock(&s->lock);
    return looks;
}

static void strangers(void **state)
{
    (void)state;
    static const char *const talks[] = {"GET / HTTP/1.1\r\n\r\n",
                                        "\n",
                                        "HELLO\n",
                                        "HELLO x y z 1 2\n",
                                        "HEARTBEAT 1 1 1 1 1 1 x\n",
                                        "READY\n",
                                        "HELLO % -1 2 1 h\n",
                                        "HELLO %ZZ 0 2 1 h\n",
                                        "\xff\xfe\x00\x01\n"};
    start_all(2, guest, NULL);
    serve(2, 60, 60);
    char *flood = malloc(100000);
    assert_non_null(flood);
    memset(flood, 'x', 100000);
    for (size_t i = 0; i <= sizeof talks / sizeof *talks; i++) {
        bool last = i == sizeof talks / sizeof *talks;
        int fd = dial(lvn_server_address(outside));
        ssize_t n = send(fd, last ? flood : talks[i], last ? 100000 : strlen(talks[i]), MSG_NOSIGNAL);
        assert_true(n > 0);
        if (strncmp(last ? "" : talks[i], "HELLO % ", 8) != 0) assert_true(closes(fd));
        close(fd);
    }
    free(flood);
    invite(); /* and the run begins normally */
    assert_true(all_opened(2));
    int fd = dial(lvn_server_address(outside));
    assert_true(send(fd, "HELLO x 0 2 1 h\n", 16, MSG_NOSIGNAL) == 16);
    assert_true(closes(fd));
    close(fd);
    atomic_store(&shared->go, 1);
    assert_int_equal(end_of(0), 0);
    assert_int_equal(end_of(1), 0);
    lvn_server_stop(outside, 5);
}

/* A child with many connections that send nothing, which it opens again when the server closes them. */
static pid_t besiege(const char *address)
{
    enum { MANY = 300 };
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    to.sin_port = htons((uint16_t)strtol(address, NULL, 10));
    pid_t pid = fork();
    if (pid) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct pollfd p[MANY];
    for (int i = 0; i < MANY; i++) p[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    for (;;) {
        for (int i = 0; i < MANY; i++) {
            if (p[i].fd >= 0 && !p[i].revents) continue;
            if (p[i].fd >= 0) close(p[i].fd);
            p[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
            (void)!connect(p[i].fd, (struct sockaddr *)&to, sizeof to);
        }
        poll(p, MANY, 1000);
    }
}

static void clients(void **state)
{
    (void)state;
    start_all(4, guest, NULL);
    serve(4, 60, 60);
    pid_t pid = besiege(lvn_server_address(outside));
    int callers = 0;
    for (double end = lvn_seconds() + LIMIT; callers < LVN_UNIDENTIFIED && lvn_seconds() < end; usleep(1000)) {
        pthread_mutex_lock(&outside->lock);
        callers = outside->n_clients;
        pthread_mutex_unlock(&outside->lock);
    }
    assert_true(callers >= LVN_UNIDENTIFIED);
    invite();
    assert_true(all_opened(4));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    atomic_store(&shared->go, 1);
    for (int i = 0; i < 4; i++) assert_int_equal(end_of(i), 0);
    lvn_server_stop(outside, 5);
}

/* No descriptor is left for a new connection: it waits, the server does not spin, and accepts it later. */
static void no_descriptors(void **state)
{
    (void)state;
    enum { MAX = 200 }; /* polls per second; four are usual */
    struct rlimit before, few;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    serve(2, 60, 60);
    to.sin_port = htons((uint16_t)strtol(lvn_server_address(outside), NULL, 10));
    int fd = socket(AF_INET, SOCK_STREAM, 0), next = dup(fd);
    assert_true(fd >= 0 && next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    few.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    usleep(200000);
    int64_t looks = looks_of(outside);
    usleep(1000000);
    looks = looks_of(outside) - looks;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_true(looks < MAX);
    assert_true(send(fd, "READY\n", 6, MSG_NOSIGNAL) == 6); /* no greeting */
    assert_true(closes(fd));
    close(fd);
    lvn_server_stop(outside, 0);
}

/* --- a link that is cut: a relay that stops forwarding, and closes no connection --- */

static void *relay(void *argument)
{
    int *fd = argument; /* listening, to the server, cut */
    int near = accept(fd[0], NULL, NULL);
    while (!__atomic_load_n(&fd[2], __ATOMIC_ACQUIRE)) {
        struct pollfd p[2] = {{.fd = near, .events = POLLIN}, {.fd = fd[1], .events = POLLIN}};
        poll(p, 2, 20);
        for (int i = 0; i < 2; i++) {
            char text[4096];
            ssize_t n = p[i].revents ? recv(p[i].fd, text, sizeof text, MSG_DONTWAIT) : 0;
            if (n > 0 && send(p[1 - i].fd, text, (size_t)n, MSG_NOSIGNAL) < 0) break;
        }
    }
    fd[3] = near;
    return NULL;
}

static char relay_address[64];

static void through_relay(struct plan *p)
{
    p->timeout = 2;
    if (p->index == 1) p->address = relay_address;
}

static void cut(void **state)
{
    (void)state;
    pthread_t thread;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int fd[4] = {socket(AF_INET, SOCK_STREAM, 0), -1, 0, -1};
    assert_int_equal(bind(fd[0], (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd[0], 1), 0);
    assert_int_equal(getsockname(fd[0], (struct sockaddr *)&at, &size), 0);
    snprintf(relay_address, sizeof relay_address, "127.0.0.1:%d", ntohs(at.sin_port));
    start_all(3, guest, through_relay);
    serve(3, 2, 60);
    invite();
    fd[1] = dial(lvn_server_address(outside));
    assert_int_equal(pthread_create(&thread, NULL, relay, fd), 0);
    assert_true(all_opened(3));
    __atomic_store_n(&fd[2], 1, __ATOMIC_RELEASE);
    await_end();
    assert_says(lvn_server_fault(outside, NULL), "rank 1 on node1 has sent no heartbeat since step 412");
    assert_int_equal(end_of(0), 1);
    assert_int_equal(end_of(1), 1); /* it detects the missing heartbeats */
    assert_int_equal(end_of(2), 1);
    assert_says(shared->rank[1].text, "levin launch");
    pthread_join(thread, NULL);
    for (int i = 0; i < 4; i++) {
        if (i != 2) close(fd[i]);
    }
    lvn_server_stop(outside, 5);
}

/* --- places --- */

static void places(void **state)
{
    (void)state;
    struct lvn_server *one, *two;
    struct lvn_server_options o = {.size = 1, .timeout = 1, .listen = "127.0.0.1"};
    int place, fd;
    char address[64];
    assert_int_equal(lvn_server_start(&one, &o), LVN_OK);
    o.port = (int)strtol(lvn_server_address(one), NULL, 10);
    assert_int_equal(lvn_server_start(&two, &o), LVN_IO);
    assert_says(levin_error_text(), "Address already in use");
    snprintf(address, sizeof address, "127.0.0.1:%d", o.port);
    assert_int_equal(lvn_endpoint_connect(address, "it", 1, 0, &place, &fd), LVN_OK);
    close(fd);
    lvn_server_stop(one, 0);
    assert_int_equal(lvn_endpoint_connect(address, "it", 0, 0, &place, &fd), LVN_COMM);
    assert_says(levin_error_text(), "Connection refused");
    assert_int_equal(lvn_endpoint_connect("nobody.invalid:7000", "it", 0, 0, &place, &fd), LVN_COMM);
    assert_says(levin_error_text(), "nobody.invalid");
    o.listen = "192.0.2.1";
    o.port = 0;
    assert_int_equal(lvn_server_start(&one, &o), LVN_IO);
    assert_says(levin_error_text(), "Cannot assign requested address");
    static const char *const bad[] = {"",     "x", ":",   ":1",      "x:0", "x:65536",
                                      "x:1x", "1", "0,x", "70000,x", "5,",  "[]:7"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(lvn_endpoint_connect(bad[i], "it", 0, 0, &place, &fd), LVN_ARG);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANKS_TEST(outside_lost), RANKS_TEST(outside_ends), RANKS_TEST(duplicates),     RANKS_TEST(singletons),
        RANKS_TEST(missing),      RANKS_TEST(wrong_token),  RANKS_TEST(strangers),      RANKS_TEST(clients),
        RANKS_TEST(cut),          cmocka_unit_test(places), RANKS_TEST(no_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
