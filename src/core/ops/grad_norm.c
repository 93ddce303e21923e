/* grad_norm.c - the 2-norm of the whole gradient, and its clip factor.
 *
 * in[0]: the flat gradient of all trainable parameters (n). Writes result->grad_norm and
 *
 *     result->clip_scale = min(1, clip_norm / (grad_norm + 1e-6))     as in torch.nn.utils.clip_grad_norm_
 *
 * or 1 if attr.clip_norm is 0 (off). It is 0, and the optimizer changes nothing, if the norm is not finite or the batch
 * has no label (step->grad_scale is 0).
 *
 * The order of summation is fixed, so that every instruction set and number of threads gives the same bits. Squares are
 * computed in double, in which those of floats are exact. The flat buffer is divided into blocks of 4096 elements from
 * its start (its layout depends only on the model, and its gaps are zero). Within a block, lane l of sixteen sums
 * elements l, l + 16, ... in order, then the lanes are summed pairwise: l and l + 8, then l and l + 4, 2, 1. Blocks are
 * summed as a binary tree that is split at the largest power of two below their number. */
#include "ops/grad_norm.h"

#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "gradient", 0, 1));
    LVN_CHECK(s->attr->grad_norm.clip_norm >= 0, ARG, "grad_norm: the maximum norm is %g; it must be at least 0",
              s->attr->grad_norm.clip_norm);
    return LVN_OK;
}

static double block_sum(const real *grad, int64_t n)
{
    double lane[LVN_NORM_LANES] = {0};
    for (int64_t i = 0; i < n; i++) {
        const double g = grad[i];
        lane[i % LVN_NORM_LANES] += g * g;
    }
    return lvn_norm_fold(lane);
}

static void forward(const struct lvn_call *call)
{
    const real *g = call->in[0].p;
    double *sums = call->scratch; /* (blocks) */
    int64_t n = lvn_desc_count(call->in[0].desc), blocks = lvn_norm_blocks(n);
    for (int64_t b = 0; b < blocks; b++) sums[b] = block_sum(g + b * LVN_NORM_BLOCK, lvn_norm_block_length(n, b));
    lvn_norm_finish(sums, blocks, call->attr->grad_norm.clip_norm, call);
}

static int64_t scratch(const struct lvn_call *call)
{
    return lvn_norm_blocks(lvn_desc_count(call->in[0].desc)) * (int64_t)sizeof(double);
}

LVN_OPERATION(grad_norm, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .spec.scratch = scratch,
              .low_precision_ok = LVN_READS_IN(0));
