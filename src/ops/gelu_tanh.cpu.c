/* gelu_tanh.cpu.c - see gelu_cpu.h. */
#include "ops/gelu_cpu.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    gelu_forward(call, true, thread, n_threads);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    gelu_backward(call, true, thread, n_threads);
}

extern const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_gelu_tanh);
const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_gelu_tanh) = {.forward = forward, .backward = backward};
