/* max_pool2d.cpu.c - max pooling on CPUs: threads divide the planes; the maxima over the rows of windows are computed
 * for sixteen columns at a time; see max_pool2d.c. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd.h"
#include "base/threads.h"

enum { CHUNK = 256 }; /* columns that are processed at a time */

/* The maximum of each column over `size` rows, and its row (the first of equal ones); a NaN is the maximum. */
static void fold_rows(const float *x, int64_t W, int64_t size, int64_t n, float *best, int32_t *row)
{
    for (int64_t j = 0; j < n; j++) best[j] = x[j], row[j] = 0;
    for (int64_t i = 1; i < size; i++)
        for (int64_t j = 0; j < n; j++) {
            float v = x[i * W + j], b = best[j];
            int larger = (v > b) | ((v != v) & (b == b));
            best[j] = larger ? v : b;
            row[j] = larger ? (int32_t)i : row[j];
        }
}

/* The maximum of a window from the maxima of its columns, and its index within the rows. */
static float fold_columns(const float *best, const int32_t *row, int64_t size, int64_t W, int32_t *indices)
{
    float b = best[0];
    int32_t index = row[0] * (int32_t)W;
    for (int64_t j = 1; j < size; j++) {
        float v = best[j];
        int32_t candidate = row[j] * (int32_t)W + (int32_t)j;
        bool larger = v > b || (v != v && b == b), first = (v == b || (v != v && b != b)) && candidate < index;
        b = larger ? v : b;
        index = larger || first ? candidate : index;
    }
    *indices = index;
    return b;
}

/* Every second of n <= 32 elements, from element `first` (0 or 1) on. */
LVN_INLINE vf every_second(const float *x, int64_t n, const int first)
{
    const vf a = vload_n(x, n < LVN_LANES ? n : LVN_LANES),
             b = vload_n(x + LVN_LANES, n < LVN_LANES ? 0 : n - LVN_LANES);
    return first ? __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
                 : __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

/* The common case: n windows of two by two with stride two, in a row. end: end of y's plane. */
LVN_INLINE void pool_twos(const float *x, int64_t W, int64_t n, float *y, const float *end, int32_t *indices,
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

static void pool_row(const float *x, int64_t W, int64_t OW, int64_t size, int64_t stride, float *y, int32_t *indices,
                     int32_t start)
{
    float best[CHUNK];
    int32_t row[CHUNK];
    int64_t windows = (CHUNK - size) / stride + 1; /* of a chunk; size is at most 64 */
    for (int64_t o = 0; o < OW; o += windows) {
        int64_t n = OW - o < windows ? OW - o : windows, first = o * stride;
        fold_rows(x + first, W, size, (n - 1) * stride + size, best, row);
        for (int64_t k = 0; k < n; k++) {
            int32_t index;
            y[o + k] = fold_columns(best + k * stride, row + k * stride, size, W, &index);
            indices[o + k] = start + (int32_t)(first + k * stride) + index;
        }
    }
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct lvn_desc *d = call->in[0].desc, *o = call->out[0].desc;
    int64_t H = d->dim[2], W = d->dim[3], OH = o->dim[2], OW = o->dim[3], plane, end;
    int64_t size = call->attr->max_pool2d.size, stride = call->attr->max_pool2d.stride;
    lvn_thread_range(d->dim[0] * d->dim[1], 1, thread, n_threads, &plane, &end);
    for (; plane < end; plane++)
        for (int64_t i = 0; i < OH; i++) {
            const float *x = (const float *)call->in[0].p + (plane * H + i * stride) * W;
            const int64_t to = (plane * OH + i) * OW;
            float *y = (float *)call->out[0].p + to;
            int32_t *indices = (int32_t *)call->out[1].p + to, start = (int32_t)(i * stride * W);
            if (size == 2 && stride == 2)
                pool_twos(x, W, OW, y, y + (OH - i) * OW, indices, start);
            else
                pool_row(x, W, OW, size, stride, y, indices, start);
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
