/* grad_norm_gpu.h - the gradient's norm on devices, whose kernels are those of grad_norm.k. */
#ifndef LVN_GRAD_NORM_GPU_H
#define LVN_GRAD_NORM_GPU_H

#include "backend/gpu/words.h"
#ifndef LVN_DEVICE

/* The sums of squares of the blocks of in[0], into `sums`, fp64. */
static inline void grad_squares_launch(struct lvn_gpu *g, struct lvn_gpu_arg sums)
{
    const int64_t n = lvn_desc_count(g->call->in[0].desc);
    g->source = "grad_norm";
    LVN_LAUNCH(g, "grad_squares", (lvn_norm_blocks(n) + 15) / 16, 1, 1, LVN_IN(0, x), sums, LVN_LONG(n));
}

/* From the sums of the blocks, which it overwrites, to the norm and the factor that clips it. */
static inline void grad_clip_launch(struct lvn_gpu *g, struct lvn_gpu_arg sums, int64_t blocks, double clip_norm)
{
    g->source = "grad_norm";
    LVN_LAUNCH(g, "grad_clip", 1, 1, 1, sums, LVN_RESULT, LVN_LONG(blocks), LVN_FLOAT(clip_norm));
}

#endif
#endif
