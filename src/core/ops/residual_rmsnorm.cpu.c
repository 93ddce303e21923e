/* residual_rmsnorm.cpu.c - residual_rmsnorm on CPUs: s = a + dropout(b), y = rmsnorm(s); see residual_norm_cpu.h. */
#include "ops/residual_norm_cpu.h"

#include "backend/cpu/cpu_kernels.h"

static struct residual_norm norm_of(const struct lvn_call *call)
{
    struct residual_norm norm = {.eps = call->attr->residual_rmsnorm.eps,
                                 .p = call->attr->residual_rmsnorm.p,
                                 .w = {call->in[2].p, 1, (float)call->attr->residual_rmsnorm.offset},
                                 .rstd = call->out[2].p};
    if (!norm.w.gamma) norm.w = (struct layernorm_weights){layernorm_ones, 0, 0};
    return norm;
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct residual_norm norm = norm_of(call);
    LVN_ISA_NAME(lvn_residual_norm_forward)(call, &norm, thread, n_threads);
}

static void restore(const struct lvn_call *call, int thread, int n_threads)
{
    const struct residual_norm norm = norm_of(call);
    LVN_ISA_NAME(lvn_residual_norm_restore)(call, &norm, thread, n_threads);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct residual_norm norm = norm_of(call);
    LVN_ISA_NAME(lvn_residual_norm_backward)(call, &norm, thread, n_threads);
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    (void)n_threads;
    return residual_norm_scratch(call);
}

LVN_CPU_OPERATION(residual_rmsnorm, .forward = forward, .backward = backward, .restore = restore, .scratch = scratch);
