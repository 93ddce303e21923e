/* grad_norm.h - the parts of the gradient's norm that its operations share: see grad_norm.c. */
#ifndef LVN_GRAD_NORM_H
#define LVN_GRAD_NORM_H

#include <math.h>

#include "graph/op.h"

enum { LVN_NORM_LANES = 16 };

/* Elements of block b of n. */
static inline int64_t lvn_norm_block_length(int64_t n, int64_t b)
{
    int64_t rest = n - b * LVN_NORM_BLOCK;
    return rest < LVN_NORM_BLOCK ? rest : LVN_NORM_BLOCK;
}

/* The sum of sixteen lanes. */
static inline double lvn_norm_fold(double lane[LVN_NORM_LANES])
{
    for (int half = LVN_NORM_LANES / 2; half >= 1; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

/* The factor that clips a gradient of this norm; 0: it is not finite. */
static inline double lvn_norm_clip(double norm, double clip)
{
    return !isfinite(norm) ? 0 : clip > 0 && clip < norm + 1e-6 ? clip / (norm + 1e-6) : 1;
}

/* From the blocks' sums, which it overwrites, to the norm and the factor that clips it. */
static inline void lvn_norm_finish(double *sums, int64_t blocks, double clip, struct lvn_result *result)
{
    for (int64_t half = 1; half < blocks; half *= 2)
        for (int64_t b = 0; b + half < blocks; b += 2 * half) sums[b] += sums[b + half];
    double norm = sqrt(sums[0]);
    result->grad_norm = norm;
    result->clip_scale = lvn_norm_clip(norm, clip);
}

#endif
