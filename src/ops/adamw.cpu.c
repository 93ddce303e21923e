/* adamw.cpu.c - adamw.c's definition in one pass over gradient, parameters and moments: 28 bytes an element.
 *
 * Every line of the definition is one instruction on every instruction set, so the bits are those of the plain kernel.
 * Moments in bf16 (12 bytes an element less to move, half the memory) are computed in fp32 and rounded at random: with
 * a beta of 0.999 a moment moves by less than half a step of bf16 at a time, and rounding to the nearest would lose
 * that. The random bits are a function of (seed, step, number of the element), whoever updates it.
 *
 * Ordinary stores: the lines that are written have just been read, and streaming stores measured slower. */
#include "ops/adamw.h"

#include "backend/cpu/simd_half.h"
#include "backend/cpu/simd_random.h"
#include "base/threads.h"

/* Elements between what is worked on and what is fetched from memory. With four streams and so much arithmetic the
 * processor's own prefetching comes too late; asking for lines takes a fifth or more off the time. */
enum { AHEAD = 384 };

struct constants {
    float scale, clip, l2, keep, one_minus_beta1, beta2, one_minus_beta2, root, eps, step_size;
};

LVN_INLINE void update(const struct constants *k, bool clip, bool l2, vf g, vf *p, vf *m, vf *v)
{
    g = g * k->scale;
    if (clip) g = vmax(vset(-k->clip), vmin(vset(k->clip), g)); /* in this order NaN stays */
    if (l2) g = vfma(vset(k->l2), *p, g);
    *m = vfma(vset(k->one_minus_beta1), g - *m, *m);
    *v = vfma(k->one_minus_beta2 * g, g, k->beta2 * *v);
    vf denominator = vfma(vsqrt(*v), vset(k->root), vset(k->eps));
    *p = vfma(vset(-k->step_size), *m / denominator, *p * k->keep);
}

LVN_INLINE void range(const struct constants *k, bool clip, bool l2, const float *grad, float *param, float *first,
                      float *second, int64_t n)
{
    int64_t i = 0;
    for (; i + LVN_LANES <= n; i += LVN_LANES) {
        __builtin_prefetch(grad + i + AHEAD);
        __builtin_prefetch(param + i + AHEAD);
        __builtin_prefetch(first + i + AHEAD);
        __builtin_prefetch(second + i + AHEAD);
        vf p = vload(param + i), m = vload(first + i), v = vload(second + i);
        update(k, clip, l2, vload(grad + i), &p, &m, &v);
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

/* Where the random bits come from. */
struct rounding {
    uint64_t key;
    uint32_t step;
    uint64_t element; /* number of the first one, a multiple of 64 */
};

/* The same with moments in bf16. */
LVN_INLINE void half_range(const struct constants *k, const struct rounding *r, const float *grad, float *param,
                           uint16_t *first, uint16_t *second, int64_t n)
{
    const bool clip = k->clip != 0, l2 = k->l2 != 0;
    for (int64_t i = 0; i < n; i += 4 * LVN_LANES) {
        const uint64_t counter = (r->element + (uint64_t)i) / 4;
        vu bits[4];
        vphilox(r->key, (uint32_t)counter, (uint32_t)(counter >> 32), 0, r->step, bits);
        for (int64_t j = i; j < i + 4 * LVN_LANES && j < n; j += LVN_LANES) {
            const int64_t left = n - j < LVN_LANES ? n - j : LVN_LANES;
            const vu random = bits[(j - i) / LVN_LANES];
            __builtin_prefetch(grad + j + AHEAD);
            __builtin_prefetch(param + j + AHEAD);
            __builtin_prefetch(first + j + AHEAD);
            __builtin_prefetch(second + j + AHEAD);
            vf p = vload_n(param + j, left), g = vload_n(grad + j, left);
            vf m = vread_n(first, j, left, true), v = vread_n(second, j, left, true);
            if (clip && l2)
                update(k, true, true, g, &p, &m, &v);
            else if (clip)
                update(k, true, false, g, &p, &m, &v);
            else if (l2)
                update(k, false, true, g, &p, &m, &v);
            else
                update(k, false, false, g, &p, &m, &v);
            vstore_n(param + j, p, left);
            vstore_half_n(first + j, half_at_random(m, random), left);
            vstore_half_n(second + j, half_at_random(v, random >> 16), left);
        }
    }
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    if (call->step->clip_scale == 0) return;
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
    int64_t begin, end;
    lvn_share(lvn_desc_count(call->in[0].desc), 4 * LVN_LANES, thread, n_threads, &begin, &end);
    const float *g = (const float *)call->in[0].p + begin;
    float *p = (float *)call->out[0].p + begin;
    if (call->out[1].desc->dtype == LVN_BF16) {
        const struct rounding r = {.key = call->step->seed ^ ((uint64_t)LVN_STREAM_ROUNDING << 56),
                                   .step = (uint32_t)call->step->step,
                                   .element = (uint64_t)(call->attr->adamw.first + begin)};
        half_range(&k, &r, g, p, (uint16_t *)call->out[1].p + begin, (uint16_t *)call->out[2].p + begin, end - begin);
        return;
    }
    float *m = (float *)call->out[1].p + begin;
    float *v = (float *)call->out[2].p + begin;
    switch ((k.clip != 0) | (k.l2 != 0) << 1) { /* one loop for each combination */
    case 0:
        range(&k, false, false, g, p, m, v, end - begin);
        break;
    case 1:
        range(&k, true, false, g, p, m, v, end - begin);
        break;
    case 2:
        range(&k, false, true, g, p, m, v, end - begin);
        break;
    case 3:
        range(&k, true, true, g, p, m, v, end - begin);
        break;
    }
}

extern const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_adamw);
const struct lvn_kernels LVN_ISA_NAME(lvn_cpu_adamw) = {.forward = forward};
