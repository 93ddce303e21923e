/* orthogonalize.c - moves all singular values of a matrix close to 1, with the Newton-Schulz iteration.
 *
 * in[0] X (rows,columns), out[0] the same shape; both may be the same memory. out[1] moments of lines (max(rows,
 * columns)), updated in place; absent without polar_express. Nothing is computed if result->clip_scale is 0.
 *
 *     X = X / max(|X|, 1e-7)                        |X|: root of the sum of squares
 *     `steps` times:
 *         G = X X^T                                 X^T X where there are more rows than columns
 *         H = b G + c G G
 *         X = a X + H X                             X H
 *
 * Both Gram matrices give the same X, so X may also be stored transposed.
 *
 * polar_express: each column of X, an output of the layer, is first scaled to the same norm; each iteration has its own
 * a, b and c; the result is scaled to the norm of an orthogonal matrix. Then NorMuon (orthogonalize.h): lines are rows
 * if there are more of them than columns, else columns; for each, the mean square of its elements enters a running mean
 * by whose root the line is divided; the matrix keeps its norm.
 *
 * Jordan et al.: "Muon: an optimizer for hidden layers in neural networks" (2024),
 * https://kellerjordan.github.io/posts/muon. As in torch.optim.Muon, which multiplies in bf16. */
#include "ops/orthogonalize.h"

#include "ops/real.h"
#include "ops/shape.h"

static enum lvn_status shape(struct lvn_shapes *s)
{
    LVN_CHECK(s->in[0].rank == 2, SHAPE, "%s: the operand has %d dimensions; expected a matrix", s->op, s->in[0].rank);
    LVN_TRY(lvn_shape_reals(s, "matrix", 0, 2));
    LVN_CHECK(s->attr->orthogonalize.steps >= 1, ARG, "%s: steps is %lld; it must be at least 1", s->op,
              (long long)s->attr->orthogonalize.steps);
    LVN_CHECK(!s->attr->orthogonalize.polar_express || s->attr->orthogonalize.steps <= POLAR_STEPS, ARG,
              "%s: steps is %lld; polar express has at most %d", s->op, (long long)s->attr->orthogonalize.steps,
              POLAR_STEPS);
    s->out[0] = s->in[0];
    s->out[1] = LVN_DESC(s->real, s->in[0].dim[s->in[0].dim[0] > s->in[0].dim[1] ? 0 : 1]);
    return LVN_OK;
}

/* Offset of element (i,k) of the matrix, or of its transpose if it is tall, so that i is a row of the Gram matrix. */
static int64_t at(const struct matrix *z, int64_t i, int64_t k)
{
    return z->tall ? k * z->columns + i : i * z->columns + k;
}

/* x = a x + H x; y (n), gram, h (side,side): scratch. */
static void iterate(const struct matrix *z, const struct polynomial *q, real *x, real *y, real *gram, real *h)
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
        h[i] = (real)(q->b * gram[i] + q->c * sum);
    }
    for (int64_t i = 0; i < S; i++)
        for (int64_t j = 0; j < L; j++) {
            double sum = 0;
            for (int64_t k = 0; k < S; k++) sum += (double)h[i * S + k] * x[at(z, k, j)];
            y[at(z, i, j)] = (real)(q->a * x[at(z, i, j)] + sum);
        }
    for (int64_t i = 0; i < z->n; i++) x[i] = y[i];
}

static void column_squares(const struct matrix *z, const real *x, double *squares)
{
    for (int64_t j = 0; j < z->columns; j++) {
        squares[j] = 0;
        for (int64_t i = 0; i < z->rows; i++) squares[j] += (double)x[i * z->columns + j] * x[i * z->columns + j];
    }
}

/* The last steps of polar express, on its result. squares [lines]: scratch. */
static void finish_polar(const struct lvn_call *call, const struct matrix *z, double *squares)
{
    real *x = call->out[0].p, *moments = call->out[1].p;
    double before = 0, after = 0;
    for (int64_t j = 0; j < z->lines; j++) squares[j] = 0;
    for (int64_t i = 0; i < z->n; i++) squares[z->tall ? i / z->columns : i % z->columns] += (double)x[i] * x[i];
    const double rescale = polar_rescale(z, squares);
    for (int64_t j = 0; j < z->lines; j++) {
        const double all = squares[j] * rescale * rescale;
        moments[j] = (real)line_moment(z, moments[j], squares[j], rescale);
        before += all;
        after += all * line_factor(moments[j]) * line_factor(moments[j]);
    }
    const double common = line_common(before, after) * rescale;
    for (int64_t i = 0; i < z->n; i++)
        x[i] *= (real)(line_factor(moments[z->tall ? i / z->columns : i % z->columns]) * common);
}

static void forward(const struct lvn_call *call)
{
    if (call->result->clip_scale == 0) return;
    const struct matrix z = matrix_make(call->in[0].desc);
    const real *from = call->in[0].p;
    const bool polar = call->attr->orthogonalize.polar_express;
    double *column = call->scratch, squares = 0;
    real *x = call->out[0].p, *y = (real *)(column + z.lines), *gram = y + z.n, *h = gram + z.side * z.side;
    column_squares(&z, from, column);
    const double common = polar_common(z.columns, column);
    for (int64_t i = 0; i < z.n; i++) squares += (double)from[i] * from[i];
    for (int64_t i = 0; i < z.n; i++)
        x[i] = from[i] *
               (real)(polar ? common / polar_column(column[i % z.columns]) : 1 / fmax(sqrt(squares), smallest_norm));
    for (int64_t k = 0; k < call->attr->orthogonalize.steps; k++) {
        const struct polynomial q = polynomial_of(polar, k);
        iterate(&z, &q, x, y, gram, h);
    }
    if (polar) finish_polar(call, &z, column);
}

static int64_t scratch(const struct lvn_call *call)
{
    const struct matrix z = matrix_make(call->in[0].desc);
    return (z.n + 2 * z.side * z.side) * (int64_t)sizeof(real) + z.lines * (int64_t)sizeof(double);
}

/* Each iteration multiplies twice with the matrix, and two Gram matrices. */
static double flops(const struct lvn_call *call)
{
    const struct matrix z = matrix_make(call->in[0].desc);
    const double side = (double)z.side, n = (double)z.n;
    return (double)call->attr->orthogonalize.steps * 2.0 * side * (2.0 * n + side * side);
}

LVN_OPERATION(orthogonalize, shape, forward, LVN_NOT_DIFFERENTIABLE, .n_in = 1, .n_in_min = 1, .n_out = 2,
              .side_by_side = true, .flops = flops, .spec.scratch = scratch);
