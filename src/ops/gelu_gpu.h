/* gelu_gpu.h - the GELUs on devices: functions for kernels, and the launches of gelu and gelu_tanh; see gelu.h for the
 * definitions. */
#ifndef LVN_GELU_GPU_H
#define LVN_GELU_GPU_H

#include "backend/gpu/words.h"
#ifdef LVN_DEVICE

/* The argument of tanh. x is limited to 1e3, where 1 - tanh^2 is 0 and x^3 does not overflow yet. */
LVN_FUNCTION float gelu_inner(float x)
{
    float a = lvn_abs(x) > 1e3f ? (x > 0 ? 1e3f : -1e3f) : x;
    return 0.79788456080286535588f * (a + 0.044715f * a * a * a);
}

LVN_FUNCTION float gelu_value(float x, int tangent)
{
    return 0.5f * x * (1 + (tangent ? lvn_tanh(gelu_inner(x)) : lvn_erf(x * 0.70710678118654752440f)));
}

LVN_FUNCTION float gelu_slope(float x, int tangent)
{
    if (!tangent)
        return 0.5f * (1 + lvn_erf(x * 0.70710678118654752440f)) + x * 0.39894228040143267794f * lvn_exp(-0.5f * x * x);
    float u = gelu_inner(x), e = lvn_exp(-2 * lvn_abs(u)), rest = 4 * e / ((1 + e) * (1 + e)); /* 1 - tanh^2 */
    float slope = rest == 0 ? 0 : 0.5f * x * rest * 0.79788456080286535588f * (1 + 3 * 0.044715f * x * x);
    return 0.5f * (1 + lvn_tanh(u)) + slope;
}

#else

/* y = gelu(x). Both operations launch the kernels of gelu.k. */
static inline void gelu_forward(struct lvn_gpu *g, int tangent)
{
    int64_t n = lvn_desc_count(g->call->out[0].desc);
    g->source = "gelu";
    LVN_LAUNCH(g, "gelu_forward", lvn_gpu_groups(n), 1, 1, LVN_IN(0, x), LVN_OUT(0, y), LVN_LONG(n), LVN_INT(tangent));
}

static inline void gelu_backward(struct lvn_gpu *g, int tangent)
{
    int64_t n = lvn_desc_count(g->call->dout[0].desc);
    if (!g->call->din[0].desc) return;
    g->source = "gelu";
    LVN_LAUNCH(g, "gelu_backward", lvn_gpu_groups(n), 1, 1, LVN_IN(0, x), LVN_DOUT(0, dy), LVN_DIN(0, dx), LVN_LONG(n),
               LVN_INT(tangent), LVN_ADDS(0));
}

#endif
#endif
