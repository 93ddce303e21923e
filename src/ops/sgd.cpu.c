/* sgd.cpu.c - SGD on CPUs, with the bits of sgd.c, in one pass over gradient, parameters and momentum.
 *
 * Parameters and gradients may be bf16: parameters are then computed in fp32 and rounded stochastically; see
 * adamw.cpu.c. */
#include "backend/cpu/cpu_kernels.h"
#include "base/threads.h"
#include "ops/extents_cpu.h"
#include "ops/rounding_cpu.h"

struct constants {
    float scale; /* clip factor of the norm */
    float clip;  /* of values; 0: off */
    float decay;
    float momentum;
    float lr;
};

LVN_INLINE void update(const struct constants *k, bool clip, bool decay, bool momentum, vf g, vf *p, vf *b)
{
    g = g * k->scale;
    if (clip) g = vmax(vset(-k->clip), vmin(vset(k->clip), g)); /* in this order NaN stays NaN */
    if (decay) g = vfma(vset(k->decay), *p, g);
    if (momentum) g = vfma(vset(k->momentum), *b, g);
    *b = g;
    *p = vfma(vset(-k->lr), g, *p);
}

LVN_INLINE void range(const struct constants *k, bool clip, bool decay, bool has_momentum, const float *grad,
                      float *param, float *momentum, int64_t n)
{
    int64_t i = 0;
    for (; i + LVN_LANES <= n; i += LVN_LANES) {
        vf p = vload(param + i), b = vset(0);
        if (has_momentum) b = vload(momentum + i);
        update(k, clip, decay, has_momentum, vload(grad + i), &p, &b);
        vstore(param + i, p);
        if (has_momentum) vstore(momentum + i, b);
    }
    if (i < n) {
        vf p = vload_n(param + i, n - i), b = vset(0);
        if (has_momentum) b = vload_n(momentum + i, n - i);
        update(k, clip, decay, has_momentum, vload_n(grad + i, n - i), &p, &b);
        vstore_n(param + i, p, n - i);
        if (has_momentum) vstore_n(momentum + i, b, n - i);
    }
}

/* range() with parameters in bf16, and the gradient in bf16 or fp32. */
LVN_INLINE void bf16_range(const struct constants *k, const struct rounding *r, const void *grad, const bool grad_bf16,
                           uint16_t *param, float *momentum, int64_t n)
{
    const bool clip = k->clip != 0, decay = k->decay != 0, has_momentum = k->momentum != 0;
    for (int64_t i = 0; i < n; i += 4 * LVN_LANES) {
        vu bits[4];
        rounding_bits(r, i, ROUNDED_PARAMETERS, bits);
        for (int64_t j = i; j < i + 4 * LVN_LANES && j < n; j += LVN_LANES) {
            const int64_t left = n - j < LVN_LANES ? n - j : LVN_LANES;
            vf p = vread_n(param, j, left, true), b = vset(0);
            if (has_momentum) b = vload_n(momentum + j, left);
            update(k, clip, decay, has_momentum, vread_n(grad, j, left, grad_bf16), &p, &b);
            vstore_bf16_n(param + j, bf16_at_random(p, bits[(j - i) / LVN_LANES]), left);
            if (has_momentum) vstore_n(momentum + j, b, left);
        }
    }
}

static void part(const struct lvn_call *call, const struct constants *k, int64_t begin, int64_t end)
{
    float *m = k->momentum != 0 ? (float *)call->out[1].p + begin : NULL;
    int64_t n = end - begin;
    if (call->out[0].desc->dtype == LVN_BF16) {
        const struct rounding r = rounding_make(call->step, call->attr->sgd.first + begin);
        uint16_t *param = (uint16_t *)call->out[0].p + begin;
        if (call->in[0].desc->dtype == LVN_BF16)
            bf16_range(k, &r, vat(call->in[0].p, begin, true), true, param, m, n);
        else
            bf16_range(k, &r, vat(call->in[0].p, begin, false), false, param, m, n);
        return;
    }
    const float *g = (const float *)call->in[0].p + begin;
    float *p = (float *)call->out[0].p + begin;
    switch ((k->clip != 0) | (k->decay != 0) << 1 | (k->momentum != 0) << 2) { /* one loop for each combination */
    case 0:
        range(k, false, false, false, g, p, m, n);
        break;
    case 1:
        range(k, true, false, false, g, p, m, n);
        break;
    case 2:
        range(k, false, true, false, g, p, m, n);
        break;
    case 3:
        range(k, true, true, false, g, p, m, n);
        break;
    case 4:
        range(k, false, false, true, g, p, m, n);
        break;
    case 5:
        range(k, true, false, true, g, p, m, n);
        break;
    case 6:
        range(k, false, true, true, g, p, m, n);
        break;
    case 7:
        range(k, true, true, true, g, p, m, n);
        break;
    }
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    if (call->result->clip_scale == 0) return;
    const struct constants k = {
        .scale = (float)call->result->clip_scale,
        .clip = (float)call->attr->sgd.clip_value,
        .decay = (float)call->attr->sgd.weight_decay,
        .momentum = (float)call->attr->sgd.momentum,
        .lr = (float)(call->step->lr * call->attr->sgd.lr_scale),
    };
    const struct lvn_extents *parameters = call->attr->sgd.parameters;
    const int64_t first = call->attr->sgd.first, n = lvn_desc_count(call->in[0].desc);
    for (int i = 0; i < extents_count(parameters); i++) {
        const struct extent x = extent_of(parameters, i, first, n, thread, n_threads);
        if (x.begin < x.end) part(call, &k, x.begin, x.end);
    }
}

LVN_CPU_OPERATION(sgd, .forward = forward);
