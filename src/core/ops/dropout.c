/* dropout.c - in training, set each element to zero with probability p and scale the others; see dropout.h.
 *
 * x, y (samples,...,C). */
#include "ops/dropout.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_reals(s, "input", 0, 1));
    LVN_TRY(lvn_shape_dropout(s, s->attr->dropout.p));
    s->out[0] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    return LVN_OK;
}

/* y = x * mask, for forward of x and backward of dy. */
static void apply(const struct lvn_call *call, const struct lvn_desc *desc, const real *x, real *y, bool add)
{
    struct lvn_dropout d = lvn_dropout_make(call, desc, call->attr->dropout.p);
    int64_t C = desc->dim[desc->rank - 1], rows = lvn_desc_rows(desc);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < C; c++) lvn_put(&y[r * C + c], add, x[r * C + c] * lvn_dropout_factor(&d, r, c));
}

static void forward(const struct lvn_call *call)
{
    apply(call, call->out[0].desc, call->in[0].p, call->out[0].p, false);
}

static void backward(const struct lvn_call *call)
{
    if (call->din[0].p) apply(call, call->dout[0].desc, call->dout[0].p, call->din[0].p, call->add[0]);
}

#ifndef LVN_REAL_DOUBLE
/* The mask numbers rows by sample. So a tensor with another first dimension, such as (B*T,C), is viewed as (B,T,C). */
struct levin_tensor *levin_dropout(struct levin_graph *g, struct levin_tensor *x, double p)
{
    if (p == 0) return x;
    const struct lvn_desc *d = x ? &x->desc : NULL;
    const int64_t B = g->n_inputs ? g->inputs[0]->desc.dim[0] : 1;
    const bool other = d && d->rank > 1 && d->dim[0] != B && lvn_desc_rows(d) % B == 0 && lvn_desc_contiguous(d);
    struct levin_tensor *in = x;
    if (other) in = levin_reshape(g, x, 3, (const int64_t[]){B, lvn_desc_rows(d) / B, d->dim[d->rank - 1]});
    struct levin_tensor *y = lvn_node_append(g, LVN_OP_dropout, &(union lvn_attr){.dropout = {.p = p}}, &in, 1);
    return other ? levin_reshape(g, y, d->rank, d->dim) : y;
}
#endif

LVN_OPERATION(dropout, shape, forward, backward, .n_in = 1, .n_in_min = 1, .n_out = 1, .in_place = 1u << 0);
