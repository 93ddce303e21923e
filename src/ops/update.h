/* update.h - what the operations of all optimizers share: their shape rule, and the gradient that each begins with. */
#ifndef LVN_UPDATE_H
#define LVN_UPDATE_H

#include "ops/real.h"
#include "ops/shape.h"

/* in[0]: the gradient (n); outputs of the same shape: the parameters, then the moments. */
static inline enum lvn_status update_shape(struct lvn_shapes *s, int n_moments)
{
    LVN_TRY(lvn_shape_reals(s, "gradient", 0, 1));
    for (int k = 0; k <= n_moments; k++) s->out[k] = LVN_DESC(s->real, lvn_desc_count(&s->in[0]));
    return LVN_OK;
}

static inline enum lvn_status update_betas(const struct lvn_shapes *s, double beta1, double beta2)
{
    LVN_CHECK(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1, ARG,
              "%s: betas are %g and %g; both must be at least 0 and below 1", s->op, beta1, beta2);
    return LVN_OK;
}

/* The gradient times the norm's clip factor, then clipped to [-clip, clip]; 0: off. NaN stays NaN. */
static inline real update_gradient(real g, real scale, real clip)
{
    g = g * scale;
    return clip == 0 ? g : g > clip ? clip : g < -clip ? -clip : g;
}

#endif
