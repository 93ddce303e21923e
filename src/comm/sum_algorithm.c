/* sum_algorithm.c - which algorithm a sum uses, and how much it sends; see sum_algorithm.h.
 *
 * The choice depends only on what all ranks know: number of ranks and hosts, and length of the vector. Source of the
 * library's numbers: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
 * 2005: recursive halving, then doubling. */
#include "comm/sum_algorithm.h"

#include "comm/tree.h"

/* Bytes of a shard. Below, latency dominates, and a library that combines messages needs fewer of them; the more so,
 * the more ranks exchange with each other. */
enum { MIN_SHARD = 16 << 10, FEW = 8 };

enum lvn_sum_algorithm lvn_sum_algorithm(int ranks, int hosts, int64_t bytes)
{
    const int64_t partners = ranks / hosts - 1 + hosts - 1;
    if (bytes / ranks < MIN_SHARD * (1 + partners / FEW)) return LVN_ALGORITHM_LIBRARY;
    return hosts > 1 && hosts < ranks ? LVN_ALGORITHM_HIERARCHICAL : LVN_ALGORITHM_DIRECT;
}

/* For one host this was measured: 32 ranks then send 20 messages in place of 62, with the same bytes in all. */
int lvn_sum_groups(int ranks, int hosts)
{
    enum { MANY = 16 };
    int groups = 1;
    if (hosts > 1 || ranks < MANY) return hosts;
    while (4 * groups * groups <= ranks && ranks % (2 * groups) == 0) groups *= 2;
    return groups;
}

static int64_t divide(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

/* Recursive doubling: distances below `per_host` stay within a host. */
static void count_library(const struct lvn_sum_question *q, struct lvn_traffic *t)
{
    const int passes = q->reduce + q->gather, per_host = q->ranks / q->hosts;
    for (int distance = 1; distance < q->ranks; distance *= 2) {
        const int64_t bytes = passes * q->bytes * distance / q->ranks;
        struct lvn_traffic_part *p = distance < per_host ? &t->within : &t->between;
        p->messages += passes;
        p->bytes += bytes;
        p->steps += passes;
    }
}

void lvn_sum_traffic(const struct lvn_sum_question *q, struct lvn_traffic *t)
{
    const int partials = q->partials ? q->partials : 1;
    *t = (struct lvn_traffic){0};
    if (q->ranks == 1) return;
    if (!q->partials && lvn_sum_algorithm(q->ranks, q->hosts, q->bytes) == LVN_ALGORITHM_LIBRARY)
        return count_library(q, t);
    const int64_t groups = lvn_sum_groups(q->ranks, q->hosts), each = q->ranks / groups,
                  parts = q->reduce && q->gather ? 1 : groups, /* else a partition is no single range */
        shard = divide(q->bytes, q->ranks), segments = divide(shard, lvn_segment_bytes(q->ranks * partials)),
                  passes = (q->reduce ? partials : 0) + q->gather, steps = q->reduce + q->gather;
    struct lvn_traffic_part *far = q->hosts > 1 ? &t->between : &t->within;
    if (each > 1)
        t->within = (struct lvn_traffic_part){.messages = passes * segments * parts * (each - 1),
                                              .bytes = passes * shard * groups * (each - 1),
                                              .steps = (int)steps};
    if (groups == 1) return;
    far->messages += steps * segments * (groups - 1);
    far->bytes += steps * shard * (groups - 1);
    far->steps += (int)steps;
}
