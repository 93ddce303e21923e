/* add_rows.c - y = a + b, where b has the last dimensions of a and is broadcast over the others: a bias, or a position
 * table.
 *
 * a (...,N), b (N), where N stands for one or more dimensions. The gradient of b is the sum over the rows, in order. */
#include "ops/real.h"
#include "ops/shape.h"

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

LVN_OPERATION(add_rows, lvn_shape_rows, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1);
