/* rotary.c - rotary position embedding: rotates pairs of channels of each head by angles that grow with the position.
 *
 *     y[i]     = x[i] cos - x[i+h] sin
 *     y[i+h]   = x[i+h] cos + x[i] sin         i < h = dims / 2; channels from dims on are copied
 *
 * x (B,T,H,D), strided, but the channels of a head are contiguous; table (T,dims) or (B,T,dims), whose rows have h
 * cosines and then h sines (rotary_table.c), dims <= D; y (B,T,H,D), contiguous. The table has no gradient. The
 * gradient of x is that of y, rotated by the negative angles. Interleaved pairs of channels (GPT-J) are not supported.
 */
#include "ops/real.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    const struct lvn_desc *x = &s->in[0], *table = &s->in[1];
    char a[LVN_SHAPE_TEXT], b[LVN_SHAPE_TEXT];
    LVN_CHECK(x->rank == 4 && (x->stride[3] == 1 || x->dim[3] == 1), SHAPE,
              "rotary: input has shape %s; expected (batch, time, heads, head size) with contiguous channels of a head",
              lvn_shape_text(x, a));
    LVN_CHECK(x->dtype == s->real && table->dtype == s->real, UNSUPPORTED,
              "rotary: input has type %s and table %s; expected %s", lvn_dtype_name(x->dtype),
              lvn_dtype_name(table->dtype), lvn_dtype_name(s->real));
    const int64_t *table_dim = table->dim + table->rank - 2; /* time, channels */
    LVN_CHECK((table->rank == 2 || (table->rank == 3 && table->dim[0] == x->dim[0])) && table_dim[0] == x->dim[1] &&
                  table_dim[1] % 2 == 0 && table_dim[1] <= x->dim[3] && lvn_desc_contiguous(table),
              SHAPE,
              "rotary: the table %s does not match %s; expected a contiguous (time, channels), or (batch, time, "
              "channels), with an "
              "even number of channels, at most the head size",
              lvn_shape_text(table, b), lvn_shape_text(x, a));
    s->out[0] = lvn_desc_make(s->real, 4, x->dim);
    return LVN_OK;
}

/* Offset of head (b,t,h) of a tensor (B,T,H,D). */
static int64_t head_offset(const struct lvn_desc *d, int64_t b, int64_t t, int64_t h)
{
    return b * d->stride[0] + t * d->stride[1] + h * d->stride[2];
}

/* sign -1: rotate by the negative angles. */
static void rotate(const struct lvn_arg *source, const struct lvn_arg *target, const struct lvn_arg *table, real sign,
                   bool add)
{
    const int64_t *dim = source->desc->dim, rows = lvn_desc_rows(table->desc),
                  dims = lvn_desc_count(table->desc) / rows;
    const int64_t n_pairs = dims / 2;
    for (int64_t r = 0; r < dim[0] * dim[1] * dim[2]; r++) {
        int64_t h = r % dim[2], t = r / dim[2] % dim[1], b = r / dim[2] / dim[1];
        const real *x = (const real *)source->p + head_offset(source->desc, b, t, h),
                   *c = (const real *)table->p + (b * dim[1] + t) % rows * dims;
        real *y = (real *)target->p + head_offset(target->desc, b, t, h);
        for (int64_t i = 0; i < n_pairs; i++) {
            real cosine = c[i], sine = sign * c[n_pairs + i], x0 = x[i], x1 = x[n_pairs + i];
            lvn_put(&y[i], add, x0 * cosine - x1 * sine);
            lvn_put(&y[n_pairs + i], add, x1 * cosine + x0 * sine);
        }
        for (int64_t i = dims; i < dim[3]; i++) lvn_put(&y[i], add, x[i]);
    }
}

static void forward(const struct lvn_call *call)
{
    rotate(&call->in[0], &call->out[0], &call->in[1], 1, false);
}

static void backward(const struct lvn_call *call)
{
    if (call->din[0].p) rotate(&call->dout[0], &call->din[0], &call->in[1], -1, call->add[0]);
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_rotary(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *table)
{
    return lvn_node_append(g, LVN_OP_rotary, &(union lvn_attr){0}, (struct levin_tensor *[]){x, table}, 2);
}
#endif

LVN_OPERATION(rotary, shape, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1, .reads = LVN_READS_IN(1),
              .low_precision_ok = LVN_READS_IN(0) | LVN_READS_OUT(0));
