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

/* The running sum of update.h. SUMMED: its mask of outputs. A kernel subtracts the bits that it reads from `change` and
 * adds those that it has stored; UPDATE_END, which all items reach, stores the change that a group made. */
#ifndef SUMMED
#define SUMMED 0
#endif
#define UPDATE_BITS(output, x) (SUMMED >> output & 1 ? LVN_BITS_OF(x) : 0u)
#define UPDATE_PUT(output, x, i, value, bits)                                                                          \
    do {                                                                                                               \
        ROUNDED_PUT(x, i, value, bits);                                                                                \
        change += UPDATE_BITS(output, LVN_GET(x, i));                                                                  \
    } while (0)
#if SUMMED
#define UPDATE_END(parts)                                                                                              \
    LVN_GROUP_SHARED(lvn_uint, changes);                                                                               \
    changes[LVN_ITEM] = change;                                                                                        \
    bits_sum_add(changes);                                                                                             \
    if (LVN_ITEM == 0) LVN_AT(lvn_uint, parts)[LVN_GROUP_X] = changes[0];
#else
#define UPDATE_END(parts)
#endif

#else /* the host's half */

/* Before an optimizer's launches: the argument `parts`, in which each group stores how it changed the running sum. */
static inline struct lvn_gpu_arg update_begin(struct lvn_gpu *g)
{
    const int64_t groups = lvn_gpu_groups(lvn_desc_count(g->call->in[0].desc));
    const unsigned summed = g->call->attr->update.summed;
    if (!summed) return (struct lvn_gpu_arg)LVN_ABSENT(parts);
    lvn_gpu_define(g, "SUMMED", summed);
    return (struct lvn_gpu_arg)LVN_SCRATCH(lvn_gpu_scratch(g, groups * (int64_t)sizeof(uint32_t)), parts);
}

/* After an optimizer's launches: add the groups' changes to the running sum. */
static inline void update_end(struct lvn_gpu *g, const struct lvn_gpu_arg *parts)
{
    if (g->call->attr->update.summed)
        lvn_gpu_bits_sum_update(g, parts->number, lvn_gpu_groups(lvn_desc_count(g->call->in[0].desc)));
}

#endif
#endif
