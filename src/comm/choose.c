/* choose.c - which way a sum goes, and what it sends on that way. See comm.h.
 *
 * The way depends on what all ranks know alike: how many they are, on how many hosts, how long the vector is. Source of
 * the library's numbers: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
 * 2005: recursive halving, then doubling. */
#include "comm/engine.h"

/* Of a shard: below, messages cost their latency, and a library that combines what goes to many needs fewer of them:
 * all the more, the more ranks there are to exchange with. */
enum { MIN_SHARD = 16 << 10, FEW = 8 };

enum lvn_sum_algorithm lvn_sum_algorithm(int ranks, int hosts, int64_t bytes)
{
    const int64_t partners = ranks / hosts - 1 + hosts - 1;
    if (bytes / ranks < MIN_SHARD * (1 + partners / FEW)) return LVN_ALGORITHM_LIBRARY;
    return hosts > 1 && hosts < ranks ? LVN_ALGORITHM_HIERARCHICAL : LVN_ALGORITHM_DIRECT;
}

/* On one host that is measured, too: messages of 32 ranks are then 20 in place of 62, of the same bytes in all. */
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

/* Doubling distances: those below `per_host` stay within a host. */
static void count_library(const struct lvn_sum_question *q, struct lvn_traffic *t)
{
    const int ways = q->reduce + q->gather, per_host = q->ranks / q->hosts;
    for (int distance = 1; distance < q->ranks; distance *= 2) {
        const int64_t bytes = ways * q->bytes * distance / q->ranks;
        struct lvn_traffic_part *p = distance < per_host ? &t->within : &t->between;
        p->messages += ways;
        p->bytes += bytes;
        p->rounds += ways;
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
                  shard = divide(q->bytes, q->ranks), pieces = divide(shard, lvn_piece_bytes(q->ranks * partials)),
                  ways = (q->reduce ? partials : 0) + q->gather, rounds = q->reduce + q->gather;
    struct lvn_traffic_part *far = q->hosts > 1 ? &t->between : &t->within;
    if (each > 1)
        t->within = (struct lvn_traffic_part){
            .messages = ways * pieces * (each - 1), .bytes = ways * shard * groups * (each - 1), .rounds = (int)rounds};
    if (groups == 1) return;
    far->messages += rounds * pieces * (groups - 1);
    far->bytes += rounds * shard * (groups - 1);
    far->rounds += (int)rounds;
}
