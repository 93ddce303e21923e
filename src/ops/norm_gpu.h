/* norm_gpu.h - launches the kernels of layernorm.k for the gradients of gamma and beta, for layernorm and
 * residual_layernorm on devices. */
#ifndef LVN_NORM_GPU_H
#define LVN_NORM_GPU_H

#include "ops/product_gpu.h"
#ifndef LVN_DEVICE

/* x: the argument x, (R,C), of the values that were normalised. out: index of y among the outputs; mean and rstd follow
 * it. in: index of gamma among the inputs; beta follows it. */
static inline void norm_vectors_launch(struct lvn_gpu *g, struct lvn_gpu_arg x, int out, int in, int64_t R, int64_t C)
{
    if (!g->call->din[in].desc && !g->call->din[in + 1].desc) return;
    const int64_t gammas = column_scratch(g, R, C), betas = column_scratch(g, R, C);
    const char *source = g->source;
    g->source = "layernorm";
    LVN_LAUNCH(g, "norm_vectors", (C + 31) / 32, column_parts(R), 1, x, LVN_DOUT(out, dy), LVN_OUT(out + 1, mean),
               LVN_OUT(out + 2, rstd), LVN_SCRATCH(gammas, gammas), LVN_SCRATCH(betas, betas), LVN_LONG(COLUMN_ROWS),
               LVN_LONG(R), LVN_LONG(C));
    g->source = source;
    if (g->call->din[in].desc)
        column_parts_launch(g, gammas, (struct lvn_gpu_arg)LVN_DIN(in, sums), (struct lvn_gpu_arg)LVN_ADDS(in), R, C);
    if (g->call->din[in + 1].desc)
        column_parts_launch(g, betas, (struct lvn_gpu_arg)LVN_DIN(in + 1, sums), (struct lvn_gpu_arg)LVN_ADDS(in + 1),
                            R, C);
}

#endif
#endif
