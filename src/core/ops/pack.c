/* pack.c - copies a view (the first token of each sample, the heads of a row) into a contiguous tensor, which every
 * operation accepts. The gradient is that of the view. x of any shape and strides. */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    char name[LVN_INPUT_TEXT];
    LVN_CHECK(s->in[0].dtype == s->real, SHAPE, "pack: %s has type %s; expected %s",
              lvn_input_text(s, 0, "input", name), lvn_dtype_name(s->in[0].dtype), lvn_dtype_name(s->real));
    s->out[0] = lvn_desc_make(s->real, s->in[0].rank, s->in[0].dim);
    return LVN_OK;
}

/* Offset of the first element of row r of a view. */
static int64_t row_at(const struct lvn_desc *d, int64_t r)
{
    int64_t sum = 0;
    for (int k = d->rank - 2; k >= 0; k--) {
        sum += r % d->dim[k] * d->stride[k];
        r /= d->dim[k];
    }
    return sum;
}

static void forward(const struct lvn_call *call)
{
    const struct lvn_desc *d = call->in[0].desc;
    const real *x = call->in[0].p;
    real *y = call->out[0].p;
    const int64_t rows = lvn_desc_rows(d), n = lvn_desc_count(d) / rows, step = d->rank ? d->stride[d->rank - 1] : 1;
    for (int64_t r = 0; r < rows; r++, y += n) {
        const real *row = x + row_at(d, r);
        for (int64_t i = 0; i < n; i++) y[i] = row[i * step];
    }
}

static void backward(const struct lvn_call *call)
{
    if (!call->din[0].p) return;
    const struct lvn_desc *d = call->din[0].desc;
    const real *dy = call->dout[0].p;
    real *dx = call->din[0].p;
    const int64_t rows = lvn_desc_rows(d), n = lvn_desc_count(d) / rows, step = d->rank ? d->stride[d->rank - 1] : 1;
    for (int64_t r = 0; r < rows; r++, dy += n) {
        real *row = dx + row_at(d, r);
        for (int64_t i = 0; i < n; i++) lvn_put(&row[i * step], call->add[0], dy[i]);
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_pack(struct levin_graph *g, struct levin_tensor *x)
{
    return lvn_node_append(g, LVN_OP_pack, &(union lvn_attr){0}, (struct levin_tensor *[]){x}, 1);
}
#endif

LVN_OPERATION(pack, shape, forward, backward, .n_in = 1, .n_in_min = 1, .n_out = 1);
