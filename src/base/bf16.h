/* bf16.h - conversion of one value between fp32 and bf16 (the upper 16 bits of fp32), rounded to nearest, ties to
 * even. NaN remains NaN. For scalar code; kernels convert sixteen values at a time with equal results
 * (backend/cpu/simd_bf16.h). */
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
