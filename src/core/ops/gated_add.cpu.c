/* gated_add.cpu.c - additions with a gate for each head on CPUs; see gated_add.c. Threads divide the gates. Each gate
 * writes its partial sum of the weight's gradient to scratch; thread 0 adds them in order. */

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd.h"
#include "base/threads.h"

static float gate(const struct lvn_call *call, int64_t k)
{
    return (float)(1 / (1 + exp(-(double)((const float *)call->in[2].p)[k])));
}

static float factor(const struct lvn_call *call)
{
    const float *w = call->in[3].p;
    return (float)(call->attr->gated_add.factor * (w ? (double)*w : 1));
}

LVN_INLINE void put(float *p, vf v, int64_t n)
{
    if (n == LVN_LANES)
        vstore(p, v);
    else
        vstore_n(p, v, n);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *x = call->in[0].p, *u = call->in[1].p;
    float *y = call->out[0].p;
    const int64_t gates = lvn_desc_count(call->in[2].desc), S = lvn_desc_count(call->in[0].desc) / gates;
    int64_t k, end;
    lvn_thread_range(gates, 1, thread, n_threads, &k, &end);
    for (; k < end; k++) {
        const vf g = vset(factor(call) * gate(call, k));
        for (int64_t s = 0, i = k * S; s < S; s += LVN_LANES, i += LVN_LANES) {
            const int64_t n = S - s < LVN_LANES ? S - s : LVN_LANES;
            put(y + i, vfma(g, vload_n(u + i, n), vload_n(x + i, n)), n);
        }
    }
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *u = call->in[1].p, *dy = call->dout[0].p;
    float *dx = call->din[0].p, *du = call->din[1].p, *dz = call->din[2].p, *dw = call->din[3].p;
    double *partial_sums = dw ? call->scratch : NULL; /* (gates) */
    const int64_t gates = lvn_desc_count(call->in[2].desc), S = lvn_desc_count(call->dout[0].desc) / gates;
    int64_t k, end;
    lvn_thread_range(gates, 1, thread, n_threads, &k, &end);
    for (; k < end; k++) {
        const float g = gate(call, k);
        const vf scale = vset(factor(call) * g);
        struct vacc sum = vacc_set(vset(0));
        for (int64_t s = 0, i = k * S; s < S; s += LVN_LANES, i += LVN_LANES) {
            const int64_t n = S - s < LVN_LANES ? S - s : LVN_LANES;
            const vf d = vload_n(dy + i, n);
            sum = vacc_fma(sum, d, vload_n(u + i, n));
            if (dx) put(dx + i, call->add[0] ? vload_n(dx + i, n) + d : d, n);
            if (du) put(du + i, call->add[1] ? vload_n(du + i, n) + scale * d : scale * d, n);
        }
        const float total = vsum(vacc_get(sum)), slope = factor(call) * g * (1 - g) * total;
        if (dz) dz[k] = call->add[2] ? dz[k] + slope : slope;
        if (partial_sums) partial_sums[k] = (double)g * (double)total;
    }
    if (!partial_sums) return;
    lvn_team_barrier();
    if (thread) return;
    double all = 0;
    for (k = 0; k < gates; k++) all += partial_sums[k];
    *dw = (float)(call->attr->gated_add.factor * all + (call->add[3] ? (double)*dw : 0));
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    (void)n_threads;
    if (call->phase != LVN_BACKWARD || !call->din[3].desc) return 0;
    return lvn_desc_count(call->in[2].desc) * (int64_t)sizeof(double);
}

LVN_CPU_OPERATION(gated_add, .forward = forward, .backward = backward, .scratch = scratch);
