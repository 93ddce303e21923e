/* unscale.c - norm and clip factor of the gradient without the loss scale, and the next step's scale.
 *
 * It runs after the gradient norm and does its clipping. out[0]: F64 (3), the scaling, updated. result->grad_norm has
 * the norm of the scaled gradient:
 *
 *     grad_norm = grad_norm / scale
 *     clip_scale = min(1, clip_norm / (grad_norm + 1e-6)) / scale     0 if the norm is not finite
 *     scale = scale / 2 if the norm is not finite; scale * 2 after LVN_SCALING_EVERY consecutive good steps
 *
 * A batch without labels (step->grad_scale is 0) has clip_scale 0 and does not change the scaling.
 *
 * result->scaling is a copy for the host. Start, factors and interval are those of torch.amp.GradScaler; the scale
 * stays a power of two, so that neither multiplication nor division rounds, and below 2^127, which fp32 can represent.
 */
#include "ops/grad_norm.h"
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    s->out[0] = LVN_DESC(LVN_F64, 3);
    LVN_CHECK(s->attr->unscale.clip_norm >= 0, ARG, "unscale: the maximum norm is %g; it must be at least 0",
              s->attr->unscale.clip_norm);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    struct lvn_scaling *s = call->out[0].p;
    struct lvn_result *r = call->result;
    const bool finite = isfinite(r->grad_norm);
    r->grad_norm /= s->scale;
    r->scaling = *s;
    if (call->step->grad_scale == 0) return; /* clip_scale is 0 already */
    r->clip_scale = lvn_norm_clip(r->grad_norm, call->attr->unscale.clip_norm) / s->scale;
    s->finite_steps = finite ? s->finite_steps + 1 : 0;
    if (!finite) {
        s->scale /= 2;
        s->skipped += 1;
    } else if (s->finite_steps >= LVN_SCALING_EVERY) {
        if (s->scale < 0x1p126) s->scale *= 2;
        s->finite_steps = 0;
    }
    r->scaling = *s;
}

LVN_OPERATION(unscale, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_out = 1);
