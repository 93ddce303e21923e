/* test_cluster.c - ranks that meet, beat, die, stop, are cut off, lie, and strangers: real processes over loopback.
 *
 * Each rank is a child that writes what it saw into memory shared with the test. Times here are limits for a test that
 * hangs, or timeouts that only silence can reach; nothing is decided by who is faster. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/files.h"
#include "base/machine.h"
#include "cluster/heartbeat.h"
#include "cluster/wire.h"

enum { RANKS = 4 };
static const double LIMIT = 90;

/* Shared with the children. */
static struct shared {
    _Atomic int told;      /* rank 0's invitation is there */
    char invitation[4096]; /* what rank 0 broadcasts */
    _Atomic int go, round; /* the test lets them go on */
    struct {
        _Atomic int pid, ready, opened, faulty, closed, agreed;
        int speaks, speak, rank;
        char text[1200], difference[600];
    } rank[RANKS + 1];
} * shared;
static char folder[] = "/tmp/levin-cluster-XXXXXX", status_path[64];

/* How a rank behaves. */
struct plan {
    int size, claims_rank, claims_size, index;
    double timeout, join;
    const char *address, *token; /* NULL: rank 0's own server */
    const char *build;
    enum { WAIT, HOLD, FINISH, FAIL, FAIL_AFTER, DISAGREE } then;
};

static bool until(_Atomic int *flag)
{
    for (double end = lvn_seconds() + LIMIT; !atomic_load(flag) && lvn_seconds() < end;) usleep(2000);
    return atomic_load(flag) != 0;
}

static enum lvn_status broadcast(void *context, void *x, int64_t bytes)
{
    const struct plan *p = context;
    if (p->claims_rank == 0) {
        memcpy(shared->invitation, x, (size_t)bytes);
        atomic_store(&shared->told, 1);
    } else if (until(&shared->told)) {
        memcpy(x, shared->invitation, (size_t)bytes);
    }
    return LVN_OK;
}

static void on_fault(void *context, const struct lvn_fault *f)
{
    const struct plan *p = context;
    snprintf(shared->rank[p->index].text, sizeof shared->rank[0].text, "%s", f->text);
    shared->rank[p->index].speak = f->speak;
    shared->rank[p->index].rank = f->rank;
    atomic_store(&shared->rank[p->index].faulty, 1);
    _exit(1);
}

static void record(const struct plan *p)
{
    snprintf(shared->rank[p->index].text, sizeof shared->rank[0].text, "%s", lvn_error_text());
    shared->rank[p->index].speaks = lvn_speaks();
}

/* Until everybody's stamps have come round. */
static void until_heard(struct lvn_heartbeat *h, int n)
{
    struct lvn_peer p[RANKS];
    for (double end = lvn_seconds() + LIMIT; lvn_seconds() < end; usleep(2000)) {
        int heard = 0;
        lvn_heartbeat_table(h, p, n);
        for (int i = 0; i < n; i++) heard += p[i].step == 412 || n == 1;
        if (heard == n) return;
    }
}

static void be_rank(const struct plan *p)
{
    struct lvn_identity id = {.family = "test", .rank = p->claims_rank, .size = p->claims_size};
    struct lvn_fact facts[] = {{"build", p->build ? p->build : "same"}, {"recipe", "a b%c"}};
    struct lvn_heartbeat_options o = {.id = &id,
                                      .timeout = p->timeout,
                                      .join_timeout = p->join,
                                      .facts = facts,
                                      .n_facts = 2,
                                      .broadcast = broadcast,
                                      .broadcast_context = (void *)(uintptr_t)p,
                                      .fault = on_fault,
                                      .fault_context = (void *)(uintptr_t)p};
    struct lvn_heartbeat *h;
    snprintf(id.host, sizeof id.host, "node%d", p->index);
    if (p->address) {
        setenv("LEVIN_RENDEZVOUS", p->address, 1);
        setenv("LEVIN_RENDEZVOUS_TOKEN", p->token ? p->token : "", 1);
    }
    if (lvn_heartbeat_open(&h, &o)) {
        record(p);
        atomic_store(&shared->rank[p->index].opened, -1);
        _exit(3);
    }
    lvn_heartbeat_publish(h, status_path);
    lvn_heartbeat_difference(h, "build", shared->rank[p->index].difference, sizeof shared->rank[0].difference);
    atomic_store(&shared->rank[p->index].opened, 1);
    if (p->then == DISAGREE || p->then == FINISH) {
        enum lvn_status mine = LVN_OK;
        if (p->then == DISAGREE) mine = lvn_fail_at("", 0, LVN_ARG, "there is no recipe");
        enum lvn_status status = lvn_heartbeat_agree(h, mine);
        record(p);
        atomic_store(&shared->rank[p->index].agreed, status ? -1 : 1);
        if (!status) status = lvn_heartbeat_agree(h, LVN_OK);
        if (status) {
            lvn_heartbeat_fail(h, false);
            lvn_heartbeat_close(h);
            atomic_store(&shared->rank[p->index].closed, 1);
            _exit(4);
        }
    }
    lvn_stamp_step(h, 412, 1000, 0.5);
    lvn_stamp_place(h, "forward");
    if (p->index != 2) lvn_stamp_collective(h, 7, 12);
    until_heard(h, p->claims_size);
    atomic_store(&shared->rank[p->index].ready, 1);
    until(p->then == HOLD ? &shared->round : &shared->go);
    if (p->then == FAIL || p->then == FAIL_AFTER) {
        (void)lvn_fail_at("", 0, LVN_NONFINITE, "the loss is not a number");
        lvn_heartbeat_fail(h, p->then == FAIL_AFTER);
        record(p);
        lvn_heartbeat_close(h);
        atomic_store(&shared->rank[p->index].closed, 1);
        _exit(5);
    }
    lvn_heartbeat_close(h);
    atomic_store(&shared->rank[p->index].closed, 1);
    _exit(0);
}

static pid_t start(const struct plan *p)
{
    static struct plan copies[16]; /* of the child */
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        copies[0] = *p;
        be_rank(&copies[0]);
    }
    atomic_store(&shared->rank[p->index].pid, pid);
    return pid;
}

/* n ranks alike but for what `change` does. */
static void start_all(int n, struct plan base, void (*change)(struct plan *p))
{
    memset(shared, 0, sizeof *shared);
    for (int i = 0; i < n; i++) {
        struct plan p = base;
        p.size = p.claims_size = n;
        p.index = p.claims_rank = i;
        if (change) change(&p);
        start(&p);
    }
}

static bool all_opened(int n)
{
    for (int i = 0; i < n; i++) {
        if (!until(&shared->rank[i].ready)) return false;
    }
    return true;
}

/* Exit status; -signal; 1000: it did not end. */
static int end_of(int i)
{
    int status;
    pid_t pid = shared->rank[i].pid;
    for (double end = lvn_seconds() + LIMIT; lvn_seconds() < end; usleep(2000)) {
        if (waitpid(pid, &status, WNOHANG) == pid) return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return 1000;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part)) print_message("'%s' lacks '%s'\n", text, part);
    assert_non_null(strstr(text, part));
}

static void assert_status(const char *part)
{
    char *text;
    int64_t bytes;
    assert_int_equal(lvn_file_read(status_path, 0, &text, &bytes), LVN_OK);
    assert_says(text, part);
    free(text);
}

static int prepare(void **state)
{
    (void)state;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    snprintf(folder, sizeof folder, "/tmp/levin-cluster-XXXXXX");
    if (shared == MAP_FAILED || !mkdtemp(folder)) return 1;
    snprintf(status_path, sizeof status_path, "%s/status.json", folder);
    return 0;
}

static int cleared(void **state)
{
    (void)state;
    munmap(shared, sizeof *shared);
    return lvn_tree_remove(folder);
}

static const struct plan calm = {.timeout = 60}, hasty = {.timeout = 2};

/* --- all is well --- */

static void other_build(struct plan *p)
{
    p->then = FINISH;
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
        assert_int_equal(shared->rank[i].agreed, 1);
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

/* --- somebody is lost --- */

/* Ranks but `lost` have ended with one speaker. */
static void assert_told(int n, int lost, int speaker, const char *says)
{
    for (int i = 0; i < n; i++) {
        if (i == lost) continue;
        assert_int_equal(end_of(i), 1);
        assert_true(shared->rank[i].faulty);
        assert_int_equal(shared->rank[i].rank, lost);
        assert_int_equal(shared->rank[i].speak, i == speaker);
        assert_says(shared->rank[i].text, says);
    }
    assert_status("\"state\": \"fault\"");
    assert_status(says);
}

static void killed(void **state)
{
    (void)state;
    start_all(4, calm, NULL);
    assert_true(all_opened(4));
    kill(shared->rank[2].pid, SIGKILL);
    assert_int_equal(end_of(2), -SIGKILL);
    assert_told(4, 2, 0,
                "rank 2 on node2 has not been heard of since step 412 (its process is gone); the others wait in "
                "reduction 7 of 12");
}

static void killed_server(void **state)
{
    (void)state;
    start_all(4, calm, NULL);
    assert_true(all_opened(4));
    kill(shared->rank[0].pid, SIGKILL);
    assert_int_equal(end_of(0), -SIGKILL);
    assert_told(4, 0, 1, "rank 0 on node0 has not been heard of since step 412 (its process is gone); the others wait");
}

static void stopped(void **state)
{
    (void)state;
    start_all(3, hasty, NULL);
    assert_true(all_opened(3));
    kill(shared->rank[1].pid, SIGSTOP);
    assert_told(3, 1, 0, "rank 1 on node1 has not been heard of since step 412 (its process does not answer)");
    kill(shared->rank[1].pid, SIGKILL);
    assert_int_equal(end_of(1), -SIGKILL);
}

static void stopped_server(void **state)
{
    (void)state;
    start_all(3, hasty, NULL);
    assert_true(all_opened(3));
    kill(shared->rank[0].pid, SIGSTOP);
    assert_told(3, 0, 1, "rank 0 on node0 has not been heard of since step 412 (its process does not answer)");
    kill(shared->rank[0].pid, SIGKILL);
    assert_int_equal(end_of(0), -SIGKILL);
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
    assert_false(shared->rank[2].speaks);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(end_of(i), 1);
        assert_int_equal(shared->rank[i].speak, i == 0);
        assert_says(shared->rank[i].text, "rank 2 on node2, after step 412: the loss is not a number");
    }
}

/* Communication fails because another rank died: that is what is told. */
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
        assert_int_equal(shared->rank[i].speaks, i == 0);
    }
    assert_says(shared->rank[0].text, "rank 2 on node2 has not been heard of since step 412");
    assert_int_equal(end_of(2), -SIGKILL);
}

static void one_lacks(struct plan *p)
{
    p->then = p->index == 1 ? DISAGREE : FINISH;
}

static void disagreeing(void **state)
{
    (void)state;
    start_all(3, calm, one_lacks);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(end_of(i), 4);
        assert_int_equal(shared->rank[i].agreed, -1);
        assert_string_equal(shared->rank[i].text, "rank 1 on node1: there is no recipe");
        assert_int_equal(shared->rank[i].speaks, i == 0);
    }
}

/* --- levin launch's server, outside of the ranks --- */

static struct lvn_server *outside;

static void serve(int size, double timeout, double join)
{
    struct lvn_server_options o = {
        .size = size, .listen = "127.0.0.1", .timeout = timeout, .join_timeout = join, .outside = true};
    assert_int_equal(lvn_server_start(&outside, &o), LVN_OK);
}

static struct plan guest(void)
{
    struct plan p = calm;
    p.address = lvn_server_address(outside);
    p.token = lvn_server_token(outside);
    return p;
}

static void await_end(void)
{
    struct pollfd p = {.fd = lvn_server_fd(outside), .events = POLLIN};
    assert_int_equal(poll(&p, 1, (int)(LIMIT * 1000)), 1);
}

static void outside_lost(void **state)
{
    (void)state;
    struct lvn_peer table[3];
    int rank;
    serve(3, 60, 60);
    start_all(3, guest(), NULL);
    assert_true(all_opened(3));
    assert_int_equal(lvn_server_phase(outside), LVN_SERVER_RUNNING);
    kill(shared->rank[0].pid, SIGKILL);
    await_end();
    assert_int_equal(lvn_server_phase(outside), LVN_SERVER_FAULT);
    assert_says(lvn_server_fault(outside, &rank), "rank 0 on node0 has not been heard of since step 412");
    assert_int_equal(rank, 0);
    lvn_server_table(outside, table);
    assert_int_equal(table[0].state, LVN_PEER_LOST);
    assert_true(table[1].step == 412 && table[1].collective == 7);
    assert_int_equal(end_of(0), -SIGKILL);
    assert_told(3, 0, -1, "rank 0 on node0");
    lvn_server_stop(outside, 5);
}

static void outside_ends(void **state)
{
    (void)state;
    serve(2, 60, 60);
    start_all(2, guest(), NULL);
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
    serve(2, 60, 60);
    start_all(2, guest(), both_one);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(end_of(i), 3);
        assert_says(shared->rank[i].text, "two processes believe to be rank 1: pid ");
        assert_says(shared->rank[i].text, " on node1");
        assert_false(shared->rank[i].speaks);
    }
    assert_says(lvn_server_fault(outside, NULL), "two processes believe to be rank 1");
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
    serve(2, 60, 60);
    start_all(2, guest(), each_alone);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(end_of(i), 3);
        assert_says(shared->rank[i].text, "believes to be rank 0 of 1, but this run has 2 ranks");
        assert_says(shared->rank[i].text, "trainer.mpi_library");
    }
    lvn_server_stop(outside, 5);
}

static void missing(void **state)
{
    (void)state;
    serve(3, 60, 2);
    struct plan p = guest();
    memset(shared, 0, sizeof *shared);
    p.size = p.claims_size = 3;
    p.index = p.claims_rank = 1;
    start(&p);
    assert_int_equal(end_of(1), 3);
    assert_says(shared->rank[1].text, "ranks 0,2 of 3 have not come to the others within 2 s");
    lvn_server_stop(outside, 5);
}

static void wrong_token(void **state)
{
    (void)state;
    serve(2, 60, 60);
    struct plan p = guest();
    p.token = "no";
    p.size = p.claims_size = 2;
    memset(shared, 0, sizeof *shared);
    start(&p);
    assert_int_equal(end_of(0), 3);
    assert_says(shared->rank[0].text, "its token is not this run's");
    assert_true(shared->rank[0].speaks);
    assert_int_equal(lvn_server_phase(outside), LVN_SERVER_GATHERING);
    lvn_server_stop(outside, 0);
}

static int dial(const char *address)
{
    int place, fd;
    assert_int_equal(lvn_rendezvous_connect(address, 10, 0, &place, &fd), LVN_OK);
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

static void strangers(void **state)
{
    (void)state;
    static const char *const talks[] = {"GET / HTTP/1.1\r\n\r\n",
                                        "\n",
                                        "HELLO\n",
                                        "HELLO x y z 1 2\n",
                                        "BEAT 1 1 1 1 1 1 x\n",
                                        "READY\n",
                                        "HELLO % -1 2 1 h\n",
                                        "HELLO %ZZ 0 2 1 h\n",
                                        "\xff\xfe\x00\x01\n"};
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
    start_all(2, guest(), NULL); /* and the run begins as if nothing had been */
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

/* --- a line that is cut: a relay that stops passing on, and does not close --- */

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
    serve(3, 2, 60);
    int fd[4] = {socket(AF_INET, SOCK_STREAM, 0), dial(lvn_server_address(outside)), 0, -1};
    assert_int_equal(bind(fd[0], (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd[0], 1), 0);
    assert_int_equal(getsockname(fd[0], (struct sockaddr *)&at, &size), 0);
    snprintf(relay_address, sizeof relay_address, "127.0.0.1:%d", ntohs(at.sin_port));
    start_all(3, guest(), through_relay);
    assert_int_equal(pthread_create(&thread, NULL, relay, fd), 0);
    assert_true(all_opened(3));
    __atomic_store_n(&fd[2], 1, __ATOMIC_RELEASE);
    await_end();
    assert_says(lvn_server_fault(outside, NULL), "rank 1 on node1 has not been heard of since step 412");
    assert_int_equal(end_of(0), 1);
    assert_int_equal(end_of(1), 1); /* it notices that it hears nothing */
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
    assert_says(lvn_error_text(), "Address already in use");
    snprintf(address, sizeof address, "127.0.0.1:%d", o.port);
    assert_int_equal(lvn_rendezvous_connect(address, 1, 0, &place, &fd), LVN_OK);
    close(fd);
    lvn_server_stop(one, 0);
    assert_int_equal(lvn_rendezvous_connect(address, 0, 0, &place, &fd), LVN_IO);
    assert_says(lvn_error_text(), "Connection refused");
    assert_int_equal(lvn_rendezvous_connect("nobody.invalid:7000", 0, 0, &place, &fd), LVN_IO);
    assert_says(lvn_error_text(), "nobody.invalid");
    o.listen = "192.0.2.1";
    o.port = 0;
    assert_int_equal(lvn_server_start(&one, &o), LVN_IO);
    assert_says(lvn_error_text(), "Cannot assign requested address");
    static const char *const bad[] = {"",     "x", ":",   ":1",      "x:0", "x:65536",
                                      "x:1x", "1", "0,x", "70000,x", "5,",  "[]:7"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(lvn_rendezvous_connect(bad[i], 0, 0, &place, &fd), LVN_ARG);
    }
}

/* --- words --- */

static void words(void **state)
{
    (void)state;
    struct lvn_text t = {0};
    struct lvn_message m;
    lvn_message_add(&t, LVN_SAY_PEER, (int64_t)-3, (int64_t)1 << 40, "a b\n%\x01\xc3\xa4");
    assert_string_equal(lvn_text_string(&t), "PEER -3 1099511627776 a%20b%0A%25%01\xc3\xa4\n");
    t.p[t.n - 1] = '\0';
    assert_true(lvn_message_parse(t.p, &m));
    assert_true(m.kind == LVN_SAY_PEER && m.i[0] == -3 && m.i[1] == (int64_t)1 << 40);
    assert_string_equal(m.t[0], "a b\n%\x01\xc3\xa4");
    lvn_text_clear(&t);
    lvn_message_add(&t, LVN_SAY_FACT, "", "x");
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
    lvn_ranks_text(flag, 8, &t);
    assert_string_equal(t.p, "0-2,5,6");
    for (int i = 0; i < 4; i++) {
        p[i] = (struct lvn_peer){.rank = i, .state = LVN_PEER_HERE, .step = 10, .compute_s = 1};
        snprintf(p[i].host, sizeof p[i].host, "n%d", i / 2);
    }
    assert_int_equal(lvn_layout_check(p, 4, 2, 2), LVN_OK);
    assert_int_equal(lvn_layout_check(p, 4, 0, 0), LVN_OK);
    assert_int_equal(lvn_layout_check(p, 4, 1, 0), LVN_ARG);
    assert_says(lvn_error_text(), "trainer.num_nodes is 1, but the 4 ranks run on 2 hosts");
    assert_int_equal(lvn_layout_check(p, 4, 0, 4), LVN_ARG);
    assert_says(lvn_error_text(), "trainer.devices is 4, but 2 of the 4 ranks run on n0");
    p[2].state = p[3].state = LVN_PEER_LOST;
    p[2].step = 0;
    lvn_text_clear(&t);
    lvn_lost_text(p, 4, &t);
    assert_string_equal(t.p, "ranks 2,3 on n1 have not been heard of since the start");
    p[1].state = LVN_PEER_LOST;
    p[2].step = 9;
    p[0].collective = 1, p[0].collectives = 3;
    lvn_text_clear(&t);
    lvn_lost_text(p, 4, &t);
    assert_string_equal(t.p,
                        "rank 1 on n0 and 2 others have not been heard of since step 9; rank 0 waits in reduction 1 "
                        "of 3");
    lvn_text_release(&t);
    /* slow in five steps, not in one; said once, and again after a time */
    for (int step = 0; step < 30; step++) {
        for (int i = 0; i < 4; i++) p[i].step = step + 1;
        p[1].compute_s = step == 2 || step >= 10 ? 2 : 1.1;
        bool said = lvn_straggler_find(&s, p, 4, 100 + step, text);
        assert_false(lvn_straggler_find(&s, p, 4, 100 + step, text)); /* the same step */
        assert_int_equal(said, step == 14);
    }
    assert_string_equal(text, "rank 1 on n0 is slow: 2 s of computing a step, where the median of the ranks is 1 s "
                              "(waiting left out)");
    for (int i = 0; i < 4; i++) p[i].step = 31;
    assert_true(lvn_straggler_find(&s, p, 4, 5000, text));
    assert_true(lvn_is_slow(p, 4, 1, NULL) && !lvn_is_slow(p, 4, 0, NULL) && !lvn_is_slow(p, 1, 0, NULL));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, prepare, cleared)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words),
        cmocka_unit_test(sentences),
        cmocka_unit_test(places),
        TEST(meeting),
        TEST(alone),
        TEST(killed),
        TEST(killed_server),
        TEST(stopped),
        TEST(stopped_server),
        TEST(failing),
        TEST(failing_after),
        TEST(disagreeing),
        TEST(outside_lost),
        TEST(outside_ends),
        TEST(duplicates),
        TEST(singletons),
        TEST(missing),
        TEST(wrong_token),
        TEST(strangers),
        TEST(cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
