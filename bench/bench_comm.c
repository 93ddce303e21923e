/* bench_comm.c - all-reduce between ranks: levin's compared with the MPI library's own, in turns within one run.
 *
 *     mpirun -n 2 build/bench_comm [--library PATH] [--seconds S] [--per-host N] [--tcp] [MIB...]
 *
 * For each size: the MPI's blocking reduction and its nonblocking one polled without pause, levin's (an engine thread
 * and a waiting one), and levin's in a fixed order, with one leaf a rank and with three. Prints the median of each, the
 * bandwidth (bytes of the vector a second), and levin's bandwidth relative to the better of MPI's two. Last, a
 * reduction while the rank computes for as long as the reduction takes alone: the time of both over the longer of the
 * two; 1: they overlap completely, 2: not at all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/list.h"
#include "cluster/identity/identity.h"
#include "cluster/rendezvous/mesh.h"
#include "comm/comm_kind.h"
#include "comm/engine.h"
#include "comm/tree.h"

enum method { BLOCKING, NONBLOCKING, LEVIN, TREE, TREE3, WAYS };
static const char *const names[] = {"MPI", "MPI nonblocking", "levin", "in order", "in order, 3 leaves"};

static struct lvn_comm *comm;
static float *x[4];
static int64_t count;
static struct lvn_tree *tree[2];
static int64_t *first;
static const struct lvn_transport *transport;

static void blocking(void *state, void *unused)
{
    (void)unused;
    (void)transport->all_reduce_blocking(state, x[0], count, LVN_F32, LVN_SUM);
}

static void nonblocking(void *state, void *unused)
{
    (void)unused;
    void *handle = NULL;
    int n = 0, index;
    transport->clear(state, &handle);
    (void)transport->all_reduce(state, x[0], count, LVN_F32, LVN_SUM, &handle);
    while (!n && !transport->test(state, &handle, 1, &n, &index)) {
    }
}

static double once(enum method method)
{
    struct lvn_request r;
    int32_t one = 1;
    void *partial[] = {x[0], x[1], x[2]};
    if (lvn_comm_all_reduce_now(comm, &one, 1, LVN_I32, LVN_SUM) != LVN_OK) exit(1); /* a barrier */
    double start = lvn_seconds();
    if (method == BLOCKING) lvn_engine_call(comm, &r, blocking, NULL);
    if (method == NONBLOCKING) lvn_engine_call(comm, &r, nonblocking, NULL);
    if (method == LEVIN) lvn_comm_all_reduce(comm, &r, x[0], count, LVN_F32, LVN_SUM);
    if (method == TREE) lvn_comm_tree_reduce(comm, &r, tree[0], partial, x[0], first, LVN_F32, true);
    if (method == TREE3) lvn_comm_tree_reduce(comm, &r, tree[1], partial, x[0], first, LVN_F32, true);
    if (lvn_comm_wait(comm, &r) != LVN_OK) exit(1);
    return lvn_seconds() - start;
}

/* `work` rounds of arithmetic on operands in the L1 cache. */
static double compute(int64_t work)
{
    static float a[1024];
    double start = lvn_seconds();
    for (int64_t n = 0; n < work; n++)
        for (int i = 0; i < 1024; i++) a[i] = a[i] * 0.999f + 1.0f;
    __asm__ volatile("" ::"r"(a) : "memory");
    return lvn_seconds() - start;
}

/* A reduction while the rank computes for as long as the reduction takes alone. */
static double overlapped(double alone)
{
    int64_t work = 1;
    double t = compute(1), best = 1e9;
    while (t < 0.01) t = compute(work *= 2);
    work = (int64_t)((double)work * alone / t) + 1;
    for (int turn = 0; turn < 5; turn++) {
        struct lvn_request r;
        int32_t one = 1;
        if (lvn_comm_all_reduce_now(comm, &one, 1, LVN_I32, LVN_SUM) != LVN_OK) exit(1);
        t = compute(work);
        double longer = t > alone ? t : alone;
        if (lvn_comm_all_reduce_now(comm, &one, 1, LVN_I32, LVN_SUM) != LVN_OK) exit(1);
        double start = lvn_seconds();
        lvn_comm_all_reduce(comm, &r, x[0], count, LVN_F32, LVN_SUM);
        compute(work);
        if (lvn_comm_wait(comm, &r) != LVN_OK) exit(1);
        double both = (lvn_seconds() - start) / longer;
        best = both < best ? both : best;
    }
    return best;
}

/* The median: the best time depends on both ranks entering at the same moment by chance. */
static double median(double *t, int n)
{
    qsort(t, (size_t)n, sizeof *t, lvn_by_number);
    return t[n / 2];
}

static void measure(double mib, double seconds, int rank, int size)
{
    enum { MAX = 4096 };
    static double times[WAYS][MAX];
    double took[WAYS], end;
    int n = 0;
    count = (int64_t)(mib * (1 << 20) / 4);
    for (int i = 0; i <= size; i++) first[i] = count * i / size / 16 * 16;
    first[size] = count;
    end = lvn_seconds() + seconds;
    for (int32_t turn = 0, more = 1; more; turn++) {
        for (int w = 0; w < WAYS; w++) {
            for (int64_t i = 0; i < count; i++) x[0][i] = x[1][i] = x[2][i] = 1; /* in the cache, as after computing */
            times[w][n] = once((enum method)w);
        }
        n += turn > 0 && n < MAX - 1; /* the first turn warms up */
        more = lvn_seconds() < end || turn < 3;
        if (lvn_comm_all_reduce_now(comm, &more, 1, LVN_I32, LVN_MIN) != LVN_OK) exit(1);
    }
    for (int w = 0; w < WAYS; w++) took[w] = median(times[w], n);
    double both = took[LEVIN];
    if (lvn_comm_broadcast_now(comm, &both, sizeof both, 0) != LVN_OK) exit(1); /* all ranks compute equally long */
    both = overlapped(both);
    if (rank) return;
    double mpi = took[BLOCKING] < took[NONBLOCKING] ? took[BLOCKING] : took[NONBLOCKING];
    printf("%10.4g MiB", mib);
    for (int w = 0; w < WAYS; w++) printf(" %10.3f ms %5.2f GB/s", took[w] * 1e3, mib * (1 << 20) / took[w] / 1e9);
    printf("  levin %.2f, in order %.2f, 3 leaves %.2f; beside work %.2f\n", mpi / took[LEVIN], mpi / took[TREE],
           mpi / took[TREE3], both);
    fflush(stdout);
}

static int64_t *leaves(int size, int each)
{
    int64_t *leaf = malloc(sizeof *leaf * (size_t)(size + 1));
    for (int i = 0; leaf && i <= size; i++) leaf[i] = (int64_t)each * i;
    return leaf;
}

int main(int argc, char **argv)
{
    struct lvn_identity me;
    struct lvn_comm_options o = {.timeout = 60};
    double sizes[16] = {0.001, 0.0625, 0.25, 1, 4, 16, 64}, seconds = 2, max = 0;
    int n = 7, given = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--library") && i + 1 < argc)
            o.library = argv[++i];
        else if (!strcmp(argv[i], "--seconds") && i + 1 < argc)
            seconds = strtod(argv[++i], NULL);
        else if (!strcmp(argv[i], "--per-host") && i + 1 < argc)
            o.per_host = (int)strtol(argv[++i], NULL, 10);
        else if (!strcmp(argv[i], "--tcp"))
            o.kind = lvn_comm_kind_by_connection(LVN_CONNECTED_BY_SOCKETS);
        else if (given < 16)
            sizes[given++] = strtod(argv[i], NULL), n = given;
    }
    if (lvn_identity_find(&me) != LVN_OK) return fprintf(stderr, "%s\n", levin_error_text()), 2;
    o.rank = me.rank;
    o.size = me.size;
    o.launcher = me.launcher;
    if (o.size < 2) return fprintf(stderr, "bench_comm: start it by mpirun -n 2 or more\n"), 2;
    const struct lvn_member_options h = {.id = &me, .timeout = 30};
    struct lvn_member *member = NULL;
    if (!o.kind) o.kind = lvn_comm_kind_by_connection(LVN_CONNECTED_BY_LAUNCHER);
    transport = o.kind->transport;
    const bool tcp = o.kind->connection == LVN_CONNECTED_BY_SOCKETS;
    if ((tcp ? lvn_mesh_open(&comm, &member, o, h, 30) : lvn_comm_open(&comm, &o)) != LVN_OK)
        return fprintf(stderr, "%s\n", levin_error_text()), 2;
    for (int i = 0; i < n; i++) max = sizes[i] > max ? sizes[i] : max;
    const size_t bytes = ((size_t)(max * (1 << 20)) / 64 + 64) * 64;
    for (int i = 0; i < 3; i++) x[i] = lvn_malloc_aligned(64, bytes); /* aligned as gradients are */
    for (int i = 0; i < 3 && x[i]; i++) memset(x[i], 0, bytes);
    first = leaves(o.size, 0);
    int64_t *one = leaves(o.size, 1), *three = leaves(o.size, 3);
    if (!x[0] || !x[1] || !x[2] || !first || !one || !three) return 1;
    if (lvn_tree_new(&tree[0], comm, one) != LVN_OK || lvn_tree_new(&tree[1], comm, three) != LVN_OK) return 1;
    if (o.rank == 0) {
        printf("%d ranks, %s\n%14s", o.size, lvn_comm_describe(comm), "");
        for (int w = 0; w < WAYS; w++) printf(" %24s", names[w]);
        printf("  share of MPI's best\n");
    }
    for (int i = 0; i < n; i++) measure(sizes[i], seconds, o.rank, o.size);
    lvn_comm_close(comm);
    lvn_member_close(member);
    return 0;
}
