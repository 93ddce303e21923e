/* sum_algorithm.h - chooses the algorithm of a sum, and estimates its traffic. The engine calls it for every sum,
 * `levin plan` for its estimates. exchange.h has the algorithms.
 *
 * LIBRARY: the transport's own reduction. DIRECT: every rank adds one shard of the vector, which all others send to
 * it, and sends the sum back to all; many ranks of one host do that within groups, and then between these.
 * HIERARCHICAL: the same within each host, where a rank's shard is 1 / ranks per host of the vector; then between the
 * ranks of all hosts that have the same shard, each of which adds its part; and back. So between hosts each element is
 * sent once in each direction, instead of once per rank of a host. This requires the same number of ranks on each host,
 * with consecutive ranks; otherwise DIRECT is used, as if there were one host. */
#ifndef LVN_SUM_ALGORITHM_H
#define LVN_SUM_ALGORITHM_H

#include <stdbool.h>
#include <stdint.h>

enum lvn_sum_algorithm { LVN_ALGORITHM_LIBRARY, LVN_ALGORITHM_DIRECT, LVN_ALGORITHM_HIERARCHICAL };
/* The algorithm of a plain sum of `bytes`. Sums in a fixed order never use LIBRARY. */
enum lvn_sum_algorithm lvn_sum_algorithm(int ranks, int hosts, int64_t bytes);

/* The traffic that one rank sends for one sum. An all-reduce has `reduce` and `gather`, a reduce-scatter only the
 * first, an all-gather only the second. All ranks of a host together send `ranks / hosts` times that over its network
 * link, and receive the same amount.
 *
 *     seconds of the link = between.steps * latency + between.bytes * ranks / hosts / bandwidth
 *
 * A step is a message on which later messages depend; the `messages` of a step are sent concurrently. Shards are
 * assumed to have equal lengths, and hosts to be identical; in the fixed order a host's partial sums are assumed to be
 * one subtree. */
struct lvn_sum_question {
    int ranks, hosts;
    int64_t bytes; /* length of the vector */
    int partials;  /* in the fixed order: number of partial sums (subtrees) of a rank; 0: a plain sum */
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
void lvn_sum_traffic(const struct lvn_sum_question *question, struct lvn_traffic *traffic);

/* The number of groups that first sum internally: the hosts, or parts of one host with many ranks. */
int lvn_sum_groups(int ranks, int hosts);

#endif
