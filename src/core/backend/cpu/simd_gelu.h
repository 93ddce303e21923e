/* simd_gelu.h - exact GELU and its tanh approximation, with derivatives, of sixteen floats. The formulas are those of
 * ops/gelu.h.
 *
 * The tanh form is computed with the logistic function, 0.5 (1 + tanh u) = 1 / (1 + e^(-2u)): one exponential and
 * one division give value and derivative, without the cancellation of 1 + tanh u. */
#ifndef LVN_SIMD_GELU_H
#define LVN_SIMD_GELU_H

#include "backend/cpu/simd_math.h"

#define LVN_GELU_2C 1.5957691216057308f   /* 2 sqrt(2 / pi) */
#define LVN_GELU_2CK 0.07135481627159645f /* 2 sqrt(2 / pi) 0.044715 */

/* erf(x / sqrt(2)): verf() with scaled constants and without its last clamp, so the result may exceed 1 by one ulp. */
LVN_INLINE_LONG vf vgelu_erf(vf x)
{
    x = vmax(vset(-5.5578594f), x);
    x = vmin(vset(5.5578594f), x);
    vf s = x * x;
    vf p = vset(0x1.839972p-25f);
    LVN_HORNER(p, s, 0x1.a65638p-17f);
    LVN_HORNER(p, s, 0x1.5e46f2p-12f);
    LVN_HORNER(p, s, 0x1.31ca18p-7f);
    LVN_HORNER(p, s, 0x1.144696p-4f);
    LVN_HORNER(p, s, 0x1.988454p-1f);
    vf q = vset(0x1.3ecd5ep-20f);
    LVN_HORNER(q, s, 0x1.316fd6p-14f);
    LVN_HORNER(q, s, 0x1.eb6b5p-10f);
    LVN_HORNER(q, s, 0x1.d3fd0ep-6f);
    LVN_HORNER(q, s, 0x1.013b4p-2f);
    LVN_HORNER(q, s, 1);
    return x * p / q;
}

/* e^(-x^2/2) / sqrt(2 pi) to an absolute error of 1e-7: 2^n 2^f with a polynomial for 2^f / sqrt(2 pi), |f| <= 1/2.
 * For |x| > 11 the result is the value at 11, 1e-27. */
LVN_INLINE_LONG vf vgelu_density(vf x)
{
    const vf shift = vset(0x1.8p23f + 127), rate = vset(-0.72134752f); /* -1 / (2 ln 2) */
    vf s = vmin(vset(120.0f), x * x);
    vf t = vfma(s, rate, shift), f = vfma(s, rate, shift - t);
    vf p = vset(0x1.16304p-11f);
    LVN_HORNER(p, f, 0x1.f9a22p-9f);
    LVN_HORNER(p, f, 0x1.6accb4p-6f);
    LVN_HORNER(p, f, 0x1.888a52p-4f);
    LVN_HORNER(p, f, 0x1.1b298ep-2f);
    LVN_HORNER(p, f, 0x1.988454p-2f);
    return p * (vf)((vu)t << 23);
}

LVN_INLINE_LONG vf vgelu(vf x)
{
    vf half = x * 0.5f;
    return vfma(half, vgelu_erf(x), half);
}

LVN_INLINE_LONG vf vgelu_slope(vf x)
{
    return vfma(x, vgelu_density(x), vfma(vset(0.5f), vgelu_erf(x), vset(0.5f)));
}

/* 1 / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3) */
LVN_INLINE_LONG vf vgelu_tanh_gate(vf x, vf square)
{
    return 1.0f / (1.0f + vexp(x * vfma(square, vset(-LVN_GELU_2CK), vset(-LVN_GELU_2C))));
}

LVN_INLINE_LONG vf vgelu_tanh(vf x)
{
    return x / (1.0f + vexp(x * vfma(x * x, vset(-LVN_GELU_2CK), vset(-LVN_GELU_2C))));
}

/* The slope; *value: that of the function, which costs one product more. */
LVN_INLINE_LONG vf vgelu_tanh_both(vf x, vf *value)
{
    vf square = x * x, gate = vgelu_tanh_gate(x, square);
    vf du = vfma(square, vset(3 * LVN_GELU_2CK), vset(LVN_GELU_2C)); /* derivative of 2u */
    *value = x * gate;
    return vfma(x * gate * (1.0f - gate), du, gate);
}

LVN_INLINE_LONG vf vgelu_tanh_slope(vf x)
{
    vf value;
    return vgelu_tanh_both(x, &value);
}

#endif
