/* bits_sum.h - the sum of bits_sum.c, for its CPU kernels and those of the optimizers. */
#ifndef LVN_BITS_SUM_H
#define LVN_BITS_SUM_H

#include "graph/op.h"

/* Is the sum of this number computed in this step? It is once within each `period` steps, at a step that is drawn at
 * random; period 0: always. */
static inline bool lvn_bits_sum_is_due(const struct lvn_step *step, int64_t number, int64_t period)
{
    if (!period) return true;
    uint32_t turn =
        (uint32_t)step->seed + (uint32_t)(step->step / period) * 0x9e3779b9U + (uint32_t)number * 0x85ebca6bU;
    turn = (turn ^ turn >> 16) * 0x7feb352dU;
    turn = (turn ^ turn >> 15) * 0x846ca68bU;
    turn ^= turn >> 16;
    return (int64_t)turn % period == step->step % period;
}

/* Of elements [begin, end). Little-endian machines only. */
static inline uint32_t lvn_bits_sum(const struct lvn_arg *x, int64_t begin, int64_t end)
{
    uint32_t sum = 0;
    if (x->desc->dtype == LVN_BF16) {
        const uint16_t *bits = x->p;
        for (int64_t i = begin; i < end; i++) sum += bits[i];
        return sum << 16;
    }
    const uint32_t *bits = x->p;
    if (x->desc->dtype == LVN_F64) begin *= 2, end *= 2;
    if (x->desc->dtype == LVN_U8) begin /= 4, end /= 4;
    for (int64_t i = begin; i < end; i++) sum += bits[i];
    return sum;
}

/* Index of the output with the running sum of an optimizer's operation; -1: none. */
static inline int lvn_update_sum_at(const struct lvn_call *call)
{
    int k = LVN_MAX_OUT - 1;
    while (k > 0 && !call->out[k].desc) k--;
    return call->attr->update.summed ? k : -1;
}

/* Add to it, if there is one. */
static inline void lvn_update_add(const struct lvn_call *call, uint32_t change)
{
    const int sum = lvn_update_sum_at(call);
    if (sum >= 0) __atomic_fetch_add((uint32_t *)call->out[sum].p, change, __ATOMIC_RELAXED);
}

#endif
