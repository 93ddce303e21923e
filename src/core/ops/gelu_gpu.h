/* gelu_gpu.h - the GELUs on devices: functions for kernels, and the launches of gelu and gelu_tanh; see gelu.h for the
 * definitions. */
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

LVN_FUNCTION float gelu_value(float x, int tangent)
{
    if (!tangent) return 0.5f * x * (1 + lvn_erf(x * 0.70710678118654752440f));
    return x * lvn_inverse(1 + lvn_exp_fast(-2 * gelu_inner(x))); /* (1 + tanh(u)) / 2 */
}

LVN_FUNCTION float gelu_slope(float x, int tangent)
{
    if (!tangent)
        return 0.5f * (1 + lvn_erf(x * 0.70710678118654752440f)) + x * 0.39894228040143267794f * lvn_exp(-0.5f * x * x);
    float u = gelu_inner(x), e = lvn_exp_fast(-2 * lvn_abs(u)), s = lvn_inverse(1 + e);
    float rest = e * s * s; /* (1 - tanh^2) / 4 */
    float slope = rest == 0 ? 0 : 2 * x * rest * 0.79788456080286535588f * (1 + 3 * 0.044715f * x * x);
    return (u < 0 ? e * s : s) + slope;
}

#else

/* y = gelu(x). Both operations launch the kernels of gelu.k. */
static inline void gelu_forward(struct lvn_gpu *g, int tangent)
{
    int64_t n = lvn_desc_count(g->call->out[0].desc);
    g->source = "gelu";
    LVN_LAUNCH_WIDE(g, "gelu_forward", n, n, LVN_IN(0, x), LVN_OUT(0, y), LVN_INT(tangent));
}

static inline void gelu_backward(struct lvn_gpu *g, int tangent)
{
    int64_t n = lvn_desc_count(g->call->dout[0].desc);
    if (!g->call->din[0].desc) return;
    g->source = "gelu";
    LVN_LAUNCH_WIDE(g, "gelu_backward", n, n, LVN_IN(0, x), LVN_DOUT(0, dy), LVN_DIN(0, dx), LVN_INT(tangent),
                    LVN_ADDS(0));
}

#endif
#endif
