/* linear_gelu.cpu.c - linear, then GELU, on CPUs; see linear_gelu.c.
 *
 * The activation is applied to each tile of the linear layer's result while it is in the cache. Backward processes
 * chunks of rows: it computes the gradient before the activation in scratch, from which the gradients of linear are
 * computed. So scratch does not grow with the batch. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd_gelu.h"
#include "ops/linear_cpu.h"

/* Rows of a chunk. */
enum { CHUNK = 1024 };

static struct linear make(const struct lvn_call *call)
{
    return linear_make(call, call->out[1].desc, call->attr->linear_gelu.in_out);
}

/* h after rounding to its stored type: the activation is computed from it, so that restore gives the same bits. */
LVN_INLINE vf stored(vf h, const bool bf16)
{
    return bf16 ? vf_of_bf16(bf16_of_vf(h)) : h;
}

/* Call with compile-time constants: which activation, and whether values are bf16. */
#define CALL_VERSION(tanh_, bf16_, call)                                                                               \
    if (tanh_ && bf16_)                                                                                                \
        call(true, true);                                                                                              \
    else if (tanh_)                                                                                                    \
        call(true, false);                                                                                             \
    else if (bf16_)                                                                                                    \
        call(false, true);                                                                                             \
    else                                                                                                               \
        call(false, false)

LVN_INLINE vf gelu_value(vf x, const bool tanh)
{
    return tanh ? vgelu_tanh(x) : vgelu(x);
}

LVN_INLINE vf gelu_slope(vf x, const bool tanh)
{
    return tanh ? vgelu_tanh_slope(x) : vgelu_slope(x);
}

/* y = gelu(h) for n elements from element i on, in their stored type. */
LVN_INLINE void activate_by(const bool tanh, const bool bf16, int64_t i, int64_t n, const void *h, void *y)
{
    for (n += i; i < n; i += LVN_LANES) {
        int64_t lanes = n - i < LVN_LANES ? n - i : LVN_LANES;
        vf x = lanes == LVN_LANES ? vread(h, i, bf16) : vread_n(h, i, lanes, bf16);
        x = gelu_value(x, tanh);
        if (lanes == LVN_LANES)
            vwrite(y, i, x, bf16);
        else
            vwrite_n(y, i, x, lanes, bf16);
    }
}

/* dh = dy * gelu'(h) for n elements of h and dy from element i on; dh points to the first. */
LVN_INLINE void slope_by(const bool tanh, const bool bf16, int64_t i, int64_t n, const void *h, const void *dy,
                         float *dh)
{
    for (n += i; i < n; i += LVN_LANES, dh += LVN_LANES) {
        int64_t lanes = n - i < LVN_LANES ? n - i : LVN_LANES;
        vf x = lanes == LVN_LANES ? vread(h, i, bf16) : vread_n(h, i, lanes, bf16);
        vf g = lanes == LVN_LANES ? vread(dy, i, bf16) : vread_n(dy, i, lanes, bf16);
        g *= gelu_slope(x, tanh);
        if (lanes == LVN_LANES)
            vstore(dh, g);
        else
            vstore_n(dh, g, lanes);
    }
}

/* A row of a finished tile c of h, in fp32: store h and y = gelu(h) in their stored type. */
LVN_INLINE void finish_by(const bool tanh, const bool bf16, int64_t i, int64_t n, const float *c, void *h, void *y)
{
    for (n += i; i < n; i += LVN_LANES, c += LVN_LANES) {
        int64_t lanes = n - i < LVN_LANES ? n - i : LVN_LANES;
        vf x = lanes == LVN_LANES ? vload(c) : vload_n(c, lanes), a = stored(x, bf16);
        a = gelu_value(a, tanh);
        if (lanes == LVN_LANES) {
            if (bf16) vwrite(h, i, x, bf16);
            vwrite(y, i, a, bf16);
        } else {
            if (bf16) vwrite_n(h, i, x, lanes, bf16);
            vwrite_n(y, i, a, lanes, bf16);
        }
    }
}

static bool is_tanh(const struct lvn_call *call)
{
    return call->attr->linear_gelu.tanh;
}

static void activate_tile(const struct lvn_gemm *g, float *c, int64_t row, int64_t i0, int64_t m, int64_t j, int64_t n)
{
    const struct lvn_call *call = g->argument;
    bool bf16 = call->out[1].desc->dtype == LVN_BF16;
    for (int64_t i = i0; i < i0 + m; i++, c += row) {
        int64_t at = i * g->c_row + j;
#define FINISH(t, h) finish_by(t, h, at, n, c, call->out[1].p, call->out[0].p)
        CALL_VERSION(is_tanh(call), bf16, FINISH);
#undef FINISH
    }
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    struct linear l = make(call);
    float *wide = call->scratch;
    struct lvn_gemm h = product_y(&l, call->in[0].p, call->in[1].p, call->in[2].p, l.y_bf16 ? wide : call->out[1].p);
    void *threads = wide + wide_floats(l.y_bf16, &h);
    if (l.y_bf16 && LVN_ISA_NAME(lvn_gemm).buffers(&h)) h.c = NULL;
    h.finish = activate_tile;
    h.argument = call;
    linear_product(&l, &h, threads, thread, n_threads);
}

static void restore(const struct lvn_call *call, int thread, int n_threads)
{
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(call->out[1].desc), LVN_LANES, thread, n_threads, &i, &end);
#define ACTIVATE(t, h) activate_by(t, h, i, end - i, call->out[1].p, call->out[0].p)
    CALL_VERSION(is_tanh(call), call->out[1].desc->dtype == LVN_BF16, ACTIVATE);
#undef ACTIVATE
}

static int64_t chunk_rows(const struct lvn_matmul *m)
{
    return m->R < CHUNK ? m->R : CHUNK;
}

/* Floats of scratch for a chunk's gradient before the activation. */
static int64_t slope_floats(const struct lvn_matmul *m)
{
    return (chunk_rows(m) * m->N + 15) / 16 * 16;
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    struct linear l = make(call);
    const bool bf16 = l.y_bf16;
    const int64_t R = l.size.R, K = l.size.K, N = l.size.N;
    float *dh = call->scratch;
    void *scratch = dh + slope_floats(&l.size);
    l.y_bf16 = false; /* y now stands for dh, which is fp32 */
    for (int64_t r = 0; r < R; r += l.size.R) {
        int64_t i, end;
        l.size.R = R - r < CHUNK ? R - r : CHUNK;
        lvn_thread_range(l.size.R * N, LVN_LANES, thread, n_threads, &i, &end);
        if (r) lvn_team_barrier(); /* no thread reads dh any more */
#define SLOPE(t, h) slope_by(t, h, r *N + i, end - i, call->out[1].p, call->dout[0].p, dh + i)
        CALL_VERSION(is_tanh(call), bf16, SLOPE);
#undef SLOPE
        lvn_team_barrier();
        void *dx = call->din[0].p ? vat(call->din[0].p, r * K, l.dx_bf16) : NULL;
        void *const din[2] = {dx, call->din[1].p};
        const bool add[2] = {call->add[0], r || call->add[1]};
        linear_gradients(&l, vat(call->in[0].p, r * K, l.x_bf16), call->in[1].p, dh, din, add, r == 0, scratch, thread,
                         n_threads);
    }
    linear_bias(&l, scratch, call->din[2].p, call->add[2], thread, n_threads);
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    if (call->phase == LVN_RESTORE) return 0;
    struct linear l = make(call);
    if (call->phase == LVN_FORWARD) return linear_scratch(&l, call->phase, n_threads);
    int64_t slopes = slope_floats(&l.size);
    l.y_bf16 = false;
    l.size.R = chunk_rows(&l.size);
    return slopes * (int64_t)sizeof(float) + linear_scratch(&l, call->phase, n_threads);
}

static uint32_t rounds(const struct lvn_call *call)
{
    if (call->phase == LVN_RESTORE) return 0; /* does not read the weight */
    struct linear l = make(call);
    return linear_rounds(&l, call, call->phase == LVN_FORWARD, call->phase == LVN_FORWARD ? l.size.R : CHUNK);
}

LVN_CPU_OPERATION(linear_gelu, .forward = forward, .backward = backward, .restore = restore, .scratch = scratch,
                  .rounds = rounds);
