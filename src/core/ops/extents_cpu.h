/* extents_cpu.h - how threads partition a range of a flat buffer, for the CPU kernels of the optimizers.
 *
 * Each thread processes a part of every parameter in the range, the same part as in the matrix multiplications that
 * read the parameter and compute its gradient. So a thread's data is in the cache of its core; with a small model,
 * moving cache lines between cores took as long as the arithmetic. */
#ifndef LVN_EXTENTS_CPU_H
#define LVN_EXTENTS_CPU_H

#include "base/threads.h"
#include "graph/op.h"

/* Elements [begin, end) of the range, counted from its start. */
struct extent {
    int64_t begin, end;
};

/* Number of parameters. Without a layout (NULL) the range is one extent. */
static inline int extents_count(const struct lvn_extents *e)
{
    return e ? e->n : 1;
}

/* A thread's part of parameter k within elements [first, first + n) of the flat buffer. Parts are cut at multiples of
 * 64 elements, to which parameters are aligned. */
static inline struct extent extent_of(const struct lvn_extents *e, int k, int64_t first, int64_t n, int thread,
                                      int n_threads)
{
    int64_t start = e ? e->start[k] - first : 0, stop = e ? e->start[k + 1] - first : n;
    struct extent x = {0, 0};
    if (start < 0) start = 0;
    if (stop > n) stop = n;
    if (start >= stop) return x;
    lvn_thread_range(stop - start, 64, thread, n_threads, &x.begin, &x.end);
    return (struct extent){start + x.begin, start + x.end};
}

#endif
