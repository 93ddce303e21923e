/* linear_gelu.c - linear, then GELU; created by the fuse pass.
 *
 * x (...,K), w (K,N) or (N,K), b (N) or absent, y (...,N). Saved: out[1], the values before the activation (...,N),
 * from which y is restored. Backward first computes the gradient of those values, into scratch. */
#include "ops/gelu.h"
#include "ops/linear.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    int64_t N = 0;
    LVN_TRY(lvn_shape_linear(s, s->attr->linear_gelu.in_out, &N));
    s->out[0] = s->in[0];
    s->out[0].dim[s->out[0].rank - 1] = N;
    s->out[0] = s->out[1] = lvn_desc_make(s->real, s->out[0].rank, s->out[0].dim);
    return LVN_OK;
}

static struct lvn_matmul matmul(const struct lvn_call *call)
{
    return lvn_matmul_make(lvn_desc_rows(call->out[1].desc), call->in[1].desc, call->attr->linear_gelu.in_out);
}

static void restore(const struct lvn_call *call)
{
    const real *before = call->out[1].p;
    real *y = call->out[0].p;
    int64_t n = lvn_desc_count(call->out[0].desc);
    for (int64_t i = 0; i < n; i++) y[i] = (real)lvn_gelu_value(before[i], call->attr->linear_gelu.tanh);
}

static void forward(const struct lvn_call *call)
{
    struct lvn_matmul m = matmul(call);
    const real *x = call->in[0].p;
    real *before = call->out[1].p;
    for (int64_t r = 0; r < m.R; r++) lvn_matmul_row(&m, x + r * m.K, call->in[1].p, call->in[2].p, before + r * m.N);
    restore(call);
}

static void backward(const struct lvn_call *call)
{
    struct lvn_matmul m = matmul(call);
    const real *before = call->out[1].p, *dy = call->dout[0].p; /* (R,N) */
    real *dbefore = call->scratch;                              /* (R,N) */
    for (int64_t i = 0; i < m.R * m.N; i++)
        dbefore[i] = (real)(dy[i] * lvn_gelu_slope(before[i], call->attr->linear_gelu.tanh));
    lvn_matmul_backward(&m, call, dbefore);
}

static int64_t scratch(const struct lvn_call *call)
{
    return call->phase == LVN_BACKWARD ? lvn_desc_count(call->out[1].desc) * (int64_t)sizeof(real) : 0;
}

static double flops(const struct lvn_call *call)
{
    if (call->phase == LVN_RESTORE) return 0; /* no matrix multiplication */
    struct lvn_matmul m = matmul(call);
    return lvn_matmul_flops(call, &m);
}

LVN_OPERATION(linear_gelu, shape, forward, backward, .n_in = 3, .n_in_min = 2, .n_out = 1, .n_saved = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(1), .restores = LVN_READS_OUT(1),
              .low_precision_ok = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(0) | LVN_READS_OUT(1),
              .rounded_ok = LVN_READS_IN(2), .packed_ok = LVN_READS_IN(1), .flops = flops, .spec.restore = restore,
              .spec.scratch = scratch);
