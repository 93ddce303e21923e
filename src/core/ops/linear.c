/* linear.c - y = x w + b.
 *
 * x (...,K), w (K,N) if attr.in_out (Hugging Face's Conv1D), else (N,K) (torch.nn.Linear, a head tied to an
 * embedding), b (N) or absent, y (...,N). */
#include "ops/linear.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    int64_t N = 0;
    LVN_TRY(lvn_shape_linear(s, s->attr->linear.in_out, &N));
    s->out[0] = s->in[0];
    s->out[0].dim[s->out[0].rank - 1] = N;
    s->out[0] = lvn_desc_make(s->real, s->out[0].rank, s->out[0].dim);
    return LVN_OK;
}

static struct lvn_matmul matmul(const struct lvn_call *call)
{
    const struct lvn_desc *y = call->phase == LVN_BACKWARD ? call->dout[0].desc : call->out[0].desc;
    return lvn_matmul_make(lvn_desc_rows(y), call->in[1].desc, call->attr->linear.in_out);
}

static void forward(const struct lvn_call *call)
{
    struct lvn_matmul m = matmul(call);
    const real *x = call->in[0].p;
    real *y = call->out[0].p;
    for (int64_t r = 0; r < m.R; r++) lvn_matmul_row(&m, x + r * m.K, call->in[1].p, call->in[2].p, y + r * m.N);
}

static void backward(const struct lvn_call *call)
{
    struct lvn_matmul m = matmul(call);
    lvn_matmul_backward(&m, call, call->dout[0].p);
}

static double flops(const struct lvn_call *call)
{
    struct lvn_matmul m = matmul(call);
    return lvn_matmul_flops(call, &m);
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_linear(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *w,
                                  struct levin_tensor *b, bool in_out)
{
    struct levin_tensor *y = lvn_node_append(g, LVN_OP_linear, &(union lvn_attr){.linear = {.in_out = in_out}},
                                             (struct levin_tensor *[]){x, w, b}, 3);
    return g->adapter ? g->adapter(g, x, w, y) : y;
}
#endif

LVN_OPERATION(linear, shape, forward, backward, .n_in = 3, .n_in_min = 2, .n_out = 1,
              .reads = LVN_READS_IN(0) | LVN_READS_IN(1),
              .low_precision_ok = LVN_READS_IN(0) | LVN_READS_IN(1) | LVN_READS_OUT(0), .rounded_ok = LVN_READS_IN(2),
              .packed_ok = LVN_READS_IN(1), .flops = flops);
