/* extents_cpu.h - how threads share a range of a flat buffer: each takes a part of every parameter in it, as it does of
 * the products that read the parameter and make its gradient. What it touches then lies in its own cache: on a small
 * model, bringing lines from another core's took as long as the arithmetic. */
#ifndef LVN_EXTENTS_CPU_H
#define LVN_EXTENTS_CPU_H

#include "base/threads.h"
#include "graph/op.h"

/* Elements [begin, end), from the range's first one on. */
struct extent {
    int64_t begin, end;
};

/* Nobody says where parameters lie: the range is one. */
static inline int extents_count(const struct lvn_extents *e)
{
    return e ? e->n : 1;
}

/* What a thread takes of parameter k, as far as it is in the range [first, first + n): multiples of 64, which is what
 * parameters are aligned to. */
static inline struct extent extent_of(const struct lvn_extents *e, int k, int64_t first, int64_t n, int thread,
                                      int n_threads)
{
    int64_t from = e ? e->start[k] - first : 0, to = e ? e->start[k + 1] - first : n;
    struct extent x = {0, 0};
    if (from < 0) from = 0;
    if (to > n) to = n;
    if (from >= to) return x;
    lvn_thread_range(to - from, 64, thread, n_threads, &x.begin, &x.end);
    return (struct extent){from + x.begin, from + x.end};
}

#endif
