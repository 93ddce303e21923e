/* narrow.cpu.c - cast from fp32 to bf16 on CPUs: threads divide the elements; see narrow.c. The compiler vectorizes the
 * plain loop. */
#include "backend/cpu/cpu_kernels.h"
#include "base/bf16.h"
#include "base/threads.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    enum { GRAIN = 64 }; /* elements: threads share no cache line */
    const float *x = call->in[0].p;
    uint16_t *y = call->out[0].p;
    int64_t begin, end;
    lvn_thread_range(lvn_desc_count(call->in[0].desc), GRAIN, thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) y[i] = lvn_bf16_make(x[i]);
}

LVN_CPU_OPERATION(narrow, .forward = forward);
