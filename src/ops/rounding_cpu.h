/* rounding_cpu.h - the random bits by which optimizers round to bf16: functions of (seed, step, number of the element),
 * whoever updates it, so that neither threads nor ranks nor resuming change them. */
#ifndef LVN_ROUNDING_CPU_H
#define LVN_ROUNDING_CPU_H

#include "backend/cpu/simd_bf16.h"
#include "backend/cpu/simd_random.h"
#include "graph/step.h"

struct rounding {
    uint64_t key;
    uint32_t step;
    uint64_t element; /* number of the first one, a multiple of 64 */
};

enum rounded_thing { ROUNDED_MOMENTS, ROUNDED_PARAMETERS };

LVN_INLINE struct rounding rounding_make(const struct lvn_step *step, int64_t element)
{
    return (struct rounding){.key = step->seed ^ ((uint64_t)LVN_STREAM_ROUNDING << 56),
                             .step = (uint32_t)step->step,
                             .element = (uint64_t)element};
}

/* 32 bits for each of the 64 elements from the i-th on. */
LVN_INLINE void rounding_bits(const struct rounding *r, int64_t i, enum rounded_thing what, vu bits[4])
{
    const uint64_t counter = (r->element + (uint64_t)i) / 4;
    vphilox(r->key, (uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)what, r->step, bits);
}

#endif
