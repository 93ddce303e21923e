/* relu.cpu.c - y = max(x, 0) on CPUs; see relu.c. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd.h"
#include "base/threads.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *x = call->in[0].p;
    float *y = call->out[0].p;
    const vf zero = vset(0);
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(call->out[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    for (; i + LVN_LANES <= end; i += LVN_LANES) vstore(y + i, vmax(zero, vload(x + i)));
    if (i < end) vstore_n(y + i, vmax(zero, vload_n(x + i, end - i)), end - i);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *y = call->out[0].p, *dy = call->dout[0].p;
    float *dx = call->din[0].p;
    const vf zero = vset(0);
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(call->dout[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    if (!dx) return;
    const bool add = call->add[0];
    for (; i + LVN_LANES <= end; i += LVN_LANES) {
        vf g = vselect(vgreater(vload(y + i), zero), vload(dy + i), zero);
        vstore(dx + i, add ? vload(dx + i) + g : g);
    }
    if (i < end) {
        vf g = vselect(vgreater(vload_n(y + i, end - i), zero), vload_n(dy + i, end - i), zero);
        vstore_n(dx + i, add ? vload_n(dx + i, end - i) + g : g, end - i);
    }
}

LVN_CPU_OPERATION(relu, .forward = forward, .backward = backward);
