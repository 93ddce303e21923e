/* rotary.cpu.c - rotary position embedding on CPUs, sixteen pairs of channels at a time; see rotary.c. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd_bf16.h"
#include "base/threads.h"

/* Rotate one head: x from element `source` on to y from element `target` on. */
LVN_INLINE void rotate_head(const void *x, int64_t source, const bool x_bf16, void *y, int64_t target,
                            const bool y_bf16, const float *table, int64_t dims, int64_t D, float sign, bool add)
{
    const int64_t n_pairs = dims / 2;
    for (int64_t i = 0; i < n_pairs; i += LVN_LANES) {
        const int64_t n = n_pairs - i < LVN_LANES ? n_pairs - i : LVN_LANES;
        const vf cosine = vload_n(table + i, n), sine = vload_n(table + n_pairs + i, n) * sign;
        const vf x0 = vread_n(x, source + i, n, x_bf16), x1 = vread_n(x, source + n_pairs + i, n, x_bf16);
        vf y0 = vfma(x0, cosine, -(x1 * sine)), y1 = vfma(x1, cosine, x0 * sine);
        if (add) y0 += vread_n(y, target + i, n, y_bf16), y1 += vread_n(y, target + n_pairs + i, n, y_bf16);
        vwrite_n(y, target + i, y0, n, y_bf16);
        vwrite_n(y, target + n_pairs + i, y1, n, y_bf16);
    }
    for (int64_t i = dims; i < D; i += LVN_LANES) {
        const int64_t n = D - i < LVN_LANES ? D - i : LVN_LANES;
        vf v = vread_n(x, source + i, n, x_bf16);
        if (add) v += vread_n(y, target + i, n, y_bf16);
        vwrite_n(y, target + i, v, n, y_bf16);
    }
}

/* Rotate this thread's part of the rows, one for each sample and position; sign -1 rotates by the negative angles. */
static void rotate(const struct lvn_arg *x, const struct lvn_arg *y, const struct lvn_arg *table, float sign, bool add,
                   int thread, int n_threads)
{
    const struct lvn_desc *source = x->desc, *target = y->desc;
    const int64_t T = source->dim[1], H = source->dim[2], D = source->dim[3], rows = lvn_desc_rows(table->desc);
    const int64_t dims = lvn_desc_count(table->desc) / rows;
    const bool x_bf16 = source->dtype == LVN_BF16, y_bf16 = target->dtype == LVN_BF16;
    int64_t r, end;
    lvn_thread_range(source->dim[0] * T, 1, thread, n_threads, &r, &end);
    for (; r < end; r++) {
        const float *row = (const float *)table->p + r % rows * dims;
        for (int64_t h = 0; h < H; h++) {
            const int64_t i = r / T * source->stride[0] + r % T * source->stride[1] + h * source->stride[2];
            const int64_t o = r / T * target->stride[0] + r % T * target->stride[1] + h * target->stride[2];
            if (x_bf16 && y_bf16)
                rotate_head(x->p, i, true, y->p, o, true, row, dims, D, sign, add);
            else if (x_bf16)
                rotate_head(x->p, i, true, y->p, o, false, row, dims, D, sign, add);
            else if (y_bf16)
                rotate_head(x->p, i, false, y->p, o, true, row, dims, D, sign, add);
            else
                rotate_head(x->p, i, false, y->p, o, false, row, dims, D, sign, add);
        }
    }
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    rotate(&call->in[0], &call->out[0], &call->in[1], 1, false, thread, n_threads);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    if (call->din[0].p) rotate(&call->dout[0], &call->din[0], &call->in[1], -1, call->add[0], thread, n_threads);
}

LVN_CPU_OPERATION(rotary, .forward = forward, .backward = backward);
