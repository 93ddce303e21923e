/* grad_squares.cpu.c - grad_squares on CPUs, with the bits of grad_squares.c: the blocks are divided
 * among threads. */
#include "ops/grad_norm_cpu.h"

#include "backend/cpu/cpu_kernels.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const int64_t n = call->in[0].p ? lvn_desc_count(call->in[0].desc) : 0, n_sums = call->attr->grad_squares.sums;
    const int64_t first = call->attr->grad_squares.first, end_block = first + lvn_norm_blocks(n);
    double *sums = call->out[0].p;
    int64_t b, end;
    for (int64_t i = 0; thread == 0 && i < n_sums; i++)
        if (i < first || i >= end_block) sums[i] = 0;
    lvn_thread_range(end_block - first, 8, thread, n_threads, &b, &end);
    if (n > 0) norm_blocks(&call->in[0], n, sums + first, b, end);
}

LVN_CPU_OPERATION(grad_squares, .forward = forward);
