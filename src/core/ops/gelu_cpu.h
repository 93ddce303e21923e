/* gelu_cpu.h - the CPU kernels of gelu and gelu_tanh; see gelu.h for the definitions, backend/cpu/simd_gelu.h for the
 * arithmetic. */
#ifndef LVN_GELU_CPU_H
#define LVN_GELU_CPU_H

#include "backend/cpu/simd_gelu.h"
#include "base/threads.h"
#include "graph/op.h"

LVN_INLINE vf gelu_value(vf x, const bool tanh)
{
    return tanh ? vgelu_tanh(x) : vgelu(x);
}

LVN_INLINE vf gelu_slope(vf x, const bool tanh)
{
    return tanh ? vgelu_tanh_slope(x) : vgelu_slope(x);
}

LVN_INLINE void gelu_forward(const struct lvn_call *call, const bool tanh, int thread, int n_threads)
{
    const float *x = call->in[0].p;
    float *y = call->out[0].p;
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(call->out[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    for (; i + LVN_LANES <= end; i += LVN_LANES) vstore(y + i, gelu_value(vload(x + i), tanh));
    if (i < end) vstore_n(y + i, gelu_value(vload_n(x + i, end - i), tanh), end - i);
}

LVN_INLINE void gelu_backward(const struct lvn_call *call, const bool tanh, int thread, int n_threads)
{
    const float *x = call->in[0].p, *dy = call->dout[0].p;
    float *dx = call->din[0].p;
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(call->dout[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    if (!dx) return;
    const bool add = call->add[0];
    for (; i + LVN_LANES <= end; i += LVN_LANES) {
        vf before = add ? vload(dx + i) : vset(0);
        vstore(dx + i, vfma(vload(dy + i), gelu_slope(vload(x + i), tanh), before));
    }
    if (i < end) {
        vf before = add ? vload_n(dx + i, end - i) : vset(0);
        vstore_n(dx + i, vfma(vload_n(dy + i, end - i), gelu_slope(vload_n(x + i, end - i), tanh), before), end - i);
    }
}

#endif
