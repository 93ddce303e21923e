/* gelu_gpu.h - the GELUs on devices, as functions for kernels; see gelu.h for the definitions. */
#ifndef LVN_GELU_GPU_H
#define LVN_GELU_GPU_H

#include "ops/numbers_gpu.h"
#ifdef LVN_DEVICE

/* The argument of tanh. x is limited to 1e3, at which 1 - tanh^2 is 0 and x^3 does not overflow. */
LVN_FUNCTION float gelu_inner(float x)
{
    float a = lvn_abs(x) > 1e3f ? (x > 0 ? 1e3f : -1e3f) : x;
    return 0.79788456080286535588f * (a + 0.044715f * a * a * a);
}

LVN_FUNCTION float gelu_value(float x, int tanh_variant)
{
    if (!tanh_variant) return 0.5f * x * (1 + lvn_erf(x * 0.70710678118654752440f));
    return x * lvn_inverse(1 + lvn_exp_fast(-2 * gelu_inner(x))); /* (1 + tanh(u)) / 2 */
}

LVN_FUNCTION float gelu_slope(float x, int tanh_variant)
{
    if (!tanh_variant)
        return 0.5f * (1 + lvn_erf(x * 0.70710678118654752440f)) + x * 0.39894228040143267794f * lvn_exp(-0.5f * x * x);
    float u = gelu_inner(x), e = lvn_exp_fast(-2 * lvn_abs(u)), s = lvn_inverse(1 + e);
    float rest = e * s * s; /* (1 - tanh^2) / 4 */
    float slope = rest == 0 ? 0 : 2 * x * rest * 0.79788456080286535588f * (1 + 3 * 0.044715f * x * x);
    return (u < 0 ? e * s : s) + slope;
}

#endif
#endif
