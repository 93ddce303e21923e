/* embedding.cpu.c - rows of a table picked by id, and the sum of gradients back into them.
 *
 * Backward: threads share the channels, and each takes all tokens in order, so no two write to one place and the order
 * of every sum is that of the tokens. Rows are zeroed first, where the gradient is not added to another's; a tied head
 * writes the table's gradient before, and then there is nothing to zero. */
#include "backend/cpu/simd.h"
#include "base/threads.h"
#include "graph/op.h"

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    const int32_t *ids = call->in[0].p;
    const float *table = call->in[1].p, *positions = call->in[2].p; /* (V,C), (P,C) */
    float *out = call->out[0].p;                                    /* (...,T,C) */
    int64_t C = call->in[1].desc->dim[1], T = call->in[0].desc->dim[call->in[0].desc->rank - 1], r, end;
    lvn_share(lvn_desc_rows(call->out[0].desc), 4, thread, n_threads, &r, &end);
    for (; r < end; r++) {
        const float *a = table + ids[r] * C, *b = positions ? positions + (call->step->position + r % T) * C : NULL;
        float *y = out + r * C;
        int64_t c = 0;
        if (!b) {
            memcpy(y, a, (size_t)C * sizeof *y);
            continue;
        }
        for (; c + LVN_LANES <= C; c += LVN_LANES) vstore(y + c, vload(a + c) + vload(b + c));
        for (; c < C; c++) y[c] = a[c] + b[c];
    }
}

/* This thread's part of a gradient that nothing else has been written to. */
static void zero(const struct lvn_arg *gradient, bool add, int thread, int n_threads)
{
    if (!gradient->p || add) return;
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

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    const int32_t *ids = call->in[0].p;
    const float *dy = call->dout[0].p;                            /* (...,T,C) */
    float *dtable = call->din[1].p, *dpositions = call->din[2].p; /* (V,C), (P,C) */
    const struct lvn_desc *desc = call->dout[0].desc;
    int64_t C = desc->dim[desc->rank - 1], T = desc->dim[desc->rank - 2], rows = lvn_desc_rows(desc), c, end;
    zero(&call->din[1], call->add[1], thread, n_threads);
    zero(&call->din[2], call->add[2], thread, n_threads);
    lvn_team_barrier();
    lvn_share(C, LVN_LANES, thread, n_threads, &c, &end);
    if (c == end) return;
    for (int64_t r = 0; r < rows; r++) {
        const float *d = dy + r * C + c;
        if (dtable) accumulate(dtable + ids[r] * C + c, d, end - c);
        if (dpositions) accumulate(dpositions + (call->step->position + r % T) * C + c, d, end - c);
    }
}

extern const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_embedding);
const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_embedding) = {.forward = forward, .backward = backward};
