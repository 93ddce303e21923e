/* linear_cross_entropy.cpu.c - linear_cross_entropy on CPUs, a chunk of rows at a time; see linear_cross_entropy.c.
 *
 * The logits of a chunk are in scratch. The loss is computed from each row; in backward the row is then overwritten by
 * its gradient, from which the chunk's dx and its contributions to dw and db are computed. The chunks depend on shapes
 * alone. Forward computes no logits for rows whose label does not count. */
#include "backend/cpu/cpu_kernels.h"
#include "base/bf16.h"
#include "graph/loss_chunk.h"
#include "ops/cross_entropy_cpu.h"
#include "ops/linear_cpu.h"
#include "ops/shape.h"

/* Maximum number of logits of a chunk, whose rows are a multiple of LVN_LOSS_CHUNK. Larger chunks need more memory,
 * smaller ones more passes over the weight and its gradient. */
enum { CHUNK_LOGITS = 2 << 20 };

/* The head over R rows; logits are fp32. */
static struct linear head(const struct lvn_call *call, int64_t R)
{
    struct lvn_desc logits = LVN_DESC(LVN_F32, R, 1);
    return linear_make(call, &logits, call->attr->linear_cross_entropy.in_out);
}

static int64_t chunk_rows(const struct lvn_matmul *m)
{
    int64_t blocks = CHUNK_LOGITS / (m->N * LVN_LOSS_CHUNK), rows = (blocks < 1 ? 1 : blocks) * LVN_LOSS_CHUNK;
    return rows < m->R ? rows : m->R;
}

/* z (V) = cap tanh(z / cap). */
static void soft_cap(float *z, int64_t V, float cap)
{
    for (int64_t v = 0; v < V; v += LVN_LANES) {
        const int64_t n = V - v < LVN_LANES ? V - v : LVN_LANES;
        vstore_n(z + v, vtanh(vload_n(z + v, n) / cap) * cap, n);
    }
}

/* Overwrite capped logits z (V) by the gradient of the logits before the cap. */
static void soft_cap_slope(float *z, int64_t V, float normalizer, int32_t label, float scale, float cap)
{
    const float of_label = z[label] / cap, at_label = (expf(z[label] - normalizer) - 1) * scale;
    for (int64_t v = 0; v < V; v += LVN_LANES) {
        const int64_t n = V - v < LVN_LANES ? V - v : LVN_LANES;
        const vf x = vload_n(z + v, n), y = x / cap;
        vstore_n(z + v, vexp(x - normalizer) * scale * vfma(-y, y, vset(1)), n);
    }
    z[label] = at_label * (1 - of_label * of_label);
}

#if defined(__AVX512BF16__)
/* The loss of a row z (V), whose gradient overwrites its first half, in bf16: exponentials are computed once. */
static __attribute__((noinline)) float rounded_slope(float *z, int64_t V, int32_t label, float scale, float cap)
{
    const float per_cap = cap > 0 ? 1 / cap : 0, of_label = z[label];
    const struct exps e = exps_of(z, V, per_cap, z);
    const float loss = e.max + (float)log(e.sum) - of_label, y = of_label * per_cap;
    const vf factor = vset((float)(scale / e.sum));
    uint16_t *to = (uint16_t *)z;
    for (int64_t v = 0; v < V; v += LVN_LANES) {
        const int64_t n = V - v < LVN_LANES ? V - v : LVN_LANES;
        vstore_bf16_n(to + v, bf16_of_vf(vload_n(z + v, n) * factor), n);
    }
    to[label] = lvn_bf16_make((expf(-loss) - 1) * scale * (1 - y * y));
    return loss;
}

/* Do the multiplications with the gradient of the logits round it? */
static bool rounds_slopes(const struct linear *l)
{
    const struct lvn_gemm dx = product_dx(l, NULL, NULL, NULL, false), dw = product_dw(l, NULL, NULL, NULL, false);
    return !l->bias && LVN_ISA_NAME(lvn_gemm).rounds(&dx) && LVN_ISA_NAME(lvn_gemm).rounds(&dw);
}
#endif

/* The losses of a chunk. gradient: overwrite its logits by their gradients, as l describes them. */
static void chunk_losses(const struct lvn_call *call, int64_t first, const struct linear *l, float *logits,
                         bool gradient, int thread, int n_threads)
{
    const struct lvn_matmul *m = &l->size;
    const float scale = (float)call->step->grad_scale;
    const int32_t *labels = (const int32_t *)call->in[3].p + first;
    float *loss = (float *)call->out[1].p + first;
    const float cap = (float)call->attr->linear_cross_entropy.softcap;
    int64_t r, end;
    lvn_thread_range(m->R, 1, thread, n_threads, &r, &end);
    for (; r < end; r++) {
        float *z = logits + r * m->N;
        if (lvn_label_ignored(labels[r], call->attr->linear_cross_entropy.ignore)) {
            loss[r] = 0;
            if (gradient) memset(z, 0, (size_t)m->N * sizeof *z);
            continue;
        }
        if (cap > 0) soft_cap(z, m->N, cap);
#if defined(__AVX512BF16__)
        if (gradient && l->y_bf16) {
            loss[r] = rounded_slope(z, m->N, labels[r], scale, cap);
            continue;
        }
#endif
        float normalizer = logsumexp(z, m->N);
        loss[r] = normalizer - z[labels[r]];
        if (!gradient) continue;
        if (cap > 0)
            soft_cap_slope(z, m->N, normalizer, labels[r], scale, cap);
        else
            softmax_slope(z, m->N, normalizer, labels[r], scale, false, z);
    }
}

static void run(const struct lvn_call *call, bool gradient, int thread, int n_threads)
{
    int64_t R = lvn_desc_rows(call->in[0].desc);
    struct linear l = head(call, R);
    struct lvn_matmul *m = &l.size;
    const int64_t rows = chunk_rows(m);
    float *logits = call->scratch;
    void *scratch = logits + (rows * m->N + 15) / 16 * 16;
    m->R = rows;
    void *threads = (float *)scratch + (gradient ? gradient_floats(&l) : 0);
    for (int64_t r = 0; r < R; r += m->R) {
        m->R = rows < R - r ? rows : R - r;
        const void *x = vat(call->in[0].p, r * m->K, l.x_bf16); /* (R,C) */
        void *dx = call->din[0].p ? vat(call->din[0].p, r * m->K, l.dx_bf16) : NULL;
        struct lvn_gemm y = product_y(&l, x, call->in[1].p, call->in[2].p, logits);
        linear_product(&l, &y, threads, thread, n_threads);
        lvn_team_barrier();
#if defined(__AVX512BF16__)
        l.y_bf16 = gradient && rounds_slopes(&l);
        l.y_row = l.y_bf16 ? 2 * m->N : m->N;
#endif
        chunk_losses(call, r, &l, logits, gradient, thread, n_threads);
        lvn_team_barrier();
        if (!gradient) continue;
        void *const din[2] = {dx, call->din[1].p};
        const bool add[2] = {call->add[0], r || call->add[1]};
        linear_gradients(&l, x, call->in[1].p, logits, din, add, r == 0, scratch, thread, n_threads);
        lvn_team_barrier();
    }
    if (gradient) linear_bias(&l, scratch, call->din[2].p, call->add[2], thread, n_threads);
    if (thread) return;
    const float *loss = call->out[1].p;
    double total = 0;
    for (int64_t r = 0; r < R; r++) total += loss[r];
    *(double *)call->out[0].p = total;
}

/* The rows whose label counts, listed by thread 0; returns their number. */
static int64_t list_rows(const struct lvn_call *call, int64_t R, int32_t *list, int thread)
{
    const int32_t *labels = call->in[3].p;
    float *loss = call->out[1].p;
    int64_t n = 0;
    for (int64_t r = 0; r < R; r++) {
        const bool counts = !lvn_label_ignored(labels[r], call->attr->linear_cross_entropy.ignore);
        if (thread == 0 && counts) list[n] = (int32_t)r;
        if (thread == 0 && !counts) loss[r] = 0;
        n += counts;
    }
    return n;
}

/* Bytes of a row of x; those of the list of rows and of the rows of a chunk. */
static int64_t row_bytes(const struct linear *l)
{
    return l->size.K * (l->x_bf16 ? 2 : 4);
}

static int64_t list_bytes(int64_t R)
{
    return (R * (int64_t)sizeof(int32_t) + 63) / 64 * 64;
}

static int64_t gathered_bytes(const struct linear *l, int64_t R)
{
    return list_bytes(R) + (chunk_rows(&l->size) * row_bytes(l) + 63) / 64 * 64;
}

/* Rows whose label does not count have no logits: of the others, those of a chunk are copied to scratch. Zeros fill up
 * a few rows, because multiplications of fewer than LVN_GEMM_FEW rows do not round the weight, and ranks that hold
 * rounded weights would compute other bits. */
static void forward_counted(const struct lvn_call *call, int thread, int n_threads)
{
    struct linear l = head(call, lvn_desc_rows(call->in[0].desc));
    struct lvn_matmul *m = &l.size;
    const int64_t R = m->R, rows = chunk_rows(m), bytes = row_bytes(&l);
    const float cap = (float)call->attr->linear_cross_entropy.softcap;
    const int32_t *labels = call->in[3].p;
    float *logits = call->scratch, *loss = call->out[1].p;
    char *after = (char *)(logits + (rows * m->N + 15) / 16 * 16);
    int32_t *list = (int32_t *)after;
    char *x = after + list_bytes(R);
    const int64_t n = list_rows(call, R, list, thread), few = call->matmul_dtype == LVN_BF16 ? LVN_GEMM_FEW : 0,
                  least = few < rows ? few : rows;
    void *threads = after + gathered_bytes(&l, R);
    lvn_team_barrier();
    for (int64_t first = 0; first < n; first += rows) {
        int64_t r, end;
        const int64_t counted = rows < n - first ? rows : n - first;
        m->R = counted < least ? least : counted;
        lvn_thread_range(counted, 1, thread, n_threads, &r, &end);
        for (int64_t i = r; i < end; i++)
            memcpy(x + i * bytes, (const char *)call->in[0].p + list[first + i] * bytes, (size_t)bytes);
        if (!thread) memset(x + counted * bytes, 0, (size_t)((m->R - counted) * bytes));
        lvn_team_barrier();
        struct lvn_gemm y = product_y(&l, x, call->in[1].p, call->in[2].p, logits);
        linear_product(&l, &y, threads, thread, n_threads);
        lvn_team_barrier();
        for (int64_t i = r; i < end; i++) {
            float *z = logits + i * m->N;
            if (cap > 0) soft_cap(z, m->N, cap);
            loss[list[first + i]] = logsumexp(z, m->N) - z[labels[list[first + i]]];
        }
        lvn_team_barrier();
    }
    if (thread) return;
    double total = 0;
    for (int64_t r = 0; r < R; r++) total += loss[r];
    *(double *)call->out[0].p = total;
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const int64_t R = lvn_desc_rows(call->in[0].desc);
    const int32_t *labels = call->in[3].p;
    bool all = true;
    for (int64_t r = 0; r < R && all; r++) all = !lvn_label_ignored(labels[r], call->attr->linear_cross_entropy.ignore);
    if (all)
        run(call, false, thread, n_threads);
    else
        forward_counted(call, thread, n_threads);
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    run(call, true, thread, n_threads);
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    struct linear l = head(call, lvn_desc_rows(call->in[0].desc));
    const bool gradient = call->phase == LVN_BACKWARD;
    const int64_t gathered = gradient ? 0 : gathered_bytes(&l, l.size.R);
    l.size.R = chunk_rows(&l.size);
    int64_t products = linear_scratch(&l, call->phase, n_threads);
#if defined(__AVX512BF16__)
    if (gradient) { /* the gradient of the logits may be bf16 */
        l.y_bf16 = true;
        const int64_t rounded = linear_scratch(&l, call->phase, n_threads);
        products = rounded > products ? rounded : products;
    }
#endif
    return (l.size.R * l.size.N + 15) / 16 * 16 * (int64_t)sizeof(float) + gathered + products;
}

static uint32_t rounds(const struct lvn_call *call)
{
    struct linear l = head(call, lvn_desc_rows(call->in[0].desc));
    return linear_rounds(&l, call, true, chunk_rows(&l.size));
}

LVN_CPU_OPERATION(linear_cross_entropy, .forward = forward, .backward = backward, .scratch = scratch, .rounds = rounds);
