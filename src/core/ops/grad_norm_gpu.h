/* grad_norm_gpu.h - launches the kernels of grad_norm.k, for grad_norm, grad_squares and grad_clip on devices. */
#ifndef LVN_GRAD_NORM_GPU_H
#define LVN_GRAD_NORM_GPU_H

#include "backend/gpu/kernel_language.h"
#ifndef LVN_DEVICE

/* sums (blocks), fp64: the sums of squares of the blocks of in[0], from number `first` on, and zeros. */
static inline void grad_squares_launch(struct lvn_gpu *g, struct lvn_gpu_arg sums, int64_t first, int64_t blocks)
{
    const int64_t n = g->call->in[0].desc ? lvn_desc_count(g->call->in[0].desc) : 0;
    g->source = "grad_norm";
    LVN_LAUNCH(g, "grad_squares", (blocks + 15) / 16, 1, 1, LVN_IN(0, x), sums, LVN_LONG(n), LVN_LONG(first),
               LVN_LONG(blocks));
}

/* Set norm and clip factor of the result from the sums of the blocks, which are overwritten. */
static inline void grad_clip_launch(struct lvn_gpu *g, struct lvn_gpu_arg sums, int64_t blocks, double clip_norm)
{
    enum { SPAN = 2048 }; /* sums that a group adds; one group alone adds up to this number */
    const int64_t span = blocks > SPAN ? SPAN : 1;
    g->source = "grad_norm";
    if (span > 1) LVN_LAUNCH(g, "grad_sums", (blocks + span - 1) / span, 1, 1, sums, LVN_LONG(blocks), LVN_LONG(span));
    LVN_LAUNCH(g, "grad_clip", 1, 1, 1, sums, LVN_RESULT, LVN_STEP, LVN_LONG(blocks), LVN_LONG(span),
               LVN_FLOAT(clip_norm));
}

#endif
#endif
