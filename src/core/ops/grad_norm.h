/* grad_norm.h - parts of the gradient norm, for the kernels of grad_norm, grad_squares, grad_clip and unscale; see
 * grad_norm.c for the order of the sum. */
#ifndef LVN_GRAD_NORM_H
#define LVN_GRAD_NORM_H

#include "graph/op.h"

enum { LVN_NORM_LANES = 16 }; /* partial sums of a block */

/* Number of elements of block b, of n elements in all blocks. */
static inline int64_t lvn_norm_block_length(int64_t n, int64_t b)
{
    int64_t rest = n - b * LVN_NORM_BLOCK;
    return rest < LVN_NORM_BLOCK ? rest : LVN_NORM_BLOCK;
}

/* Sum of a block's partial sums, which are overwritten. */
static inline double lvn_norm_fold(double lane[LVN_NORM_LANES])
{
    for (int distance = LVN_NORM_LANES / 2; distance >= 1; distance /= 2)
        for (int l = 0; l < distance; l++) lane[l] += lane[l + distance];
    return lane[0];
}

/* The factor that clips a gradient of this norm to norm `clip` (0: off); 0: the norm is not finite. */
static inline double lvn_norm_clip(double norm, double clip)
{
    return !isfinite(norm) ? 0 : clip > 0 && clip < norm + 1e-6 ? clip / (norm + 1e-6) : 1;
}

/* Set norm and clip factor of the call's result from the sums of the blocks, (blocks), which are overwritten. */
static inline void lvn_norm_finish(double *sums, int64_t blocks, double clip, const struct lvn_call *call)
{
    for (int64_t distance = 1; distance < blocks; distance *= 2)
        for (int64_t b = 0; b + distance < blocks; b += 2 * distance) sums[b] += sums[b + distance];
    double norm = sqrt(sums[0]);
    call->result->grad_norm = norm;
    call->result->clip_scale = call->step->grad_scale == 0 ? 0 : lvn_norm_clip(norm, clip);
}

#endif
