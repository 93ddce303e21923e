/* outer.h - gradients that are not in the flat buffer: outer products, of a column and a row.
 *
 * A weight's gradient in a micro-batch of one row is `down` (rows) times `across` (columns), both of which are there
 * anyhow. Where the outer pass says so, nobody writes it, and what reads the flat gradient makes these elements as it
 * goes, to the bit as the linear map's backward would have: down[i / columns] * across[i % columns] + 0. */
#ifndef LVN_OUTER_H
#define LVN_OUTER_H

#include "graph/op.h"
#include "ops/shape.h"

/* One of them, as elements [begin, end) of an operation's range of the flat buffer. */
struct outer {
    int64_t begin, end, columns;
    const void *down, *across;
};

struct outers {
    int n;
    struct outer at[LVN_MAX_OUTERS];
};

/* Those of a call, whose range begins at element `first` of the flat buffer. */
static inline struct outers outers_of(const struct lvn_call *call, const struct lvn_outers *a, int64_t first)
{
    struct outers all = {.n = a->n};
    for (int k = 0; k < a->n; k++) {
        const struct lvn_arg *down = &call->in[1 + 2 * k], *across = down + 1;
        const int64_t begin = a->first[k] - first, columns = lvn_desc_count(across->desc);
        all.at[k] = (struct outer){begin, begin + lvn_desc_count(down->desc) * columns, columns, down->p, across->p};
    }
    return all;
}

/* The one that holds element i, or NULL. *end, behind i, comes down to where it ends, or to where the next one begins.
 */
static inline const struct outer *outer_at(const struct outers *all, int64_t i, int64_t *end)
{
    for (int k = 0; k < all->n; k++) {
        const struct outer *o = &all->at[k];
        const bool here = o->begin <= i && i < o->end;
        const int64_t turn = here ? o->end : o->begin;
        if (turn > i && turn < *end) *end = turn;
        if (here) return o;
    }
    return NULL;
}

/* What a shape rule asks of them: that they lie in the range of the gradient, in whole vectors. */
static inline enum lvn_status outers_check(const struct lvn_shapes *s, const struct lvn_outers *a, int64_t first)
{
    const int64_t n = lvn_desc_count(&s->in[0]);
    for (int k = 0; k < a->n; k++) {
        LVN_TRY(lvn_shape_reals(s, "column of a gradient", 1 + 2 * k, 1));
        LVN_TRY(lvn_shape_reals(s, "row of a gradient", 2 + 2 * k, 1));
        const int64_t begin = a->first[k] - first, columns = lvn_desc_count(&s->in[2 + 2 * k]);
        const int64_t end = begin + lvn_desc_count(&s->in[1 + 2 * k]) * columns;
        LVN_CHECK(begin >= 0 && end <= n && begin % LVN_OUTER_VECTOR == 0 && columns % LVN_OUTER_VECTOR == 0, SHAPE,
                  "%s: a gradient of rows of %lld numbers is at elements %lld to %lld of %lld; wanted are whole "
                  "vectors of %d in the range",
                  s->op, (long long)columns, (long long)begin, (long long)end, (long long)n, LVN_OUTER_VECTOR);
    }
    return LVN_OK;
}

#endif
