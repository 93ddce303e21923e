/* muon.c - one step of Muon for one matrix: its parameters move by the learning rate, along the momentum whose singular
 * values have all been taken near 1.
 *
 * in[0] the gradient, (inputs,outputs); out[0] the parameters, out[1] the momentum m: as many, updated in place.
 * Nothing changes if result->clip_scale is 0: the gradient is not finite.
 *
 *     g = g * scale
 *     g = min(max(g, -clip_value), clip_value)      if clip_value is not 0
 *     m = fma(1 - momentum, g - m, m)
 *     m = 0 if |m| is subnormal
 *     X = fma(momentum, m - g, g)                   Nesterov's momentum
 *     X = X / max(|X|, 1e-7)                        |X|: root of the sum of squares
 *     `steps` times:
 *         G = X X^T                                 X^T X where there are more rows than columns
 *         H = b G + c G G
 *         X = a X + H X                             X H
 *     p = p * keep - lr * ratio * X
 *
 * keep = 1 - lr * weight_decay. ratio: 0.2 sqrt(max(outputs, inputs)), with which steps are as large as those of AdamW,
 * so that one learning rate is for both; with attr.muon.original sqrt(max(1, outputs / inputs)). Both Gram matrices
 * give the same X, so its transpose may be stored as well.
 *
 * Jordan et al.: "Muon: an optimizer for hidden layers in neural networks" (2024),
 * https://kellerjordan.github.io/posts/muon; Liu et al.: "Muon is scalable for LLM training" (2025), for the ratio. As
 * torch.optim.Muon, which computes the products in bf16. */
#include "ops/muon.h"

#include "ops/update.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_CHECK(s->in[0].rank == 2, SHAPE, "%s: the gradient has %d dimensions, and a matrix has 2", s->op,
              s->in[0].rank);
    LVN_TRY(update_shape(s, 1));
    LVN_CHECK(s->attr->muon.momentum >= 0 && s->attr->muon.momentum < 1, ARG,
              "%s: momentum is %g; it must be at least 0 and below 1", s->op, s->attr->muon.momentum);
    return LVN_OK;
}

/* Element (i,k) of the matrix, or of its transpose if it is tall: as many rows as the Gram matrix has. */
static int64_t at(const struct muon *z, int64_t i, int64_t k)
{
    return z->tall ? k * z->columns + i : i * z->columns + k;
}

/* x = a x + H x; y (n), gram, h (side,side): scratch. */
static void iterate(const struct muon *z, real *x, real *y, real *gram, real *h)
{
    const int64_t S = z->side, L = z->n / S;
    for (int64_t i = 0; i < S * S; i++) {
        double sum = 0;
        for (int64_t k = 0; k < L; k++) sum += (double)x[at(z, i / S, k)] * x[at(z, i % S, k)];
        gram[i] = (real)sum;
    }
    for (int64_t i = 0; i < S * S; i++) {
        double sum = 0;
        for (int64_t k = 0; k < S; k++) sum += (double)gram[i / S * S + k] * gram[k * S + i % S];
        h[i] = (real)(muon_b * gram[i] + muon_c * sum);
    }
    for (int64_t i = 0; i < S; i++)
        for (int64_t j = 0; j < L; j++) {
            double sum = 0;
            for (int64_t k = 0; k < S; k++) sum += (double)h[i * S + k] * x[at(z, k, j)];
            y[at(z, i, j)] = (real)(muon_a * x[at(z, i, j)] + sum);
        }
    for (int64_t i = 0; i < z->n; i++) x[i] = y[i];
}

static void forward(const struct lvn_call *call)
{
    if (call->result->clip_scale == 0) return;
    const struct lvn_update *u = &call->attr->update;
    const struct muon z = muon_make(call->in[0].desc, call->attr);
    const real *grad = call->in[0].p;
    real *param = call->out[0].p, *momentum = call->out[1].p;
    real *x = call->scratch, *y = x + z.n, *gram = y + z.n, *h = gram + z.side * z.side;
    const double step_size = call->step->lr * u->lr_scale;
    const real scale = (real)call->result->clip_scale, clip = (real)u->clip_value;
    const real keep = (real)(1 - step_size * u->weight_decay), lr = (real)(step_size * z.ratio);
    const real mu = (real)call->attr->muon.momentum, one_minus_mu = (real)(1 - call->attr->muon.momentum);
    double squares = 0;
    for (int64_t i = 0; i < z.n; i++) {
        const real g = update_gradient(grad[i], scale, clip);
        real m = fma(one_minus_mu, g - momentum[i], momentum[i]);
        if (fabs(m) < LVN_REAL_MIN) m = 0;
        momentum[i] = m;
        x[i] = fma(mu, m - g, g);
        squares += (double)x[i] * x[i];
    }
    const real factor = (real)(1 / fmax(sqrt(squares), muon_eps));
    for (int64_t i = 0; i < z.n; i++) x[i] *= factor;
    for (int64_t k = 0; k < call->attr->muon.steps; k++) iterate(&z, x, y, gram, h);
    for (int64_t i = 0; i < z.n; i++) param[i] = param[i] * keep - lr * x[i];
}

static int64_t scratch(const struct lvn_call *call)
{
    const struct muon z = muon_make(call->in[0].desc, call->attr);
    return 2 * (z.n + z.side * z.side) * (int64_t)sizeof(real);
}

static double flops(const struct lvn_call *call)
{
    const struct muon z = muon_make(call->in[0].desc, call->attr);
    return muon_flops(&z, call->attr->muon.steps);
}

LVN_OPERATION(muon, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 2,
              .low_precision_ok = LVN_READS_IN(0) | LVN_READS_OUT(0) | LVN_READS_OUT(1), .flops = flops,
              .spec.scratch = scratch);
