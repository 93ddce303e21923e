/* linear.cpu.c - linear on CPUs: y = x w + b, with the matrix multiplication of backend/cpu/gemm.h; see linear_cpu.h.
 */
#include "ops/linear_cpu.h"

#include "backend/cpu/cpu_kernels.h"

static struct linear make(const struct lvn_call *call)
{
    const struct lvn_desc *y = call->phase == LVN_BACKWARD ? call->dout[0].desc : call->out[0].desc;
    return linear_make(call, y, call->attr->linear.in_out);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    struct linear l = make(call);
    float *wide = call->scratch;
    struct lvn_gemm y = product_y(&l, call->in[0].p, call->in[1].p, call->in[2].p, l.y_bf16 ? wide : call->out[0].p);
    void *threads = wide + wide_floats(l.y_bf16, &y);
    if (l.y_bf16)
        linear_rounded(&l, &y, call->out[0].p, threads, thread, n_threads);
    else
        linear_product(&l, &y, threads, thread, n_threads);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    struct linear l = make(call);
    void *const din[2] = {call->din[0].p, call->din[1].p};
    linear_gradients(&l, call->in[0].p, call->in[1].p, call->dout[0].p, din, call->add, true, call->scratch, thread,
                     n_threads);
    linear_bias(&l, call->scratch, call->din[2].p, call->add[2], thread, n_threads);
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    struct linear l = make(call);
    return linear_scratch(&l, call->phase, n_threads);
}

static uint32_t rounds(const struct lvn_call *call)
{
    struct linear l = make(call);
    return linear_rounds(&l, call, call->phase == LVN_FORWARD, l.size.R);
}

LVN_CPU_OPERATION(linear, .forward = forward, .backward = backward, .scratch = scratch, .rounds = rounds);
