/* last_token.c - the last token of each sample: y[b] = x[b][lengths[b] - 1].
 *
 * x (B,T,C), lengths (B) int32 between 1 and T, y (B,C). A sample of length 0 (padding of a batch) returns its first
 * row. Backward writes whole gradients: the other rows become zero. */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    char name[LVN_INPUT_TEXT], text[LVN_SHAPE_TEXT];
    LVN_TRY(lvn_shape_reals(s, "input", 0, 3));
    LVN_CHECK(s->in[0].rank == 3, SHAPE, "last_token: %s has shape %s; expected (samples, tokens, channels)",
              lvn_input_text(s, 0, "input", name), lvn_shape_text(&s->in[0], text));
    LVN_TRY(lvn_shape_integers(s, "lengths", 1, s->in[0].dim[0]));
    s->out[0] = LVN_DESC(s->real, s->in[0].dim[0], s->in[0].dim[2]);
    return LVN_OK;
}

/* Index of the last row of sample b. */
static int64_t row(const struct lvn_call *call, const struct lvn_desc *x, int64_t b)
{
    int64_t n = ((const int32_t *)call->in[1].p)[b];
    if (n > x->dim[1]) n = x->dim[1];
    return b * x->dim[1] + (n > 0 ? n - 1 : 0);
}

static void forward(const struct lvn_call *call)
{
    const struct lvn_desc *d = call->in[0].desc;
    const real *x = call->in[0].p;
    real *y = call->out[0].p;
    int64_t C = d->dim[2];
    for (int64_t b = 0; b < d->dim[0]; b++)
        for (int64_t c = 0; c < C; c++) y[b * C + c] = x[row(call, d, b) * C + c];
}

static void backward(const struct lvn_call *call)
{
    const struct lvn_desc *d = call->din[0].desc;
    const real *dy = call->dout[0].p;
    real *dx = call->din[0].p;
    if (!dx) return;
    int64_t C = d->dim[2];
    lvn_start_sum(call, 0);
    for (int64_t b = 0; b < d->dim[0]; b++)
        for (int64_t c = 0; c < C; c++) dx[row(call, d, b) * C + c] += dy[b * C + c];
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_last_token(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *lengths)
{
    return lvn_node_append(g, LVN_OP_last_token, &(union lvn_attr){0}, (struct levin_tensor *[]){x, lengths}, 2);
}
#endif

LVN_OPERATION(last_token, shape, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1, .reads = LVN_READS_IN(1));
