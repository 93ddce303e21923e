/* add.c - y = a + b, of one shape: the residual connection.
 *
 * Both gradients are the output's: programs pass it on and run nothing. Where a gradient must be added to one that is
 * there already, the backward kernel does it. */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_TRY(lvn_shape_pair(s, "add"));
    s->out[0] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    return LVN_OK;
}

static void forward(const struct lvn_call *call, int thread, int n_threads)
{
    (void)n_threads;
    if (thread) return;
    const real *a = call->in[0].p, *b = call->in[1].p;
    real *y = call->out[0].p;
    int64_t n = lvn_desc_count(call->out[0].desc);
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static void backward(const struct lvn_call *call, int thread, int n_threads)
{
    (void)n_threads;
    if (thread) return;
    const real *dy = call->dout[0].p;
    int64_t n = lvn_desc_count(call->dout[0].desc);
    for (int k = 0; k < 2; k++) {
        real *d = call->din[k].p;
        for (int64_t i = 0; d && i < n; i++) lvn_put(&d[i], call->add[k], dy[i]);
    }
}

#ifndef LVN_REAL_DOUBLE
struct lvn_tensor *lvn_add(struct lvn_graph *g, struct lvn_tensor *a, struct lvn_tensor *b)
{
    return lvn_node_append(g, LVN_OP_add, &(union lvn_attr){0}, (struct lvn_tensor *[]){a, b}, 2);
}
#endif

LVN_OPERATION(add, shape, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1, .in_place = 1u << 0 | 1u << 1,
              .passes_gradient = true);
