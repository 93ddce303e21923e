/* comm.h - what the ranks of a run do together: reductions, broadcasts, messages.
 *
 * Every call starts work and returns at once; lvn_comm_wait() waits. The engine's own calls are all made by one thread
 * that opened it (so any level of thread support of an MPI will do): it takes requests from a queue, polls those under
 * way, and sleeps longer and longer between polls while nobody waits. It never blocks in a call, so a dead peer traps
 * nobody: whoever watches the peers (cluster/rendezvous/member.h) ends the process.
 *
 * Collectives must be started in the same order on every rank. `self` is a full engine: one rank is not a special case.
 *
 * Sums in a fixed order: lvn_comm_tree_reduce() adds what the ranks hold of one binary tree over numbered leaves, so
 * the result has the same bits for every number of ranks (docs/design.md, Order of summation). */
#ifndef LVN_COMM_H
#define LVN_COMM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "base/tensor.h"

struct lvn_comm;

struct lvn_comm_options {
    int rank, size;      /* as the launcher said; 0 of 1: the engine is self */
    const char *library; /* trainer.mpi_library; "" or NULL: the launcher's own */
    const char *family;  /* of the launcher, a name of cluster/identity/launcher_envs.def: which libraries fit */
    double timeout;      /* seconds that joining the others may take; 0: for ever */
    int cpu;             /* 1 + the CPU that the engine's thread stays on; 0: where the system puts it */
    int per_host;        /* ranks on each host; 0: all are on one, until lvn_comm_set_hosts() */
    const int *sockets;  /* [size] connections to the other ranks: levin's own transport over these, which are its own
                            from then on; NULL: MPI */
    int64_t cut;         /* bytes of the longest single message; 0: the best (others are for tests) */
};

/* Open the engine. Refuses, with the cure, a library that does not belong to the launcher: one in which every process
 * believes that it is rank 0 of 1. */
enum lvn_status lvn_comm_open(struct lvn_comm **out, const struct lvn_comm_options *o) LVN_CHECKED;
/* Did the MPI crash in this process while it started? Then that is the fault of this rank alone. */
bool lvn_comm_crashed(void);
void lvn_comm_close(struct lvn_comm *c); /* NULL: nothing. All ranks call it; a process that ends in trouble need not */
/* Have the launcher end all processes of the run with this code, also those that no longer answer. Any thread; comes
 * back where that cannot be, or has not happened after so long. */
void lvn_comm_abort(struct lvn_comm *c, int code, double seconds);
int lvn_comm_rank(const struct lvn_comm *c);
int lvn_comm_size(const struct lvn_comm *c);
/* The ranks are on so many hosts, as many on each, side by side, which sums may make use of. All ranks say the same,
 * while nothing is under way and no tree is made. */
enum lvn_status lvn_comm_set_hosts(struct lvn_comm *c, int hosts) LVN_CHECKED;
/* "Open MPI 4.1.4 (/usr/lib/.../libmpi.so.40), as mpirun is Open MPI's", for people. */
const char *lvn_comm_describe(const struct lvn_comm *c);

/* Work under way. The caller owns it, and leaves it and the buffers alone until lvn_comm_wait() returned. All other
 * fields are the communicator's. */
struct lvn_request {
    int done;                 /* written by the engine's thread: ask lvn_request_done() */
    int64_t number;           /* how many collectives were started before it, the same on every rank; -1: a message */
    enum lvn_status status;   /* valid once done */
    struct lvn_request *next; /* of the queue it is in */
    int kind, type, op, peer, tag, busy;
    bool gather;
    void *x;
    void *const *partial;
    const int64_t *first;
    int64_t count, at;
    struct lvn_tree *tree;
    void *handle[2];
    void (*call)(void *state, void *argument);
};

enum lvn_reduce { LVN_SUM, LVN_MIN, LVN_MAX };

/* Element types: F32, F64, I32, I64 and, for LVN_SUM, BF16 (summed in fp32, rounded once
 * on a host, once between hosts, or groups of many ranks). Buffers are host memory.
 * Counts may pass 2^31: the engine cuts. In place throughout. The same call on the same ranks gives the same bits on
 * all of them. */
void lvn_comm_all_reduce(struct lvn_comm *c, struct lvn_request *r, void *x, int64_t count, enum lvn_dtype type,
                         enum lvn_reduce op);
/* Rank i ends with the sum of elements [first[i], first[i + 1]) in their place; the rest of x is undefined then.
 * `first` has size + 1 entries, and stays until the request is done. F32, F64, BF16. */
void lvn_comm_reduce_scatter(struct lvn_comm *c, struct lvn_request *r, void *x, const int64_t *first,
                             enum lvn_dtype type);
/* Rank i holds elements [first[i], first[i + 1]) at the start; all hold all in the end. Any type. */
void lvn_comm_all_gather(struct lvn_comm *c, struct lvn_request *r, void *x, const int64_t *first, enum lvn_dtype type);
void lvn_comm_broadcast(struct lvn_comm *c, struct lvn_request *r, void *x, int64_t bytes, int root);
/* To and from other ranks than this one. Tags are 0..16383. Messages between the same two ranks with the same tag
 * arrive in the order in which they were started; the receiver names the same number of bytes as the sender. */
void lvn_comm_send(struct lvn_comm *c, struct lvn_request *r, const void *x, int64_t bytes, int to, int tag);
void lvn_comm_receive(struct lvn_comm *c, struct lvn_request *r, void *x, int64_t bytes, int from, int tag);
/* Whether it is done, without waiting. */
bool lvn_request_done(const struct lvn_request *r);
/* Wait until it is done. Fails with COMM when the engine reported an error. Any thread may wait. */
enum lvn_status lvn_comm_wait(struct lvn_comm *c, struct lvn_request *r) LVN_CHECKED;
/* Wait so long at most; false: it is not done, and the request and its buffers stay the engine's. */
bool lvn_comm_wait_for(struct lvn_comm *c, struct lvn_request *r, double seconds);

/* One after the other, for small things between steps. */
enum lvn_status lvn_comm_all_reduce_now(struct lvn_comm *c, void *x, int64_t count, enum lvn_dtype type,
                                        enum lvn_reduce op) LVN_CHECKED;
enum lvn_status lvn_comm_broadcast_now(struct lvn_comm *c, void *x, int64_t bytes, int root) LVN_CHECKED;

/* --- ways of sums ---
 * LIBRARY: the transport's own reduction. DIRECT: every rank adds a shard of the vector, which all others send it, and
 * sends the sum back to all; many ranks of one host do so within groups, and then between these. HOSTS: the same within
 * each host, where a rank's shard is one in `per host`; then between those of all hosts that have the same shard, each
 * of which adds its part; and back. So between hosts every number goes once each way, and not once for each rank of a
 * host. Hosts must have as many ranks as each other, side by side; else all is DIRECT, as if there were one host. */
enum lvn_sum_algorithm { LVN_ALGORITHM_LIBRARY, LVN_ALGORITHM_DIRECT, LVN_ALGORITHM_HIERARCHICAL };
/* Of a sum of `bytes` in the plain order. Sums in a fixed order are never LIBRARY. */
enum lvn_sum_algorithm lvn_sum_algorithm(int ranks, int hosts, int64_t bytes);

/* What one rank sends for one sum: an all-reduce has `reduce` and `gather`, a reduce-scatter the first, an all-gather
 * the second. All ranks of a host together send `ranks / hosts` times as much over its link, and receive that.
 *     seconds of the link = between.rounds * latency + between.bytes * ranks / hosts / bandwidth
 * where a round is a message for which nothing can go on before it has arrived: `messages` are sent at once in each.
 * Shards are taken as equally long, hosts as alike; in the fixed order a host's partial sums as one subtree. */
struct lvn_sum_question {
    int ranks, hosts;
    int64_t bytes; /* of the vector */
    int partials;  /* sums of subtrees that a rank holds in the fixed order; 0: a plain sum */
    bool reduce, gather;
};
struct lvn_traffic_part {
    int64_t messages, bytes;
    int rounds;
};
struct lvn_traffic {
    struct lvn_traffic_part within, between; /* to ranks of this host; to those of others */
};
void lvn_sum_traffic(const struct lvn_sum_question *q, struct lvn_traffic *t);

/* --- sums in a fixed order ---
 * Leaves 0..n-1 (micro-batches of the global batch) are added in one binary tree: the node over [lo, hi) is the sum of
 * [lo, lo + h) and [lo + h, hi), h the largest power of two below hi - lo. Rank i holds leaves [leaf[i], leaf[i + 1])
 * as the sums of the largest whole subtrees in them, from left to right; it may hold none. */
struct lvn_subtree {
    int64_t first, end; /* leaves [first, end) */
};
enum { LVN_MAX_SUBTREES = 128 };
/* The largest whole subtrees of the tree over n leaves that make up [lo, hi); returns how many. */
int lvn_subtrees(int64_t n, int64_t lo, int64_t hi, struct lvn_subtree out[LVN_MAX_SUBTREES]);

/* Who holds which leaves, and the memory that adding them takes (at most some MiB). Make one for each
 * split of the batch, before training; any number of requests may use it. `leaf` has size + 1 entries, is copied. */
struct lvn_tree;
enum lvn_status lvn_tree_new(struct lvn_tree **out, const struct lvn_comm *c, const int64_t *leaf) LVN_CHECKED;
void lvn_tree_free(struct lvn_tree *t);
/* leaf NULL: of the communicator's own, for plain sums. */
int64_t lvn_tree_bytes(int size, int rank, const int64_t *leaf);
/* partial[k] (count = first[size] elements each) is the sum of this rank's k-th subtree, k < lvn_subtrees(...). Rank i
 * ends with elements [first[i], first[i + 1]) of the total in their place in `out`; with `gather` every rank ends with
 * all of it. `out` may be one of the partials, and need not; the partials are undefined afterwards, as are the other
 * elements of `out` without `gather`. F32, F64, BF16 (every node of the tree is rounded, as the partials must be).
 * Arrays stay until the request is done. */
void lvn_comm_tree_reduce(struct lvn_comm *c, struct lvn_request *r, struct lvn_tree *t, void *const *partial,
                          void *out, const int64_t *first, enum lvn_dtype type, bool gather);

#endif
