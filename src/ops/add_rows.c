/* add_rows.c - y = a + b, where b has the last dimensions of a and is broadcast over the others: a bias, a table of
 * positions.
 *
 * a (...,N), b (N), where N stands for one dimension or several. The gradient of b is the sum over the rows, in their
 * order. */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    const struct lvn_desc *a = &s->in[0], *b = &s->in[1];
    char name_a[LVN_INPUT_TEXT], name_b[LVN_INPUT_TEXT], have[LVN_SHAPE_TEXT], want[LVN_SHAPE_TEXT];
    LVN_TRY(lvn_shape_reals(s, "first input", 0, 1));
    LVN_TRY(lvn_shape_reals(s, "second input", 1, 1));
    bool fits = b->rank <= a->rank;
    for (int i = 1; fits && i <= b->rank; i++) fits = b->dim[b->rank - i] == a->dim[a->rank - i];
    LVN_CHECK(fits, SHAPE, "add: %s has shape %s, %s has %s; one must have the last dimensions of the other",
              lvn_input_text(s, 0, "first input", name_a), lvn_shape_text(a, have),
              lvn_input_text(s, 1, "second input", name_b), lvn_shape_text(b, want));
    s->out[0] = lvn_desc_make(s->real, a->rank, a->dim);
    return LVN_OK;
}

static void forward(const struct lvn_call *call)
{
    const real *a = call->in[0].p, *b = call->in[1].p;
    real *y = call->out[0].p;
    int64_t n = lvn_desc_count(call->out[0].desc), N = lvn_desc_count(call->in[1].desc);
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i % N];
}

static void backward(const struct lvn_call *call)
{
    const real *dy = call->dout[0].p;
    real *da = call->din[0].p, *db = call->din[1].p;
    int64_t n = lvn_desc_count(call->dout[0].desc), N = db ? lvn_desc_count(call->din[1].desc) : 1;
    for (int64_t i = 0; da && i < n; i++) lvn_put(&da[i], call->add[0], dy[i]);
    for (int64_t k = 0; db && k < N; k++) {
        double sum = 0;
        for (int64_t i = k; i < n; i += N) sum += dy[i];
        lvn_put(&db[k], call->add[1], sum);
    }
}

LVN_OPERATION(add_rows, shape, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1);
