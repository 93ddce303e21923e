/* update.h - code shared by the operations of all optimizers: their shape rule, the scaled and clipped gradient, and
 * the running sum of the values that they update.
 *
 * The sum is that of bits_sum.c over parameters and moments. An update adds the bits that it wrote and subtracts those
 * that it read. So the running sum equals the sum of the memory, unless something else has changed it
 * (passes/shard_checksums.c). */
#ifndef LVN_UPDATE_H
#define LVN_UPDATE_H

#include "ops/bits_sum.h"
#include "ops/real.h"
#include "ops/shape.h"

/* in[0]: the gradient (n); outputs of the same shape: the parameters, then the moments; then, if kept, their running
 * sum.
 */
static inline enum lvn_status update_shape(struct lvn_shapes *s, int n_moments)
{
    LVN_TRY(lvn_shape_reals(s, "gradient", 0, 1));
    for (int k = 0; k <= n_moments; k++) s->out[k] = LVN_DESC(s->real, lvn_desc_count(&s->in[0]));
    s->out[n_moments + 1] = LVN_DESC(LVN_I32, 1);
    return LVN_OK;
}

static inline enum lvn_status update_betas(const struct lvn_shapes *s, double beta1, double beta2)
{
    LVN_CHECK(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, ARG,
              "%s: betas are %g and %g; both must be at least 0 and below 1", s->op, beta1, beta2);
    return LVN_OK;
}

/* Update the running sum in plain kernels, before and after the update. */
static inline void update_sum(const struct lvn_call *call, bool after)
{
    uint32_t bits = 0;
    for (int k = 0; k < LVN_MAX_OUT; k++)
        if (call->attr->update.summed >> k & 1)
            bits += lvn_bits_sum(&call->out[k], 0, lvn_desc_count(call->in[0].desc));
    lvn_update_add(call, after ? bits : -bits);
}

/* The gradient times the norm's clip factor, then clipped to [-clip, clip]; 0: off. NaN stays NaN. */
static inline real update_gradient(real g, real scale, real clip)
{
    g = g * scale;
    return clip == 0 ? g : g > clip ? clip : g < -clip ? -clip : g;
}

#endif
