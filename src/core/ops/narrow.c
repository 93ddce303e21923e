/* narrow.c - cast to bf16: y = x, rounded to nearest, ties to even.
 *
 * The data_parallel pass inserts it before collectives on gradients (trainer.reduce_dtype). x, y of equal shape,
 * contiguous. */
#include "base/bf16.h"
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "input", 0, 1));
    s->out[0] = lvn_desc_make(LVN_BF16, s->in[0].rank, s->in[0].dim);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const real *x = call->in[0].p;
    uint16_t *y = call->out[0].p;
    int64_t n = lvn_desc_count(call->in[0].desc);
    for (int64_t i = 0; i < n; i++) y[i] = lvn_bf16_make((float)x[i]);
}

LVN_OPERATION(narrow, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 1);
