/* residual_layernorm.c - a residual connection with dropout, then layernorm; created by the fuse pass. See norm.h.
 *
 *     s = a + dropout(b, p)
 *     y = layernorm(s, gamma, beta)
 *
 * a, b (samples,...,C), gamma (C); beta (C) may be absent. Outputs: out[0] = s, read by the next residual connection,
 * out[1] = y; in backward the gradient of one of them may be absent. Saved: out[2] mean, out[3] rstd (rows). s may
 * overwrite a, and da the gradient of s. */
#include "ops/norm_plain.h"

LVN_NORM_RULES(residual_layernorm)
LVN_NORM_SAME_GRADIENT

LVN_OPERATION(residual_layernorm, shape, forward, backward, .n_in = 4, .n_in_min = 3, .n_out = 2, .n_saved = 2,
              .reads = LVN_READS_OUT(0) | LVN_READS_IN(2) | LVN_READS_OUT(2) | LVN_READS_OUT(3),
              .restores = LVN_READS_OUT(0) | LVN_READS_IN(2) | LVN_READS_IN(3) | LVN_READS_OUT(2) | LVN_READS_OUT(3),
              .low_precision_ok = LVN_READS_IN(1) | LVN_READS_OUT(1), .in_place = 1u << 0,
              .same_gradient = same_gradient, .spec.restore = restore);
