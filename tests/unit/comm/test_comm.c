/* test_comm.c - covers: src/ranks/comm/comm.c src/ranks/comm/tree.c src/ranks/comm/engine_open.c
 * src/ranks/comm/mpi_find.c src/ranks/comm/tree_plan.c
 *
 * The communicator: the tree of sums, one rank, and several ranks that are threads of this program.
 *
 * The threads' transport (comm_threads.h) keeps messages in memory and delivers them late and in random order, so
 * that every order of events occurs; real MPIs are tested by tests/cluster/comm_*.sh. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bf16.h"
#include "base/work.h"
#include "comm/mpi_find.h"
#include "comm/tcp_connections.h"
#include "comm/tree.h"
#include "unit/comm_threads.h"

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

/* --- several ranks --- */

enum { COUNT = 30011 };
struct scene {
    struct threads_world world;
    int64_t leaves;
    int per_host, failures;
    bool tcp;
    int socket[THREADS_MAX][THREADS_MAX];
};
struct actor {
    struct scene *scene;
    int rank;
};

static float leaf_value(int64_t leaf, int64_t i)
{
    uint32_t h = (uint32_t)(leaf * 7919 + i * 31) * 2654435761U;
    return ldexpf((float)(h >> 8) - 8388608.0f, (int)(h & 15) - 24);
}

static float sum_of(int64_t lo, int64_t hi, int64_t i)
{
    if (hi - lo == 1) return leaf_value(lo, i);
    int64_t half = lvn_tree_split(hi - lo);
    return sum_of(lo, lo + half, i) + sum_of(lo + half, hi, i);
}

/* The same in bf16, of which every sum is rounded, as long as it is a number of its own in some split. */
static uint16_t bf16_sum_of(int64_t lo, int64_t hi, int64_t i)
{
    if (hi - lo == 1) return lvn_bf16_make(leaf_value(lo, i));
    int64_t half = lvn_tree_split(hi - lo);
    return lvn_bf16_make(lvn_bf16_get(bf16_sum_of(lo, lo + half, i)) + lvn_bf16_get(bf16_sum_of(lo + half, hi, i)));
}

static int play_bf16_tree(struct lvn_comm *c, struct lvn_tree *t, int64_t n, int mine, const struct lvn_subtree *some,
                          const int64_t *first)
{
    int bad = 0;
    void *partial[LVN_MAX_SUBTREES] = {0};
    struct lvn_request r;
    uint16_t *out = malloc(COUNT * sizeof *out);
    if (!out) return 1;
    for (int k = 0; k < mine; k++) {
        uint16_t *x = malloc(COUNT * sizeof *x);
        for (int64_t i = 0; x && i < COUNT; i++) x[i] = bf16_sum_of(some[k].first, some[k].end, i);
        partial[k] = x;
    }
    lvn_comm_tree_reduce(c, &r, t, partial, out, first, LVN_BF16, true);
    bad += lvn_comm_wait(c, &r) != LVN_OK;
    for (int64_t i = 0; i < COUNT; i++) bad += out[i] != bf16_sum_of(0, n, i);
    for (int k = 0; k < mine; k++) free(partial[k]);
    free(out);
    return bad;
}

static int play_tree(struct lvn_comm *c, int64_t n, int size, int rank)
{
    int bad = 0;
    int64_t leaf[THREADS_MAX + 1], first[THREADS_MAX + 1];
    struct lvn_subtree some[LVN_MAX_SUBTREES];
    for (int i = 0; i <= size; i++) {
        leaf[i] = n * i / size;
        first[i] = (int64_t)COUNT * i * i / (size * size);
    }
    void *partial[LVN_MAX_SUBTREES] = {0};
    int mine = lvn_subtrees(n, leaf[rank], leaf[rank + 1], some);
    float *out = malloc(COUNT * sizeof *out);
    struct lvn_tree *t = NULL;
    struct lvn_request r;
    if (!out || lvn_tree_new(&t, c, leaf) != LVN_OK) return free(out), 1;
    for (int k = 0; k < mine; k++) {
        float *x = malloc(COUNT * sizeof *x);
        for (int64_t i = 0; x && i < COUNT; i++) x[i] = sum_of(some[k].first, some[k].end, i);
        partial[k] = x;
    }
    lvn_comm_tree_reduce(c, &r, t, partial, out, first, LVN_F32, true);
    bad += lvn_comm_wait(c, &r) != LVN_OK;
    for (int64_t i = 0; i < COUNT; i++) bad += out[i] != sum_of(0, n, i);
    for (int k = 0; k < mine; k++) free(partial[k]);
    free(out);
    bad += play_bf16_tree(c, t, n, mine, some, first);
    lvn_tree_free(t);
    return bad;
}

static int play_many(struct lvn_comm *c, int size, int rank)
{
    enum { MANY = 12 };
    static float x[THREADS_MAX][MANY][40000];
    int32_t token = rank, got = -1;
    struct lvn_request r[MANY], to, from;
    int bad = 0;
    lvn_comm_receive(c, &from, &got, sizeof got, (rank + 1) % size, 5);
    for (int k = 0; k < MANY; k++) {
        int64_t count = k % 3 ? 7 : 40000;
        for (int64_t i = 0; i < count; i++) x[rank][k][i] = (float)(rank + i % 7 + k);
        if (k % 4 == 3)
            lvn_comm_broadcast(c, &r[k], x[rank][k], count * 4, k % size);
        else
            lvn_comm_all_reduce(c, &r[k], x[rank][k], count, LVN_F32, LVN_SUM);
    }
    lvn_comm_send(c, &to, &token, sizeof token, (rank + size - 1) % size, 5);
    for (int n = 0; n < MANY; n++) {
        int k = rank % 2 ? n : MANY - 1 - n;
        int64_t count = k % 3 ? 7 : 40000;
        bad += lvn_comm_wait(c, &r[k]) != LVN_OK;
        for (int64_t i = 0; i < count; i++) {
            float all = (float)(size * (i % 7 + k)) + (float)(size * (size - 1) / 2);
            bad += x[rank][k][i] != (k % 4 == 3 ? (float)(k % size + i % 7 + k) : all);
        }
    }
    bad += lvn_comm_wait(c, &to) != LVN_OK || lvn_comm_wait(c, &from) != LVN_OK || got != (rank + 1) % size;
    return bad;
}

static void *act(void *argument)
{
    struct actor *a = argument;
    struct scene *s = a->scene;
    struct lvn_comm *c;
    struct lvn_comm_options o = {
        .rank = a->rank, .size = s->world.size, .max_message_bytes = 4096, .per_host = s->per_host};
    if (s->tcp) o.sockets = s->socket[a->rank];
    enum lvn_status opened = s->world.size > 1 && !s->tcp
                                 ? lvn_engine_open(&c, &o, &threads_transport, &s->world.ranks[a->rank])
                                 : lvn_comm_open(&c, &o);
    int bad = opened != LVN_OK;
    if (!bad) bad = s->leaves ? play_tree(c, s->leaves, s->world.size, a->rank) : play_many(c, s->world.size, a->rank);
    lvn_comm_close(c);
    __atomic_add_fetch(&s->failures, bad, __ATOMIC_SEQ_CST);
    return NULL;
}

/* A connection between each two of them. */
static void connect_all(struct scene *s)
{
    s->tcp = true;
    for (int i = 0; i < s->world.size; i++)
        for (int k = 0; k < i; k++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            s->socket[i][k] = pair[0];
            s->socket[k][i] = pair[1];
        }
}

static int play(int size, int64_t leaves, int per_host, bool tcp)
{
    static struct scene s;
    struct actor actors[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    s = (struct scene){.leaves = leaves, .per_host = per_host};
    world_init(&s.world, size);
    if (tcp) connect_all(&s);
    for (int i = 0; i < size; i++) {
        actors[i] = (struct actor){.scene = &s, .rank = i};
        assert_int_equal(pthread_create(&threads[i], NULL, act, &actors[i]), 0);
    }
    for (int i = 0; i < size; i++) pthread_join(threads[i], NULL);
    world_release(&s.world);
    return s.failures;
}

static void test_many(void **state)
{
    (void)state;
    for (int size = 2; size <= 5; size++) assert_int_equal(play(size, 0, 0, false), 0);
    assert_int_equal(play(4, 0, 2, false), 0);
    assert_int_equal(play(6, 0, 3, false), 0);
}

/* The same bits from 1 to 8 ranks, which need not divide the leaves. */
static void test_trees(void **state)
{
    (void)state;
    const int64_t leaves[] = {1, 5, 8, 13};
    for (int size = 1; size <= 8; size++)
        for (int n = 0; n < 4; n++) assert_int_equal(play(size, leaves[n], 0, false), 0);
    for (int n = 0; n < 4; n++) {
        assert_int_equal(play(4, leaves[n], 2, false), 0);
        assert_int_equal(play(8, leaves[n], 4, false), 0);
        assert_int_equal(play(6, leaves[n], 2, false), 0);
    }
}

/* The same over connections: sums, broadcasts and messages of all kinds, on ranks that are no power of two. */
static void test_tcp(void **state)
{
    (void)state;
    for (int size = 2; size <= 7; size++) assert_int_equal(play(size, 0, 0, true), 0);
    for (int size = 2; size <= 8; size++) assert_int_equal(play(size, 13, 0, true), 0);
    assert_int_equal(play(6, 8, 2, true), 0);
}

/* Who closes a connection fails those that wait for it, by its number. */
static void test_tcp_closed(void **state)
{
    (void)state;
    struct lvn_comm *c;
    struct lvn_request r;
    int32_t x = 1;
    int pair[2], sockets[2] = {-1};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    sockets[1] = pair[0];
    const struct lvn_comm_options o = {.rank = 0, .size = 2, .sockets = sockets};
    assert_int_equal(lvn_comm_open(&c, &o), LVN_OK);
    lvn_comm_receive(c, &r, &x, sizeof x, 1, 3);
    assert_false(lvn_comm_wait_for(c, &r, 0.01));
    close(pair[1]);
    assert_int_equal(lvn_comm_wait(c, &r), LVN_COMM);
    assert_non_null(strstr(levin_error_text(), "rank 1"));
    assert_int_equal(lvn_comm_all_reduce_now(c, &x, 1, LVN_I32, LVN_SUM), LVN_COMM);
    lvn_comm_close(c);
}

enum {
    IDLE_TIME = 500000
}; /* microseconds in which an engine without requests polls its transport, on a busy machine too */

/* After an error callers free their memory. The rest of a message that had arrived in part is not received into it. */
static void test_tcp_memory_after_error(void **state)
{
    (void)state;
    enum { BYTES = 64, HALF = BYTES / 2 };
    struct lvn_comm *c;
    struct lvn_request lost, half;
    int lost_pair[2], half_pair[2], x, unread = 0;
    char *message = calloc(1, BYTES);
    assert_non_null(message);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, lost_pair), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, half_pair), 0);
    const int sockets[] = {-1, lost_pair[0], half_pair[0]};
    const struct lvn_comm_options o = {.rank = 0, .size = 3, .sockets = sockets};
    assert_int_equal(lvn_comm_open(&c, &o), LVN_OK);
    lvn_comm_receive(c, &half, message, BYTES, 2, 3);
    const struct {
        struct lvn_tcp_header header;
        char x[HALF];
    } begin = {.header = {3, BYTES}}, end = {0};
    assert_int_equal(write(half_pair[1], &begin, sizeof begin), sizeof begin);
    do assert_int_equal(ioctl(half_pair[0], FIONREAD, &unread), 0);
    while (unread); /* the engine has received the first half */
    lvn_comm_receive(c, &lost, &x, sizeof x, 1, 3);
    close(lost_pair[1]);
    assert_int_equal(lvn_comm_wait(c, &lost), LVN_COMM);
    assert_int_equal(lvn_comm_wait(c, &half), LVN_COMM);
    free(message);
    assert_int_equal(write(half_pair[1], end.x, HALF), HALF);
    usleep(IDLE_TIME);
    assert_int_equal(ioctl(half_pair[0], FIONREAD, &unread), 0);
    assert_int_equal(unread, HALF);
    lvn_comm_close(c);
    close(half_pair[1]);
}

/* The engine makes no call that can transfer data after an error; its groups are released as failed. */
static struct {
    atomic_int calls, released;
} after_error;

static void count_progress(void *state)
{
    struct threads_world *w = ((struct threads_rank *)state)->world;
    pthread_mutex_lock(&w->lock);
    after_error.calls += w->broken;
    pthread_mutex_unlock(&w->lock);
}

static enum lvn_status count_split(void *state, const struct lvn_group_split *s, void **group)
{
    count_progress(state);
    return threads_split(state, s, group);
}

static void count_release_group(void *group, bool failed)
{
    (void)group;
    after_error.released += failed;
}

static void *split_rank(void *argument)
{
    struct lvn_comm **c = argument;
    return lvn_comm_split(c[0], &c[1], 0, 0) == LVN_OK ? NULL : argument;
}

static void test_silent_after_error(void **state)
{
    (void)state;
    struct lvn_transport transport = threads_transport;
    struct threads_world w;
    struct lvn_comm *c[2][2], *late; /* all ranks, and their group */
    pthread_t thread;
    void *bad;
    float x[2] = {0};
    transport.make_progress = count_progress;
    transport.split = count_split;
    transport.release_group = count_release_group;
    world_init(&w, 2);
    for (int i = 0; i < 2; i++) {
        struct lvn_comm_options o = {.rank = i, .size = 2};
        assert_int_equal(lvn_engine_open(&c[i][0], &o, &transport, &w.ranks[i]), LVN_OK);
    }
    assert_int_equal(pthread_create(&thread, NULL, split_rank, c[1]), 0);
    assert_null(split_rank(c[0]));
    assert_int_equal(pthread_join(thread, &bad), 0);
    assert_null(bad);
    pthread_mutex_lock(&w.lock);
    w.broken = true;
    pthread_mutex_unlock(&w.lock);
    for (int i = 0; i < 2; i++) assert_int_equal(lvn_comm_broadcast_now(c[i][0], x, 4, 0), LVN_COMM);
    after_error.calls = 0; /* an idle engine may have called between `broken` and its error */
    assert_int_equal(lvn_comm_split(c[0][0], &late, 0, 0), LVN_COMM);
    usleep(IDLE_TIME);
    for (int i = 0; i < 2; i++) lvn_comm_close(c[i][1]), lvn_comm_close(c[i][0]);
    assert_int_equal(after_error.calls, 0);
    assert_int_equal(after_error.released, 2);
    world_release(&w);
}

/* An error of the transport ends every wait, and no rank hangs. */
static void test_broken(void **state)
{
    (void)state;
    struct threads_world w;
    struct lvn_comm *c;
    struct lvn_request r[3];
    float x[5] = {0};
    int64_t first[] = {0, 2, 5};
    world_init(&w, 2);
    w.broken = true;
    struct lvn_comm_options o = {.rank = 0, .size = 2};
    assert_int_equal(lvn_engine_open(&c, &o, &threads_transport, &w.ranks[0]), LVN_OK);
    lvn_comm_all_reduce(c, &r[0], x, 5, LVN_F32, LVN_SUM);
    lvn_comm_reduce_scatter(c, &r[1], x, first, LVN_F32);
    lvn_comm_send(c, &r[2], x, 4, 1, 0);
    for (int i = 0; i < 3; i++) assert_int_equal(lvn_comm_wait(c, &r[i]), LVN_COMM);
    assert_non_null(strstr(levin_error_text(), "threads say: error 42"));
    assert_int_equal(lvn_comm_broadcast_now(c, x, 4, 0), LVN_COMM);
    lvn_comm_close(c);
    world_release(&w);
}

/* Rank 0 waits for rank 2, which has not started the collective, and reports that. */
static void test_awaited(void **state)
{
    (void)state;
    enum { LONG = 40000, SIZE = 3 };
    static float x[SIZE][LONG];
    struct threads_world w;
    struct lvn_comm *c[SIZE];
    struct lvn_request r[SIZE];
    world_init(&w, SIZE);
    for (int i = 0; i < SIZE; i++) {
        struct lvn_comm_options o = {.rank = i, .size = SIZE};
        assert_int_equal(lvn_engine_open(&c[i], &o, &threads_transport, &w.ranks[i]), LVN_OK);
    }
    assert_int_equal(lvn_work_blocking_rank(), -1);
    for (int i = 0; i < 2; i++) lvn_comm_all_reduce(c[i], &r[i], x[i], LONG, LVN_F32, LVN_SUM);
    while (lvn_work_blocking_rank() != 2) sched_yield();
    assert_false(lvn_request_done(&r[0]) || lvn_request_done(&r[1]));
    lvn_comm_all_reduce(c[2], &r[2], x[2], LONG, LVN_F32, LVN_SUM);
    for (int i = 0; i < SIZE; i++) assert_int_equal(lvn_comm_wait(c[i], &r[i]), LVN_OK);
    while (lvn_work_blocking_rank() != -1) sched_yield();
    for (int i = 0; i < SIZE; i++) lvn_comm_close(c[i]);
    world_release(&w);
}

/* --- which library --- */

static void test_find(void **state)
{
    (void)state;
    struct lvn_mpi_library l;
    assert_int_equal(lvn_mpi_find(&l, "/nowhere/libmpi.so", "openmpi"), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "trainer.mpi_library: /nowhere/libmpi.so"));
    assert_int_equal(lvn_mpi_find(&l, "libm.so.6", NULL), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "is not an MPI library"));
    unsetenv("PMI_RANK"), unsetenv("PMI_FD"), unsetenv("PMIX_RANK"), unsetenv("PMIX_NAMESPACE");
    unsetenv("PMI_CONTROL_PORT"), unsetenv("PALS_RANKID");
    assert_int_equal(lvn_mpi_find(&l, "", "slurm"), LVN_UNSUPPORTED);
    assert_non_null(strstr(levin_error_text(), "srun --mpi=pmix"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_subtrees),
                                       cmocka_unit_test(test_self),
                                       cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_trees),
                                       cmocka_unit_test(test_tcp),
                                       cmocka_unit_test(test_tcp_closed),
                                       cmocka_unit_test(test_broken),
                                       cmocka_unit_test(test_find),
                                       cmocka_unit_test(test_awaited),
                                       cmocka_unit_test(test_tcp_memory_after_error),
                                       cmocka_unit_test(test_silent_after_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
