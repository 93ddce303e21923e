/* choose.c - which way a sum goes, and what it sends on that way. See comm.h.
 *
 * The way depends on what all ranks know alike: how many they are, on how many hosts, how long the vector is. Source of
 * the library's numbers: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
 * 2005: recursive halving, then doubling. */
#include "comm/engine.h"

/* Of a shard: below, messages cost their latency, and a library that combines what goes to many needs fewer of them:
 * all the more, the more ranks there are to exchange with. */
enum { LEAST_SHARD = 16 << 10, FEW = 8 };

enum lvn_sum_way lvn_sum_way(int ranks, int hosts, int64_t bytes)
{
    const int64_t partners = ranks / hosts - 1 + hosts - 1;
    if (bytes / ranks < LEAST_SHARD * (1 + partners / FEW)) return LVN_WAY_LIBRARY;
    return hosts > 1 && hosts < ranks ? LVN_WAY_HOSTS : LVN_WAY_DIRECT;
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
    if (!q->partials && lvn_sum_way(q->ranks, q->hosts, q->bytes) == LVN_WAY_LIBRARY) return count_library(q, t);
    const int64_t per_host = q->ranks / q->hosts, shard = divide(q->bytes, q->ranks),
                  pieces = divide(shard, lvn_piece_bytes(q->ranks * partials)),
                  ways = (q->reduce ? partials : 0) + q->gather, rounds = q->reduce + q->gather;
    if (per_host > 1)
        t->within = (struct lvn_traffic_part){.messages = ways * pieces * (per_host - 1),
                                              .bytes = ways * shard * q->hosts * (per_host - 1),
                                              .rounds = (int)rounds};
    if (q->hosts > 1)
        t->between = (struct lvn_traffic_part){.messages = rounds * pieces * (q->hosts - 1),
                                               .bytes = rounds * shard * (q->hosts - 1),
                                               .rounds = (int)rounds};
}
