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

/* sum(exp(z - max)) of n values, in two partial sums per lane. */
LVN_INLINE float exp_sum(const float *z, float max, int64_t n)
{
    struct vacc sum[2] = {vacc_set(vset(0)), vacc_set(vset(0))};
    int64_t v = 0;
    for (; v + 2 * LVN_LANES <= n; v += 2 * LVN_LANES) {
        sum[0] = vacc_add(sum[0], vexp(vload(z + v) - max));
        sum[1] = vacc_add(sum[1], vexp(vload(z + v + LVN_LANES) - max));
    }
    if (v + LVN_LANES <= n) {
        sum[0] = vacc_add(sum[0], vexp(vload(z + v) - max));
        v += LVN_LANES;
    }
    if (v < n) sum[1] = vacc_add(sum[1], shifted_exp_n(z + v, max, n - v));
    return vsum(vacc_get(sum[0]) + vacc_get(sum[1]));
}

/* log(sum(exp(z))) of z (V), summed in blocks. */
LVN_INLINE float logsumexp(const float *z, int64_t V)
{
    enum { BLOCK = 2 * LVN_LANES * LVN_SUM_BLOCK };
    struct vacc top = vacc_set(vset(-INFINITY));
    double sum = 0;
    int64_t v = 0;
    for (; v + LVN_LANES <= V; v += LVN_LANES) top = vacc_max(top, vload(z + v));
    float max = vmax_lane(vacc_get(top));
    for (; v < V; v++) max = z[v] > max ? z[v] : max;
    for (v = 0; v < V; v += BLOCK) sum += (double)exp_sum(z + v, max, V - v < BLOCK ? V - v : BLOCK);
    return max + (float)log(sum);
}

/* dz (V) = (or +=) (softmax(z) - one hot) * scale; dz may be z. */
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
