/* gelu.h - the GELU and its derivative, for the plain kernels of chain and linear_gelu.
 *
 * Hendrycks, Gimpel: "Gaussian error linear units" (2016). gelu is x * Phi(x), with the normal distribution's Phi;
 * gelu_tanh is the approximation 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), with which some models were trained.
 */
#ifndef LVN_GELU_H
#define LVN_GELU_H

#include "ops/real.h"
#include "ops/shape.h"

#define LVN_SQRT_HALF 0.70710678118654752440
#define LVN_SQRT_2_PI 0.79788456080286535588  /* sqrt(2 / pi) */
#define LVN_1_SQRT_2PI 0.39894228040143267794 /* 1 / sqrt(2 pi) */
#define LVN_GELU_CUBIC 0.044715

static inline double lvn_gelu_value(double x, bool tanh_variant)
{
    double t = tanh_variant ? tanh(LVN_SQRT_2_PI * (x + LVN_GELU_CUBIC * x * x * x)) : erf(x * LVN_SQRT_HALF);
    return 0.5 * x * (1 + t);
}

static inline double lvn_gelu_slope(double x, bool tanh_variant)
{
    if (!tanh_variant) return 0.5 * (1 + erf(x * LVN_SQRT_HALF)) + x * LVN_1_SQRT_2PI * exp(-0.5 * x * x);
    double t = tanh(LVN_SQRT_2_PI * (x + LVN_GELU_CUBIC * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * LVN_SQRT_2_PI * (1 + 3 * LVN_GELU_CUBIC * x * x);
}

#endif
