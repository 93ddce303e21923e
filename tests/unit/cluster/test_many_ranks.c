/* test_many_ranks.c - covers: src/ranks/cluster/rendezvous/server.c src/ranks/cluster/rendezvous/wire.c
 * src/ranks/cluster/rendezvous/endpoints.c src/ranks/cluster/rendezvous/member_thread.c
 * src/ranks/cluster/rendezvous/membership.c
 *
 * Many ranks join: what the server sends to each, and whether it accepts all of them while unidentified connections
 * send nothing, invalid lines or too much.
 *
 *     test_many_ranks N     seconds until N simulated ranks have joined; then the server's memory, CPU time, traffic */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "cluster/rendezvous/member_private.h"
#include "cluster/rendezvous/server_private.h"
#include "unit/cluster_clients.h"

static const double LIMIT = 90;

static struct lvn_server *serve(int size)
{
    struct lvn_server *s;
    struct lvn_server_options o = {
        .size = size, .listen = "127.0.0.1", .timeout = 30, .join_timeout = LIMIT, .outside = true};
    assert_int_equal(lvn_server_start(&s, &o), LVN_OK);
    return s;
}

static int port_of(const struct lvn_server *s)
{
    return (int)strtol(lvn_server_address(s), NULL, 10);
}

/* --- measurement, not a test --- */

static double cpu_seconds(pid_t pid)
{
    char path[64], text[1024] = "";
    unsigned long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f && fgets(text, sizeof text, f) && strrchr(text, ')'))
        sscanf(strrchr(text, ')') + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    if (f) fclose(f);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double peak_mb(pid_t pid)
{
    char path[64], line[256];
    double kb = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) sscanf(line, "VmHWM: %lf", &kb);
    if (f) fclose(f);
    return kb / 1000;
}

static int measure(int n)
{
    enum { SECONDS = 10 };
    int pipes[2];
    char address_and_token[2000] = "";
    struct clients c;
    if (pipe(pipes)) return 1;
    const pid_t pid = fork();
    if (!pid) { /* the server, and nothing else */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct lvn_server *s = serve(n);
        dprintf(pipes[1], "%d %s", port_of(s), lvn_server_token(s));
        for (;;) pause();
    }
    ssize_t got = read(pipes[0], address_and_token, sizeof address_and_token - 1);
    char *token = strchr(address_and_token, ' ');
    if (got <= 0 || !token) return 1;
    clients_init(&c, n, 16, (int)strtol(address_and_token, NULL, 10), token + 1);
    double start = lvn_seconds();
    bool met = clients_meet(&c, 120);
    double joined = lvn_seconds() - start, cpu = cpu_seconds(pid);
    int64_t at_start = 0, later = 0, rows = 0;
    for (int i = 0; i < n; i++) at_start += c.client[i].bytes;
    start = lvn_seconds();
    const double gap = lvn_member_heartbeat_interval(30, n);
    for (int round = 0; lvn_seconds() < start + SECONDS; round++) { /* spread over the interval, as by real ranks */
        for (int slice = 0; slice < 10; slice++) {
            for (int i = slice; i < n; i += 10) client_heartbeat(&c.client[i], 1 + round);
            for (double end = start + gap * (round + 0.1 * (slice + 1)), left; (left = end - lvn_seconds()) > 0;)
                usleep((useconds_t)(1e6 * left) + 1);
        }
        clients_move(&c, 0);
    }
    cpu = (cpu_seconds(pid) - cpu) / (lvn_seconds() - start);
    for (int i = 0; i < n; i++) later += c.client[i].bytes, rows += c.client[i].rows;
    printf("%d ranks: %s in %.2f s, %.0f kB sent at the start; then %.2f %% of a core, %.1f kB/s and %.0f rows/s sent; "
           "%.0f MB at most\n",
           n, met ? "all joined" : "NOT all joined", joined, (double)at_start / 1e3, 100 * cpu,
           (double)(later - at_start) / SECONDS / 1e3, (double)rows / SECONDS, peak_mb(pid));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    clients_free(&c);
    return !met;
}

/* --- joining --- */

/* A launcher that starts no rank is detected, too. */
static void test_nobody(void **state)
{
    (void)state;
    struct lvn_server *s;
    const struct lvn_server_options o = {
        .size = 300, .listen = "127.0.0.1", .timeout = 30, .join_timeout = 0.2, .outside = true};
    assert_int_equal(lvn_server_start(&s, &o), LVN_OK);
    for (double end = lvn_seconds() + LIMIT; lvn_server_phase(s) < LVN_SERVER_ENDED && lvn_seconds() < end;)
        usleep(1000);
    assert_int_equal(lvn_server_phase(s), LVN_SERVER_FAULT);
    assert_non_null(strstr(lvn_server_fault(s, NULL), "none of the 300 ranks has joined"));
    assert_false(lvn_server_fault_is_permanent(s));
    lvn_server_stop(s, 0);
}

/* --- messages --- */

static void until_rows(struct clients *c, int reader, int64_t rows)
{
    for (double end = lvn_seconds() + LIMIT; c->client[reader].rows < rows && lvn_seconds() < end;) clients_move(c, 20);
    assert_true(c->client[reader].rows >= rows);
}

/* A rank receives the rows of its host and changes of state; the whole table goes to a few ranks, and only rows that
 * changed. */
static void test_messages(void **state)
{
    (void)state;
    enum { N = 400, EACH = 8, READERS = 4 };
    struct lvn_server *s = serve(N);
    struct clients c;
    clients_init(&c, N, EACH, port_of(s), lvn_server_token(s));
    assert_true(clients_meet(&c, LIMIT));
    for (int i = 0; i < N; i++) {
        const bool reads = i < READERS || i == EACH; /* the lowest of another host */
        assert_int_equal(c.client[i].groups, 2);
        assert_int_equal(c.client[i].peers, EACH + 2 + (reads ? N : 0));
    }
    const int64_t sent = c.client[N - 1].bytes;
    for (int i = 0; i < 10; i++) client_heartbeat(&c.client[i], 7);
    until_rows(&c, 1, 10);
    for (int i = 0; i < N; i++) client_heartbeat(&c.client[i], 8);
    until_rows(&c, 1, 10 + N);
    until_rows(&c, EACH, 10 + N);
    for (int i = 0; i < N; i++) {
        const bool reads = i < READERS || i == EACH;
        assert_int_equal(c.client[i].highest, reads ? N - 1 : 0);
        assert_true(reads || c.client[i].rows <= 4); /* of rank 0 */
    }
    assert_true(c.client[N - 1].bytes < sent + 400);
    /* Rank 5 is gone: all ranks are notified. */
    lvn_wire_close(&c.client[5].wire);
    c.client[5].wire = (struct lvn_wire){.fd = -1};
    for (double end = lvn_seconds() + LIMIT; !c.client[N - 1].lost && lvn_seconds() < end;) clients_move(&c, 20);
    assert_true(c.client[N - 1].lost && c.client[N - 1].highest == 5);
    assert_non_null(strstr(lvn_server_fault(s, NULL), "rank 5 on node0000"));
    lvn_server_stop(s, 0);
    clients_free(&c);
}

/* The rank that becomes the lowest receives the rows of all ranks, which it had not received before. */
static void test_new_reader(void **state)
{
    (void)state;
    enum { N = 12, EACH = 12 };
    struct lvn_server *s = serve(N);
    struct clients c;
    clients_init(&c, N, EACH, port_of(s), lvn_server_token(s));
    assert_true(clients_meet(&c, LIMIT));
    for (int i = 0; i < N; i++) client_heartbeat(&c.client[i], 7);
    until_rows(&c, 1, N);
    assert_int_equal(c.client[5].highest, 0);
    for (int i = 0; i < 5; i++) { /* the ranks that receive the whole table */
        lvn_wire_close(&c.client[i].wire);
        c.client[i].wire = (struct lvn_wire){.fd = -1};
        c.client[i].welcomed = true;
    }
    /* The rows follow the message, and each rank receives its own in its own time. */
    for (double end = lvn_seconds() + LIMIT;
         !(c.client[5].lost && c.client[5].highest == N - 1 && c.client[6].highest == 4) && lvn_seconds() < end;)
        clients_move(&c, 20);
    assert_true(c.client[5].lost);
    assert_int_equal(c.client[5].highest, N - 1);
    assert_int_equal(c.client[6].highest, 4); /* only the state of ranks 0 to 4 */
    lvn_server_stop(s, 0);
    clients_free(&c);
}

/* --- unidentified connections --- */

enum { UNIDENTIFIED = 150 };

/* Connections that send nothing, half a HELLO, invalid bytes, a line without an end, or a wrong token. Some are closed
 * in between, and then opened again. */
static void attack(int port, int fd[UNIDENTIFIED], unsigned turn)
{
    static const char *const says[] = {"", "HELLO 123 4", "\x01\xff\x80\n\n\n", NULL, "HELLO wrong 3 200 17 there\n"};
    static char endless[20000];
    char drain[4096];
    memset(endless, 'x', sizeof endless);
    for (int i = 0; i < UNIDENTIFIED; i++) {
        if (fd[i] < 0) {
            fd[i] = knock(port);
            continue;
        }
        const char *word = says[i % 5];
        ssize_t n =
            send(fd[i], word ? word : endless, word ? strlen(word) : sizeof endless, MSG_DONTWAIT | MSG_NOSIGNAL);
        bool closed =
            (n < 0 && errno != EAGAIN && errno != ENOTCONN) || recv(fd[i], drain, sizeof drain, MSG_DONTWAIT) == 0;
        if (!closed && (turn + (unsigned)i) % 50) continue;
        close(fd[i]);
        fd[i] = -1;
    }
}

static void test_attack(void **state)
{
    (void)state;
    enum { N = 200 };
    int fd[UNIDENTIFIED];
    struct lvn_server *s = serve(N);
    struct clients c;
    unsigned turn = 0;
    for (int i = 0; i < UNIDENTIFIED; i++) fd[i] = -1;
    clients_init(&c, N, 8, port_of(s), lvn_server_token(s));
    for (; turn < 20; turn++) attack(c.port, fd, turn); /* connected before the ranks */
    for (double end = lvn_seconds() + LIMIT; clients_started(&c) < N && lvn_seconds() < end; turn++) {
        attack(c.port, fd, turn);
        clients_move(&c, 5);
        pthread_mutex_lock(&s->lock);
        const int unidentified = s->n_unidentified, clients = s->n_clients;
        pthread_mutex_unlock(&s->lock);
        assert_true(unidentified <= LVN_UNIDENTIFIED && clients <= N + LVN_UNIDENTIFIED);
    }
    assert_int_equal(clients_started(&c), N);
    for (int more = 0; more < 20; more++, turn++) { /* they do not disturb a running job either */
        attack(c.port, fd, turn);
        for (int i = 0; i < N; i++) client_heartbeat(&c.client[i], (int64_t)more);
        clients_move(&c, 5);
    }
    assert_int_equal(lvn_server_phase(s), LVN_SERVER_RUNNING);
    for (int i = 0; i < N; i++) {
        lvn_message_add(&c.client[i].wire.out, LVN_MESSAGE_BYE);
        assert_false(c.client[i].lost);
    }
    for (double end = lvn_seconds() + LIMIT; !c.client[0].ended && lvn_seconds() < end; turn++) {
        attack(c.port, fd, turn);
        clients_move(&c, 5);
    }
    assert_true(c.client[0].ended);
    lvn_server_stop(s, 0);
    for (int i = 0; i < UNIDENTIFIED; i++)
        if (fd[i] >= 0) close(fd[i]);
    clients_free(&c);
}

/* --- limits --- */

static void test_files(void **state)
{
    (void)state;
    const pid_t pid = fork();
    int status;
    if (!pid) {
        struct rlimit r = {.rlim_cur = 64, .rlim_max = 1024};
        if (setrlimit(RLIMIT_NOFILE, &r)) _exit(2);
        if (lvn_allow_files(800, 800)) _exit(3);
        if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur < 1000) _exit(4);
        if (lvn_allow_files(900, 900) != LVN_IO) _exit(5);
        _exit(strstr(levin_error_text(), "the limit of 1024 open files is below the 1100 that 900 ranks require") ? 0
                                                                                                                  : 6);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_status_size(void **state)
{
    (void)state;
    enum { N = 1000 };
    char path[] = "/tmp/levin-crowd-XXXXXX";
    struct stat st;
    struct lvn_peer *p = calloc(N, sizeof *p);
    int fd = mkstemp(path);
    assert_true(fd >= 0 && p);
    for (int i = 0; i < N; i++) {
        p[i] = (struct lvn_peer){.rank = i,
                                 .state = LVN_PEER_HERE,
                                 .pid = 1234567,
                                 .step = 123456,
                                 .memory = (int64_t)100 << 30,
                                 .collective = 7,
                                 .collectives = 12,
                                 .tokens_per_s = 12345.678,
                                 .compute_s = 0.12345678,
                                 .last_heard = lvn_seconds()};
        snprintf(p[i].host, sizeof p[i].host, "node%04d.cluster.example.org", i / 16);
        snprintf(p[i].operation, sizeof p[i].operation, "sum of a bucket");
    }
    lvn_status_write(path, p, N, &(struct lvn_attempts){0}, "running", "");
    assert_int_equal(stat(path, &st), 0);
    assert_in_range(st.st_size, N * 100, 300000);
    close(fd);
    unlink(path);
    free(p);
}

int main(int argc, char **argv)
{
    if (argc > 1) return measure((int)strtol(argv[1], NULL, 10));
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files),      cmocka_unit_test(test_status_size),
                                       cmocka_unit_test(test_nobody),     cmocka_unit_test(test_messages),
                                       cmocka_unit_test(test_new_reader), cmocka_unit_test(test_attack)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
