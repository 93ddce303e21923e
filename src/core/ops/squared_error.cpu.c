/* squared_error.cpu.c - squared error on CPUs: threads divide the rows; thread 0 adds their sums in order, so bits do
 * not depend on the number of threads; see squared_error.c. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd.h"
#include "base/threads.h"

/* The sum of n squared differences, in blocks, so that no chain of additions is longer than a block or than the number
 * of blocks. */
static float row_sum(const float *p, const float *t, int64_t n)
{
    enum { BLOCK = 4096 };
    double sum = 0;
    for (int64_t begin = 0; begin < n; begin += BLOCK) {
        int64_t end = begin + BLOCK < n ? begin + BLOCK : n, i = begin;
        struct vacc s = vacc_set(vset(0));
        for (; i + LVN_LANES <= end; i += LVN_LANES) {
            vf d = vload(p + i) - vload(t + i);
            s = vacc_fma(s, d, d);
        }
        if (i < end) {
            vf d = vload_n(p + i, end - i) - vload_n(t + i, end - i);
            s = vacc_fma(s, d, d);
        }
        sum += (double)vsum(vacc_get(s));
    }
    return (float)sum;
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *p = call->in[0].p, *t = call->in[1].p;
    double *total = call->out[0].p;
    float *loss = call->out[1].p; /* (R) */
    int64_t rows = call->in[0].desc->dim[0], n = lvn_desc_count(call->in[0].desc) / rows, r, end;
    lvn_thread_range(rows, 1, thread, n_threads, &r, &end);
    int64_t valid = lvn_step_rows(call->step, rows);
    for (; r < end; r++) loss[r] = r < valid ? row_sum(p + r * n, t + r * n, n) : 0;
    lvn_team_barrier();
    if (thread) return;
    *total = 0;
    for (r = 0; r < rows; r++) *total += (double)loss[r];
}

static void put(float *d, int64_t n, vf slope, bool add)
{
    if (n == LVN_LANES)
        vstore(d, add ? vload(d) + slope : slope);
    else
        vstore_n(d, add ? vload_n(d, n) + slope : slope, n);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const float *p = call->in[0].p, *t = call->in[1].p;
    float *dp = call->din[0].p, *dt = call->din[1].p;
    const vf scale = vset((float)(2 * call->step->grad_scale));
    int64_t i, end, all = lvn_desc_count(call->in[0].desc), rows = call->in[0].desc->dim[0];
    int64_t valid = lvn_step_rows(call->step, rows) * (all / rows);
    lvn_thread_range(all, 4 * LVN_LANES, thread, n_threads, &i, &end);
    for (int64_t n; i < end; i += n) {
        int64_t stop = i < valid && valid < end ? valid : end;
        n = stop - i < LVN_LANES ? stop - i : LVN_LANES;
        vf slope = i < valid ? (vload_n(p + i, n) - vload_n(t + i, n)) * scale : vset(0);
        if (dp) put(dp + i, n, slope, call->add[0]);
        if (dt) put(dt + i, n, vset(0) - slope, call->add[1]);
    }
}

LVN_CPU_OPERATION(squared_error, .forward = forward, .backward = backward);
