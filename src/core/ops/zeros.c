/* zeros.c - y = 0: fills a gradient that views write only partially.
 *
 * The differentiate pass inserts it before the first view, without an input. An input, if present, determines the
 * shape. Any type is supported, since zero is zero bytes in all of them. */

#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    if (!s->has[0]) return LVN_OK; /* the pass that inserts it sets the shape */
    LVN_TRY(lvn_shape_reals(s, "input", 0, 1));
    s->out[0] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const struct lvn_desc *d = call->out[0].desc;
    memset(call->out[0].p, 0, (size_t)(lvn_desc_count(d) * lvn_dtype_bytes(d->dtype)));
}

LVN_OPERATION(zeros, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_out = 1);
