/* bf16.h - one number from bf16, the upper half of fp32, and to it: to the nearest, ties to even; what is not a number
 * stays none. Kernels do the same to sixteen at a time (backend/cpu/simd_bf16.h). */
#ifndef LVN_BF16_H
#define LVN_BF16_H

#include <stdint.h>
#include <string.h>

static inline float lvn_bf16_get(uint16_t bf16)
{
    uint32_t bits = (uint32_t)bf16 << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint16_t lvn_bf16_make(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

#endif
