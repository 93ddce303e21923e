/* grad_norm.cpu.c - the gradient's norm on CPUs, with the order and the bits of grad_norm.c: threads divide the blocks
 * of 4096 elements, thread 0 sums them. */
#include "ops/extents_cpu.h"
#include "ops/grad_norm_cpu.h"

#include "backend/cpu/cpu_kernels.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    double *sums = call->scratch; /* (blocks) */
    int64_t n = lvn_desc_count(call->in[0].desc);
    const struct lvn_extents *parameters = call->attr->grad_norm.parameters;
    for (int i = 0; i < extents_count(parameters); i++) { /* the blocks that begin in this thread's part */
        const struct extent x = extent_of(parameters, i, 0, n, thread, n_threads);
        const int64_t b = (x.begin + LVN_NORM_BLOCK - 1) / LVN_NORM_BLOCK,
                      end = (x.end + LVN_NORM_BLOCK - 1) / LVN_NORM_BLOCK;
        norm_blocks(&call->in[0], n, sums, b, end);
    }
    lvn_team_barrier();
    if (thread == 0) lvn_norm_finish(sums, lvn_norm_blocks(n), call->attr->grad_norm.clip_norm, call);
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    (void)n_threads;
    return lvn_norm_blocks(lvn_desc_count(call->in[0].desc)) * (int64_t)sizeof(double);
}

LVN_CPU_OPERATION(grad_norm, .forward = forward, .scratch = scratch);
