/* initial_values.h - the initial values of all parameters, in one flat buffer in fp32. */
#ifndef LVN_INITIAL_VALUES_H
#define LVN_INITIAL_VALUES_H

#include <string.h>

#include "graph/graph.h"

/* flat: (flat_count); gaps get 0. */
static inline void initial_values(const struct lvn_params *p, uint64_t seed, float *flat)
{
    memset(flat, 0, sizeof *flat * (size_t)p->flat_count);
    for (int i = 0; i < p->n; i++) lvn_param_init(p->list[i], seed, 0, p->list[i]->count, flat + p->list[i]->offset);
}

#endif
