/* add.c - y = a + b, of one shape: the residual connection.
 *
 * Both gradients are the output's: the differentiate pass passes it on (passes_gradient), and appends an addition where
 * an input has an earlier contribution. */
#include "ops/real.h"
#include "ops/shape.h"

static void forward(const struct lvn_call *call)
{
    const real *a = call->in[0].p, *b = call->in[1].p;
    real *y = call->out[0].p;
    int64_t n = lvn_desc_count(call->out[0].desc);
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static void backward(const struct lvn_call *call)
{
    const real *dy = call->dout[0].p;
    int64_t n = lvn_desc_count(call->dout[0].desc);
    for (int k = 0; k < 2; k++) {
        real *d = call->din[k].p;
        for (int64_t i = 0; d && i < n; i++) lvn_put(&d[i], call->add[k], dy[i]);
    }
}

#ifndef LVN_REAL_DOUBLE
/* Are the dimensions of b the last dimensions of a, and fewer than all? Then b is broadcast (add_rows.c). */
static bool ends_with(const struct lvn_tensor *a, const struct lvn_tensor *b)
{
    bool fits = a && b && b->desc.rank < a->desc.rank;
    for (int i = 1; fits && i <= b->desc.rank; i++)
        fits = b->desc.dim[b->desc.rank - i] == a->desc.dim[a->desc.rank - i];
    return fits;
}

struct lvn_tensor *lvn_add(struct lvn_graph *g, struct lvn_tensor *a, struct lvn_tensor *b)
{
    bool longer = a && b && b->desc.rank > a->desc.rank;
    struct lvn_tensor *in[] = {longer ? b : a, longer ? a : b};
    return lvn_node_append(g, ends_with(in[0], in[1]) ? LVN_OP_add_rows : LVN_OP_add, &(union lvn_attr){0}, in, 2);
}
#endif

LVN_OPERATION(add, lvn_shape_each_pair, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1,
              .in_place = 1u << 0 | 1u << 1, .passes_gradient = true);
