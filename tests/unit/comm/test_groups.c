/* test_groups.c - covers: src/ranks/comm/engine_split.c src/ranks/comm/comm.c src/ranks/comm/comm_self.c
 * src/ranks/comm/tcp.c src/ranks/comm/engine.c
 *
 * Groups of ranks, over threads' messages and over connections: who is in which, and that collectives of several groups
 * and of all ranks, at the same time and started in unlike orders, have the bits of communicators with so many ranks.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bf16.h"
#include "comm/tree.h"
#include "unit/comm_threads.h"

enum { SHORT = 500, LONG = 40000 };

/* The results of one rank. */
struct results {
    float few[SHORT], sum[LONG], part[LONG], all[LONG], told[SHORT];
    uint16_t half[LONG];
};

struct scene {
    struct threads_world world;
    bool tcp;
    int socket[THREADS_MAX][THREADS_MAX];
    int failures;
    int (*act)(struct scene *s, struct lvn_comm *c, int rank);
    int color;                          /* of the numbers that ranks add */
    struct results result[THREADS_MAX]; /* of act_whole() */
};
struct actor {
    struct scene *scene;
    int rank;
};

/* --- ranks that are threads --- */

static void *act(void *argument)
{
    struct actor *a = argument;
    struct scene *s = a->scene;
    struct lvn_comm *c = NULL;
    struct lvn_comm_options o = {.rank = a->rank, .size = s->world.size, .max_message_bytes = 4096};
    if (s->tcp) o.sockets = s->socket[a->rank];
    enum lvn_status opened = s->tcp || o.size == 1
                                 ? lvn_comm_open(&c, &o)
                                 : lvn_engine_open(&c, &o, &threads_transport, &s->world.ranks[a->rank]);
    int bad = opened != LVN_OK;
    if (!bad) bad = s->act(s, c, a->rank);
    lvn_comm_close(c);
    __atomic_add_fetch(&s->failures, bad, __ATOMIC_SEQ_CST);
    return NULL;
}

static void play(struct scene *s, int size, bool tcp, int color, int (*f)(struct scene *, struct lvn_comm *, int))
{
    struct actor actors[THREADS_MAX];
    pthread_t threads[THREADS_MAX];
    world_init(&s->world, size);
    s->tcp = tcp;
    s->act = f;
    s->color = color;
    s->failures = 0;
    for (int i = 0; i < size && tcp; i++)
        for (int k = 0; k < i; k++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            s->socket[i][k] = pair[0];
            s->socket[k][i] = pair[1];
        }
    for (int i = 0; i < size; i++) {
        actors[i] = (struct actor){.scene = s, .rank = i};
        assert_int_equal(pthread_create(&threads[i], NULL, act, &actors[i]), 0);
    }
    for (int i = 0; i < size; i++) pthread_join(threads[i], NULL);
    world_release(&s->world);
    assert_int_equal(s->failures, 0);
}

/* --- what they add --- */

/* Numbers whose sum depends on the order of additions. */
static float value(int color, int rank, int64_t i)
{
    const uint32_t h = (uint32_t)(i * 31 + rank * 7919 + color * 104729) * 2654435761U;
    return (float)((double)h * (i % 3 == 0 ? 1e-3 : 1.0) - 2e9);
}

/* One of each collective, all of them in progress at the same time. */
struct work {
    struct results *out;
    struct lvn_request request[7];
    int64_t first[THREADS_MAX + 1];
    struct lvn_tree *tree;
    void *partial[1];
    float leaf[LONG];
};

static void start(struct lvn_comm *c, struct work *w, struct results *out, int color)
{
    const int rank = lvn_comm_rank(c), size = lvn_comm_size(c);
    w->out = out;
    for (int i = 0; i <= size; i++) w->first[i] = (int64_t)LONG * i * i / (size * size); /* unlike lengths */
    for (int64_t i = 0; i < LONG; i++) {
        out->sum[i] = out->part[i] = value(color, rank, i);
        out->all[i] = i >= w->first[rank] && i < w->first[rank + 1] ? value(color, rank, i) : -1;
        out->half[i] = lvn_bf16_make(value(color, rank, i));
    }
    for (int64_t i = 0; i < SHORT; i++) out->few[i] = out->told[i] = value(color, rank, i);
    lvn_comm_all_reduce(c, &w->request[0], out->few, SHORT, LVN_F32, LVN_SUM);
    lvn_comm_all_reduce(c, &w->request[1], out->sum, LONG, LVN_F32, LVN_SUM);
    lvn_comm_reduce_scatter(c, &w->request[2], out->part, w->first, LVN_F32);
    lvn_comm_broadcast(c, &w->request[3], out->told, sizeof out->told, size - 1);
    lvn_comm_all_gather(c, &w->request[4], out->all, w->first, LVN_F32);
    lvn_comm_all_reduce(c, &w->request[5], out->half, LONG, LVN_BF16, LVN_SUM);
}

/* Wait for them. Elements of other ranks' parts, which are undefined, become 0. */
static int finish(struct lvn_comm *c, struct work *w)
{
    const int rank = lvn_comm_rank(c);
    int bad = 0;
    for (int k = 5; k >= 0; k--) bad += lvn_comm_wait(c, &w->request[k]) != LVN_OK;
    for (int64_t i = 0; i < LONG; i++)
        if (i < w->first[rank] || i >= w->first[rank + 1]) w->out->part[i] = 0;
    return bad;
}

static int act_whole(struct scene *s, struct lvn_comm *c, int rank)
{
    struct work *w = malloc(sizeof *w);
    if (!w) return 1;
    start(c, w, &s->result[rank], s->color);
    int bad = finish(c, w);
    free(w);
    return bad;
}

/* What communicators of these sizes compute: [size][color]. */
static struct scene *expected[THREADS_MAX][3];

static const struct results *wanted_of(bool tcp, int size, int color)
{
    static struct scene scenes[8];
    static int n;
    static bool of_tcp;
    if (of_tcp != tcp) memset(expected, 0, sizeof expected), n = 0, of_tcp = tcp;
    if (!expected[size][color]) {
        assert_true(n < 8);
        expected[size][color] = &scenes[n++];
        play(expected[size][color], size, tcp, color, act_whole);
    }
    return expected[size][color]->result;
}

/* --- groups --- */

static int is_equal(const struct lvn_comm *c, const struct results *r, int color)
{
    const struct scene *s = expected[lvn_comm_size(c)][color];
    return !memcmp(r, &s->result[lvn_comm_rank(c)], sizeof *r);
}

/* Six ranks in two rows of three, and in three columns of two, counted from the last one; all ranks, rows and columns
 * work at the same time, and even ranks begin with others than odd ones. */
static int act_mesh(struct scene *s, struct lvn_comm *c, int rank)
{
    struct lvn_comm *part[3] = {[2] = c};
    const int color[] = {rank / 3, rank % 3, 2};
    struct work *w = malloc(3 * sizeof *w);
    struct results *r = malloc(3 * sizeof *r);
    int bad = !w || !r || lvn_comm_split(c, &part[0], color[0], -rank) || lvn_comm_split(c, &part[1], color[1], -rank);
    (void)s;
    if (bad) return free(w), free(r), 1;
    bad += lvn_comm_size(part[0]) != 3 || lvn_comm_rank(part[0]) != 2 - rank % 3;
    bad += lvn_comm_size(part[1]) != 2 || lvn_comm_rank(part[1]) != 1 - rank / 3;
    for (int k = 0; k < 3; k++) {
        const int i = rank % 2 ? k : 2 - k;
        start(part[i], &w[i], &r[i], color[i]);
    }
    for (int i = 0; i < 3; i++) bad += finish(part[i], &w[i]) != 0;
    for (int i = 0; i < 3; i++) bad += !is_equal(part[i], &r[i], color[i]);
    lvn_comm_close(part[0]);
    lvn_comm_close(part[1]);
    free(w);
    free(r);
    return bad;
}

static void run_mesh(bool tcp)
{
    static struct scene s;
    for (int color = 0; color < 2; color++) (void)wanted_of(tcp, 3, color);
    for (int color = 0; color < 3; color++) (void)wanted_of(tcp, 2, color);
    (void)wanted_of(tcp, 6, 2);
    play(&s, 6, tcp, 0, act_mesh);
}

static void test_mesh(void **state)
{
    (void)state;
    run_mesh(false);
    run_mesh(true);
}

/* Ranks 0, 1 and 3 of five are a group, 4 is one alone, 2 is in none; the first is divided again, and messages within
 * it meet none of the same tag between the same ranks of the whole. */
static int act_nested(struct scene *s, struct lvn_comm *c, int rank)
{
    struct lvn_comm *group = c, *inner = c;
    const int color = rank == 2 ? -1 : rank == 4;
    int32_t x = 1 << rank, y[2] = {-1, -1};
    struct lvn_request r[4];
    int bad = 0;
    (void)s;
    if (lvn_comm_split(c, &group, color, 0) != LVN_OK) return 1;
    if (rank == 2) return group != NULL;
    if (rank == 4) {
        bad += lvn_comm_size(group) != 1 || lvn_comm_all_reduce_now(group, &x, 1, LVN_I32, LVN_SUM) || x != 16;
        lvn_comm_close(group);
        return bad;
    }
    const int me = lvn_comm_rank(group);
    bad += lvn_comm_size(group) != 3 || me != (rank == 3 ? 2 : rank);
    if (lvn_comm_split(group, &inner, me == 1, 0) != LVN_OK) return 1;
    bad += lvn_comm_size(inner) != (me == 1 ? 1 : 2) || lvn_comm_rank(inner) != (me == 2);
    bad += lvn_comm_all_reduce_now(inner, &x, 1, LVN_I32, LVN_SUM) || x != (me == 1 ? 2 : 1 + 8);
    if (me != 1) { /* ranks 0 and 3 of the whole: the same message in all three */
        const int32_t mine[] = {100 + rank, 200 + rank};
        struct lvn_comm *const over[] = {c, inner};
        for (int i = 0; i < 2; i++) {
            const int peer = over[i] == c ? 3 - rank : 1 - lvn_comm_rank(inner);
            lvn_comm_receive(over[i], &r[i], &y[i], sizeof y[i], peer, 7);
        }
        for (int i = 1; i >= 0; i--) {
            const int peer = over[i] == c ? 3 - rank : 1 - lvn_comm_rank(inner);
            lvn_comm_send(over[i], &r[2 + i], &mine[i], sizeof mine[i], peer, 7);
        }
        for (int i = 0; i < 4; i++) bad += lvn_comm_wait(over[i % 2], &r[i]) != LVN_OK;
        bad += y[0] != 100 + 3 - rank || y[1] != 200 + 3 - rank;
    }
    lvn_comm_close(inner);
    lvn_comm_close(group);
    return bad;
}

static void test_nested(void **state)
{
    static struct scene s;
    (void)state;
    play(&s, 5, false, 0, act_nested);
    play(&s, 5, true, 0, act_nested);
}

/* A group may have its own tree, and hosts. */
static int act_tree(struct scene *s, struct lvn_comm *c, int rank)
{
    struct lvn_comm *group = NULL;
    struct lvn_tree *t = NULL;
    struct lvn_request r;
    const int64_t leaf[] = {0, 1, 2, 3, 4}, first[] = {0, 1, 2, 3, 4};
    float x[4] = {1, 2, 3, (float)rank}, out[4] = {0};
    int bad =
        lvn_comm_split(c, &group, rank % 2, rank) || lvn_comm_set_hosts(group, 2) || lvn_tree_new(&t, group, leaf);
    (void)s;
    if (bad) return lvn_comm_close(group), 1;
    lvn_comm_tree_reduce(group, &r, t, (void *[]){x}, out, first, LVN_F32, true);
    bad += lvn_comm_wait(group, &r) != LVN_OK;
    bad += out[0] != 4 || out[2] != 12 || out[3] != (float)(12 + 4 * (rank % 2));
    lvn_tree_free(t);
    lvn_comm_close(group);
    return bad;
}

static void test_tree(void **state)
{
    static struct scene s;
    (void)state;
    play(&s, 8, false, 0, act_tree);
    play(&s, 8, true, 0, act_tree);
}

static void test_alone(void **state)
{
    (void)state;
    struct lvn_comm *c, *group;
    float x = 3;
    assert_int_equal(lvn_comm_open(&c, &(struct lvn_comm_options){.rank = 0, .size = 1}), LVN_OK);
    assert_int_equal(lvn_comm_split(c, &group, -1, 0), LVN_OK);
    assert_null(group);
    assert_int_equal(lvn_comm_split(c, &group, 5, 9), LVN_OK);
    assert_int_equal(lvn_comm_size(group), 1);
    assert_int_equal(lvn_comm_all_reduce_now(group, &x, 1, LVN_F32, LVN_SUM), LVN_OK);
    assert_true(x == 3);
    lvn_comm_close(group);
    lvn_comm_close(c);
}

/* There are only so many groups; a broken transport fails all that wait, in groups too. */
static int act_broken(struct scene *s, struct lvn_comm *c, int rank)
{
    struct lvn_comm *group = NULL, *more = c;
    int bad = lvn_comm_split(c, &group, rank, 0) != LVN_OK;
    float x = 1;
    if (bad) return bad;
    ((struct lvn_engine_group *)c)->engine->next_group = LVN_GROUPS;
    bad += lvn_comm_split(c, &more, 0, 0) != LVN_UNSUPPORTED || more || !strstr(levin_error_text(), "at most");
    bad += lvn_comm_all_reduce_now(c, &x, 1, LVN_F32, LVN_SUM) != LVN_OK; /* all have come so far */
    pthread_mutex_lock(&s->world.lock);
    s->world.broken = true;
    pthread_mutex_unlock(&s->world.lock);
    bad += lvn_comm_all_reduce_now(c, &x, 1, LVN_F32, LVN_SUM) != LVN_COMM;
    bad += lvn_comm_all_reduce_now(group, &x, 1, LVN_F32, LVN_SUM) != LVN_COMM;
    bad += !strstr(levin_error_text(), "threads say: error 42");
    lvn_comm_close(group);
    return bad;
}

/* A transport without groups says so. */
static void test_refused(void **state)
{
    static struct scene s;
    struct threads_world w;
    struct lvn_comm *c, *group;
    struct lvn_transport none = threads_transport;
    (void)state;
    none.split = NULL;
    world_init(&w, 2);
    const struct lvn_comm_options o = {.rank = 0, .size = 2};
    assert_int_equal(lvn_engine_open(&c, &o, &none, &w.ranks[0]), LVN_OK);
    assert_int_equal(lvn_comm_split(c, &group, 0, 0), LVN_UNSUPPORTED);
    assert_string_equal(levin_error_text(), "threads does not support groups of ranks");
    lvn_comm_close(c);
    world_release(&w);
    play(&s, 3, false, 0, act_broken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alone), cmocka_unit_test(test_mesh),
                                       cmocka_unit_test(test_nested), cmocka_unit_test(test_tree),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
