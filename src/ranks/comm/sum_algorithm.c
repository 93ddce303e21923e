/* sum_algorithm.c - chooses the algorithm of a sum, and estimates its traffic; see sum_algorithm.h.
 *
 * The choice depends only on values that all ranks know: number of ranks and hosts, and length of the vector. Source of
 * the library's traffic: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
 * 2005: recursive halving, then doubling. */
#include "comm/sum_algorithm.h"

#include "comm/tree.h"

/* Minimum bytes of a shard. Below it latency dominates, and the library's algorithm needs fewer messages. The limit
 * grows with the number of partners. */
enum { MIN_SHARD = 16 << 10, FEW = 8 };

enum lvn_sum_algorithm lvn_sum_algorithm(int ranks, int hosts, int64_t bytes)
{
    const int64_t partners = ranks / hosts - 1 + hosts - 1;
    if (bytes / ranks < MIN_SHARD * (1 + partners / FEW)) return LVN_ALGORITHM_LIBRARY;
    return hosts > 1 && hosts < ranks ? LVN_ALGORITHM_HIERARCHICAL : LVN_ALGORITHM_DIRECT;
}

/* Measured on one host: with groups, 32 ranks send 20 messages each instead of 62, with the same total bytes. */
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
static void count_library(const struct lvn_sum_question *question, struct lvn_traffic *traffic)
{
    const int passes = question->reduce + question->gather, per_host = question->ranks / question->hosts;
    for (int distance = 1; distance < question->ranks; distance *= 2) {
        const int64_t bytes = passes * question->bytes * distance / question->ranks;
        struct lvn_traffic_part *p = distance < per_host ? &traffic->within : &traffic->between;
        p->messages += passes;
        p->bytes += bytes;
        p->steps += passes;
    }
}

void lvn_sum_traffic(const struct lvn_sum_question *question, struct lvn_traffic *traffic)
{
    const int partials = question->partials ? question->partials : 1;
    *traffic = (struct lvn_traffic){0};
    if (question->ranks == 1) return;
    if (!question->partials &&
        lvn_sum_algorithm(question->ranks, question->hosts, question->bytes) == LVN_ALGORITHM_LIBRARY)
        return count_library(question, traffic);
    const int64_t groups = lvn_sum_groups(question->ranks, question->hosts), each = question->ranks / groups,
                  parts = question->reduce && question->gather ? 1 : groups, /* else a partition is no single range */
        shard = divide(question->bytes, question->ranks),
                  segments = divide(shard, lvn_segment_bytes(question->ranks * partials)),
                  passes = (question->reduce ? partials : 0) + question->gather,
                  steps = question->reduce + question->gather;
    struct lvn_traffic_part *far = question->hosts > 1 ? &traffic->between : &traffic->within;
    if (each > 1)
        traffic->within = (struct lvn_traffic_part){.messages = passes * segments * parts * (each - 1),
                                                    .bytes = passes * shard * groups * (each - 1),
                                                    .steps = (int)steps};
    if (groups == 1) return;
    far->messages += steps * segments * (groups - 1);
    far->bytes += steps * shard * (groups - 1);
    far->steps += (int)steps;
}
