/* concat.cpu.c - concat on CPUs; see concat.c. Threads divide the elements; runs of elements of the same input are
 * copied together. */

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd.h"
#include "base/threads.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const int64_t dim = call->attr->concat.dim, A = lvn_desc_count_from(call->in[0].desc, dim),
                  B = lvn_desc_count_from(call->in[1].desc, dim);
    const float *a = call->in[0].p, *b = call->in[1].p;
    float *y = call->out[0].p;
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(call->out[0].desc), LVN_LANES, thread, n_threads, &i, &end);
    for (int64_t n; i < end; i += n) {
        const int64_t r = i / (A + B), c = i % (A + B);
        n = (c < A ? A : A + B) - c;
        if (n > end - i) n = end - i;
        memcpy(y + i, c < A ? a + r * A + c : b + r * B + c - A, sizeof *y * (size_t)n);
    }
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const int64_t dim = call->attr->concat.dim, Y = lvn_desc_count_from(call->dout[0].desc, dim);
    const float *dy = call->dout[0].p;
    for (int k = 0; k < 2; k++) {
        float *d = call->din[k].p;
        int64_t i, end;
        if (!d) continue;
        const int64_t N = lvn_desc_count_from(call->din[k].desc, dim), first = k ? Y - N : 0;
        lvn_thread_range(lvn_desc_count(call->din[k].desc), LVN_LANES, thread, n_threads, &i, &end);
        for (int64_t n; i < end; i += n) {
            const float *from = dy + i / N * Y + first + i % N;
            n = N - i % N < end - i ? N - i % N : end - i;
            if (!call->add[k]) memcpy(d + i, from, sizeof *d * (size_t)n);
            for (int64_t c = 0; call->add[k] && c < n; c++) d[i + c] += from[c];
        }
    }
}

LVN_CPU_OPERATION(concat, .forward = forward, .backward = backward);
