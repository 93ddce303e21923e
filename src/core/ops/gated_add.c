/* gated_add.c - y = x + factor w sigmoid(z) u: adds u with a gate for each head and row.
 *
 * x, u (...,K*S), z (...,K): one gate for S channels; w (1), a learned scalar, or absent, which stands for 1. (Zhou et
 * al.: "Value residual learning", 2024, with gates as in nanochat.) */
#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    char x[LVN_SHAPE_TEXT], z[LVN_SHAPE_TEXT];
    LVN_TRY(lvn_shape_each_pair(s));
    LVN_TRY(lvn_shape_reals(s, "gate", 2, 1));
    const int64_t K = s->in[2].dim[s->in[2].rank - 1], C = s->in[0].dim[s->in[0].rank - 1];
    LVN_CHECK(lvn_desc_rows(&s->in[2]) == lvn_desc_rows(&s->in[0]) && C % K == 0, SHAPE,
              "gated_add: the gates have shape %s, and the input has %s; expected the same rows, and a number of gates "
              "that divides the channels",
              lvn_shape_text(&s->in[2], z), lvn_shape_text(&s->in[0], x));
    if (s->has[3]) LVN_TRY(lvn_shape_vector(s, "weight", 3, 1));
    LVN_CHECK(isfinite(s->attr->gated_add.factor), ARG, "gated_add: factor is %g; it must be finite",
              s->attr->gated_add.factor);
    return LVN_OK;
}

/* Without the factor and the weight. */
static double gate(const real *z, int64_t i)
{
    return 1 / (1 + exp(-(double)z[i]));
}

static void forward(const struct lvn_call *call)
{
    const real *x = call->in[0].p, *u = call->in[1].p, *z = call->in[2].p, *w = call->in[3].p;
    real *y = call->out[0].p;
    const int64_t n = lvn_desc_count(call->in[0].desc), gates = lvn_desc_count(call->in[2].desc), S = n / gates;
    const double factor = call->attr->gated_add.factor * (w ? *w : 1);
    for (int64_t k = 0; k < gates; k++) {
        const double g = factor * gate(z, k);
        for (int64_t i = k * S; i < k * S + S; i++) y[i] = (real)(x[i] + g * u[i]);
    }
}

static void backward(const struct lvn_call *call)
{
    const real *u = call->in[1].p, *z = call->in[2].p, *w = call->in[3].p, *dy = call->dout[0].p;
    real *dx = call->din[0].p, *du = call->din[1].p, *dz = call->din[2].p, *dw = call->din[3].p;
    const int64_t n = lvn_desc_count(call->dout[0].desc), gates = lvn_desc_count(call->in[2].desc), S = n / gates;
    const double factor = call->attr->gated_add.factor, weight = w ? *w : 1;
    double all = 0;
    for (int64_t k = 0; k < gates; k++) {
        const double g = gate(z, k);
        double sum = 0;
        for (int64_t i = k * S; i < k * S + S; i++) {
            const double d = dy[i]; /* dx may overwrite dy: read first */
            sum += d * u[i];
            if (dx) lvn_put(&dx[i], call->add[0], d);
            if (du) lvn_put(&du[i], call->add[1], factor * weight * g * d);
        }
        all += g * sum;
        if (dz) lvn_put(&dz[k], call->add[2], factor * weight * g * (1 - g) * sum);
    }
    if (dw) lvn_put(dw, call->add[3], factor * all);
}

#ifndef LVN_REAL_DOUBLE
struct levin_tensor *levin_gated_add(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *u,
                                     struct levin_tensor *z, struct levin_tensor *w, double factor)
{
    return lvn_node_append(g, LVN_OP_gated_add, &(union lvn_attr){.gated_add = {factor}},
                           (struct levin_tensor *[]){x, u, z, w}, 4);
}
#endif

LVN_OPERATION(gated_add, shape, forward, backward, .n_in = 4, .n_in_min = 3, .n_out = 1,
              .reads = LVN_READS_IN(1) | LVN_READS_IN(2) | LVN_READS_IN(3));
