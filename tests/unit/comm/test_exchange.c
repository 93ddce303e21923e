/* test_exchange.c - covers: src/ranks/comm/exchange.c src/ranks/comm/tree_plan.c src/ranks/comm/sum_algorithm.c
 *
 * Sums of up to 64 ranks on several hosts, all in one thread: they are right, and the traffic within and between
 * hosts is as lvn_sum_traffic() predicts. The transport is lists of messages that are counted. Of a thousand ranks only
 * the messages are there: each is played alone, and gets nothing from the others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bf16.h"
#include "comm/exchange.h"
#include "comm/sum_algorithm.h"
#include "comm/tree.h"

enum { MAX = 64 };

struct letter {
    struct letter *next;
    int tag;
    int64_t bytes;
    const void *from;
    void *to;
    bool done; /* both sides forget it once each */
    int holders;
};

/* Messages from a to b that were sent but not received, or posted for receiving but not sent. */
struct post {
    struct letter *first;
};

struct world {
    int size, per_host;
    struct post post[MAX][MAX];
    struct lvn_traffic sent[MAX]; /* by each rank */
    struct lvn_engine engine[MAX];
    struct me {
        struct world *world;
        int rank;
    } me[MAX];
};

static void clear(void *state, void *handle)
{
    (void)state;
    memset(handle, 0, sizeof(struct letter *));
}

/* One side of a message; the first that comes leaves a letter, the other one takes it. */
static int meet(struct world *w, int from, int to, struct letter side, void *handle)
{
    struct letter **at = &w->post[from][to].first, *l;
    while (*at && !((*at)->tag == side.tag && (side.from ? !(*at)->from : !(*at)->to))) at = &(*at)->next;
    l = *at;
    if (l) {
        assert_int_equal(l->bytes, side.bytes);
        *at = l->next;
        memcpy(side.to ? side.to : l->to, side.from ? side.from : l->from, (size_t)side.bytes);
        l->done = true;
    } else {
        while (*at) at = &(*at)->next;
        l = *at = malloc(sizeof *l);
        assert_non_null(l);
        *l = side;
        l->holders = 2;
    }
    memcpy(handle, &l, sizeof l);
    return 0;
}

static int send_one(void *state, const void *x, int64_t bytes, int to, int tag, void *handle)
{
    const struct me *m = state;
    struct lvn_traffic *t = &m->world->sent[m->rank];
    struct lvn_traffic_part *p = m->rank / m->world->per_host == to / m->world->per_host ? &t->within : &t->between;
    p->messages++;
    p->bytes += bytes;
    return meet(m->world, m->rank, to, (struct letter){.tag = tag, .bytes = bytes, .from = x}, handle);
}

static int receive_one(void *state, void *x, int64_t bytes, int from, int tag, void *handle)
{
    const struct me *m = state;
    return meet(m->world, from, m->rank, (struct letter){.tag = tag, .bytes = bytes, .to = x}, handle);
}

static int test_all(void *state, void *handles, int n, int *n_done, int *done)
{
    *n_done = 0;
    for (int i = 0; i < n; i++) {
        struct letter *l;
        memcpy(&l, (char *)handles + (size_t)i * sizeof l, sizeof l);
        if (!l || !l->done) continue;
        if (!--l->holders) free(l);
        clear(state, (char *)handles + (size_t)i * sizeof l);
        done[(*n_done)++] = i;
    }
    return 0;
}

static const struct lvn_transport letters = {
    .clear = clear, .send = send_one, .receive = receive_one, .test = test_all};

static struct world *world_new(int size, int hosts)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->size = size;
    w->per_host = size / hosts;
    for (int i = 0; i < size; i++) {
        w->me[i] = (struct me){w, i};
        w->engine[i] =
            (struct lvn_engine){.whole = {.comm = {.rank = i, .size = size, .hosts = hosts}, .state = &w->me[i]},
                                .transport = &letters,
                                .handle_bytes = (int)sizeof(struct letter *)};
    }
    return w;
}

/* Ranks take turns until all have done their n requests, as their engines would. Returns the maximum number of
 * requests of rank 0 in progress at once. */
static int push_on(struct world *w, struct lvn_request *r, int n)
{
    int left = w->size, max = 0;
    int *first = calloc((size_t)w->size, sizeof *first);
    assert_non_null(first);
    for (int turn = 0; left; turn++) {
        bool moved = false;
        for (int i = 0; i < w->size; i++) {
            int at_once = 0;
            for (int k = first[i]; k < n; k++) {
                bool issued, finished;
                struct lvn_request *q = &r[i * n + k];
                if (q->done) continue;
                q->group = &w->engine[i].whole;
                assert_int_equal(lvn_exchange_step(&w->engine[i], q, &moved, &issued, &finished), 0);
                at_once += q->busy > 0;
                q->done = finished;
                if (!issued) break;
            }
            if (!i) max = at_once > max ? at_once : max;
            while (first[i] < n && r[i * n + first[i]].done)
                if (++first[i] == n) left--, moved = true;
        }
        assert_true(moved || !left || turn < 2);
    }
    free(first);
    return max;
}

static float value(int rank, int64_t i)
{
    return (float)((rank + 1) * (int)(1 + i % 3) + (int)(i % 5));
}

static float total(int size, int64_t i)
{
    return (float)(size * (size + 1) / 2 * (int)(1 + i % 3) + size * (int)(i % 5));
}

/* --- */

static void one_sum(int size, int hosts, int64_t count)
{
    struct world *w = world_new(size, hosts);
    struct lvn_tree *tree[MAX];
    struct lvn_request r[MAX];
    float *x[MAX];
    for (int i = 0; i < size; i++) {
        assert_int_equal(lvn_tree_new_for(&tree[i], size, i, hosts, NULL), LVN_OK);
        x[i] = malloc((size_t)count * sizeof *x[i]);
        for (int64_t k = 0; k < count; k++) x[i][k] = value(i, k);
        r[i] = (struct lvn_request){.kind = LVN_REQUEST_ALL_REDUCE,
                                    .x = x[i],
                                    .count = count,
                                    .type = LVN_F32,
                                    .gather = true,
                                    .tree = tree[i]};
    }
    push_on(w, r, 1);
    struct lvn_traffic predicted;
    const struct lvn_sum_question q = {
        .ranks = size, .hosts = hosts, .bytes = count * 4, .partials = 1, .reduce = true, .gather = true};
    lvn_sum_traffic(&q, &predicted);
    for (int i = 0; i < size; i++) {
        for (int64_t k = 0; k < count; k += 61) assert_true(x[i][k] == total(size, k));
        assert_int_equal(w->sent[i].within.messages, predicted.within.messages);
        assert_int_equal(w->sent[i].between.messages, predicted.between.messages);
        assert_int_equal(w->sent[i].within.bytes, predicted.within.bytes);
        assert_int_equal(w->sent[i].between.bytes, predicted.between.bytes);
    }
    for (int i = 0; i < size; i++) lvn_tree_free(tree[i]), free(x[i]);
    free(w);
}

static void test_traffic(void **state)
{
    (void)state;
#if defined(LVN_SANITIZED) /* more ranks take minutes */
    const int most = 16;
#else
    const int most = MAX;
#endif
    for (int size = 16; size <= most; size *= 2)
        for (int hosts = 1; hosts <= size && hosts <= 16; hosts *= 4) one_sum(size, hosts, (int64_t)size * 4096);
    one_sum(most, 8, most * 16384); /* two pieces of every shard */
    for (int hosts = 1; hosts <= 2; hosts++) {
        one_sum(2, hosts, 8192);
        one_sum(2, hosts, 300001);
    }
    one_sum(8, 2, 8 * 8192);
}

/* Between hosts every number goes once each way, however many ranks a host has; a rank sends to those of its host and
 * to one of each other host. */
static void test_per_host(void **state)
{
    (void)state;
    const int64_t bytes = 64 << 20;
    for (int each = 1; each <= 16; each *= 2) {
        struct lvn_traffic t;
        const struct lvn_sum_question q = {
            .ranks = 4 * each, .hosts = 4, .bytes = bytes, .reduce = true, .gather = true};
        lvn_sum_traffic(&q, &t);
        assert_int_equal(t.between.bytes * each, 2 * bytes / 4 * 3);
        assert_int_equal(t.between.messages % 6, 0);
        assert_true(t.within.bytes + t.between.bytes <= 2 * bytes);
    }
    struct lvn_traffic t;
    const struct lvn_sum_question q = {
        .ranks = 64, .hosts = 1, .bytes = 1 << 20, .partials = 1, .reduce = true, .gather = true};
    lvn_sum_traffic(&q, &t);
    assert_int_equal(t.within.messages, 2 * (7 + 7)); /* in place of 2 * 63 */
    assert_int_equal(t.within.bytes, 2 * q.bytes / 64 * 63);
}

/* Which way, by size: short shards are the library's, all the more with many ranks. */
static void test_ways(void **state)
{
    (void)state;
    assert_int_equal(lvn_sum_algorithm(2, 1, 32 << 10), LVN_ALGORITHM_DIRECT);
    assert_int_equal(lvn_sum_algorithm(2, 1, (32 << 10) - 4), LVN_ALGORITHM_LIBRARY);
    assert_int_equal(lvn_sum_algorithm(8, 1, 128 << 10), LVN_ALGORITHM_DIRECT);
    assert_int_equal(lvn_sum_algorithm(64, 1, 128 << 10), LVN_ALGORITHM_LIBRARY);
    assert_int_equal(lvn_sum_algorithm(32, 1, 1 << 20), LVN_ALGORITHM_LIBRARY);
    assert_int_equal(lvn_sum_algorithm(3, 3, 1 << 20), LVN_ALGORITHM_DIRECT);
    assert_int_equal(lvn_sum_algorithm(16, 4, 1 << 20), LVN_ALGORITHM_HIERARCHICAL);
    struct lvn_traffic t;
    const struct lvn_sum_question q = {.ranks = 64, .hosts = 8, .bytes = 1 << 10, .reduce = true, .gather = true};
    lvn_sum_traffic(&q, &t);
    assert_int_equal(t.within.messages, 6);
    assert_int_equal(t.between.messages, 6);
    assert_int_equal(t.within.bytes + t.between.bytes, 2 * 1024 * 63 / 64);
}

/* --- in order --- */

static float leaf_value(int64_t leaf, int64_t i)
{
    uint32_t h = (uint32_t)(leaf * 7919 + i * 31) * 2654435761U;
    return (float)(h >> 8) / 1024.0f - 8000.0f * (float)(h & 7);
}

static float sum_of(int64_t lo, int64_t hi, int64_t i)
{
    if (hi - lo == 1) return leaf_value(lo, i);
    int64_t half = lvn_tree_split(hi - lo);
    return sum_of(lo, lo + half, i) + sum_of(lo + half, hi, i);
}

/* The bits of the tree over all leaves, on ranks and hosts that need not divide it; for all, or for the owner of each
 * shard; shards may be empty. */
static void one_tree(int size, int hosts, int64_t leaves, bool gather)
{
    enum { COUNT = 3001 };
    struct world *w = world_new(size, hosts);
    struct lvn_request r[MAX];
    int64_t leaf[MAX + 1], first[MAX + 1];
    float *out[MAX];
    void *partial[MAX][LVN_MAX_SUBTREES];
    int mine[MAX];
    for (int i = 0; i <= size; i++) leaf[i] = leaves * i / size, first[i] = (int64_t)COUNT * i * i / (size * size);
    for (int i = 0; i < size; i++) {
        struct lvn_subtree some[LVN_MAX_SUBTREES];
        struct lvn_tree *t;
        assert_int_equal(lvn_tree_new_for(&t, size, i, hosts, leaf), LVN_OK);
        mine[i] = lvn_subtrees(leaves, leaf[i], leaf[i + 1], some);
        for (int k = 0; k < mine[i]; k++) {
            float *x = partial[i][k] = malloc(COUNT * sizeof *x);
            for (int64_t e = 0; e < COUNT; e++) x[e] = sum_of(some[k].first, some[k].end, e);
        }
        out[i] = mine[i] > 1 ? partial[i][1] : malloc(COUNT * sizeof *out[i]);
        r[i] = (struct lvn_request){.kind = LVN_REQUEST_TREE_REDUCE,
                                    .x = out[i],
                                    .partial = partial[i],
                                    .first = first,
                                    .count = COUNT,
                                    .type = LVN_F32,
                                    .gather = gather,
                                    .tree = t};
    }
    push_on(w, r, 1);
    for (int i = 0; i < size; i++) {
        for (int64_t e = gather ? 0 : first[i]; e < (gather ? COUNT : first[i + 1]); e++)
            assert_true(out[i][e] == sum_of(0, leaves, e));
        if (mine[i] < 2) free(out[i]);
        for (int k = 0; k < mine[i]; k++) free(partial[i][k]);
        lvn_tree_free(r[i].tree);
    }
    free(w);
}

static void test_order(void **state)
{
    (void)state;
    for (int64_t leaves = 1; leaves <= 24; leaves += leaves < 8 ? 1 : 5)
        for (int each = 1; each <= 3; each++)
            for (int hosts = 1; hosts <= 4; hosts++)
                for (int gather = 0; gather < 2; gather++) one_tree(each * hosts, hosts, leaves, gather);
    one_tree(64, 8, 64, true);
    one_tree(32, 1, 45, true); /* in groups */
    one_tree(24, 1, 24, false);
}

/* --- in sequence --- */

/* Shards that are certain ranks', summed and gathered; and the next vector begins before the last one is done. */
static void test_overlap(void **state)
{
    (void)state;
    enum { SIZE = 6, HOSTS = 2, MANY = 5, COUNT = SIZE * 5000 + 7 };
    struct world *w = world_new(SIZE, HOSTS);
    struct lvn_tree *tree[SIZE];
    struct lvn_request r[SIZE * MANY];
    static float x[SIZE][MANY][COUNT];
    int64_t first[SIZE + 1];
    for (int i = 0; i <= SIZE; i++) first[i] = (int64_t)COUNT * i / SIZE;
    for (int i = 0; i < SIZE; i++) {
        assert_int_equal(lvn_tree_new_for(&tree[i], SIZE, i, HOSTS, NULL), LVN_OK);
        for (int k = 0; k < MANY; k++) {
            for (int64_t e = 0; e < COUNT; e++) x[i][k][e] = value(i, e + k);
            r[i * MANY + k] = (struct lvn_request){.kind = LVN_REQUEST_REDUCE_SCATTER,
                                                   .number = k,
                                                   .x = x[i][k],
                                                   .count = COUNT,
                                                   .first = first,
                                                   .type = LVN_F32,
                                                   .tree = tree[i]};
        }
    }
    assert_true(push_on(w, r, MANY) > 1);
    for (int i = 0; i < SIZE; i++)
        for (int k = 0; k < MANY; k++) {
            for (int64_t e = first[i]; e < first[i + 1]; e++) assert_true(x[i][k][e] == total(SIZE, e + k));
            r[i * MANY + k] = (struct lvn_request){.kind = LVN_REQUEST_ALL_GATHER,
                                                   .number = MANY + k,
                                                   .x = x[i][k],
                                                   .count = COUNT,
                                                   .first = first,
                                                   .type = LVN_F32,
                                                   .gather = true,
                                                   .tree = tree[i]};
        }
    push_on(w, r, MANY);
    for (int i = 0; i < SIZE; i++) {
        for (int k = 0; k < MANY; k++)
            for (int64_t e = 0; e < COUNT; e++) assert_true(x[i][k][e] == total(SIZE, e + k));
        lvn_tree_free(tree[i]);
    }
    free(w);
}

/* bf16 is rounded once on a host and once between hosts, not with every rank. */
static void test_bf16(void **state)
{
    (void)state;
    enum { SIZE = 8, COUNT = 640 };
    static uint16_t x[SIZE][COUNT];
    for (int hosts = 1; hosts <= 2; hosts++) {
        struct world *w = world_new(SIZE, hosts);
        struct lvn_request r[SIZE];
        for (int i = 0; i < SIZE; i++) {
            struct lvn_tree *t;
            assert_int_equal(lvn_tree_new_for(&t, SIZE, i, hosts, NULL), LVN_OK);
            for (int k = 0; k < COUNT; k++) x[i][k] = lvn_bf16_make(i % 4 ? 0.375f : 128.0f); /* 0.375 is lost alone */
            r[i] = (struct lvn_request){
                .kind = LVN_REQUEST_ALL_REDUCE, .x = x[i], .count = COUNT, .type = LVN_BF16, .gather = true, .tree = t};
        }
        push_on(w, r, 1);
        for (int i = 0; i < SIZE; i++) {
            for (int k = 0; k < COUNT; k++) assert_true(lvn_bf16_get(x[i][k]) == 258.0f);
            lvn_tree_free(r[i].tree);
        }
        free(w);
    }
}

/* --- a thousand ranks, one after the other --- */

enum { MANY = 1000 };

struct lone {
    int rank, per_host;
    struct lvn_traffic sent;
    int32_t (*messages)[MANY]; /* [MANY] from one rank to another: sent and not received */
};

static int lone_send(void *state, const void *x, int64_t bytes, int to, int tag, void *handle)
{
    struct lone *m = state;
    struct lvn_traffic_part *p = m->rank / m->per_host == to / m->per_host ? &m->sent.within : &m->sent.between;
    (void)x, (void)tag;
    *(char *)handle = 1;
    p->messages++;
    p->bytes += bytes;
    m->messages[m->rank][to]++;
    return 0;
}

static int lone_receive(void *state, void *x, int64_t bytes, int from, int tag, void *handle)
{
    struct lone *m = state;
    (void)tag;
    *(char *)handle = 1;
    memset(x, 0, (size_t)bytes);
    m->messages[from][m->rank]--;
    return 0;
}

static int lone_test(void *state, void *handles, int n, int *n_done, int *done)
{
    (void)state;
    *n_done = 0;
    for (int i = 0; i < n; i++) {
        char *handle = (char *)handles + i;
        if (*handle) done[(*n_done)++] = i;
        *handle = 0;
    }
    return 0;
}

static void lone_clear(void *state, void *handle)
{
    (void)state;
    *(char *)handle = 0;
}

static const struct lvn_transport alone = {
    .clear = lone_clear, .send = lone_send, .receive = lone_receive, .test = lone_test};

/* All ranks, one after the other: an all-reduce, or a reduce-scatter. What is sent is received, it is what is
 * predicted, and grows with the ranks of a host and the number of hosts. */
static void many_ranks(int hosts, bool gather)
{
    enum { COUNT = MANY * LVN_LINE };
    const struct lvn_sum_question q = {
        .ranks = MANY, .hosts = hosts, .bytes = COUNT * 4, .partials = 1, .reduce = true, .gather = gather};
    struct lvn_traffic predicted;
    lvn_sum_traffic(&q, &predicted);
    struct lone m = {.per_host = MANY / hosts, .messages = calloc(MANY, sizeof *m.messages)};
    float *x = calloc(COUNT, sizeof *x);
    int64_t first[MANY + 1];
    assert_true(m.messages && x);
    for (int i = 0; i <= MANY; i++) first[i] = (int64_t)i * LVN_LINE;
    for (m.rank = 0; m.rank < MANY; m.rank++) {
        struct lvn_engine e = {.whole = {.comm = {.rank = m.rank, .size = MANY, .hosts = hosts}, .state = &m},
                               .transport = &alone,
                               .handle_bytes = 1};
        struct lvn_tree *tree;
        assert_int_equal(lvn_tree_new_for(&tree, MANY, m.rank, hosts, NULL), LVN_OK);
        struct lvn_request r = {.kind = gather ? LVN_REQUEST_ALL_REDUCE : LVN_REQUEST_REDUCE_SCATTER,
                                .x = x,
                                .count = COUNT,
                                .first = first,
                                .type = LVN_F32,
                                .gather = gather,
                                .tree = tree,
                                .group = &e.whole};
        bool moved, issued, finished = false;
        for (int turn = 0; turn < 20 && !finished; turn++)
            assert_int_equal(lvn_exchange_step(&e, &r, &moved, &issued, &finished), 0);
        assert_true(finished);
        lvn_tree_free(tree);
        assert_memory_equal(&m.sent.within.messages, &predicted.within.messages, 2 * sizeof(int64_t));
        assert_memory_equal(&m.sent.between.messages, &predicted.between.messages, 2 * sizeof(int64_t));
        m.sent = (struct lvn_traffic){0};
    }
    for (int i = 0; i < MANY; i++)
        for (int k = 0; k < MANY; k++) assert_int_equal(m.messages[i][k], 0);
    assert_true(predicted.between.messages <= 2 * (hosts - 1));
    free(x);
    free(m.messages);
}

static void test_many_ranks(void **state)
{
    (void)state;
    many_ranks(125, true);
#if !defined(LVN_SANITIZED) /* a minute */
    many_ranks(125, false);
    many_ranks(10, true);
    many_ranks(1000, false);
    many_ranks(1, true);
#endif
    /* short sums, which a library makes: twice the logarithm */
    struct lvn_traffic t;
    const struct lvn_sum_question q = {.ranks = MANY, .hosts = 125, .bytes = 4096, .reduce = true, .gather = true};
    lvn_sum_traffic(&q, &t);
    assert_true(t.within.messages + t.between.messages <= 2 * 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_traffic),   cmocka_unit_test(test_per_host),
                                       cmocka_unit_test(test_ways),      cmocka_unit_test(test_order),
                                       cmocka_unit_test(test_overlap),   cmocka_unit_test(test_bf16),
                                       cmocka_unit_test(test_many_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
