/* weighted_sum.cpu.c - sums with learned weights on CPUs; see weighted_sum.c. Blocks of elements are divided among
 * threads. Each block has its two sums for the gradients of the weights in scratch, which thread 0 adds in order. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd.h"
#include "base/threads.h"

enum { BLOCK = 4096 };

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *x = call->in[0].p, *z = call->in[1].p, *a = call->in[2].p, *b = call->in[3].p;
    float *y = call->out[0].p;
    const vf wx = vset(a ? *a : 1), wz = vset((float)call->attr->weighted_sum.factor * *b);
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(call->out[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    for (; i + LVN_LANES <= end; i += LVN_LANES) vstore(y + i, vfma(wx, vload(x + i), wz * vload(z + i)));
    if (i < end) vstore_n(y + i, vfma(wx, vload_n(x + i, end - i), wz * vload_n(z + i, end - i)), end - i);
}

LVN_INLINE void give(float *p, vf v, int64_t n, bool add)
{
    if (!p) return;
    if (n == LVN_LANES)
        vstore(p, add ? vload(p) + v : v);
    else
        vstore_n(p, add ? vload_n(p, n) + v : v, n);
}

static void backward_block(const struct lvn_call *call, int64_t i, int64_t end, double sums[2])
{
    const float *x = call->in[0].p, *z = call->in[1].p, *a = call->in[2].p, *b = call->in[3].p, *dy = call->dout[0].p;
    float *dx = call->din[0].p, *dz = call->din[1].p;
    const vf wx = vset(a ? *a : 1), wz = vset((float)call->attr->weighted_sum.factor * *b);
    struct vacc sum_x = vacc_set(vset(0)), sum_z = sum_x;
    for (; i < end; i += LVN_LANES) {
        const int64_t n = end - i < LVN_LANES ? end - i : LVN_LANES;
        const vf d = vload_n(dy + i, n);
        sum_x = vacc_fma(sum_x, d, vload_n(x + i, n));
        sum_z = vacc_fma(sum_z, d, vload_n(z + i, n));
        give(dx ? dx + i : NULL, wx * d, n, call->add[0]);
        give(dz ? dz + i : NULL, wz * d, n, call->add[1]);
    }
    sums[0] = (double)vsum(vacc_get(sum_x));
    sums[1] = (double)vsum(vacc_get(sum_z));
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    double *sums = call->scratch, total[2] = {0, 0}; /* sums: (blocks,2) */
    float *da = call->din[2].p, *db = call->din[3].p;
    const int64_t n = lvn_desc_count(call->dout[0].desc), blocks = (n + BLOCK - 1) / BLOCK;
    int64_t k, end;
    lvn_thread_range(blocks, 1, thread, n_threads, &k, &end);
    for (; k < end; k++) backward_block(call, k * BLOCK, k * BLOCK + BLOCK < n ? k * BLOCK + BLOCK : n, sums + 2 * k);
    lvn_team_barrier();
    if (thread) return;
    for (k = 0; k < blocks; k++) total[0] += sums[2 * k], total[1] += sums[2 * k + 1];
    total[1] *= call->attr->weighted_sum.factor;
    if (da) *da = (float)(total[0] + (call->add[2] ? (double)*da : 0));
    if (db) *db = (float)(total[1] + (call->add[3] ? (double)*db : 0));
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    (void)n_threads;
    if (call->phase != LVN_BACKWARD) return 0;
    return (lvn_desc_count(call->dout[0].desc) + BLOCK - 1) / BLOCK * 2 * (int64_t)sizeof(double);
}

LVN_CPU_OPERATION(weighted_sum, .forward = forward, .backward = backward, .scratch = scratch);
