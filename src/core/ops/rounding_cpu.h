/* rounding_cpu.h - random bits for stochastic rounding to bf16, for the CPU kernels of the optimizers.
 *
 * The bits are a function of (seed, step, element number), so they do not depend on threads, ranks or resuming. */
#ifndef LVN_ROUNDING_CPU_H
#define LVN_ROUNDING_CPU_H

#include "backend/cpu/simd_bf16.h"
#include "backend/cpu/simd_random.h"
#include "graph/step.h"

struct rounding {
    uint64_t key;
    uint32_t step;
    uint64_t element; /* number of the first element, a multiple of 64 */
};

/* Streams of random bits, by what is rounded. */
enum rounded_kind { ROUNDED_MOMENTS, ROUNDED_PARAMETERS };

LVN_INLINE struct rounding rounding_make(const struct lvn_step *step, int64_t element)
{
    return (struct rounding){.key = step->seed ^ ((uint64_t)LVN_STREAM_ROUNDING << 56),
                             .step = (uint32_t)step->step,
                             .element = (uint64_t)element};
}

/* Random bits for elements i to i + 63, 32 each. */
LVN_INLINE void rounding_bits(const struct rounding *r, int64_t i, enum rounded_kind kind, vu bits[4])
{
    const uint64_t counter = (r->element + (uint64_t)i) / 4;
    vphilox(r->key, (uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)kind, r->step, bits);
}

#endif
