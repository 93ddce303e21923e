/* cross_entropy_cpu.h - the loss of one row of logits, for the CPU kernels of cross_entropy and linear_cross_entropy.
 */
#ifndef LVN_CROSS_ENTROPY_CPU_H
#define LVN_CROSS_ENTROPY_CPU_H

#include <stdbool.h>

#include "backend/cpu/simd_math.h"

/* exp(z - shift), with zeros from lane n on. */
LVN_INLINE vf shifted_exp_n(const float *z, float shift, int64_t n)
{
    const vi valid = vgreater_int((vi){0} + (int32_t)n, viota());
    return (vf)((vi)vexp(vload_n(z, n) - shift) & valid);
}

/* exp(z - max) of a vector. slopes: also set *slopes to exp(z - max) (1 - (z / cap)^2); per_cap: 1 / cap, 0 without a
 * cap. */
LVN_INLINE vf shifted_exp(const float *z, float max, float per_cap, float *slopes)
{
    const vf x = vload(z), y = x * per_cap, e = vexp(x - max);
    if (slopes) vstore(slopes, e * vfma(-y, y, vset(1)));
    return e;
}

/* sum(exp(z - max)) of n values, in two partial sums per lane. slopes (n): NULL: not computed; it may be
 * the same memory as z. */
LVN_INLINE float exp_sum(const float *z, float max, int64_t n, float per_cap, float *slopes)
{
    struct vacc sum[2] = {vacc_set(vset(0)), vacc_set(vset(0))};
    int64_t v = 0;
#define SLOPES(v) (slopes ? slopes + (v) : NULL)
    for (; v + 2 * LVN_LANES <= n; v += 2 * LVN_LANES) {
        sum[0] = vacc_add(sum[0], shifted_exp(z + v, max, per_cap, SLOPES(v)));
        sum[1] = vacc_add(sum[1], shifted_exp(z + v + LVN_LANES, max, per_cap, SLOPES(v + LVN_LANES)));
    }
    if (v + LVN_LANES <= n) {
        sum[0] = vacc_add(sum[0], shifted_exp(z + v, max, per_cap, SLOPES(v)));
        v += LVN_LANES;
    }
#undef SLOPES
    if (v < n) {
        const vf e = shifted_exp_n(z + v, max, n - v), y = vload_n(z + v, n - v) * per_cap;
        sum[1] = vacc_add(sum[1], e);
        if (slopes) vstore_n(slopes + v, e * vfma(-y, y, vset(1)), n - v);
    }
    return vsum(vacc_get(sum[0]) + vacc_get(sum[1]));
}

/* The largest z (V), and the sum of exp(z - max), in blocks. */
struct exps {
    float max;
    double sum;
};
LVN_INLINE struct exps exps_of(const float *z, int64_t V, float per_cap, float *slopes)
{
    enum { BLOCK = 2 * LVN_LANES * LVN_SUM_BLOCK };
    struct vacc top = vacc_set(vset(-INFINITY));
    int64_t v = 0;
    for (; v + LVN_LANES <= V; v += LVN_LANES) top = vacc_max(top, vload(z + v));
    struct exps e = {vmax_lane(vacc_get(top)), 0};
    for (; v < V; v++) e.max = z[v] > e.max ? z[v] : e.max;
    for (v = 0; v < V; v += BLOCK)
        e.sum += (double)exp_sum(z + v, e.max, V - v < BLOCK ? V - v : BLOCK, per_cap, slopes ? slopes + v : NULL);
    return e;
}

/* log(sum(exp(z))) of z (V). */
static __attribute__((noinline, unused)) float logsumexp(const float *z, int64_t V)
{
    const struct exps e = exps_of(z, V, 0, NULL);
    return e.max + (float)log(e.sum);
}

/* dz (V) = (or +=) (softmax(z) - one hot) * scale. normalizer: logsumexp(z). dz may be z. */
LVN_INLINE void softmax_slope(const float *z, int64_t V, float normalizer, int32_t label, float scale, bool add,
                              float *dz)
{
    int64_t v = 0;
    for (; add && v + LVN_LANES <= V; v += LVN_LANES)
        vstore(dz + v, vfma(vexp(vload(z + v) - normalizer), vset(scale), vload(dz + v)));
    for (; v + LVN_LANES <= V; v += LVN_LANES) vstore(dz + v, vexp(vload(z + v) - normalizer) * scale);
    if (v < V) {
        vf p = shifted_exp_n(z + v, normalizer, V - v) * scale;
        if (add) p += vload_n(dz + v, V - v);
        vstore_n(dz + v, p, V - v);
    }
    dz[label] -= scale;
}

#endif
