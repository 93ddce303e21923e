/* tree.h - sums in a fixed order: the binary tree in which numbered leaves are added. Reductions of gradients
 * (engine/collective_runner.c) create one for each division of the batch, and each engine has one;
 * lvn_comm_tree_reduce() of comm.h adds in its order. Messages are the subject of exchange.h.
 *
 * Leaves 0..n-1 (micro-batches of the global batch) are added in one binary tree: the node over [lo, hi) is the sum of
 * [lo, lo + h) and [lo + h, hi), h the largest power of two below hi - lo. Rank i has leaves [leaf[i], leaf[i + 1])
 * as the sums of the largest whole subtrees in them, from left to right; it may have none. */
#ifndef LVN_TREE_H
#define LVN_TREE_H

#include "base/status.h"

struct lvn_comm;

struct lvn_subtree {
    int64_t first, end; /* leaves [first, end) */
};
enum { LVN_MAX_SUBTREES = 128 };
/* The largest whole subtrees of the tree over n leaves that make up [lo, hi); returns their number. */
int lvn_subtrees(int64_t n, int64_t lo, int64_t hi, struct lvn_subtree out[LVN_MAX_SUBTREES]);
/* The largest power of two below n: where the tree over n leaves splits. */
int64_t lvn_tree_split(int64_t n);

/* --- tree_plan.c --- */

/* The leaves of each rank, and the buffers for adding them (at most a few MiB). Create one for each division of
 * the batch, before training; any number of requests may use it. `leaf` has size + 1 entries, and is copied. */
struct lvn_tree;
enum lvn_status lvn_tree_new(struct lvn_tree **out, const struct lvn_comm *comm, const int64_t *leaf) LVN_CHECKED;
void lvn_tree_free(struct lvn_tree *tree);
/* Bytes of memory of a tree. leaf NULL: of the tree for plain sums that each communicator has. */
int64_t lvn_tree_bytes(int size, int rank, const int64_t *leaf);
/* lvn_tree_new() without a communicator. leaf NULL: one leaf per rank, for plain sums. */
enum lvn_status lvn_tree_new_for(struct lvn_tree **out, int size, int rank, int hosts, const int64_t *leaf) LVN_CHECKED;
/* Bytes of a segment, the part of a shard that is sent in one message, for this total number of partial sums of all
 * ranks. The same on all ranks. */
int64_t lvn_segment_bytes(int n_sources);

#endif
