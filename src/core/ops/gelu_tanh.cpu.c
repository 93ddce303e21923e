/* gelu_tanh.cpu.c - the tanh approximation of GELU on CPUs; see gelu_cpu.h. */
#include "ops/gelu_cpu.h"

#include "backend/cpu/cpu_kernels.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    gelu_forward(call, true, thread, n_threads);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    gelu_backward(call, true, thread, n_threads);
}

LVN_CPU_OPERATION(gelu_tanh, .forward = forward, .backward = backward);
