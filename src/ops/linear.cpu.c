/* linear.cpu.c - y = x w + b by the tiled products of backend/cpu/gemm.h. */
#include "ops/linear_cpu.h"

static struct lvn_matmul matmul(const struct lvn_call *call)
{
    const struct lvn_desc *y = call->phase == LVN_BACKWARD ? call->dout[0].desc : call->out[0].desc;
    return lvn_matmul_make(lvn_desc_rows(y), call->in[1].desc, call->attr->linear.in_out);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    struct lvn_matmul m = matmul(call);
    struct lvn_gemm y = product_y(&m, call->in[0].p, call->in[1].p, call->in[2].p, call->out[0].p);
    linear_forward(&m, &y, call->scratch, thread, n_threads);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    struct lvn_matmul m = matmul(call);
    float *const din[3] = {call->din[0].p, call->din[1].p, call->din[2].p};
    linear_gradients(&m, call->in[0].p, call->in[1].p, call->dout[0].p, din, call->add, call->scratch, thread,
                     n_threads);
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    struct lvn_matmul m = matmul(call);
    return thread_scratch(&m) * n_threads;
}

extern const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_linear);
const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_linear) = {.forward = forward, .backward = backward, .scratch = scratch};
