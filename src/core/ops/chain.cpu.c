/* chain.cpu.c - chains of elementwise operations on CPUs; see chain.c.
 *
 * A thread computes blocks of elements that fit the L1 cache: each step is a loop over the block. Backward computes the
 * block's values again, and the slopes with them, then multiplies the gradient by the slopes from the last step to the
 * first. The chains of most models, gated linear units, have a loop for all steps. */
#include "graph/chain.h"
#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/simd_bf16.h"
#include "backend/cpu/simd_gelu.h"
#include "base/threads.h"

enum { BLOCK = 16 * LVN_LANES };
/* Loops over a block, which the compiler would copy to each caller. */
#define SHARED static __attribute__((noinline))

/* The argument of exp is limited so that e^(-x) is finite: infinity would give 0 times infinity later. */
LVN_INLINE vf sigmoid(vf x)
{
    return 1 / (1 + vexp(vmin(vset(88), -x)));
}

/* --- gated linear units: SILU or GELU_TANH, then MUL, with operands of one type; registers hold all values --- */

/* y = step(x), and the slope there. */
LVN_INLINE vf gate(const bool silu, vf x, vf *slope)
{
    vf y, s;
    if (silu) {
        s = sigmoid(x), y = x * s;
        *slope = vfma(y, 1 - s, s);
    } else {
        *slope = vgelu_tanh_both(x, &y);
    }
    return y;
}

LVN_INLINE void gated_values(const struct lvn_call *c, const bool silu, const bool bf16, int64_t i, int64_t end)
{
    for (; i < end; i += LVN_LANES) {
        const int64_t n = end - i < LVN_LANES ? end - i : LVN_LANES;
        vf slope, y = gate(silu, vread_n(c->in[0].p, i, n, bf16), &slope);
        vwrite_n(c->out[0].p, i, y * vread_n(c->in[1].p, i, n, bf16), n, bf16);
    }
}

LVN_INLINE void gated_gradients(const struct lvn_call *c, const bool silu, const bool bf16, int64_t i, int64_t end)
{
    for (; i < end; i += LVN_LANES) {
        const int64_t n = end - i < LVN_LANES ? end - i : LVN_LANES;
        vf slope, y = gate(silu, vread_n(c->in[0].p, i, n, bf16), &slope), dy = vread_n(c->dout[0].p, i, n, bf16);
        vf dgate = dy * vread_n(c->in[1].p, i, n, bf16) * slope, dup = dy * y; /* dgate may overwrite dy */
        if (c->din[0].p && c->add[0]) dgate += vread_n(c->din[0].p, i, n, bf16);
        if (c->din[0].p) vwrite_n(c->din[0].p, i, dgate, n, bf16);
        if (c->din[1].p && c->add[1]) dup += vread_n(c->din[1].p, i, n, bf16);
        if (c->din[1].p) vwrite_n(c->din[1].p, i, dup, n, bf16);
    }
}

/* Is the chain such a unit? Then sets *silu and *bf16. y: description of the output. */
static bool is_gated(const struct lvn_call *c, const struct lvn_desc *y, bool *silu, bool *bf16)
{
    const int64_t steps = c->attr->chain.steps;
    *silu = lvn_chain_step(steps, 0) == LVN_CHAIN_SILU;
    *bf16 = y->dtype == LVN_BF16;
    return (*silu || lvn_chain_step(steps, 0) == LVN_CHAIN_GELU_TANH) && lvn_chain_step(steps, 1) == LVN_CHAIN_MUL &&
           lvn_chain_length(steps) == 2 && c->in[0].desc->dtype == y->dtype && c->in[1].desc->dtype == y->dtype;
}

#define BY_KIND(function)                                                                                              \
    if (silu && bf16) function(c, true, true, i, end);                                                                 \
    if (silu && !bf16) function(c, true, false, i, end);                                                               \
    if (!silu && bf16) function(c, false, true, i, end);                                                               \
    if (!silu && !bf16) function(c, false, false, i, end)

static bool gated_forward(const struct lvn_call *c, int thread, int n_threads)
{
    bool silu, bf16;
    int64_t i, end;
    if (!is_gated(c, c->out[0].desc, &silu, &bf16)) return false;
    lvn_thread_range(lvn_desc_count(c->out[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    BY_KIND(gated_values);
    return true;
}

static bool gated_backward(const struct lvn_call *c, int thread, int n_threads)
{
    bool silu, bf16;
    int64_t i, end;
    if (!is_gated(c, c->dout[0].desc, &silu, &bf16)) return false;
    for (int k = 0; k < 2; k++) /* the gradient of a bf16 parameter may be fp32 */
        if (c->din[k].desc && c->din[k].desc->dtype != c->dout[0].desc->dtype) return false;
    lvn_thread_range(lvn_desc_count(c->dout[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    BY_KIND(gated_gradients);
    return true;
}

/* --- any chain --- */

/* Elements [i, i + n) of operand a as floats: in memory, or copied to `buffer`, then with zeros up to whole vectors. */
SHARED const float *elements(const struct lvn_arg *a, int64_t i, int64_t n, float *buffer)
{
    const bool bf16 = a->desc->dtype == LVN_BF16;
    if (!bf16 && n == BLOCK) return (const float *)a->p + i;
    for (int64_t j = 0; j < n; j += LVN_LANES)
        vstore(buffer + j, vread_n(a->p, i + j, n - j < LVN_LANES ? n - j : LVN_LANES, bf16));
    return buffer;
}

/* Write x to elements [i, i + n) of operand `to`, or add it to them. */
SHARED void put(const struct lvn_arg *to, int64_t i, int64_t n, bool add, const float *x)
{
    const bool bf16 = to->desc->dtype == LVN_BF16;
    for (int64_t j = 0; j < n; j += LVN_LANES) {
        const int64_t m = n - j < LVN_LANES ? n - j : LVN_LANES;
        vf v = vload(x + j);
        if (add) v += vread_n(to->p, i + j, m, bf16);
        vwrite_n(to->p, i + j, v, m, bf16);
    }
}

#define EACH for (int64_t j = 0; j < n; j += LVN_LANES)

SHARED void multiply(const float *a, const float *b, float *y, int64_t n)
{
    EACH vstore(y + j, vload(a + j) * vload(b + j));
}

/* y = step(x) for n elements, rounded up to whole vectors. */
SHARED void values(enum lvn_chain_step step, float factor, const float *x, float *y, int64_t n)
{
    switch (step) {
    case LVN_CHAIN_SILU:
        EACH vstore(y + j, vload(x + j) * sigmoid(vload(x + j)));
        break;
    case LVN_CHAIN_RELU:
        EACH vstore(y + j, vmax(vset(0), vload(x + j)));
        break;
    case LVN_CHAIN_RELU2:
        EACH vstore(y + j, vmax(vset(0), vload(x + j)) * vload(x + j));
        break;
    case LVN_CHAIN_GELU:
        EACH vstore(y + j, vgelu(vload(x + j)));
        break;
    case LVN_CHAIN_GELU_TANH:
        EACH vstore(y + j, vgelu_tanh(vload(x + j)));
        break;
    case LVN_CHAIN_TANH:
        EACH vstore(y + j, vtanh(vload(x + j)));
        break;
    default:
        EACH vstore(y + j, vload(x + j) * factor);
    }
}

/* The same, and the slope of the step at x. */
SHARED void slopes(enum lvn_chain_step step, float factor, const float *x, float *y, float *slope, int64_t n)
{
    if (step == LVN_CHAIN_SILU) { /* one exponential for both */
        EACH
        {
            const vf s = sigmoid(vload(x + j)), silu = vload(x + j) * s;
            vstore(slope + j, vfma(silu, 1 - s, s));
            vstore(y + j, silu);
        }
        return;
    }
    values(step, factor, x, y, n);
    switch (step) {
    case LVN_CHAIN_RELU:
        EACH vstore(slope + j, vselect(vgreater(vload(x + j), vset(0)), vset(1), vset(0)));
        break;
    case LVN_CHAIN_RELU2:
        EACH vstore(slope + j, vmax(vset(0), 2 * vload(x + j)));
        break;
    case LVN_CHAIN_GELU:
        EACH vstore(slope + j, vgelu_slope(vload(x + j)));
        break;
    case LVN_CHAIN_GELU_TANH:
        EACH vstore(slope + j, vgelu_tanh_slope(vload(x + j)));
        break;
    case LVN_CHAIN_TANH:
        EACH vstore(slope + j, vfma(-vload(y + j), vload(y + j), vset(1)));
        break;
    default:
        EACH vstore(slope + j, vset(factor));
    }
}

static void forward(const struct lvn_call *c, int thread, int n_threads)
{
    const int64_t steps = c->attr->chain.steps;
    if (gated_forward(c, thread, n_threads)) return;
    float buffer[BLOCK] __attribute__((aligned(64))), other[BLOCK] __attribute__((aligned(64)));
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(c->out[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    for (; i < end; i += BLOCK) {
        const int64_t n = end - i < BLOCK ? end - i : BLOCK;
        const float *v = elements(&c->in[0], i, n, buffer);
        for (int k = 0, in = 0; lvn_chain_step(steps, k); k++, v = buffer) {
            const enum lvn_chain_step step = lvn_chain_step(steps, k);
            if (step == LVN_CHAIN_MUL)
                multiply(v, elements(&c->in[++in], i, n, other), buffer, n);
            else
                values(step, (float)c->attr->chain.factor, v, buffer, n);
        }
        put(&c->out[0], i, n, false, v);
    }
}

/* Values of a block: before[k] is that before step k, slope[k] the step's slope there. */
struct block {
    const float *before[LVN_CHAIN_STEPS + 1];
    float value[LVN_CHAIN_STEPS + 1][BLOCK] __attribute__((aligned(64)));
    float slope[LVN_CHAIN_STEPS][BLOCK] __attribute__((aligned(64)));
    float side[BLOCK] __attribute__((aligned(64)));
    float d[BLOCK] __attribute__((aligned(64)));
};

/* Compute the values before all steps, and the slopes. Returns the number of steps. */
static int fill(const struct lvn_call *c, int64_t i, int64_t n, struct block *b)
{
    const int64_t steps = c->attr->chain.steps;
    int k = 0, in = 0;
    b->before[0] = elements(&c->in[0], i, n, b->value[0]);
    for (; lvn_chain_step(steps, k); k++) {
        const enum lvn_chain_step step = lvn_chain_step(steps, k);
        b->before[k + 1] = b->value[k + 1];
        if (step != LVN_CHAIN_MUL)
            slopes(step, (float)c->attr->chain.factor, b->before[k], b->value[k + 1], b->slope[k], n);
        else if (lvn_chain_step(steps, k + 1)) /* the result of the last step is not needed */
            multiply(b->before[k], elements(&c->in[++in], i, n, b->side), b->value[k + 1], n);
    }
    return k;
}

/* Elements [i, i + n) of all gradients. A gradient may overwrite dy: it is written after the last use of dy there. */
static void backward_block(const struct lvn_call *c, int64_t i, int64_t n, struct block *b)
{
    const int64_t steps = c->attr->chain.steps;
    int in = lvn_chain_count(steps, LVN_CHAIN_MUL);
    const float *d = elements(&c->dout[0], i, n, b->d);
    for (int k = fill(c, i, n, b) - 1; k >= 0; k--, d = b->d) {
        const bool mul = lvn_chain_step(steps, k) == LVN_CHAIN_MUL;
        if (mul) multiply(d, b->before[k], b->slope[k], n); /* the gradient of the other factor */
        multiply(d, mul ? elements(&c->in[in], i, n, b->side) : b->slope[k], b->d, n);
        if (mul && c->din[in].p) put(&c->din[in], i, n, c->add[in], b->slope[k]);
        in -= mul;
    }
    if (c->din[0].p) put(&c->din[0], i, n, c->add[0], d);
}

static void backward(const struct lvn_call *c, int thread, int n_threads)
{
    if (gated_backward(c, thread, n_threads)) return;
    struct block b;
    int64_t i, end;
    lvn_thread_range(lvn_desc_count(c->dout[0].desc), 4 * LVN_LANES, thread, n_threads, &i, &end);
    for (; i < end; i += BLOCK) backward_block(c, i, end - i < BLOCK ? end - i : BLOCK, &b);
}

LVN_CPU_OPERATION(chain, .forward = forward, .backward = backward, .restore = forward);
