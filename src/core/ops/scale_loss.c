/* scale_loss.c - multiplies this micro-batch's gradients by the loss scale (struct lvn_scaling).
 *
 * It multiplies step->grad_scale, so loss kernels do not depend on it. unscale.c divides after the norm.
 *
 * in[0]: F64 (3), the scaling. */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_CHECK(s->in[0].dtype == LVN_F64 && lvn_desc_count(&s->in[0]) == LVN_SCALING_FIELDS, SHAPE,
              "scale_loss: expected a scaling, F64 (%d)", LVN_SCALING_FIELDS);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const struct lvn_scaling *scaling = call->in[0].p;
    call->step->grad_scale *= scaling->scale;
}

LVN_OPERATION(scale_loss, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1);
