/* comm_ranks.c - every call of src/ranks/comm between real ranks; started by an MPI's launcher (comm_*.sh).
 *
 *     comm_ranks [--library PATH] [--cut BYTES] [--per-host N] [--tcp] [--huge] [--quiet]
 *
 * Each rank knows what every other one puts in, so each checks all that it gets, sums of trees bit for bit. Ends with 1
 * when anything was wrong. --cut makes messages short, so that small vectors are cut as those beyond 2^31 are; --huge
 * moves more than 2^31 bytes; --per-host says that so many ranks, side by side, are each a host; --tcp joins them by
 * connections of levin's own. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "cluster/rendezvous/mesh.h"
#include "comm/comm.h"
#include "comm/tree.h"

static struct lvn_comm *comm;
static int rank, size, failures;

static void check(bool good, const char *what, int64_t a, int64_t b)
{
    if (good) return;
    failures++;
    if (failures < 20)
        fprintf(stderr, "rank %d of %d: wrong: %s (%lld, %lld)\n", rank, size, what, (long long)a, (long long)b);
}

static void expect(enum lvn_status status, const char *what)
{
    if (status != LVN_OK) fprintf(stderr, "rank %d: %s\n", rank, levin_error_text());
    check(status == LVN_OK, what, status, 0);
}

static void wait_for(struct lvn_request *r, const char *what)
{
    expect(lvn_comm_wait(comm, r), what);
}

static void *allocate(int64_t bytes)
{
    void *p = malloc((size_t)bytes + 64);
    if (!p) exit(3);
    return p;
}

/* Small whole numbers, so that sums are exact in any order. */
static double value(int who, int64_t i)
{
    return (double)((who + 1) * (1 + i % 3) + i % 5);
}

static void put(void *x, int64_t i, enum lvn_dtype type, double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (type == LVN_F32) ((float *)x)[i] = f;
    if (type == LVN_F64) ((double *)x)[i] = v;
    if (type == LVN_I32) ((int32_t *)x)[i] = (int32_t)v;
    if (type == LVN_I64) ((int64_t *)x)[i] = (int64_t)v;
    if (type == LVN_BF16) ((uint16_t *)x)[i] = (uint16_t)(bits >> 16);
}

static double get(const void *x, int64_t i, enum lvn_dtype type)
{
    uint32_t bits = type == LVN_BF16 ? (uint32_t)((const uint16_t *)x)[i] << 16 : 0;
    float f;
    memcpy(&f, &bits, sizeof f);
    return type == LVN_F32   ? (double)((const float *)x)[i]
           : type == LVN_F64 ? ((const double *)x)[i]
           : type == LVN_I32 ? (double)((const int32_t *)x)[i]
           : type == LVN_I64 ? (double)((const int64_t *)x)[i]
                             : (double)f;
}

static double total(int64_t i, enum lvn_reduce op)
{
    double sum = 0;
    for (int r = 0; r < size; r++) sum += value(r, i);
    return op == LVN_SUM ? sum : op == LVN_MIN ? value(0, i) : value(size - 1, i);
}

/* What bf16 makes of it: 8 bits of mantissa, to nearest even. */
static double rounded(double v, enum lvn_dtype type)
{
    if (type != LVN_BF16 || v == 0) return v;
    int e;
    (void)frexp(v, &e);
    return ldexp(nearbyint(ldexp(v, 8 - e)), e - 8);
}

static void test_all_reduce(void)
{
    const enum lvn_dtype types[] = {LVN_F32, LVN_F64, LVN_I32, LVN_I64, LVN_BF16};
    const int64_t counts[] = {0, 1, 3, 17, 1000, 16383, 16384, 16385, 100003, 3000001};
    char *x = allocate(8 * 3000001);
    for (int t = 0; t < 5; t++)
        for (int op = 0; op < (t == 4 ? 1 : 3); op++)
            for (int n = 0; n < 10; n++) {
                if (counts[n] > 1000000 && (op || t > 1)) continue;
                int64_t bytes = counts[n] * lvn_dtype_bytes(types[t]);
                for (int64_t i = 0; i < counts[n]; i++) put(x, i, types[t], value(rank, i));
                memset(x + bytes, 77, 8);
                expect(lvn_comm_all_reduce_now(comm, x, counts[n], types[t], (enum lvn_reduce)op), "all_reduce");
                for (int64_t i = 0; i < counts[n]; i++)
                    check(get(x, i, types[t]) == rounded(total(i, (enum lvn_reduce)op), types[t]), "all_reduce",
                          counts[n], i);
                for (int k = 0; k < 8; k++) check(x[bytes + k] == 77, "all_reduce wrote beyond its end", counts[n], k);
            }
    free(x);
}

/* Shards of odd sizes, some empty. */
static int64_t odd_shards(int64_t count, int64_t *first)
{
    first[0] = 0;
    for (int r = 0; r < size; r++)
        first[r + 1] = r == size - 1 ? count
                       : r % 3 == 1  ? first[r]
                                     : count * (r + 1) * (r + 1) / ((int64_t)size * size);
    return count;
}

static void test_shards(void)
{
    const enum lvn_dtype types[] = {LVN_F32, LVN_F64, LVN_BF16};
    const int64_t counts[] = {0, 1, 5, 100, 70001, 1000003};
    int64_t *first = allocate((size + 1) * 8);
    char *x = allocate(8 * 1000003);
    for (int t = 0; t < 3; t++)
        for (int n = 0; n < 6; n++) {
            int64_t count = odd_shards(counts[n], first);
            for (int64_t i = 0; i < count; i++) put(x, i, types[t], value(rank, i));
            struct lvn_request r;
            lvn_comm_reduce_scatter(comm, &r, x, first, types[t]);
            wait_for(&r, "reduce_scatter");
            for (int64_t i = first[rank]; i < first[rank + 1]; i++)
                check(get(x, i, types[t]) == rounded(total(i, LVN_SUM), types[t]), "reduce_scatter", count, i);
            lvn_comm_all_gather(comm, &r, x, first, types[t]);
            wait_for(&r, "all_gather");
            for (int64_t i = 0; i < count; i++)
                check(get(x, i, types[t]) == rounded(total(i, LVN_SUM), types[t]), "all_gather", count, i);
        }
    free(first);
    free(x);
}

static void test_broadcast(void)
{
    const int64_t counts[] = {0, 1, 7, 4095, 65537, 1000001};
    unsigned char *x = allocate(1000001);
    for (int root = 0; root < size; root++)
        for (int n = 0; n < 6; n++) {
            for (int64_t i = 0; i < counts[n]; i++) x[i] = rank == root ? (unsigned char)(i * 7 + root) : 0;
            expect(lvn_comm_broadcast_now(comm, x, counts[n], root), "broadcast");
            for (int64_t i = 0; i < counts[n]; i++) check(x[i] == (unsigned char)(i * 7 + root), "broadcast", root, i);
        }
    free(x);
}

static void test_messages(void)
{
    enum { MESSAGES = 12 };
    struct lvn_request out[MESSAGES], in[MESSAGES];
    unsigned char *to[MESSAGES], *from[MESSAGES];
    int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int m = 0; m < MESSAGES; m++) {
        int64_t bytes = m == 0 ? 0 : (int64_t)1 << 2 * m | (m & 1);
        to[m] = allocate(bytes);
        from[m] = allocate(bytes);
        memset(to[m], rank + m, (size_t)bytes);
        memset(from[m], 0xee, (size_t)bytes + 8);
        lvn_comm_send(comm, &out[m], to[m], bytes, next, m / 2); /* two of each tag: their order counts */
    }
    for (int m = 0; m < MESSAGES; m++) {
        int64_t bytes = m == 0 ? 0 : (int64_t)1 << 2 * m | (m & 1);
        lvn_comm_receive(comm, &in[m], from[m], bytes, before, m / 2);
    }
    for (int m = MESSAGES; m-- > 0;) { /* the last first */
        int64_t bytes = m == 0 ? 0 : (int64_t)1 << 2 * m | (m & 1);
        wait_for(&in[m], "receive");
        for (int64_t i = 0; i < bytes; i++) check(from[m][i] == (unsigned char)(before + m), "message", m, i);
        check(from[m][bytes] == 0xee, "message wrote beyond its end", m, bytes);
        wait_for(&out[m], "send");
        free(to[m]);
        free(from[m]);
    }
}

/* Many at once, waited for in another order on every rank, messages in between. */
static void test_order(void)
{
    enum { MANY = 40 };
    static struct lvn_request r[MANY], to, from;
    static float x[MANY][40000];
    int64_t token = rank, got = -1;
    for (int k = 0; k < MANY; k++) {
        int64_t count = k % 4 ? 100 + k : 40000 - k;
        for (int64_t i = 0; i < count; i++) x[k][i] = (float)value(rank, i + k);
        if (k % 5 == 4)
            lvn_comm_broadcast(comm, &r[k], x[k], count * 4, k % size);
        else
            lvn_comm_all_reduce(comm, &r[k], x[k], count, LVN_F32, LVN_SUM);
        if (k == 20) lvn_comm_receive(comm, &from, &got, sizeof got, (rank + 1) % size, 3);
        if (k == 30) lvn_comm_send(comm, &to, &token, sizeof token, (rank + size - 1) % size, 3);
    }
    for (int n = 0; n < MANY; n++) {
        int k = rank % 2 ? MANY - 1 - n : (n * 7 + rank) % MANY;
        int64_t count = k % 4 ? 100 + k : 40000 - k;
        wait_for(&r[k], "many at once");
        wait_for(&r[k], "waiting again");
        for (int64_t i = 0; i < count; i++) {
            double want = k % 5 == 4 ? value(k % size, i + k) : total(i + k, LVN_SUM);
            check((double)x[k][i] == want, "many at once", k, i);
        }
    }
    wait_for(&to, "send");
    wait_for(&from, "receive");
    check(got == (rank + 1) % size, "message among collectives", got, 0);
}

/* --- trees --- */

static double leaf_value(int64_t leaf, int64_t i)
{
    uint64_t h = ((uint64_t)leaf * 1000003 + (uint64_t)i) * 0x9e3779b97f4a7c15U;
    h ^= h >> 29;
    return ldexp((double)(h % 2000003) - 1000001.0, (int)(h >> 40 & 15) - 20);
}

/* As the definition says. */
static double tree_sum(int64_t lo, int64_t hi, int64_t i, enum lvn_dtype type)
{
    if (hi - lo == 1) return type == LVN_F32 ? (double)(float)leaf_value(lo, i) : leaf_value(lo, i);
    int64_t half = 1;
    while (2 * half < hi - lo) half *= 2;
    double a = tree_sum(lo, lo + half, i, type), b = tree_sum(lo + half, hi, i, type);
    return type == LVN_F32 ? (double)((float)a + (float)b) : a + b;
}

/* Division of leaves among ranks: even; all on the last; odd; some ranks without leaves. */
static void lay_leaves(int64_t n, int how, int64_t *leaf)
{
    leaf[0] = 0;
    for (int r = 0; r < size; r++) {
        int64_t even = n * (r + 1) / size;
        leaf[r + 1] = r == size - 1 ? n
                      : how == 0    ? even
                      : how == 1    ? 0
                      : how == 2    ? (even > 1 ? even - 1 : 0)
                      : r % 2       ? leaf[r]
                                    : even;
    }
}

static void one_tree(int64_t n, int how, int64_t count, enum lvn_dtype type, bool gather, bool own_out)
{
    struct lvn_subtree some[LVN_MAX_SUBTREES];
    int64_t *leaf = allocate((size + 1) * 8), *first = allocate((size + 1) * 8);
    lay_leaves(n, how, leaf);
    odd_shards(count, first);
    int mine = lvn_subtrees(n, leaf[rank], leaf[rank + 1], some);
    void *partial[LVN_MAX_SUBTREES] = {0};
    for (int k = 0; k < mine; k++) {
        partial[k] = allocate(count * 8);
        for (int64_t i = 0; i < count; i++) put(partial[k], i, type, tree_sum(some[k].first, some[k].end, i, type));
    }
    void *out = mine && !own_out ? partial[mine > 2] : allocate(count * 8);
    struct lvn_tree *t;
    struct lvn_request r;
    expect(lvn_tree_new(&t, comm, leaf), "tree_new");
    lvn_comm_tree_reduce(comm, &r, t, partial, out, first, type, gather);
    wait_for(&r, "tree_reduce");
    for (int64_t i = gather ? 0 : first[rank]; i < (gather ? count : first[rank + 1]); i++)
        check(get(out, i, type) == tree_sum(0, n, i, type), "bits of tree_reduce", n * 10 + how, i);
    lvn_tree_free(t);
    if (!mine || own_out) free(out);
    for (int k = 0; k < mine; k++) free(partial[k]);
    free(first);
    free(leaf);
}

static void test_trees(void)
{
    const int64_t leaves[] = {1, 2, 3, 5, 7, 8, 13, 64};
    for (int n = 0; n < 8; n++)
        for (int how = 0; how < 4; how++)
            for (int kind = 0; kind < 4; kind++)
                one_tree(leaves[n], how, kind == 3 ? 5 : 3001, kind == 2 ? LVN_F64 : LVN_F32, kind != 1, kind == 0);
    one_tree(5, 0, 700001, LVN_F32, true, false);
    one_tree(13, 2, 300001, LVN_F64, false, false);
}

static void test_huge(void)
{
    int64_t bytes = ((int64_t)1 << 31) + 4099;
    unsigned char *x = allocate(bytes);
    struct lvn_request r;
    memset(x, rank == 0 ? 5 : 0, (size_t)bytes);
    expect(lvn_comm_broadcast_now(comm, x, bytes, 0), "huge broadcast");
    for (int64_t i = 0; i < bytes; i += 4097) check(x[i] == 5, "huge broadcast", i, x[i]);
    check(x[bytes - 1] == 5, "huge broadcast", bytes, 0);
    memset(x, rank == 1 ? 9 : 0, (size_t)bytes);
    if (rank == 1) lvn_comm_send(comm, &r, x, bytes, 0, 1);
    if (rank == 0) lvn_comm_receive(comm, &r, x, bytes, 1, 1);
    if (rank < 2) wait_for(&r, "huge message");
    for (int64_t i = 0; i < bytes && !rank; i += 4097) check(x[i] == 9, "huge message", i, x[i]);
    check(rank || x[bytes - 1] == 9, "huge message", bytes, 0);
    free(x);
}

static void test_all(void)
{
    test_all_reduce();
    test_shards();
    test_broadcast();
    if (size > 1) test_messages();
    if (size > 1) test_order();
    test_trees();
}

/* The same in groups, of which two work at the same time, with their ranks counted backwards; the last of three ranks
 * or more is in none. */
static void test_groups(void)
{
    struct lvn_comm *whole = comm, *group;
    const int mine = rank, ranks = size;
    expect(lvn_comm_split(whole, &group, size > 2 && rank == size - 1 ? -1 : rank % 2, -rank), "split");
    if (group) {
        comm = group;
        rank = lvn_comm_rank(group);
        size = lvn_comm_size(group);
        check(size == (ranks > 2 ? (ranks - mine % 2) / 2 : 1), "size of a group", size, mine);
        check(rank == size - 1 - mine / 2, "number in a group", rank, mine);
        test_all();
        lvn_comm_close(group);
    }
    comm = whole;
    rank = mine;
    size = ranks;
}

int main(int argc, char **argv)
{
    struct lvn_member *member = NULL;
    struct lvn_identity me;
    struct lvn_comm_options o = {.timeout = 60};
    bool huge = false, quiet = false, tcp = false;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--library") && i + 1 < argc) o.library = argv[++i];
        if (!strcmp(argv[i], "--cut") && i + 1 < argc) o.max_message_bytes = strtol(argv[++i], NULL, 10);
        if (!strcmp(argv[i], "--per-host") && i + 1 < argc) o.per_host = (int)strtol(argv[++i], NULL, 10);
        if (!strcmp(argv[i], "--huge")) huge = true;
        if (!strcmp(argv[i], "--tcp")) tcp = true;
        if (!strcmp(argv[i], "--quiet")) quiet = true;
    }
    if (lvn_identity_find(&me) != LVN_OK) return fprintf(stderr, "%s\n", levin_error_text()), 2;
    o.rank = rank = me.rank;
    o.size = size = me.size;
    o.launcher = me.launcher;
    const struct lvn_member_options h = {.id = &me, .timeout = 30};
    if ((tcp ? lvn_mesh_open(&comm, &member, o, h, 30) : lvn_comm_open(&comm, &o)) != LVN_OK)
        return fprintf(stderr, "rank %d: %s\n", rank, levin_error_text()), 2;
    if (rank == 0 && !quiet) printf("%d ranks: %s\n", size, lvn_comm_describe(comm));
    if (huge) {
        test_huge();
    } else {
        test_all();
        test_groups();
        test_broadcast();
    }
    int32_t all = failures;
    expect(lvn_comm_all_reduce_now(comm, &all, 1, LVN_I32, LVN_SUM), "the last count");
    lvn_comm_close(comm);
    lvn_member_close(member);
    if (rank == 0) printf("%s\n", all ? "wrong" : "all as it should be");
    return failures != 0;
}
