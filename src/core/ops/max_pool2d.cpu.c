/* max_pool2d.cpu.c - max pooling on CPUs: threads divide the planes; the maxima of a vector of windows are computed at
 * a time; see max_pool2d.c. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd.h"
#include "base/threads.h"

/* Every second of n <= 32 elements, from element `first` (0 or 1) on. */
LVN_INLINE vf every_second(const float *x, int64_t n, const int first)
{
    const vf a = vload_n(x, n < LVN_LANES ? n : LVN_LANES),
             b = vload_n(x + LVN_LANES, n < LVN_LANES ? 0 : n - LVN_LANES);
    return first ? __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
                 : __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

/* n windows in a row. start: index of the first one in its plane. end: end of y's plane. */
LVN_INLINE void pool_row(const float *x, int64_t W, int64_t n, float *y, const float *end, int32_t *indices,
                         int32_t start)
{
    for (int64_t o = 0; o < n; o += LVN_LANES) {
        const int64_t lanes = n - o < LVN_LANES ? n - o : LVN_LANES;
        const vi first = 2 * viota() + (start + (int32_t)(2 * o));
        vf best = every_second(x + 2 * o, 2 * lanes, 0);
        vi index = first;
        for (int e = 1; e < 4; e++) {
            const vf v = every_second(x + e / 2 * W + 2 * o, 2 * lanes, e % 2);
            const vi larger = vgreater(v, best) | (~vequal(v, v) & vequal(best, best));
            best = vselect(larger, v, best);
            index = (larger & (first + (int32_t)(e / 2 * W + e % 2))) | (~larger & index);
        }
        vstore_over(y + o, best, lanes, end);
        vstore_over((float *)(void *)(indices + o), (vf)index, lanes, (float *)(void *)(indices + (end - y)));
    }
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct lvn_desc *d = call->in[0].desc, *o = call->out[0].desc;
    int64_t H = d->dim[2], W = d->dim[3], OH = o->dim[2], OW = o->dim[3], plane, end;
    lvn_thread_range(d->dim[0] * d->dim[1], 1, thread, n_threads, &plane, &end);
    for (; plane < end; plane++)
        for (int64_t i = 0; i < OH; i++) {
            const float *x = (const float *)call->in[0].p + (plane * H + 2 * i) * W;
            const int64_t to = (plane * OH + i) * OW;
            float *y = (float *)call->out[0].p + to;
            int32_t *indices = (int32_t *)call->out[1].p + to, start = (int32_t)(2 * i * W);
            pool_row(x, W, OW, y, y + (OH - i) * OW, indices, start);
        }
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct lvn_desc *d = call->din[0].desc, *o = call->dout[0].desc;
    if (!call->din[0].p) return;
    int64_t size = d->dim[2] * d->dim[3], windows = o->dim[2] * o->dim[3], plane, end;
    lvn_thread_range(d->dim[0] * d->dim[1], 1, thread, n_threads, &plane, &end);
    for (; plane < end; plane++) {
        const float *dy = (const float *)call->dout[0].p + plane * windows;
        const int32_t *indices = (const int32_t *)call->out[1].p + plane * windows;
        float *dx = (float *)call->din[0].p + plane * size;
        if (!call->add[0]) memset(dx, 0, sizeof *dx * (size_t)size);
        for (int64_t e = 0; e < windows; e++) dx[indices[e]] += dy[e];
    }
}

LVN_CPU_OPERATION(max_pool2d, .forward = forward, .backward = backward);
