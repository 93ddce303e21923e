/* linear_gelu.cpu.c - linear, then GELU: each piece of the product goes through the activation while it lies in the
 * cache.
 *
 * Backward works on chunks of rows: the gradient before the activation is made in scratch, then read by the products of
 * linear; so scratch does not grow with the batch. */
#include "backend/cpu/simd_gelu.h"
#include "ops/linear_cpu.h"

/* Rows of a chunk. */
enum { CHUNK = 1024 };

static struct lvn_matmul matmul(const struct lvn_call *call)
{
    return lvn_matmul_make(lvn_desc_rows(call->out[1].desc), call->in[1].desc, call->attr->linear_gelu.in_out);
}

static bool is_tanh(const struct lvn_call *call)
{
    return call->attr->linear_gelu.tanh;
}

LVN_INLINE void activate_by(bool tanh, int64_t n, const float *h, float *y)
{
    int64_t i = 0;
    for (; i + LVN_LANES <= n; i += LVN_LANES) vstore(y + i, tanh ? vgelu_tanh(vload(h + i)) : vgelu(vload(h + i)));
    if (i < n) vstore_n(y + i, tanh ? vgelu_tanh(vload_n(h + i, n - i)) : vgelu(vload_n(h + i, n - i)), n - i);
}

/* y[0..n-1] = gelu(h[0..n-1]) */
static void activate(bool tanh, int64_t n, const float *h, float *y)
{
    if (tanh)
        activate_by(true, n, h, y);
    else
        activate_by(false, n, h, y);
}

LVN_INLINE void slope_by(bool tanh, int64_t n, const float *h, const float *dy, float *dh)
{
    int64_t i = 0;
    for (; i + LVN_LANES <= n; i += LVN_LANES) {
        vf x = vload(h + i);
        vstore(dh + i, vload(dy + i) * (tanh ? vgelu_tanh_slope(x) : vgelu_slope(x)));
    }
    if (i < n) {
        vf x = vload_n(h + i, n - i);
        vstore_n(dh + i, vload_n(dy + i, n - i) * (tanh ? vgelu_tanh_slope(x) : vgelu_slope(x)), n - i);
    }
}

/* dh[0..n-1] = dy[0..n-1] * gelu'(h[0..n-1]) */
static void slope(bool tanh, int64_t n, const float *h, const float *dy, float *dh)
{
    if (tanh)
        slope_by(true, n, h, dy, dh);
    else
        slope_by(false, n, h, dy, dh);
}

static void activate_piece(const struct lvn_gemm *g, int64_t i0, int64_t m, int64_t j, int64_t n)
{
    const struct lvn_call *call = g->argument;
    for (int64_t i = i0; i < i0 + m; i++)
        activate(is_tanh(call), n, g->c + i * g->c_row + j, (float *)call->out[0].p + i * g->c_row + j);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    struct lvn_matmul m = matmul(call);
    struct lvn_gemm h = product_y(&m, call->in[0].p, call->in[1].p, call->in[2].p, call->out[1].p);
    h.finish = activate_piece;
    h.argument = call;
    linear_forward(&m, &h, call->scratch, thread, n_threads);
}

static void restore(const struct lvn_call *call, int thread, int n_threads)
{
    int64_t i, end;
    lvn_share(lvn_desc_count(call->out[1].desc), LVN_LANES, thread, n_threads, &i, &end);
    activate(is_tanh(call), end - i, (const float *)call->out[1].p + i, (float *)call->out[0].p + i);
}

static int64_t chunk_rows(const struct lvn_matmul *m)
{
    return m->R < CHUNK ? m->R : CHUNK;
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    struct lvn_matmul all = matmul(call), m = all;
    const float *x = call->in[0].p, *h = call->out[1].p, *dy = call->dout[0].p; /* (R,K), (R,N), (R,N) */
    float *dx = call->din[0].p, *dh = call->scratch;
    void *scratch = dh + (chunk_rows(&all) * all.N + 15) / 16 * 16;
    for (int64_t r = 0; r < all.R; r += m.R) {
        int64_t i, end;
        m.R = all.R - r < CHUNK ? all.R - r : CHUNK;
        lvn_share(m.R * m.N, LVN_LANES, thread, n_threads, &i, &end);
        if (r) lvn_team_barrier(); /* dh is read no more */
        slope(is_tanh(call), end - i, h + r * m.N + i, dy + r * m.N + i, dh + i);
        lvn_team_barrier();
        float *const din[3] = {dx ? dx + r * m.K : NULL, call->din[1].p, call->din[2].p};
        const bool add[3] = {call->add[0], r || call->add[1], r || call->add[2]};
        linear_gradients(&m, x + r * m.K, call->in[1].p, dh, din, add, scratch, thread, n_threads);
    }
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    if (call->phase == LVN_RESTORE) return 0;
    struct lvn_matmul m = matmul(call);
    int64_t dh = 0;
    if (call->phase == LVN_BACKWARD) {
        m.R = chunk_rows(&m);
        dh = (m.R * m.N + 15) / 16 * 16 * (int64_t)sizeof(float);
    }
    return dh + thread_scratch(&m) * n_threads;
}

extern const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_linear_gelu);
const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_linear_gelu) = {
    .forward = forward, .backward = backward, .restore = restore, .scratch = scratch};
