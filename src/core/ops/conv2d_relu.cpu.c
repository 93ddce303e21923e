/* conv2d_relu.cpu.c - convolution and ReLU on CPUs; see conv2d_cpu.h. */
#include "ops/conv2d_cpu.h"

#include "backend/cpu/cpu_kernels.h"

static struct lvn_conv2d make(const struct lvn_call *call)
{
    return lvn_conv2d_make(call->in[0].desc, call->in[1].desc, call->attr->conv2d_relu.stride,
                           call->attr->conv2d_relu.padding);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct lvn_conv2d c = make(call);
    conv_forward(&c, call, true, thread, n_threads);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct lvn_conv2d c = make(call);
    conv_backward(&c, call, true, thread, n_threads);
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    const struct lvn_conv2d c = make(call);
    return conv_scratch(&c, call->phase, n_threads);
}

LVN_CPU_OPERATION(conv2d_relu, .forward = forward, .backward = backward, .scratch = scratch);
