/* layernorm.c - layer normalization: rows with mean 0 and variance 1, scaled and shifted; see norm.h.
 *
 * x, y (...,C), gamma (C); beta (C) may be absent. Saved: mean, rstd (rows). */
#include "ops/norm_plain.h"

LVN_NORM_RULES(layernorm)

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_layernorm(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *gamma,
                                     struct levin_tensor *beta, double eps)
{
    return lvn_node_append(g, LVN_OP_layernorm, &(union lvn_attr){.layernorm = {.eps = eps}},
                           (struct levin_tensor *[]){x, gamma, beta}, 3);
}
#endif

LVN_OPERATION(layernorm, shape, forward, backward, .n_in = 3, .n_in_min = 2, .n_out = 1, .n_saved = 2,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(1) | LVN_READS_OUT(2),
              .restores = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_IN(2) | LVN_READS_OUT(1) | LVN_READS_OUT(2),
              .low_precision_ok = LVN_READS_OUT(0), .spec.restore = restore);
