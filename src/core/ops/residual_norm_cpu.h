/* residual_norm_cpu.h - s = a + dropout(b), y = norm(s) on CPUs, for residual_layernorm and residual_rmsnorm; the code
 * is in residual_layernorm.cpu.c, the norms are in norm_cpu.h. Inputs a, b, gamma and for layernorm beta; outputs
 * s, y and saved values. */
#ifndef LVN_RESIDUAL_NORM_CPU_H
#define LVN_RESIDUAL_NORM_CPU_H

#include "ops/norm_cpu.h"

struct residual_norm {
    double eps, p; /* p: of dropout */
    struct norm_weights w;
    const float *beta; /* NULL: none */
    float *mean;       /* NULL: RMS normalization */
    float *rstd;
};

LVN_INLINE int64_t residual_columns(const struct lvn_call *call)
{
    return call->out[0].desc->dim[call->out[0].desc->rank - 1];
}

void LVN_ISA_NAME(lvn_residual_norm_forward)(const struct lvn_call *call, const struct residual_norm *norm, int thread,
                                             int n_threads);
void LVN_ISA_NAME(lvn_residual_norm_restore)(const struct lvn_call *call, const struct residual_norm *norm, int thread,
                                             int n_threads);
void LVN_ISA_NAME(lvn_residual_norm_backward)(const struct lvn_call *call, const struct residual_norm *norm, int thread,
                                              int n_threads);

LVN_INLINE int64_t residual_norm_scratch(const struct lvn_call *call)
{
    if (call->phase != LVN_BACKWARD) return 0;
    return norm_scratch(lvn_desc_rows(call->out[0].desc), residual_columns(call));
}

/* The kernels of an operation whose file defines norm_of(call). */
#define RESIDUAL_NORM_CPU_OPERATION(id)                                                                                \
    static void forward(const struct lvn_call *call, int thread, int n_threads)                                        \
    {                                                                                                                  \
        const struct residual_norm norm = norm_of(call);                                                               \
        LVN_ISA_NAME(lvn_residual_norm_forward)(call, &norm, thread, n_threads);                                       \
    }                                                                                                                  \
    static void restore(const struct lvn_call *call, int thread, int n_threads)                                        \
    {                                                                                                                  \
        const struct residual_norm norm = norm_of(call);                                                               \
        LVN_ISA_NAME(lvn_residual_norm_restore)(call, &norm, thread, n_threads);                                       \
    }                                                                                                                  \
    static void backward(const struct lvn_call *call, int thread, int n_threads)                                       \
    {                                                                                                                  \
        const struct residual_norm norm = norm_of(call);                                                               \
        LVN_ISA_NAME(lvn_residual_norm_backward)(call, &norm, thread, n_threads);                                      \
    }                                                                                                                  \
    static int64_t scratch(const struct lvn_call *call, int n_threads)                                                 \
    {                                                                                                                  \
        (void)n_threads;                                                                                               \
        return residual_norm_scratch(call);                                                                            \
    }                                                                                                                  \
    LVN_CPU_OPERATION(id, .forward = forward, .backward = backward, .restore = restore, .scratch = scratch)

#endif
