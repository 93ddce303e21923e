/* mul_rows.c - y = a * b, where b has the last dimensions of a and is broadcast over the others: a gain per channel.
 *
 * a (...,N), b (N), where N stands for one or more dimensions. The gradient of b is the sum over the rows, in order. */
#include "ops/real.h"
#include "ops/shape.h"

static void forward(const struct lvn_call *call)
{
    const real *a = call->in[0].p, *b = call->in[1].p;
    real *y = call->out[0].p;
    int64_t n = lvn_desc_count(call->out[0].desc), N = lvn_desc_count(call->in[1].desc);
    for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i % N];
}

static void backward(const struct lvn_call *call)
{
    const real *a = call->in[0].p, *b = call->in[1].p, *dy = call->dout[0].p;
    real *da = call->din[0].p, *db = call->din[1].p;
    int64_t n = lvn_desc_count(call->dout[0].desc), N = lvn_desc_count(call->in[1].desc);
    for (int64_t k = 0; db && k < N; k++) {
        double sum = 0;
        for (int64_t i = k; i < n; i += N) sum += (double)dy[i] * a[i];
        lvn_put(&db[k], call->add[1], sum);
    }
    for (int64_t i = 0; da && i < n; i++) lvn_put(&da[i], call->add[0], (double)dy[i] * b[i % N]);
}

LVN_OPERATION(mul_rows, lvn_shape_rows, forward, backward, .n_in = 2, .n_in_min = 2, .n_out = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1));
