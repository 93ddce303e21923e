/* tree.c - the binary tree in which numbered leaves are added, and which of its subtrees make up a range of leaves.
 *
 * The tree over n leaves splits at the largest power of two below n, recursively. A range of leaves is the union of
 * whole subtrees in one shortest way: starting from the root, a node inside the range is used whole, and a node across
 * its border is split. That gives at most two subtrees per level. */
#include "comm/tree.h"

int64_t lvn_tree_split(int64_t n)
{
    int64_t split = 1;
    while (split < n - split) split *= 2;
    return split;
}

static int collect(int64_t first, int64_t end, int64_t lo, int64_t hi, struct lvn_subtree *out, int n)
{
    if (end <= lo || hi <= first || first >= end) return n;
    if (lo <= first && end <= hi) {
        out[n] = (struct lvn_subtree){.first = first, .end = end};
        return n + 1;
    }
    int64_t middle = first + lvn_tree_split(end - first);
    n = collect(first, middle, lo, hi, out, n);
    return collect(middle, end, lo, hi, out, n);
}

int lvn_subtrees(int64_t n, int64_t lo, int64_t hi, struct lvn_subtree out[LVN_MAX_SUBTREES])
{
    if (lo < 0) lo = 0;
    if (hi > n) hi = n;
    return lo < hi ? collect(0, n, lo, hi, out, 0) : 0;
}
