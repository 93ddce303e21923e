/* residual_rmsnorm.cpu.c - residual_rmsnorm on CPUs: s = a + dropout(b), y = rmsnorm(s); see residual_norm_cpu.h. */
#include "ops/residual_norm_cpu.h"

#include "backend/cpu/cpu_kernels.h"

static struct residual_norm norm_of(const struct lvn_call *call)
{
    struct residual_norm norm = {.eps = call->attr->residual_rmsnorm.eps,
                                 .p = call->attr->residual_rmsnorm.p,
                                 .w = {call->in[2].p, 1, (float)call->attr->residual_rmsnorm.offset},
                                 .rstd = call->out[2].p};
    if (!norm.w.gamma) norm.w = (struct norm_weights){norm_ones, 0, 0};
    return norm;
}

RESIDUAL_NORM_CPU_OPERATION(residual_rmsnorm);
