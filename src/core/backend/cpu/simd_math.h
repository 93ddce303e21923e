/* simd_math.h - exp, log, tanh and erf of sixteen floats.
 *
 * Each function reduces its argument to an interval in which one polynomial, or a quotient of two, is within a fraction
 * of an ulp of the true value. The coefficients were computed for levin: a minimax fit of the relative error by
 * Lawson's iteration (weighted least squares whose weights grow where the error is large) in 40 digits, then for tanh
 * and erf a search among adjacent floats. Sources of the methods: Cody and Waite, "Software Manual for the Elementary
 * Functions" (1980), for the reductions of exp and log; Lawson (1961) for the fits.
 *
 * There are no branches, tables or approximate reciprocals, so every instruction set gives the same bits. NaN gives
 * NaN, infinities give the limits. Subnormal results of vexp are zero. Largest errors measured, in ulp: vexp 0.9, vlog
 * 0.9, vtanh 4.3, verf 5.1. Rounding to nearest is assumed. */
#ifndef LVN_SIMD_MATH_H
#define LVN_SIMD_MATH_H

#include "backend/cpu/simd.h"

/* One step of Horner's rule: p becomes p x + c. */
#define LVN_HORNER(p, x, c) ((p) = vfma((p), (x), vset(c)))

/* e^x. x = n ln 2 + r with |r| <= ln 2 / 2; 2 e^r by a polynomial, times 2^(n-1), whose bits are taken from the sum
 * that rounds n. Below -86.99 the result is 0. */
LVN_INLINE_LONG vf vexp(vf x)
{
    const vf shift = vset(0x1.8p23f + 126); /* rounds to an integer and leaves n - 1 + bias in the low bits */
    x = vmax(vset(-87.3f), x);              /* in this order NaN stays NaN */
    x = vmin(vset(89.0f), x);
    vf t = vfma(x, vset(0x1.715476p+0f), shift), n = t - shift;
    vf r = vfma(n, vset(-0x1.62e4p-1f), x); /* ln 2 in two parts; the first has few bits, so n times it is exact */
    r = vfma(n, vset(-0x1.7f7d1cp-20f), r);
    vf p = vset(2 * 0x1.6a2336p-10f);
    LVN_HORNER(p, r, 2 * 0x1.123a2cp-7f);
    LVN_HORNER(p, r, 2 * 0x1.5558f4p-5f);
    LVN_HORNER(p, r, 2 * 0x1.555490p-3f);
    LVN_HORNER(p, r, 2 * 0x1.fffffcp-2f);
    LVN_HORNER(p, r, 2);
    LVN_HORNER(p, r, 2);
    return p * (vf)((vu)t << 23);
}

/* ln x. x = 2^n m with m in [sqrt(1/2), sqrt(2)); ln(1 + f) = f - f^2/2 + f^3 P(f). */
LVN_INLINE_LONG vf vlog(vf x)
{
    vi tiny = vgreater(vset(0x1p-126f), x);
    vf y = vselect(tiny, x * 0x1p23f, x);
    vi e = (vi)((vu)y - 0x3f3504f3u) >> 23; /* the bits of sqrt(1/2): m's exponent is -1 or 0 */
    vf f = (vf)((vu)y - ((vu)e << 23)) - 1.0f;
    vf n = __builtin_convertvector(e - (tiny & 23), vf);
    vf p = vset(-0x1.38b4ecp-4f);
    LVN_HORNER(p, f, 0x1.055b4ep-3f);
    LVN_HORNER(p, f, -0x1.0d8550p-3f);
    LVN_HORNER(p, f, 0x1.22da22p-3f);
    LVN_HORNER(p, f, -0x1.547244p-3f);
    LVN_HORNER(p, f, 0x1.99a008p-3f);
    LVN_HORNER(p, f, -0x1.000228p-2f);
    LVN_HORNER(p, f, 0x1.555554p-2f);
    vf s = f * f;
    p = vfma(n, vset(0x1.7f7d1cp-20f), p * f * s);
    p = vfma(s, vset(-0.5f), p);
    p = vfma(n, vset(0x1.62e4p-1f), f + p);
    p = vselect(vgreater(vset(INFINITY), x), p, x); /* inf and NaN */
    p = vselect(vgreater(vset(0), x), vset(NAN), p);
    return vselect(vequal(x, vset(0)), vset(-INFINITY), p);
}

/* tanh x = x P(x^2) / Q(x^2) up to the x whose tanh rounds to 1. */
LVN_INLINE_LONG vf vtanh(vf x)
{
    x = vmax(vset(-9.02f), x);
    x = vmin(vset(9.02f), x);
    vf s = x * x;
    vf p = vset(-0x1.ad61d6p-37f);
    LVN_HORNER(p, s, 0x1.06bb26p-25f);
    LVN_HORNER(p, s, 0x1.d5e492p-16f);
    LVN_HORNER(p, s, 0x1.fb0824p-9f);
    LVN_HORNER(p, s, 0x1.182a3ap-3f);
    LVN_HORNER(p, s, 1);
    vf q = vset(0x1.5994d4p-20f);
    LVN_HORNER(q, s, 0x1.9cff9ep-12f);
    LVN_HORNER(q, s, 0x1.be65a0p-6f);
    LVN_HORNER(q, s, 0x1.e16a6ep-2f);
    LVN_HORNER(q, s, 1);
    vf y = x * p / q;
    return vmin(vset(1), vmax(vset(-1), y));
}

/* erf x, in the same form. */
LVN_INLINE_LONG vf verf(vf x)
{
    x = vmax(vset(-3.93f), x);
    x = vmin(vset(3.93f), x);
    vf s = x * x;
    vf p = vset(0x1.1212fcp-19f);
    LVN_HORNER(p, s, 0x1.2aa320p-12f);
    LVN_HORNER(p, s, 0x1.ef5ddep-9f);
    LVN_HORNER(p, s, 0x1.b07398p-5f);
    LVN_HORNER(p, s, 0x1.86b680p-3f);
    LVN_HORNER(p, s, 0x1.20dd76p+0f);
    vf q = vset(0x1.3ecd5ep-15f);
    LVN_HORNER(q, s, 0x1.316fd6p-10f);
    LVN_HORNER(q, s, 0x1.eb6b50p-7f);
    LVN_HORNER(q, s, 0x1.d3fd0ep-4f);
    LVN_HORNER(q, s, 0x1.013b40p-1f);
    LVN_HORNER(q, s, 1);
    vf y = x * p / q;
    return vmin(vset(1), vmax(vset(-1), y));
}

#endif
