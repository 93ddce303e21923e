/* embedding.cpu.c - embedding on CPUs; see embedding.c.
 *
 * Backward first links the tokens of each id, and those of each position, into lists; then it sums each row of a
 * gradient in registers, in blocks, in token order, and stores it once. So a gradient may be bf16, and sums over
 * thousands of equal tokens have fp32 precision. Threads divide the channels, so the order of the sums, and the bits,
 * do not depend on their number. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd_bf16.h"
#include "base/threads.h"
#include "ops/positions.h"

static bool is_bf16(const struct lvn_arg *arg)
{
    return arg->desc && arg->desc->dtype == LVN_BF16;
}

/* y = a + b, n channels from elements at_a and at_b on. */
LVN_INLINE void sum_rows(const void *a, int64_t at_a, const bool a_bf16, const void *b, int64_t at_b, const bool b_bf16,
                         float *y, int64_t n)
{
    int64_t c = 0;
    for (; c + LVN_LANES <= n; c += LVN_LANES) vstore(y + c, vread(a, at_a + c, a_bf16) + vread(b, at_b + c, b_bf16));
    if (c < n) vstore_n(y + c, vread_n(a, at_a + c, n - c, a_bf16) + vread_n(b, at_b + c, n - c, b_bf16), n - c);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const int32_t *ids = call->in[0].p;
    const void *table = call->in[1].p, *positions = call->in[2].p; /* (V,C), (P,C) */
    const bool a_bf16 = is_bf16(&call->in[1]), b_bf16 = is_bf16(&call->in[2]);
    float *out = call->out[0].p; /* (...,T,C) */
    int64_t C = call->in[1].desc->dim[1], T = call->in[0].desc->dim[call->in[0].desc->rank - 1], r, end;
    lvn_thread_range(lvn_desc_rows(call->out[0].desc), 4, thread, n_threads, &r, &end);
    for (; r < end; r++) {
        int64_t a = ids[r] * C, b = lvn_token_position(call->step, call->in[3].p, r, T) * C;
        float *y = out + r * C;
        if (!positions)
            vconvert(vat(table, a, a_bf16), a_bf16, y, false, C);
        else if (a_bf16 && b_bf16)
            sum_rows(table, a, true, positions, b, true, y, C);
        else if (a_bf16)
            sum_rows(table, a, true, positions, b, false, y, C);
        else if (b_bf16)
            sum_rows(table, a, false, positions, b, true, y, C);
        else
            sum_rows(table, a, false, positions, b, false, y, C);
    }
}

/* Linked lists of the rows of dy that add to each row of a gradient. */
struct links {
    int32_t *first; /* [rows of the gradient] the first row of dy; -1: none */
    int32_t *next;  /* [rows of dy] the next row of dy; -1: none */
};

static struct links links_of(const struct lvn_call *call, int k)
{
    int32_t *p = call->scratch;
    int64_t rows = lvn_desc_rows(call->dout[0].desc);
    if (k == 2 && call->din[1].desc) p += call->din[1].desc->dim[0] + rows;
    return (struct links){p, p + call->din[k].desc->dim[0]};
}

/* Row of gradient k that row r of dy adds to. */
static int64_t row_of(const struct lvn_call *call, int k, int64_t r)
{
    const struct lvn_desc *dy = call->dout[0].desc;
    const int64_t T = dy->dim[dy->rank - 2];
    return k == 1 ? ((const int32_t *)call->in[0].p)[r] : lvn_token_position(call->step, call->in[3].p, r, T);
}

static void link_rows(const struct lvn_call *call, int k)
{
    struct links l = links_of(call, k);
    for (int64_t v = 0; v < call->din[k].desc->dim[0]; v++) l.first[v] = -1;
    for (int64_t r = lvn_desc_rows(call->dout[0].desc) - 1; r >= 0; r--) {
        int64_t v = row_of(call, k, r);
        l.next[r] = l.first[v];
        l.first[v] = (int32_t)r;
    }
}

/* Channels of a row that are summed at a time. */
enum { VECTORS = 4, CHANNELS = VECTORS * LVN_LANES };

/* Set n channels of gradient k, from element `at` on, to the sum of the list of rows of dy that begins with r. dy
 * points to the first channel. */
LVN_INLINE void sum_row(const struct lvn_call *call, int k, const int32_t *next, int64_t r, const float *dy, int64_t at,
                        const int64_t n, const bool bf16)
{
    const int64_t C = call->din[k].desc->dim[1];
    struct vacc sum[VECTORS];
    struct vtotal total[VECTORS];
    for (int blocks = 0;; blocks++) {
        for (int v = 0; v < VECTORS; v++) sum[v] = vacc_set(vset(0));
        for (int i = 0; i < LVN_SUM_BLOCK && r >= 0; i++, r = next[r])
            for (int64_t v = 0; v < VECTORS && v * LVN_LANES < n; v++) {
                const int64_t left = n - v * LVN_LANES, lanes = left < LVN_LANES ? left : LVN_LANES;
                sum[v] = vacc_add(sum[v], vread_n(dy, r * C + v * LVN_LANES, lanes, false));
            }
        if (r < 0 && !blocks) break; /* the common case: one block, which needs no total */
        if (!blocks) memset(total, 0, sizeof total);
        for (int v = 0; v < VECTORS; v++) vtotal_add(&total[v], vacc_get(sum[v]));
        if (r >= 0) continue;
        for (int v = 0; v < VECTORS; v++) sum[v] = vacc_set(vtotal_get(&total[v]));
        break;
    }
    for (int64_t v = 0; v < VECTORS && v * LVN_LANES < n; v++, at += LVN_LANES) {
        const int64_t left = n - v * LVN_LANES, lanes = left < LVN_LANES ? left : LVN_LANES;
        if (call->add[k]) sum[v] = vacc_add(sum[v], vread_n(call->din[k].p, at, lanes, bf16));
        vwrite_n(call->din[k].p, at, vacc_get(sum[v]), lanes, bf16);
    }
}

/* Channels [c, end) of all rows of gradient k. */
LVN_INLINE void sum_gradient(const struct lvn_call *call, int k, int64_t c, int64_t end, const bool bf16)
{
    const struct links l = links_of(call, k);
    const float *dy = call->dout[0].p;
    const int64_t C = call->din[k].desc->dim[1];
    for (int64_t v = 0; v < call->din[k].desc->dim[0]; v++) {
        if (l.first[v] < 0) {
            const size_t size = bf16 ? sizeof(uint16_t) : sizeof(float);
            if (!call->add[k]) memset((char *)call->din[k].p + (size_t)(v * C + c) * size, 0, (size_t)(end - c) * size);
            continue;
        }
        int64_t x = c;
        for (; x + CHANNELS <= end; x += CHANNELS)
            sum_row(call, k, l.next, l.first[v], dy + x, v * C + x, CHANNELS, bf16);
        if (x < end) sum_row(call, k, l.next, l.first[v], dy + x, v * C + x, end - x, bf16);
    }
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const struct lvn_desc *dy = call->dout[0].desc; /* (...,T,C) */
    int64_t c, end;
    for (int k = 1; k < 3; k++)
        if (call->din[k].p && thread == (k - 1) % n_threads) link_rows(call, k);
    lvn_team_barrier();
    lvn_thread_range(dy->dim[dy->rank - 1], LVN_LANES, thread, n_threads, &c, &end);
    for (int k = 1; k < 3 && c < end; k++) {
        if (!call->din[k].p) continue;
        if (is_bf16(&call->din[k]))
            sum_gradient(call, k, c, end, true);
        else
            sum_gradient(call, k, c, end, false);
    }
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    (void)n_threads;
    int64_t count = 0;
    for (int k = 1; k < 3 && call->phase == LVN_BACKWARD; k++)
        if (call->din[k].desc) count += call->din[k].desc->dim[0] + lvn_desc_rows(call->dout[0].desc);
    return count * (int64_t)sizeof(int32_t);
}

LVN_CPU_OPERATION(embedding, .forward = forward, .backward = backward, .scratch = scratch);
