/* add.cpu.c - y = a + b on CPUs, and its backward, which copies or adds dy; see add.c. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd.h"
#include "base/threads.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *a = call->in[0].p, *b = call->in[1].p;
    float *y = call->out[0].p;
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(call->out[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    for (; i + LVN_LANES <= end; i += LVN_LANES) vstore(y + i, vload(a + i) + vload(b + i));
    for (; i < end; i++) y[i] = a[i] + b[i];
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *dy = call->dout[0].p;
    int64_t begin, end;
    lvn_thread_range(lvn_desc_count(call->dout[0].desc), 4 * LVN_LANES, thread, n_threads, &begin, &end);
    for (int k = 0; k < 2; k++) {
        float *d = call->din[k].p;
        if (!d) continue;
        int64_t i = begin;
        if (call->add[k]) {
            for (; i + LVN_LANES <= end; i += LVN_LANES) vstore(d + i, vload(d + i) + vload(dy + i));
            for (; i < end; i++) d[i] += dy[i];
        } else if (d != dy) {
            memcpy(d + i, dy + i, (size_t)(end - i) * sizeof *d);
        }
    }
}

LVN_CPU_OPERATION(add, .forward = forward, .backward = backward);
