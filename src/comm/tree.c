/* tree.c - the binary tree in which numbered leaves are added, and which of its subtrees a range of leaves makes up.
 *
 * The tree over n leaves splits at the largest power of two below n, again and again. A range of leaves is the union of
 * whole subtrees in one shortest way: walking down from the root, a node inside the range is taken whole, one that
 * straddles its border is split. That is at most two a level. */
#include "comm/engine.h"

int64_t lvn_tree_half(int64_t n)
{
    int64_t half = 1;
    while (half < n - half) half *= 2;
    return half;
}

static int walk(int64_t from, int64_t to, int64_t lo, int64_t hi, struct lvn_subtree *out, int n)
{
    if (to <= lo || hi <= from || from >= to) return n;
    if (lo <= from && to <= hi) {
        out[n] = (struct lvn_subtree){.first = from, .end = to};
        return n + 1;
    }
    int64_t middle = from + lvn_tree_half(to - from);
    n = walk(from, middle, lo, hi, out, n);
    return walk(middle, to, lo, hi, out, n);
}

int lvn_subtrees(int64_t n, int64_t lo, int64_t hi, struct lvn_subtree out[LVN_MAX_SUBTREES])
{
    if (lo < 0) lo = 0;
    if (hi > n) hi = n;
    return lo < hi ? walk(0, n, lo, hi, out, 0) : 0;
}
