/* rmsnorm.c - RMS normalization: rows divided by the root of their mean square, then scaled; see norm.h.
 *
 * x, y (...,C), gamma (C) or absent; offset is 0, or 1 in models whose weights are near 0 (Gemma). Without gamma there
 * is no offset. Saved: rstd (rows). */
#include "ops/norm_plain.h"

LVN_NORM_RULES(rmsnorm)

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_rmsnorm(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *gamma,
                                   double eps, double offset)
{
    return lvn_node_append(g, LVN_OP_rmsnorm, &(union lvn_attr){.rmsnorm = {.eps = eps, .offset = offset}},
                           (struct levin_tensor *[]){x, gamma}, 2);
}
#endif

LVN_OPERATION(rmsnorm, shape, forward, backward, .n_in = 2, .n_in_min = 1, .n_out = 1, .n_saved = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(1),
              .restores = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(1), .low_precision_ok = LVN_READS_OUT(0),
              .spec.restore = restore);
