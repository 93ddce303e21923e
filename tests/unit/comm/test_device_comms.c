/* test_device_comms.c - covers: src/ranks/comm/nccl.c src/ranks/comm/comm.c src/ranks/comm/comm_kind.c
 * src/core/backend/cuda/cuda_device.c
 *
 * Requests that name the memory of devices: four ranks, which are processes with a device each, over every kind of
 * communicator of the table that carries such memory; in all ranks and in groups of them.
 *
 * Skipped where there are fewer devices, or no library, neither real ones nor doubles (tests/run_double). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "comm/comm_kind.h"
#include "device_skip.h"

enum { RANKS = 4, N = 30000, SKIPPED = 77 };

/* This process is one of the ranks. */
static struct {
    int rank;
    struct lvn_device *device;
    struct lvn_memory *memory;
    struct lvn_comm *host, *all;
    char name[40];
    float x[N];
} me;

/* End this rank, and with it the test. */
static void expect(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "rank %d: wrong: %s: %s\n", me.rank, what, levin_error_text());
    _exit(1);
}

static float value(int rank, int64_t i)
{
    return (float)((rank + 1) * (1 + i % 7) + i % 5);
}

static void *address(void)
{
    return me.device->backend->queues->address(me.memory, 0);
}

static void put(int rank)
{
    for (int64_t i = 0; i < N; i++) me.x[i] = value(rank, i);
    expect(lvn_memory_write(me.memory, 0, me.x, sizeof me.x) == LVN_OK, "writing");
}

/* Wait, which the processor does not, and read behind it what elements [from, to) then are. */
static void get(struct lvn_comm *c, struct lvn_request *r, const char *what)
{
    expect(lvn_comm_wait(c, r) == LVN_OK, what);
    expect(lvn_memory_read(me.memory, 0, me.x, sizeof me.x) == LVN_OK, "reading");
}

static float total(const struct lvn_comm *c, int64_t i)
{
    float sum = 0;
    for (int k = 0; k < lvn_comm_size(c); k++) sum += value(k, i);
    return sum;
}

/* Every collective in a communicator of any size. */
static void run_all(struct lvn_comm *c)
{
    const int rank = lvn_comm_rank(c), size = lvn_comm_size(c);
    int64_t first[RANKS + 1];
    struct lvn_request r;
    for (int i = 0; i <= size; i++) first[i] = (int64_t)N * i * i / (size * size);
    put(rank);
    lvn_comm_all_reduce(c, &r, address(), N, LVN_F32, LVN_SUM);
    get(c, &r, "all_reduce");
    for (int64_t i = 0; i < N; i++) expect(me.x[i] == total(c, i), "all_reduce");
    put(rank);
    lvn_comm_reduce_scatter(c, &r, address(), first, LVN_F32);
    get(c, &r, "reduce_scatter");
    for (int64_t i = first[rank]; i < first[rank + 1]; i++) expect(me.x[i] == total(c, i), "reduce_scatter");
    lvn_comm_all_gather(c, &r, address(), first, LVN_F32);
    get(c, &r, "all_gather");
    for (int64_t i = 0; i < N; i++) expect(me.x[i] == total(c, i), "all_gather");
    put(rank);
    lvn_comm_broadcast(c, &r, address(), sizeof me.x, size - 1);
    get(c, &r, "broadcast");
    for (int64_t i = 0; i < N; i++) expect(me.x[i] == value(size - 1, i), "broadcast");
    lvn_comm_send(c, &r, address(), 4, 0, 0);
    expect(lvn_comm_wait(c, &r) == LVN_UNSUPPORTED, "a message is refused");
    expect(strstr(levin_error_text(), me.name) != NULL, "a message names the rank, also in a group");
    lvn_error_clear();
}

/* In pairs and in a group of three, which count backwards; the last rank is in none of these. */
static void run_groups(void)
{
    struct lvn_comm *pair, *three;
    expect(lvn_comm_split(me.all, &pair, me.rank / 2, -me.rank) == LVN_OK && pair, "splitting");
    expect(lvn_comm_size(pair) == 2 && lvn_comm_rank(pair) == 1 - me.rank % 2, "numbers in a pair");
    run_all(pair);
    expect(lvn_comm_split(me.all, &three, me.rank < 3 ? 0 : -1, 0) == LVN_OK, "splitting again");
    expect(me.rank < 3 ? lvn_comm_size(three) == 3 : !three, "a group of three");
    if (three) run_all(three);
    run_all(pair);
    lvn_comm_close(three);
    lvn_comm_close(pair);
}

/* A sum of all ranks and one of a pair are in progress at the same time: they run in the order in which they were
 * started, whatever is waited for first. */
static void run_together(void)
{
    enum { HALF = N / 2 };
    struct lvn_request of_all, of_pair, again;
    struct lvn_comm *pair;
    expect(lvn_comm_split(me.all, &pair, me.rank / 2, me.rank) == LVN_OK && pair, "splitting for two at once");
    put(me.rank);
    lvn_comm_all_reduce(me.all, &of_all, address(), HALF, LVN_F32, LVN_SUM);
    lvn_comm_all_reduce(pair, &of_pair, (float *)address() + HALF, HALF, LVN_F32, LVN_SUM);
    lvn_comm_all_reduce(me.all, &again, (float *)address() + HALF, HALF, LVN_F32, LVN_SUM);
    get(pair, &of_pair, "the sum of a pair");
    for (int64_t i = 0; i < HALF; i++) expect(me.x[i] == total(me.all, i), "the sum that was started before");
    get(me.all, &again, "a sum of sums");
    for (int64_t i = HALF; i < N; i++) expect(me.x[i] == 2 * total(me.all, i), "a sum of sums");
    get(me.all, &of_all, "the sum of all");
    lvn_comm_close(pair);
}

/* Of two sums that were started, the first is waited for: the second may run beside what follows. The double runs it as
 * late as it may, so it has not run yet. */
static void run_overlap(void)
{
    enum { HALF = N / 2 };
    struct lvn_request first, second;
    const char *order = getenv("LEVIN_DOUBLE_ORDER");
    const bool late = getenv("LEVIN_DOUBLE_KERNELS") && (!order || !strcmp(order, "late"));
    put(me.rank);
    lvn_comm_all_reduce(me.all, &first, address(), HALF, LVN_F32, LVN_SUM);
    lvn_comm_all_reduce(me.all, &second, (float *)address() + HALF, HALF, LVN_F32, LVN_SUM);
    get(me.all, &first, "the first sum");
    for (int64_t i = 0; i < HALF; i++) expect(me.x[i] == total(me.all, i), "the first sum");
    for (int64_t i = HALF; late && i < N; i++) expect(me.x[i] == value(me.rank, i), "the second sum was waited for");
    get(me.all, &second, "the second sum");
    for (int64_t i = HALF; i < N; i++) expect(me.x[i] == total(me.all, i), "the second sum");
    /* more sums than marks have events: still right, and the last one first */
    struct lvn_request many[20];
    put(me.rank);
    for (int k = 0; k < 20; k++)
        lvn_comm_all_reduce(me.all, &many[k], (float *)address() + (int64_t)k * (N / 20), N / 20, LVN_F32, LVN_SUM);
    for (int k = 19; k >= 0; k -= 19) get(me.all, &many[k], "one of many sums");
    for (int64_t i = 0; i < N; i++) expect(me.x[i] == total(me.all, i), "one of many sums");
}

static int run_kind(const struct lvn_comm_kind *k, const int *sockets)
{
    const struct lvn_backend *b = lvn_backend_find(k->memory);
    char describe[400];
    if (lvn_backend_devices(b) < RANKS || k->load(NULL, describe) != LVN_OK) return SKIPPED;
    const struct lvn_comm_options host = {.rank = me.rank, .size = RANKS, .sockets = sockets, .timeout = 60};
    expect(lvn_comm_open(&me.host, &host) == LVN_OK, "joining the processors");
    const struct lvn_device_options device = {.real = LVN_F32, .threads = 1, .number = me.rank};
    expect(b->open(&me.device, &device) == LVN_OK, "opening a device");
    expect(lvn_memory_new(&me.memory, me.device, sizeof me.x) == LVN_OK, "memory");
    snprintf(me.name, sizeof me.name, "rank %d on here", me.rank);
    const struct lvn_comm_options o = {
        .rank = me.rank, .size = RANKS, .kind = k, .device = me.device, .host_comm = me.host, .where = me.name};
    expect(lvn_comm_open(&me.all, &o) == LVN_OK, "joining the devices");
    expect(lvn_comm_device(me.all) == me.device && !lvn_comm_device(me.host), "whose memory it is");
    run_all(me.all);
    run_groups();
    run_all(me.all);
    run_overlap();
    run_together();
    lvn_comm_close(me.all);
    lvn_memory_free(me.memory);
    b->close(me.device);
    lvn_comm_close(me.host);
    return 0;
}

/* Four processes, with a connection between each two. */
static int run_ranks(const struct lvn_comm_kind *k)
{
    int socket[RANKS][RANKS], worst = 0;
    pid_t pid[RANKS];
    memset(socket, -1, sizeof socket);
    for (int i = 0; i < RANKS; i++)
        for (int j = 0; j < i; j++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
            socket[i][j] = pair[0];
            socket[j][i] = pair[1];
        }
    for (int i = 0; i < RANKS; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] > 0) continue;
        for (int j = 0; j < RANKS; j++)
            for (int n = 0; n < RANKS; n++)
                if (j != i && socket[j][n] >= 0) close(socket[j][n]);
        me.rank = i;
        _exit(run_kind(k, socket[i]));
    }
    for (int i = 0; i < RANKS; i++)
        for (int j = 0; j < RANKS; j++)
            if (socket[i][j] >= 0) close(socket[i][j]);
    for (int i = 0; i < RANKS; i++) {
        int status = 0;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
        worst = code > worst && worst != 1 ? code : worst;
    }
    return worst;
}

static void test_kinds(void **state)
{
    (void)state;
    int ran = 0;
    setenv("LEVIN_DOUBLE_DEVICES", "4", 1);
    for (int i = 0; lvn_comm_kind_at(i); i++) {
        const struct lvn_comm_kind *k = lvn_comm_kind_at(i);
        if (!k->memory) continue;
        int code = run_ranks(k);
        if (code == SKIPPED) print_message("skipped: %s, of which this machine lacks devices or library\n", k->name);
        assert_true(code == SKIPPED || code == 0);
        ran += code == 0;
    }
    assert_true(ran || !device_is_required());
    if (!ran) skip();
}

/* What the table must hold for those who choose from it. */
static void test_table(void **state)
{
    (void)state;
    for (int i = 0; lvn_comm_kind_at(i); i++) {
        const struct lvn_comm_kind *k = lvn_comm_kind_at(i);
        assert_ptr_equal(lvn_comm_kind_find(k->name), k);
        assert_true(*k->description);
        assert_true(!k->transport == (k->open != NULL));
        assert_int_equal(k->memory != NULL, k->connection == LVN_CONNECTED_BY_COMM);
        if (k->memory) assert_true(lvn_backend_find(k->memory)->queues && k->load && k->make_id);
        assert_true(!lvn_comm_kind_connects(k) || k->transport);
    }
    assert_null(lvn_comm_kind_find("auto"));
    assert_string_equal(lvn_comm_kind_by_connection(LVN_NOT_CONNECTED)->name, "self");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_kinds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
