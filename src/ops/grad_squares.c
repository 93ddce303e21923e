/* grad_squares.c - the sums of squares of a gradient's blocks: the first half of grad_norm, for a shard.
 *
 * in[0]: a range of the flat gradient (n) that begins at a block. out[0]: F64 (blocks), in grad_norm.c's order.
 */
#include "ops/grad_norm.h"
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "gradient", 0, 1));
    s->out[0] = LVN_DESC(LVN_F64, lvn_norm_blocks(lvn_desc_count(&s->in[0])));
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const real *g = call->in[0].p;
    double *sums = call->out[0].p;
    int64_t n = lvn_desc_count(call->in[0].desc), blocks = lvn_norm_blocks(n);
    for (int64_t b = 0; b < blocks; b++) {
        double lane[LVN_NORM_LANES] = {0};
        for (int64_t i = 0; i < lvn_norm_block_length(n, b); i++) {
            double x = (double)g[b * LVN_NORM_BLOCK + i];
            lane[i % LVN_NORM_LANES] += x * x;
        }
        sums[b] = lvn_norm_fold(lane);
    }
}

LVN_OPERATION(grad_squares, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 1,
              .low_precision_ok = LVN_READS_IN(0));
