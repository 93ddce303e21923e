/* normalize.cpu.c - normalize on CPUs, as x * factor + shift in fp32, which rounds twice; the plain kernel computes in
 * double. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd.h"
#include "base/threads.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const uint8_t *restrict x = call->in[0].p;
    float *restrict y = call->out[0].p;
    const double mean = call->attr->normalize.mean, std = call->attr->normalize.std;
    const float factor = (float)(1.0 / (255.0 * std)), shift = (float)(-mean / std);
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(call->out[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    for (; i < end; i++) y[i] = (float)x[i] * factor + shift;
}

LVN_CPU_OPERATION(normalize, .forward = forward);
