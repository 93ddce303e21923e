/* concat.c - y holds the elements of a, then those of b, along one dimension; the other dimensions are equal.
 *
 * From that dimension on, the elements of a and b are contiguous: a row of y is a row of a, then a row of b. */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    const struct lvn_desc *a = &s->in[0], *b = &s->in[1];
    const int64_t dim = s->attr->concat.dim;
    char name_a[LVN_INPUT_TEXT], name_b[LVN_INPUT_TEXT], text_a[LVN_SHAPE_TEXT], text_b[LVN_SHAPE_TEXT];
    LVN_TRY(lvn_shape_reals(s, "first input", 0, 1));
    LVN_TRY(lvn_shape_reals(s, "second input", 1, 1));
    bool fits = a->rank == b->rank && dim >= 0 && dim < a->rank;
    for (int i = 0; fits && i < a->rank; i++) fits = i == dim || a->dim[i] == b->dim[i];
    LVN_CHECK(fits, SHAPE, "concat: %s has shape %s, %s has %s; they may differ only in dimension %lld, from 0 on",
              lvn_input_text(s, 0, "first input", name_a), lvn_shape_text(a, text_a),
              lvn_input_text(s, 1, "second input", name_b), lvn_shape_text(b, text_b), (long long)dim);
    s->out[0] = *a;
    s->out[0].dim[dim] += b->dim[dim];
    s->out[0] = lvn_desc_make(s->real, a->rank, s->out[0].dim);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const int64_t dim = call->attr->concat.dim, A = lvn_desc_count_from(call->in[0].desc, dim),
                  B = lvn_desc_count_from(call->in[1].desc, dim);
    const real *a = call->in[0].p, *b = call->in[1].p;
    real *y = call->out[0].p;
    for (int64_t i = 0; i < lvn_desc_count(call->out[0].desc); i++) {
        int64_t r = i / (A + B), c = i % (A + B);
        y[i] = c < A ? a[r * A + c] : b[r * B + c - A];
    }
}

static void backward(const struct lvn_call *call)
{
    const int64_t dim = call->attr->concat.dim, Y = lvn_desc_count_from(call->dout[0].desc, dim);
    const real *dy = call->dout[0].p;
    for (int k = 0; k < 2; k++) {
        real *d = call->din[k].p;
        if (!d) continue;
        const int64_t n = lvn_desc_count_from(call->din[k].desc, dim), first = k ? Y - n : 0;
        for (int64_t i = 0; i < lvn_desc_count(call->din[k].desc); i++)
            lvn_put(&d[i], call->add[k], dy[i / n * Y + first + i % n]);
    }
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_concat(struct levin_graph *g, struct levin_tensor *a, struct levin_tensor *b, int dim)
{
    return lvn_node_append(g, LVN_OP_concat, &(union lvn_attr){.concat = {.dim = dim}}, (struct levin_tensor *[]){a, b},
                           2);
}
#endif

LVN_OPERATION(concat, shape, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1);
