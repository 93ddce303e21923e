/* grad_squares.cpu.c - grad_squares on CPUs, with the bits of grad_squares.c: threads divide the blocks. */
#include "ops/grad_norm_cpu.h"

#include "backend/cpu/cpu_kernels.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const int64_t n = lvn_desc_count(call->in[0].desc);
    int64_t b, end;
    lvn_thread_range(lvn_norm_blocks(n), 8, thread, n_threads, &b, &end);
    norm_blocks(&call->in[0], n, call->out[0].p, b, end);
}

LVN_CPU_OPERATION(grad_squares, .forward = forward);
