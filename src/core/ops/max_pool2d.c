/* max_pool2d.c - the largest element of each window of two by two.
 *
 * x (N,C,H,W), y (N,C,OH,OW), OH = H / 2 rounded down: a last row and column of odd sizes are in no window. Saved:
 * out[1], int32 (N,C,OH,OW): the index h W + w of each maximum in its plane, the first of equal elements in row-major
 * order. A NaN is the maximum of its window. */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    char name[LVN_INPUT_TEXT], text[LVN_SHAPE_TEXT];
    const struct lvn_desc *x = &s->in[0];
    LVN_TRY(lvn_shape_reals(s, "input", 0, 1));
    LVN_CHECK(x->rank == 4 && x->dim[2] >= 2 && x->dim[3] >= 2, SHAPE,
              "max_pool2d: %s has shape %s; expected (N,C,H,W) with H and W at least 2",
              lvn_input_text(s, 0, "input", name), lvn_shape_text(x, text));
    s->out[0] = LVN_DESC(s->real, x->dim[0], x->dim[1], x->dim[2] / 2, x->dim[3] / 2);
    s->out[1] = LVN_DESC(LVN_I32, x->dim[0], x->dim[1], x->dim[2] / 2, x->dim[3] / 2);
    return LVN_OK;
}

/* Index of the largest element of the window at `first` in its plane. */
static int32_t largest(const real *plane, int64_t W, int64_t first)
{
    const int64_t window[] = {first, first + 1, first + W, first + W + 1};
    int64_t best = first;
    for (int e = 1; e < 4; e++) {
        const real v = plane[window[e]];
        if (v > plane[best] || (isnan(v) && !isnan(plane[best]))) best = window[e];
    }
    return (int32_t)best;
}

static void forward(const struct lvn_call *call)
{
    const struct lvn_desc *d = call->in[0].desc, *o = call->out[0].desc;
    const real *x = call->in[0].p;
    real *y = call->out[0].p;
    int32_t *index = call->out[1].p;
    int64_t H = d->dim[2], W = d->dim[3], OH = o->dim[2], OW = o->dim[3];
    for (int64_t e = 0; e < lvn_desc_count(o); e++) {
        const real *plane = x + e / (OH * OW) * H * W;
        index[e] = largest(plane, W, e / OW % OH * 2 * W + e % OW * 2);
        y[e] = plane[index[e]];
    }
}

static void backward(const struct lvn_call *call)
{
    if (!call->din[0].p) return;
    const struct lvn_desc *d = call->din[0].desc, *o = call->dout[0].desc;
    const real *dy = call->dout[0].p;
    const int32_t *index = call->out[1].p;
    real *dx = call->din[0].p;
    lvn_start_sum(call, 0);
    int64_t plane = d->dim[2] * d->dim[3], windows = o->dim[2] * o->dim[3];
    for (int64_t e = 0; e < lvn_desc_count(o); e++) dx[e / windows * plane + index[e]] += dy[e];
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_max_pool2d(struct levin_graph *g, struct levin_tensor *x)
{
    return lvn_node_append(g, LVN_OP_max_pool2d, &(union lvn_attr){0}, (struct levin_tensor *[]){x}, 1);
}
#endif

LVN_OPERATION(max_pool2d, shape, forward, backward, .n_in = 1, .n_in_min = 1, .n_out = 1, .n_saved = 1,
              .reads = LVN_READS_OUT(1));
