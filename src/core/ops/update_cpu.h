/* update_cpu.h - the loop of an optimizer's update on CPUs: one pass over gradient, parameters and moments, in which
 * each optimizer computes one vector at a time.
 *
 * bf16 parameters and moments are computed in fp32 and rounded stochastically: with a beta of 0.999 a moment changes by
 * less than half a bf16 step at a time, which rounding to nearest would lose. For the random bits see rounding_cpu.h.
 *
 * The running sum of update.h is computed in the same pass, from registers, or, with bf16, from the cache.
 *
 * Stores are ordinary ones, because the written cache lines have just been read; streaming stores were slower. */
#ifndef LVN_UPDATE_CPU_H
#define LVN_UPDATE_CPU_H

#include "backend/cpu/cpu_kernels.h"
#include "ops/bits_sum.h"
#include "ops/extents_cpu.h"
#include "ops/rounding_cpu.h"

enum {
    LVN_MAX_MOMENTS = 2,
    /* Prefetch distance in elements. With four streams and this much arithmetic, hardware prefetching is too late.
     * Software prefetching saves at least a fifth of the time, and prefetching for writing saves the same again if
     * other threads have read the parameters in matrix multiplications. */
    PREFETCH = 384,
    SUMMED = 4096 /* elements per round of sum, update and sum with bf16 */
};

/* Update a vector of parameters and its moments; constants: private to the optimizer. */
typedef void update_vector(const void *constants, vf gradient, vf *param, vf moment[LVN_MAX_MOMENTS]);

/* Elements that may be bf16. */
struct update_arrays {
    const void *grad;
    void *param;
    void *moment[LVN_MAX_MOMENTS];
    const struct lvn_call *call; /* update its running sum; NULL: there is none */
};

/* bits_sum.cpu.c: subtract elements [begin, end) from the running sum of an update, or add them after it. */
void LVN_ISA_NAME(lvn_bits_sum_update)(const struct lvn_call *call, int64_t begin, int64_t end, bool after);

/* Changes of the bits of vectors of parameters and of moments. */
struct update_bits {
    vu param, moments;
};

LVN_INLINE void update_bits_add(struct update_bits *b, vf old_param, vf param, const vf *old, const vf *moment,
                                const int moments)
{
    b->param += (vu)param - (vu)old_param;
    for (int k = 0; k < moments; k++) b->moments += (vu)moment[k] - (vu)old[k];
}

static inline void update_bits_end(const struct lvn_call *call, const struct update_bits *b)
{
    uint32_t sum = 0;
    if (!call || !call->attr->update.summed) return;
    for (int k = 0; k < LVN_LANES; k++) {
        if (call->attr->update.summed & 1) sum += b->param[k];
        if (call->attr->update.summed > 1) sum += b->moments[k];
    }
    lvn_update_add(call, sum);
}

/* As in update.h. */
LVN_INLINE vf update_gradient(vf g, float scale, float clip)
{
    g = g * scale;
    return clip != 0 ? vmax(vset(-clip), vmin(vset(clip), g)) : g; /* in this order NaN stays NaN */
}

/* n fp32 elements. */
LVN_INLINE void update_fp32(update_vector update, const void *constants, const int moments,
                            const struct update_arrays *x, int64_t n)
{
    const float *grad = x->grad;
    float *param = x->param;
    struct update_bits bits = {0};
    int64_t i = 0;
    for (; i + LVN_LANES <= n; i += LVN_LANES) {
        vf p = vload(param + i), m[LVN_MAX_MOMENTS], old_p = p, old[LVN_MAX_MOMENTS];
        __builtin_prefetch(grad + i + PREFETCH);
        __builtin_prefetch(param + i + PREFETCH, 1);
        for (int k = 0; k < moments; k++) {
            __builtin_prefetch((float *)x->moment[k] + i + PREFETCH, 1);
            old[k] = m[k] = vload((float *)x->moment[k] + i);
        }
        update(constants, vload(grad + i), &p, m);
        vstore(param + i, p);
        for (int k = 0; k < moments; k++) vstore((float *)x->moment[k] + i, m[k]);
        update_bits_add(&bits, old_p, p, old, m, moments);
    }
    if (i < n) {
        vf p = vload_n(param + i, n - i), m[LVN_MAX_MOMENTS], old_p = p, old[LVN_MAX_MOMENTS];
        for (int k = 0; k < moments; k++) old[k] = m[k] = vload_n((float *)x->moment[k] + i, n - i);
        update(constants, vload_n(grad + i, n - i), &p, m);
        vstore_n(param + i, p, n - i);
        for (int k = 0; k < moments; k++) vstore_n((float *)x->moment[k] + i, m[k], n - i);
        p = vload_n(param + i, n - i); /* without the lanes after the end */
        for (int k = 0; k < moments; k++) m[k] = vload_n((float *)x->moment[k] + i, n - i);
        update_bits_add(&bits, old_p, p, old, m, moments);
    }
    update_bits_end(x->call, &bits);
}

/* n elements with parameters, or moments, or both in bf16. grads, weights, state: which of them are bf16. */
LVN_INLINE void update_bf16(update_vector update, const void *constants, const int moments, const struct rounding *r,
                            const bool grads, const bool weights, const bool state, const struct update_arrays *x,
                            int64_t n)
{
    for (int64_t i = 0; i < n; i += 4 * LVN_LANES) {
        vu bits[4], weight_bits[4];
        if (state) rounding_bits(r, i, ROUNDED_MOMENTS, bits);
        if (weights) rounding_bits(r, i, ROUNDED_PARAMETERS, weight_bits);
        for (int64_t j = i; j < i + 4 * LVN_LANES && j < n; j += LVN_LANES) {
            const int64_t left = n - j < LVN_LANES ? n - j : LVN_LANES, v4 = (j - i) / LVN_LANES;
            __builtin_prefetch(vat(x->grad, j + PREFETCH, grads));
            __builtin_prefetch(vat(x->param, j + PREFETCH, weights), 1);
            vf p = vread_n(x->param, j, left, weights), m[LVN_MAX_MOMENTS];
            for (int k = 0; k < moments; k++) {
                __builtin_prefetch(vat(x->moment[k], j + PREFETCH, state), 1);
                m[k] = vread_n(x->moment[k], j, left, state);
            }
            update(constants, vread_n(x->grad, j, left, grads), &p, m);
            if (weights)
                vstore_bf16_n(vat(x->param, j, true), bf16_at_random(p, weight_bits[v4]), left);
            else
                vstore_n(vat(x->param, j, false), p, left);
            for (int k = 0; k < moments; k++)
                if (state)
                    vstore_bf16_n(vat(x->moment[k], j, true), bf16_at_random(m[k], bits[v4] >> 16 * k), left);
                else
                    vstore_n(vat(x->moment[k], j, false), m[k], left);
        }
    }
}

/* Elements [begin, end) of the range, of which some operand is bf16. */
LVN_INLINE void update_part_bf16(update_vector update, const void *constants, const int moments,
                                 const bool bf16_moments, const struct lvn_call *call, const struct update_arrays *x,
                                 int64_t begin, int64_t end)
{
    const bool grads = call->in[0].desc->dtype == LVN_BF16, weights = call->out[0].desc->dtype == LVN_BF16;
    const bool state = bf16_moments && call->out[1].desc->dtype == LVN_BF16;
    const struct rounding r = rounding_make(call->step, call->attr->update.number + begin);
#define RANGE(g, w, s)                                                                                                 \
    if (grads == (g) && weights == (w) && state == (s))                                                                \
    update_bf16(update, constants, moments, &r, g, w, s, x, end - begin)
    RANGE(true, true, false);
    RANGE(false, true, false);
    if (!bf16_moments) return;
    RANGE(true, true, true);
    RANGE(false, true, true);
    RANGE(false, false, true);
#undef RANGE
}

/* Elements [begin, end) of the range. */
LVN_INLINE void update_part(update_vector update, const void *constants, const int moments, const bool bf16_moments,
                            const struct lvn_call *call, int64_t begin, int64_t end)
{
    const bool grads = call->in[0].desc->dtype == LVN_BF16, weights = call->out[0].desc->dtype == LVN_BF16;
    const bool state = bf16_moments && call->out[1].desc->dtype == LVN_BF16, fp32 = !weights && !state;
    for (int64_t at = begin, next; at < end; at = next) {
        next = !fp32 && end - at > SUMMED ? at + SUMMED : end;
        struct update_arrays x = {
            .grad = vat(call->in[0].p, at, grads), .param = vat(call->out[0].p, at, weights), .call = call};
        for (int k = 0; k < moments; k++) x.moment[k] = vat(call->out[1 + k].p, at, state);
        if (fp32) {
            update_fp32(update, constants, moments, &x, next - at);
            continue;
        }
        LVN_ISA_NAME(lvn_bits_sum_update)(call, at, next, false);
        update_part_bf16(update, constants, moments, bf16_moments, call, &x, at, next);
        LVN_ISA_NAME(lvn_bits_sum_update)(call, at, next, true);
    }
}

/* A thread's part of an update. bf16_moments: the operation accepts moments in bf16. Changes nothing if
 * result->clip_scale is 0. */
LVN_INLINE void update_all(update_vector update, const void *constants, const int moments, const bool bf16_moments,
                           const struct lvn_call *call, int thread, int n_threads)
{
    const struct lvn_update *u = &call->attr->update;
    const int64_t n = lvn_desc_count(call->in[0].desc);
    if (call->result->clip_scale == 0) return;
    for (int i = 0; i < extents_count(u->parameters); i++) {
        const struct extent x = extent_of(u->parameters, i, u->first, n, thread, n_threads);
        if (x.begin < x.end) update_part(update, constants, moments, bf16_moments, call, x.begin, x.end);
    }
}

#endif
