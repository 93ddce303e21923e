/* four.h - four values at a time, with vector extensions of GCC and clang, for code that has no variants by instruction
 * set: every processor has instructions for it. backend/cpu/simd.h serves kernels. */
#ifndef LVN_FOUR_H
#define LVN_FOUR_H

#include <stdint.h>
#include <string.h>

enum { LVN_FOUR = 4 };
typedef float lvn_four __attribute__((vector_size(16)));
typedef int32_t lvn_four_ints __attribute__((vector_size(16))); /* also results of comparisons: 0 or -1 */

static inline lvn_four lvn_four_load(const float *p)
{
    lvn_four x;
    memcpy(&x, p, sizeof x);
    return x;
}

#endif
