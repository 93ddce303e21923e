/* mean.c - the mean over one dimension, which y does not have: x (B,T,C) with dimension 1 -> y (B,C).
 *
 * x is seen as (outer, N, S). The mean of a vector has shape (1). */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    const struct lvn_desc *x = &s->in[0];
    const int64_t dim = s->attr->mean.dim;
    char name[LVN_INPUT_TEXT], text[LVN_SHAPE_TEXT];
    int64_t rest[LVN_MAX_RANK] = {1};
    int rank = 0;
    LVN_TRY(lvn_shape_reals(s, "input", 0, 1));
    LVN_CHECK(dim >= 0 && dim < x->rank, SHAPE, "mean: %s of shape %s has no dimension %lld; the first one is 0",
              lvn_input_text(s, 0, "input", name), lvn_shape_text(x, text), (long long)dim);
    for (int i = 0; i < x->rank; i++)
        if (i != dim) rest[rank++] = x->dim[i];
    s->out[0] = lvn_desc_make(s->real, rank ? rank : 1, rest);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const struct lvn_desc *d = call->in[0].desc;
    const int64_t dim = call->attr->mean.dim, S = lvn_desc_count_from(d, dim + 1), N = d->dim[dim];
    const real *x = call->in[0].p;
    real *y = call->out[0].p;
    for (int64_t o = 0; o < lvn_desc_count(call->out[0].desc); o++) {
        double sum = 0;
        for (int64_t n = 0; n < N; n++) sum += x[(o / S * N + n) * S + o % S];
        y[o] = (real)(sum / (double)N);
    }
}

static void backward(const struct lvn_call *call)
{
    if (!call->din[0].p) return;
    const struct lvn_desc *d = call->din[0].desc;
    const int64_t dim = call->attr->mean.dim, S = lvn_desc_count_from(d, dim + 1), N = d->dim[dim];
    const real *dy = call->dout[0].p;
    real *dx = call->din[0].p;
    for (int64_t i = 0; i < lvn_desc_count(d); i++)
        lvn_put(&dx[i], call->add[0], dy[i / S / N * S + i % S] / (double)N);
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_mean(struct levin_graph *g, struct levin_tensor *x, int dim)
{
    return lvn_node_append(g, LVN_OP_mean, &(union lvn_attr){.mean = {.dim = dim}}, (struct levin_tensor *[]){x}, 1);
}
#endif

LVN_OPERATION(mean, shape, forward, backward, .n_in = 1, .n_in_min = 1, .n_out = 1);
