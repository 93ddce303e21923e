/* widen.cpu.c - cast from bf16 to fp32, or copy of fp32, on CPUs: threads divide the elements; see widen.c. Backward
 * uses the plain kernel. */

#include "backend/cpu/cpu_kernels.h"
#include "base/bf16.h"
#include "base/threads.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    enum { GRAIN = 64 }; /* elements: threads share no cache line */
    const uint16_t *bf16 = call->in[0].p;
    float *y = call->out[0].p;
    int64_t begin, end;
    lvn_thread_range(lvn_desc_count(call->out[0].desc), GRAIN, thread, n_threads, &begin, &end);
    if (call->in[0].desc->dtype != LVN_BF16)
        memcpy(y + begin, (const float *)call->in[0].p + begin, sizeof *y * (size_t)(end - begin));
    else
        for (int64_t i = begin; i < end; i++) y[i] = lvn_bf16_get(bf16[i]);
}

LVN_CPU_OPERATION(widen, .forward = forward);
