/* grad_clip.c - the norm of the gradient and its clip factor, from the sums of squares of all blocks: the second half
 * of grad_norm, after ranks have exchanged the sums of their shards.
 *
 * in[0]: F64 (blocks), overwritten. Writes result->grad_norm and result->clip_scale. It has too little work for a fast
 * kernel. */
#include "ops/grad_norm.h"
#include "ops/real.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_CHECK(s->in[0].dtype == LVN_F64 && s->in[0].rank == 1, SHAPE,
              "grad_clip: expected sums of blocks, F64 (blocks)");
    LVN_CHECK(s->attr->grad_clip.clip_norm >= 0, ARG, "grad_clip: the maximum norm is %g; it must be at least 0",
              s->attr->grad_clip.clip_norm);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    lvn_norm_finish(call->in[0].p, lvn_desc_count(call->in[0].desc), call->attr->grad_clip.clip_norm, call);
}

LVN_OPERATION(grad_clip, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1);
