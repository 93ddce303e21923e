/* gelu_tanh.cpu.c - the GELU by tanh, element by element; see gelu_tanh.c for the definition and simd_gelu.h for the
 * arithmetic. */
#include "backend/cpu/simd_gelu.h"
#include "base/threads.h"
#include "graph/op.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *x = call->in[0].p;
    float *y = call->out[0].p;
    int64_t i, end;
    lvn_share(lvn_desc_count(call->out[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    for (; i + LVN_LANES <= end; i += LVN_LANES) vstore(y + i, vgelu_tanh(vload(x + i)));
    if (i < end) vstore_n(y + i, vgelu_tanh(vload_n(x + i, end - i)), end - i);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *x = call->in[0].p, *dy = call->dout[0].p;
    float *dx = call->din[0].p;
    int64_t i, end;
    lvn_share(lvn_desc_count(call->dout[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    if (!dx) return;
    const bool add = call->add[0];
    for (; i + LVN_LANES <= end; i += LVN_LANES) {
        vf before = add ? vload(dx + i) : vset(0);
        vstore(dx + i, vfma(vload(dy + i), vgelu_tanh_slope(vload(x + i)), before));
    }
    if (i < end) {
        vf before = add ? vload_n(dx + i, end - i) : vset(0);
        vstore_n(dx + i, vfma(vload_n(dy + i, end - i), vgelu_tanh_slope(vload_n(x + i, end - i)), before), end - i);
    }
}

extern const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_gelu_tanh);
const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_gelu_tanh) = {.forward = forward, .backward = backward};
