/* grad_squares.c - the sums of squares of blocks of 4096 gradient elements: the first half of grad_norm, for a shard.
 *
 * in[0] (n): a shard, which begins at a multiple of 4096; absent: this rank has none. out[0] F64 (attr.sums), in the
 * order of grad_norm.c: the sums of in[0] start at index attr.first, and the others are 0, so that the sum over ranks
 * has all of them. */

#include "ops/grad_norm.h"
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    const int64_t first = s->attr->grad_squares.first, sums = s->attr->grad_squares.sums;
    if (s->has[0]) LVN_TRY(lvn_shape_reals(s, "gradient", 0, 1));
    const int64_t n = s->has[0] ? lvn_norm_blocks(lvn_desc_count(&s->in[0])) : 0;
    LVN_CHECK(first >= 0 && first + n <= sums, SHAPE, "grad_squares: sums %lld to %lld are outside of the %lld sums",
              (long long)first, (long long)(first + n) - 1, (long long)sums);
    s->out[0] = LVN_DESC(LVN_F64, sums);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const real *g = call->in[0].p;
    double *sums = call->out[0].p;
    const int64_t n = g ? lvn_desc_count(call->in[0].desc) : 0, first = call->attr->grad_squares.first;
    memset(sums, 0, sizeof *sums * (size_t)call->attr->grad_squares.sums);
    for (int64_t b = 0; b < lvn_norm_blocks(n); b++) {
        double lane[LVN_NORM_LANES] = {0};
        for (int64_t i = 0; i < lvn_norm_block_length(n, b); i++) {
            double x = (double)g[b * LVN_NORM_BLOCK + i];
            lane[i % LVN_NORM_LANES] += x * x;
        }
        sums[first + b] = lvn_norm_fold(lane);
    }
}

LVN_OPERATION(grad_squares, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_out = 1,
              .low_precision_ok = LVN_READS_IN(0));
