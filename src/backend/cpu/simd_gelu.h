/* simd_gelu.h - the GELU, exact and by tanh, and their slopes, of sixteen floats; the formulas are those of ops/gelu.h.
 *
 * The tanh form is written with the logistic function, 0.5 (1 + tanh u) = 1 / (1 + e^(-2u)): one exponential and one
 * division give value and slope, without the cancellation of 1 + tanh u. */
#ifndef LVN_SIMD_GELU_H
#define LVN_SIMD_GELU_H

#include "backend/cpu/simd_math.h"

#define LVN_GELU_2C 1.5957691216057308f   /* 2 sqrt(2 / pi) */
#define LVN_GELU_2CK 0.07135481627159645f /* 2 sqrt(2 / pi) 0.044715 */

LVN_INLINE vf vgelu(vf x)
{
    vf half = x * 0.5f;
    return vfma(half, verf(x * 0.70710678f), half);
}

LVN_INLINE vf vgelu_slope(vf x)
{
    vf density = vexp(x * x * -0.5f) * 0.39894228f; /* 1 / sqrt(2 pi) */
    return vfma(x, density, vfma(vset(0.5f), verf(x * 0.70710678f), vset(0.5f)));
}

/* 1 / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3) */
LVN_INLINE vf vgelu_tanh_gate(vf x, vf square)
{
    return 1.0f / (1.0f + vexp(x * vfma(square, vset(-LVN_GELU_2CK), vset(-LVN_GELU_2C))));
}

LVN_INLINE vf vgelu_tanh(vf x)
{
    return x / (1.0f + vexp(x * vfma(x * x, vset(-LVN_GELU_2CK), vset(-LVN_GELU_2C))));
}

LVN_INLINE vf vgelu_tanh_slope(vf x)
{
    vf square = x * x, gate = vgelu_tanh_gate(x, square);
    vf du = vfma(square, vset(3 * LVN_GELU_2CK), vset(LVN_GELU_2C)); /* of 2u */
    return vfma(x * gate * (1.0f - gate), du, gate);
}

#endif
