/* embedding.cpu.c - rows of a table picked by id, and the sum of gradients back into them.
 *
 * Backward: threads share the channels, and each takes all tokens in order, so no two write to one place and the order
 * of every sum is that of the tokens. Rows are zeroed first, where the gradient is not added to another's; a tied head
 * writes the table's gradient before, and then there is nothing to zero.
 *
 * A gradient in bf16 would lose what hundreds of equal tokens add to it one by one. There the tokens of each id are
 * linked first; then each row is summed in registers, in the order of the tokens, and rounded once. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/simd_bf16.h"
#include "base/threads.h"

static bool is_bf16(const struct lvn_arg *arg)
{
    return arg->desc && arg->desc->dtype == LVN_BF16;
}

/* y = a + b, of n channels from element `at_a` and `at_b` on; b may be absent. */
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
    lvn_share(lvn_desc_rows(call->out[0].desc), 4, thread, n_threads, &r, &end);
    for (; r < end; r++) {
        int64_t a = ids[r] * C, b = (call->step->position + r % T) * C;
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

/* --- gradients in fp32 --- */

/* This thread's part of a gradient that nothing else has been written to. */
static void zero(const struct lvn_arg *gradient, bool add, int thread, int n_threads)
{
    if (!gradient->p || add || is_bf16(gradient)) return;
    int64_t begin, end;
    lvn_share(lvn_desc_count(gradient->desc), 1024, thread, n_threads, &begin, &end);
    memset((float *)gradient->p + begin, 0, (size_t)(end - begin) * sizeof(float));
}

LVN_INLINE void accumulate(float *sum, const float *x, int64_t n)
{
    int64_t c = 0;
    for (; c + LVN_LANES <= n; c += LVN_LANES) vstore(sum + c, vload(sum + c) + vload(x + c));
    for (; c < n; c++) sum[c] += x[c];
}

/* --- gradients in bf16 --- */

/* The rows of dy that belong to each row of a gradient. */
struct links {
    int32_t *first; /* [rows of the gradient] number of the first row; -1: none */
    int32_t *next;  /* [rows of dy] of the next one; -1: none */
};

static struct links links_in(const struct lvn_call *call, int k)
{
    int32_t *p = call->scratch;
    int64_t rows = lvn_desc_rows(call->dout[0].desc);
    if (k == 2 && is_bf16(&call->din[1])) p += call->din[1].desc->dim[0] + rows;
    return (struct links){p, p + call->din[k].desc->dim[0]};
}

/* Row of gradient k that row r of dy adds to. */
static int64_t row_of(const struct lvn_call *call, int k, int64_t r)
{
    const struct lvn_desc *dy = call->dout[0].desc;
    return k == 1 ? ((const int32_t *)call->in[0].p)[r] : call->step->position + r % dy->dim[dy->rank - 2];
}

static void link_rows(const struct lvn_call *call, int k)
{
    struct links l = links_in(call, k);
    for (int64_t v = 0; v < call->din[k].desc->dim[0]; v++) l.first[v] = -1;
    for (int64_t r = lvn_desc_rows(call->dout[0].desc) - 1; r >= 0; r--) {
        int64_t v = row_of(call, k, r);
        l.next[r] = l.first[v];
        l.first[v] = (int32_t)r;
    }
}

/* Channels [c, end) of all rows of gradient k. */
static void sum_linked(const struct lvn_call *call, int k, int64_t c, int64_t end)
{
    struct links l = links_in(call, k);
    const float *dy = call->dout[0].p;
    uint16_t *to = call->din[k].p;
    int64_t C = call->din[k].desc->dim[1];
    for (int64_t v = 0; v < call->din[k].desc->dim[0]; v++, to += C) {
        if (l.first[v] < 0 && call->add[k]) continue;
        for (int64_t x = c; x < end; x += LVN_LANES) {
            int64_t n = end - x < LVN_LANES ? end - x : LVN_LANES;
            vf sum = vset(0);
            for (int32_t r = l.first[v]; r >= 0; r = l.next[r]) sum += vload_n(dy + r * C + x, n);
            if (call->add[k]) sum += vread_n(to, x, n, true);
            vwrite_n(to, x, sum, n, true);
        }
    }
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const int32_t *ids = call->in[0].p;
    const float *dy = call->dout[0].p; /* (...,T,C) */
    bool bf16[3] = {false, call->din[1].p && is_bf16(&call->din[1]), call->din[2].p && is_bf16(&call->din[2])};
    float *dtable = bf16[1] ? NULL : call->din[1].p, *dpositions = bf16[2] ? NULL : call->din[2].p; /* (V,C), (P,C) */
    const struct lvn_desc *desc = call->dout[0].desc;
    int64_t C = desc->dim[desc->rank - 1], T = desc->dim[desc->rank - 2], rows = lvn_desc_rows(desc), c, end;
    zero(&call->din[1], call->add[1], thread, n_threads);
    zero(&call->din[2], call->add[2], thread, n_threads);
    for (int k = 1; k < 3; k++)
        if (bf16[k] && thread == (k - 1) % n_threads) link_rows(call, k);
    lvn_team_barrier();
    lvn_share(C, LVN_LANES, thread, n_threads, &c, &end);
    if (c == end) return;
    for (int k = 1; k < 3; k++)
        if (bf16[k]) sum_linked(call, k, c, end);
    for (int64_t r = 0; r < rows && (dtable || dpositions); r++) {
        const float *d = dy + r * C + c;
        if (dtable) accumulate(dtable + ids[r] * C + c, d, end - c);
        if (dpositions) accumulate(dpositions + (call->step->position + r % T) * C + c, d, end - c);
    }
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    (void)n_threads;
    int64_t numbers = 0;
    for (int k = 1; k < 3 && call->phase == LVN_BACKWARD; k++)
        if (is_bf16(&call->din[k])) numbers += call->din[k].desc->dim[0] + lvn_desc_rows(call->dout[0].desc);
    return numbers * (int64_t)sizeof(int32_t);
}

LVN_CPU_OPERATION(embedding, .forward = forward, .backward = backward, .scratch = scratch);
