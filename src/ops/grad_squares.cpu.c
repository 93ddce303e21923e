/* grad_squares.cpu.c - grad_squares.c's sums, to the bit: threads share the blocks. */
#include "ops/grad_norm_cpu.h"

#include "backend/cpu/kernels.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    lvn_norm_share_blocks(&call->in[0], lvn_desc_count(call->in[0].desc), call->out[0].p, thread, n_threads);
}

LVN_CPU_OPERATION(grad_squares, .forward = forward);
