/* adamw.cpu.c - AdamW on CPUs, in one pass over gradient, parameters and moments: 28 bytes for each element; see
 * adamw.c.
 *
 * Every operation of the definition is one instruction on every instruction set, so the bits are those of the plain
 * kernel. Moments in bf16 (12 bytes less for each element, half the memory) are computed in fp32 and rounded
 * stochastically: with a beta of 0.999 a moment changes by less than half a step of bf16 at a time, which rounding to
 * nearest would lose. Parameters in bf16, with gradients in bf16 or fp32, are rounded so for the same reason. Random
 * bits: rounding_cpu.h.
 *
 * Stores are ordinary ones: the cache lines that are written have just been read, and streaming stores measured slower.
 */
#include "ops/adamw.h"

#include "backend/cpu/cpu_kernels.h"
#include "base/threads.h"
#include "ops/extents_cpu.h"
#include "ops/outer.h"
#include "ops/rounding_cpu.h"

/* Prefetch distance in elements. With four streams and so much arithmetic the hardware's prefetching comes too late.
 * Prefetching saves a fifth of the time or more, and prefetching for writing saves as much again if products of other
 * threads have read the parameters. */
enum { PREFETCH = 384 };

/* struct lvn_adamw_constants in fp32. */
struct constants {
    float scale;
    float clip;
    float l2;
    float keep;
    float one_minus_beta1;
    float beta2;
    float one_minus_beta2;
    float root;
    float eps;
    float step_size;
};

LVN_INLINE void update(const struct constants *k, bool clip, bool l2, vf g, vf *p, vf *m, vf *v)
{
    g = g * k->scale;
    if (clip) g = vmax(vset(-k->clip), vmin(vset(k->clip), g)); /* in this order NaN stays NaN */
    if (l2) g = vfma(vset(k->l2), *p, g);
    *m = vnormal(vfma(vset(k->one_minus_beta1), g - *m, *m));
    *v = vnormal(vfma(k->one_minus_beta2 * g, g, k->beta2 * *v));
    vf denominator = vfma(vsqrt(*v), vset(k->root), vset(k->eps));
    *p = vfma(vset(-k->step_size), *m / denominator, *p * k->keep);
}

/* outer: the gradient is `down` times the elements at grad. */
LVN_INLINE void range(const struct constants *k, bool clip, bool l2, const bool outer, float down, const float *grad,
                      float *param, float *first, float *second, int64_t n)
{
    int64_t i = 0;
    for (; i + LVN_LANES <= n; i += LVN_LANES) {
        if (!outer) __builtin_prefetch(grad + i + PREFETCH);
        __builtin_prefetch(param + i + PREFETCH, 1);
        __builtin_prefetch(first + i + PREFETCH, 1);
        __builtin_prefetch(second + i + PREFETCH, 1);
        vf p = vload(param + i), m = vload(first + i), v = vload(second + i);
        update(k, clip, l2, outer ? vset(down) * vload(grad + i) + vset(0) : vload(grad + i), &p, &m, &v);
        vstore(param + i, p);
        vstore(first + i, m);
        vstore(second + i, v);
    }
    if (i < n) {
        vf p = vload_n(param + i, n - i), m = vload_n(first + i, n - i), v = vload_n(second + i, n - i);
        update(k, clip, l2, vload_n(grad + i, n - i), &p, &m, &v);
        vstore_n(param + i, p, n - i);
        vstore_n(first + i, m, n - i);
        vstore_n(second + i, v, n - i);
    }
}

/* One loop for each combination. */
LVN_INLINE void range_by_kind(const struct constants *k, const bool outer, float down, const float *g, float *p,
                              float *m, float *v, int64_t n)
{
    switch ((k->clip != 0) | (k->l2 != 0) << 1) {
    case 0:
        range(k, false, false, outer, down, g, p, m, v, n);
        break;
    case 1:
        range(k, true, false, outer, down, g, p, m, v, n);
        break;
    case 2:
        range(k, false, true, outer, down, g, p, m, v, n);
        break;
    case 3:
        range(k, true, true, outer, down, g, p, m, v, n);
        break;
    }
}

/* Elements [i, end), whose gradient is the outer product o, a row of it at a time. All in fp32. */
static void part_of_outer(const struct lvn_call *call, const struct constants *k, const struct outer *o, int64_t i,
                          int64_t end)
{
    const float *down = o->down, *across = o->across;
    float *p = call->out[0].p, *m = call->out[1].p, *v = call->out[2].p;
    int64_t row = (i - o->begin) / o->columns, column = (i - o->begin) % o->columns;
    for (int64_t n; i < end; i += n, row++, column = 0) {
        n = o->columns - column < end - i ? o->columns - column : end - i;
        range_by_kind(k, true, down[row], across + column, p + i, m + i, v + i, n);
    }
}

/* Addresses of elements that may be bf16. */
struct arrays {
    const void *grad;
    void *param;
    void *first;  /* moment */
    void *second; /* moment */
};

/* range() with parameters, or moments, or both in bf16. grads, weights, state: which of them are bf16. */
LVN_INLINE void bf16_range(const struct constants *k, const struct rounding *r, const bool grads, const bool weights,
                           const bool state, const struct arrays *x, int64_t n)
{
    const bool clip = k->clip != 0, l2 = k->l2 != 0;
    for (int64_t i = 0; i < n; i += 4 * LVN_LANES) {
        vu bits[4], weight_bits[4];
        if (state) rounding_bits(r, i, ROUNDED_MOMENTS, bits);
        if (weights) rounding_bits(r, i, ROUNDED_PARAMETERS, weight_bits);
        for (int64_t j = i; j < i + 4 * LVN_LANES && j < n; j += LVN_LANES) {
            const int64_t left = n - j < LVN_LANES ? n - j : LVN_LANES, v4 = (j - i) / LVN_LANES;
            __builtin_prefetch(vat(x->grad, j + PREFETCH, grads));
            __builtin_prefetch(vat(x->param, j + PREFETCH, weights), 1);
            __builtin_prefetch(vat(x->first, j + PREFETCH, state), 1);
            __builtin_prefetch(vat(x->second, j + PREFETCH, state), 1);
            vf p = vread_n(x->param, j, left, weights), g = vread_n(x->grad, j, left, grads);
            vf m = vread_n(x->first, j, left, state), v = vread_n(x->second, j, left, state);
            if (clip && l2)
                update(k, true, true, g, &p, &m, &v);
            else if (clip)
                update(k, true, false, g, &p, &m, &v);
            else if (l2)
                update(k, false, true, g, &p, &m, &v);
            else
                update(k, false, false, g, &p, &m, &v);
            if (weights)
                vstore_bf16_n(vat(x->param, j, true), bf16_at_random(p, weight_bits[v4]), left);
            else
                vstore_n(vat(x->param, j, false), p, left);
            if (state) {
                vstore_bf16_n(vat(x->first, j, true), bf16_at_random(m, bits[v4]), left);
                vstore_bf16_n(vat(x->second, j, true), bf16_at_random(v, bits[v4] >> 16), left);
            } else {
                vstore_n(vat(x->first, j, false), m, left);
                vstore_n(vat(x->second, j, false), v, left);
            }
        }
    }
}

static void part(const struct lvn_call *call, const struct constants *k, int64_t begin, int64_t end)
{
    const bool grads = call->in[0].desc->dtype == LVN_BF16, weights = call->out[0].desc->dtype == LVN_BF16;
    const bool state = call->out[1].desc->dtype == LVN_BF16;
    const struct arrays x = {vat(call->in[0].p, begin, grads), vat(call->out[0].p, begin, weights),
                             vat(call->out[1].p, begin, state), vat(call->out[2].p, begin, state)};
    if (weights || state) {
        const struct rounding r = rounding_make(call->step, call->attr->adamw.first + begin);
#define RANGE(g, w, s)                                                                                                 \
    if (grads == (g) && weights == (w) && state == (s)) bf16_range(k, &r, g, w, s, &x, end - begin)
        RANGE(true, true, true);
        RANGE(true, true, false);
        RANGE(false, true, true);
        RANGE(false, true, false);
        RANGE(false, false, true);
#undef RANGE
        return;
    }
    range_by_kind(k, false, 0, x.grad, x.param, x.first, x.second, end - begin);
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    if (call->result->clip_scale == 0) return;
    const struct lvn_adamw_constants d = lvn_adamw_constants_make(call);
    const struct constants k = {
        .scale = (float)d.scale,
        .clip = (float)d.clip_value,
        .l2 = (float)d.l2,
        .keep = (float)d.keep,
        .one_minus_beta1 = (float)d.one_minus_beta1,
        .beta2 = (float)d.beta2,
        .one_minus_beta2 = (float)d.one_minus_beta2,
        .root = (float)d.root,
        .eps = (float)d.eps,
        .step_size = (float)d.step_size,
    };
    const struct lvn_extents *parameters = call->attr->adamw.parameters;
    const struct outers outers = outers_of(call, &call->attr->adamw.outers, call->attr->adamw.first);
    const int64_t first = call->attr->adamw.first, n = lvn_desc_count(call->in[0].desc);
    for (int i = 0; i < extents_count(parameters); i++) {
        const struct extent x = extent_of(parameters, i, first, n, thread, n_threads);
        for (int64_t at = x.begin, next; at < x.end; at = next) {
            next = x.end;
            const struct outer *o = outer_at(&outers, at, &next);
            if (o)
                part_of_outer(call, &k, o, at, next);
            else
                part(call, &k, at, next);
        }
    }
}

LVN_CPU_OPERATION(adamw, .forward = forward);
