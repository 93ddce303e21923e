/* swiglu.cpu.c - swiglu on CPUs; see swiglu.c. */
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd_bf16.h"
#include "backend/cpu/simd_math.h"
#include "base/threads.h"

/* The argument of exp is limited so that e^(-x) is finite: infinity would give 0 times infinity later. */
LVN_INLINE vf sigmoid(vf x)
{
    return 1 / (1 + vexp(vmin(vset(88), -x)));
}

/* Which operands, with their gradients, are bf16; compile-time constants in the common cases. */
struct kind {
    bool gate;
    bool up;
    bool y;
};

LVN_INLINE void forward_as(const struct lvn_call *c, struct kind bf16, int64_t i, int64_t end)
{
    for (; i < end; i += LVN_LANES) {
        const int64_t n = end - i < LVN_LANES ? end - i : LVN_LANES;
        const vf gate = vread_n(c->in[0].p, i, n, bf16.gate), up = vread_n(c->in[1].p, i, n, bf16.up);
        vwrite_n(c->out[0].p, i, gate * sigmoid(gate) * up, n, bf16.y);
    }
}

LVN_INLINE void backward_as(const struct lvn_call *c, struct kind bf16, int64_t i, int64_t end)
{
    for (; i < end; i += LVN_LANES) {
        const int64_t n = end - i < LVN_LANES ? end - i : LVN_LANES;
        const vf gate = vread_n(c->in[0].p, i, n, bf16.gate), up = vread_n(c->in[1].p, i, n, bf16.up);
        const vf dy = vread_n(c->dout[0].p, i, n, bf16.y), s = sigmoid(gate), silu = gate * s;
        vf dgate = dy * up * vfma(silu, 1 - s, s), dup = dy * silu; /* dgate may overwrite dy: read first */
        if (c->din[0].p && c->add[0]) dgate += vread_n(c->din[0].p, i, n, bf16.gate);
        if (c->din[0].p) vwrite_n(c->din[0].p, i, dgate, n, bf16.gate);
        if (c->din[1].p && c->add[1]) dup += vread_n(c->din[1].p, i, n, bf16.up);
        if (c->din[1].p) vwrite_n(c->din[1].p, i, dup, n, bf16.up);
    }
}

LVN_INLINE struct kind kind_of(const struct lvn_call *c, const struct lvn_desc *y)
{
    return (struct kind){c->in[0].desc->dtype == LVN_BF16, c->in[1].desc->dtype == LVN_BF16, y->dtype == LVN_BF16};
}

static void forward(const struct lvn_call *c, int thread, int n_threads)
{
    const struct kind k = kind_of(c, c->out[0].desc);
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(c->out[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    if (k.gate && k.up && k.y)
        forward_as(c, (struct kind){true, true, true}, i, end);
    else if (!k.gate && !k.up && !k.y)
        forward_as(c, (struct kind){false, false, false}, i, end);
    else
        forward_as(c, k, i, end);
}

static void backward(const struct lvn_call *c, int thread, int n_threads)
{
    const struct kind k = kind_of(c, c->dout[0].desc);
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(c->dout[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    if (k.gate && k.up && k.y)
        backward_as(c, (struct kind){true, true, true}, i, end);
    else if (!k.gate && !k.up && !k.y)
        backward_as(c, (struct kind){false, false, false}, i, end);
    else
        backward_as(c, k, i, end);
}

LVN_CPU_OPERATION(swiglu, .forward = forward, .backward = backward, .restore = forward);
