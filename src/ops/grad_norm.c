/* grad_norm.c - the 2-norm of the whole gradient, and the factor that clips it.
 *
 * in[0]: the flat gradient of all trainable parameters (n). Writes step->grad_norm and
 *
 *     step->clip_scale = min(1, clip_norm / (grad_norm + 1e-6))     as torch.nn.utils.clip_grad_norm_ has it
 *
 * 1 where attr.clip_norm is 0 (off); 0 where the norm is not finite: then the optimizer changes nothing.
 *
 * The order of the sum is fixed, so that every instruction set and number of threads gives the same bits. Squares are
 * taken in double, where those of floats are exact. The flat buffer is cut into blocks of 4096 elements from its start
 * (its layout depends on the model alone, and its gaps hold zeros). In a block, lane l of sixteen sums the elements
 * l, l + 16, ... in order, then lanes are folded in halves, l += l + 8, then 4, 2, 1. Blocks are summed as a binary
 * tree that is split at the largest power of two below their number. */
#include "ops/real.h"
#include "ops/shape.h"

enum { BLOCK = 4096, LANES = 16 };

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "grad_norm", "gradient", 0, 1));
    LVN_CHECK(s->attr->grad_norm.clip_norm >= 0, ARG, "grad_norm: the norm to clip at is %g; it must be at least 0",
              s->attr->grad_norm.clip_norm);
    return LVN_OK;
}

static double block_sum(const real *g, int64_t n)
{
    double lane[LANES] = {0};
    for (int64_t i = 0; i < n; i++) lane[i % LANES] += (double)g[i] * g[i];
    for (int half = LANES / 2; half >= 1; half /= 2)
        for (int l = 0; l < half; l++) lane[l] += lane[l + half];
    return lane[0];
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    (void)n_threads;
    if (thread) return;
    const real *g = call->in[0].p;
    double *sums = call->scratch; /* (blocks) */
    int64_t n = lvn_desc_count(call->in[0].desc), blocks = (n + BLOCK - 1) / BLOCK;
    for (int64_t b = 0; b < blocks; b++)
        sums[b] = block_sum(g + b * BLOCK, n - b * BLOCK < BLOCK ? n - b * BLOCK : BLOCK);
    for (int64_t step = 1; step < blocks; step *= 2)
        for (int64_t b = 0; b + step < blocks; b += 2 * step) sums[b] += sums[b + step];
    double norm = sqrt(sums[0]), clip = call->attr->grad_norm.clip_norm;
    call->step->grad_norm = norm;
    call->step->clip_scale = !isfinite(norm) ? 0 : clip > 0 && clip < norm + 1e-6 ? clip / (norm + 1e-6) : 1;
}

static int64_t scratch(const struct lvn_call *call, int n_threads)
{
    (void)n_threads;
    return (lvn_desc_count(call->in[0].desc) + BLOCK - 1) / BLOCK * (int64_t)sizeof(double);
}

LVN_OPERATION(grad_norm, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .spec.scratch = scratch);
