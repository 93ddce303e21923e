/* residual_rmsnorm.c - a residual connection with dropout, then RMS normalization; created by the fuse pass. See
 * norm.h.
 *
 *     s = a + dropout(b, p)
 *     y = rmsnorm(s, gamma)
 *
 * As residual_layernorm.c, without mean and beta; gamma (C) or absent, with the offset of rmsnorm.c. Saved: out[2] rstd
 * (rows). */
#include "ops/norm_plain.h"

LVN_NORM_RULES(residual_rmsnorm)
LVN_NORM_SAME_GRADIENT

LVN_OPERATION(residual_rmsnorm, shape, forward, backward, .n_in = 3, .n_in_min = 2, .n_out = 2, .n_saved = 1,
              .reads = LVN_READS_OUT(0) | LVN_READS_IN(2) | LVN_READS_OUT(2),
              .restores = LVN_READS_OUT(0) | LVN_READS_IN(2) | LVN_READS_OUT(2),
              .low_precision_ok = LVN_READS_IN(1) | LVN_READS_OUT(1), .in_place = 1u << 0,
              .same_gradient = same_gradient, .spec.restore = restore);
