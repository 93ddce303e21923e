/* dropout.cpu.c - dropout on CPUs: y = x * mask. The mask is computed for 64 columns at a time and never stored. */
#include "ops/dropout_cpu.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/threads.h"

/* n <= 64 elements of a row; keep: one bit per element, 0: dropped. */
LVN_INLINE void apply_mask(const float *x, float *y, int64_t n, uint64_t keep, float scale, bool add)
{
    int64_t c = 0;
    for (; c + LVN_LANES <= n; c += LVN_LANES, keep >>= LVN_LANES) {
        vf v = vkeep(vload(x + c) * scale, keep);
        vstore(y + c, add ? vload(y + c) + v : v);
    }
    if (c < n) {
        vf v = vkeep(vload_n(x + c, n - c) * scale, keep);
        vstore_n(y + c, add ? vload_n(y + c, n - c) + v : v, n - c);
    }
}

/* For forward of x and backward of dy. */
static void apply(const struct lvn_call *call, const struct lvn_desc *desc, const float *x, float *y, bool add,
                  int thread, int n_threads)
{
    const struct dropout d = dropout_make(call, desc, call->attr->dropout.p);
    int64_t C = desc->dim[desc->rank - 1], row, end;
    lvn_thread_range(lvn_desc_rows(desc), 1, thread, n_threads, &row, &end);
    for (; row < end; row++) {
        for (int64_t c = 0; c < C; c += 64) {
            int64_t n = C - c < 64 ? C - c : 64, i = row * C + c;
            uint64_t keep = d.on ? dropout_keep(&d, row, c) : ~(uint64_t)0;
            float scale = d.on ? d.v.scale : 1;
            if (n == 64 && !add) {
                apply_mask(x + i, y + i, 64, keep, scale, false);
            } else {
                apply_mask(x + i, y + i, n, keep, scale, add);
            }
        }
    }
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    apply(call, call->out[0].desc, call->in[0].p, call->out[0].p, false, thread, n_threads);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    if (call->din[0].p)
        apply(call, call->dout[0].desc, call->dout[0].p, call->din[0].p, call->add[0], thread, n_threads);
}

LVN_CPU_OPERATION(dropout, .forward = forward, .backward = backward);
