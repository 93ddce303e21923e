/* outer_plain.h - elements of a gradient for plain kernels: see outer.h. */
#ifndef LVN_OUTER_PLAIN_H
#define LVN_OUTER_PLAIN_H

#include "ops/outer.h"
#include "ops/real.h"

/* Element i of the gradient. */
static inline real lvn_gradient(const struct outers *all, const real *flat, int64_t i)
{
    int64_t end = INT64_MAX;
    const struct outer *o = outer_at(all, i, &end);
    if (!o) return flat[i];
    const real *down = o->down, *across = o->across;
    return down[(i - o->begin) / o->columns] * across[(i - o->begin) % o->columns] + 0;
}

#endif
