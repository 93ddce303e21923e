/* real.h - the real type of the plain kernels, and helpers for them.
 *
 * Every src/core/ops/NAME.c is compiled twice, with `real` as float, and, with LVN_REAL_DOUBLE, as double. Tests
 * compare the double version with finite differences and with other frameworks. Both versions sum in double, so that
 * the error of the specification is little more than the rounding of its results. */
#ifndef LVN_REAL_H
#define LVN_REAL_H

#include <float.h>
#include <tgmath.h>

#include "graph/graph.h"
#include "graph/op.h"

#ifdef LVN_REAL_DOUBLE
typedef double real;
#define LVN_REAL_MIN DBL_MIN
#define LVN_REAL_NAME(name) name##_f64
#else
typedef float real;
#define LVN_REAL_MIN FLT_MIN
#define LVN_REAL_NAME(name) name##_f32
#endif

/* Write a gradient: the first contribution overwrites, later ones add. */
static inline void lvn_put(real *p, bool add, double value)
{
    *p = (real)(add ? (double)*p + value : value);
}

/* Before gradient i is summed in place: set it to zero, unless the kernel adds to it. */
static inline void lvn_start_sum(const struct lvn_call *call, int i)
{
    real *p = call->din[i].p;
    if (!p || call->add[i]) return;
    int64_t n = lvn_desc_count(call->din[i].desc);
    for (int64_t k = 0; k < n; k++) p[k] = 0;
}

/* Index of the largest of x[0..n-1], the first of equal ones. */
static inline int64_t lvn_largest(const real *x, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

#endif
