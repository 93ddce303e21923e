/* accumulate.cpu.c - sums of gradients, shared over threads; see accumulate.c. The loops are the plain ones, which the
 * compiler turns into vectors: the conversion to bf16 that some processors have treats the smallest numbers as zero. */
#include "backend/cpu/cpu_kernels.h"
#include "base/bf16.h"
#include "base/threads.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    enum { GRAIN = 64 }; /* elements: cache lines are not shared */
    int64_t begin, end;
    lvn_thread_range(lvn_desc_count(call->in[0].desc), GRAIN, thread, n_threads, &begin, &end);
    if (call->in[0].desc->dtype == LVN_BF16) {
        const uint16_t *from = call->in[0].p;
        uint16_t *to = call->out[0].p;
        for (int64_t i = begin; i < end; i++) to[i] = lvn_bf16_make(lvn_bf16_get(to[i]) + lvn_bf16_get(from[i]));
    } else {
        const float *from = call->in[0].p;
        float *to = call->out[0].p;
        for (int64_t i = begin; i < end; i++) to[i] += from[i];
    }
}

LVN_CPU_OPERATION(accumulate, .forward = forward);
