/* sum_algorithm.h - which algorithm a sum uses, and how much it sends. The engine calls it for every sum, `levin plan`
 * for its estimates. Left out: how the sum is made (exchange.h).
 *
 * LIBRARY: the transport's own reduction. DIRECT: every rank adds one shard of the vector, which all others send to
 * it, and sends the sum back to all; many ranks of one host do that within groups, and then between these.
 * HIERARCHICAL: the same within each host, where a rank's shard is one in `per host`; then between the ranks of all
 * hosts that have the same shard, each of which adds its part; and back. So between hosts every number is sent once
 * each way, not once for each rank of a host. Hosts must have equal numbers of ranks, with consecutive numbers;
 * otherwise all is DIRECT, as if there were one host. */
#ifndef LVN_SUM_ALGORITHM_H
#define LVN_SUM_ALGORITHM_H

#include <stdbool.h>
#include <stdint.h>

enum lvn_sum_algorithm { LVN_ALGORITHM_LIBRARY, LVN_ALGORITHM_DIRECT, LVN_ALGORITHM_HIERARCHICAL };
/* The algorithm of a sum of `bytes` in the plain order. Sums in a fixed order are never LIBRARY. */
enum lvn_sum_algorithm lvn_sum_algorithm(int ranks, int hosts, int64_t bytes);

/* What one rank sends for one sum. An all-reduce has `reduce` and `gather`, a reduce-scatter the first, an
 * all-gather the second. All ranks of a host together send `ranks / hosts` times as much over its network link, and
 * receive as much.
 *
 *     seconds of the link = between.steps * latency + between.bytes * ranks / hosts / bandwidth
 *
 * A step is a message without which nothing can go on; `messages` are sent at the same time in each. Shards are
 * assumed equally long, hosts alike; in the fixed order a host's partial sums are assumed to be one subtree. */
struct lvn_sum_question {
    int ranks, hosts;
    int64_t bytes; /* length of the vector */
    int partials;  /* partial sums (of subtrees) that a rank holds in the fixed order; 0: a plain sum */
    bool reduce, gather;
};
struct lvn_traffic_part {
    int64_t messages, bytes;
    int steps;
};
struct lvn_traffic {
    struct lvn_traffic_part within;  /* to ranks of this host */
    struct lvn_traffic_part between; /* to ranks of other hosts */
};
void lvn_sum_traffic(const struct lvn_sum_question *q, struct lvn_traffic *t);

/* The number of groups that sum within themselves first: the hosts; many ranks of one host are divided into groups,
 * too. */
int lvn_sum_groups(int ranks, int hosts);

#endif
