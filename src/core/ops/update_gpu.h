/* update_gpu.h - code shared by the optimizers' kernels on devices, with the order of operations of update.h. */
#ifndef LVN_UPDATE_GPU_H
#define LVN_UPDATE_GPU_H

#include "ops/bits_sum_gpu.h"
#include "ops/rounding_gpu.h"
#ifdef LVN_DEVICE

/* The step's learning rate times scale + rest, a double in two floats. */
LVN_FUNCTION lvn_wide update_rate(LVN_GLOBAL const struct lvn_gpu_step *now, float scale, float rest)
{
    return ((lvn_wide)now->lr + now->lr_rest) * ((lvn_wide)scale + rest);
}

LVN_FUNCTION float update_gradient(float g, float scale, float clip)
{
    g = g * scale;
    return clip == 0 ? g : g > clip ? clip : g < -clip ? -clip : g;
}

/* The moment, or 0 if it is subnormal. */
LVN_FUNCTION float update_normal(float moment)
{
    return lvn_abs(moment) < 1.17549435e-38f ? 0 : moment;
}

#else /* the host's half */

/* Launch the sums of bits before the update and after it: the running sum of update.h. */
static inline void update_sum(struct lvn_gpu *g, bool after)
{
    if (g->call->attr->update.summed) lvn_gpu_bits_sum_update(g, after);
}

#endif
#endif
