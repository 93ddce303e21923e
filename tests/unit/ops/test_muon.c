/* test_muon.c - covers: src/ops/muon.c src/ops/muon.cpu.c
 *
 * Muon against its formula in double, written as torch.optim.Muon writes it: the matrix is transposed if it has more
 * rows than columns. What all operations promise (bits on any number of threads, memory) is in test_ops.c. */
#include "base/bf16.h"
#include "ops_cases.h"

static double *new_matrix(int64_t n)
{
    double *x = calloc((size_t)n, sizeof *x);
    assert_non_null(x);
    return x;
}

/* c (m,n) = a (m,k) b (k,n); b_transposed: b is (n,k). */
static void multiply(int64_t m, int64_t n, int64_t k, const double *a, const double *b, bool b_transposed, double *c)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            c[i * n + j] = 0;
            for (int64_t l = 0; l < k; l++) c[i * n + j] += a[i * k + l] * b[b_transposed ? j * k + l : l * n + j];
        }
}

static void transpose(int64_t rows, int64_t columns, const double *x, double *y)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) y[j * rows + i] = x[i * columns + j];
}

/* x (rows,columns), rows <= columns. */
static void orthogonalize(int64_t rows, int64_t columns, int64_t steps, double *x)
{
    const double a = 3.4445, b = -4.7750, c = 2.0315;
    const int64_t n = rows * columns, square = rows * rows;
    double *gram = new_matrix(square), *h = new_matrix(square), *hx = new_matrix(n), norm = 0;
    for (int64_t i = 0; i < n; i++) norm += x[i] * x[i];
    norm = fmax(sqrt(norm), 1e-7);
    for (int64_t i = 0; i < n; i++) x[i] /= norm;
    for (int64_t k = 0; k < steps; k++) {
        multiply(rows, rows, columns, x, x, true, gram);
        multiply(rows, rows, rows, gram, gram, false, h);
        for (int64_t i = 0; i < square; i++) h[i] = b * gram[i] + c * h[i];
        multiply(rows, columns, rows, h, x, false, hx);
        for (int64_t i = 0; i < n; i++) x[i] = a * x[i] + hx[i];
    }
    free(gram), free(h), free(hx);
}

/* One step of p and the momentum m, both (inputs,outputs), with the gradient g. */
static void textbook_muon(const union lvn_attr *attr, int64_t inputs, int64_t outputs, double lr, const double *g,
                          double *p, double *m)
{
    const int64_t n = inputs * outputs;
    const double clip = attr->update.clip_value, mu = attr->muon.momentum;
    double *x = new_matrix(n), *turned = new_matrix(n);
    lr *= attr->update.lr_scale;
    for (int64_t i = 0; i < n; i++) {
        const double one = clip > 0 ? fmin(fmax(g[i], -clip), clip) : g[i];
        m[i] = mu * m[i] + (1 - mu) * one;
        x[i] = (1 - mu) * one + mu * m[i];
    }
    if (inputs <= outputs) {
        orthogonalize(inputs, outputs, attr->muon.steps, x);
    } else {
        transpose(inputs, outputs, x, turned);
        orthogonalize(outputs, inputs, attr->muon.steps, turned);
        transpose(outputs, inputs, turned, x);
    }
    const double ratio = attr->muon.original ? sqrt(fmax(1, (double)outputs / (double)inputs))
                                             : 0.2 * sqrt(fmax((double)outputs, (double)inputs));
    for (int64_t i = 0; i < n; i++) p[i] = p[i] * (1 - lr * attr->update.weight_decay) - lr * ratio * x[i];
    free(x), free(turned);
}

/* Five steps from no momentum, with a new gradient each. */
static void check_steps(const struct op_case *c, enum lvn_dtype real, const struct lvn_cpu_op *kernels)
{
    struct run r;
    const double tolerance = real == LVN_F64 ? 1e-12 : 2e-6;
    run_init(&r, c, real, kernels);
    const struct lvn_desc *d = &r.in[0].desc;
    const int64_t n = lvn_desc_count(d);
    double *p = new_matrix(n), *m = new_matrix(n), *g = new_matrix(n);
    for (int64_t i = 0; i < n; i++) buffer_set(&r.out[1], i, 0), p[i] = buffer_get(&r.out[0], i);
    for (int64_t t = 0; t < 5; t++) {
        r.result.clip_scale = t == 3 ? 0.25 : 1;
        buffer_fill(&r.in[0], 700 + (uint64_t)t, 0, c->in[0].scale > 0 ? c->in[0].scale : 1);
        for (int64_t i = 0; i < n; i++) g[i] = buffer_get(&r.in[0], i) * r.result.clip_scale;
        textbook_muon(&c->attr, d->dim[0], d->dim[1], r.step.lr, g, p, m);
        run_forward(&r, 2);
        for (int64_t i = 0; i < n; i++)
            if (!(fabs(buffer_get(&r.out[0], i) - p[i]) <= tolerance))
                fail_msg("%s, step %d, element %d: %.17g, by the formula %.17g", case_text(c), (int)t, (int)i,
                         buffer_get(&r.out[0], i), p[i]);
    }
    free(p), free(m), free(g);
    run_release(&r);
}

static void follows_its_formula(void **state)
{
    (void)state;
    for (int n = 0; n < N_OP_CASES; n++) {
        const struct op_case *c = &op_cases[n];
        if (c->op != LVN_OP_muon) continue;
        check_steps(c, LVN_F64, &lvn_cpu_plain_ops(LVN_F64)[c->op]);
        for (enum lvn_isa isa = LVN_ISA_GENERIC; isa <= lvn_isa_best(); isa++)
            check_steps(c, LVN_F32, &lvn_cpu_ops(isa)[c->op]);
    }
}

static const struct op_case square = {LVN_OP_muon, .attr.muon = {{.lr_scale = 1}, .momentum = 0.95, .steps = 5},
                                      .in = {REAL(64, 64)}};

/* All singular values of a step are near 1: the sum of their squares is near the number of rows. */
static void steps_are_orthogonal(void **state)
{
    (void)state;
    struct run r;
    double squares = 0;
    run_init(&r, &square, LVN_F32, &lvn_cpu_ops(lvn_isa_best())[LVN_OP_muon]);
    r.step.lr = 1 / (0.2 * 8);
    for (int64_t i = 0; i < 64 * 64; i++) buffer_set(&r.out[0], i, 0);
    run_forward(&r, 2);
    for (int64_t i = 0; i < 64 * 64; i++) squares += buffer_get(&r.out[0], i) * buffer_get(&r.out[0], i);
    assert_true(squares > 0.6 * 64 && squares < 1.3 * 64);
    run_release(&r);
}

/* A gradient that is not finite changes nothing; a gradient of zeros moves nothing. */
static void may_change_nothing(void **state)
{
    (void)state;
    for (int zero = 0; zero < 2; zero++)
        for (int fast = 0; fast < 2; fast++) {
            struct run r;
            run_init(&r, &square, LVN_F32,
                     fast ? &lvn_cpu_ops(lvn_isa_best())[LVN_OP_muon] : &lvn_cpu_plain_ops(LVN_F32)[LVN_OP_muon]);
            for (int64_t i = 0; i < 64 * 64; i++) buffer_set(&r.in[0], i, zero ? 0 : NAN);
            for (int k = 0; k < 2; k++)
                for (int64_t i = 0; i < 64 * 64; i++) buffer_set(&r.out[k], i, zero && k ? 0 : 0.25);
            r.result.clip_scale = zero;
            run_forward(&r, 2);
            for (int k = 0; k < 2; k++)
                for (int64_t i = 0; i < 64 * 64; i++) assert_true(buffer_get(&r.out[k], i) == (zero && k ? 0 : 0.25));
            run_release(&r);
        }
}

/* With all operands in bf16, from the same numbers: each result is one of the two bf16 numbers beside that of fp32, and
 * their mean is the same. */
static void rounds_at_random(void **state)
{
    (void)state;
    for (enum lvn_isa isa = LVN_ISA_GENERIC; isa <= lvn_isa_best(); isa++) {
        struct run half, wide;
        run_init(&half, &square, LVN_F32, &lvn_cpu_ops(isa)[LVN_OP_muon]);
        run_init(&wide, &square, LVN_F32, &lvn_cpu_ops(isa)[LVN_OP_muon]);
        run_round_to_16_bits(&half, LVN_BF16);
        half.half = LVN_F32;
        buffer_copy(&wide.in[0], &half.in[0]);
        for (int k = 0; k < 2; k++) buffer_copy(&wide.out[k], &half.out[k]);
        run_forward(&half, 2);
        run_forward(&wide, 2);
        for (int k = 0; k < 2; k++) {
            double sum = 0;
            for (int64_t i = 0; i < 64 * 64; i++) {
                const double x = buffer_get(&half.out[k], i), y = buffer_get(&wide.out[k], i);
                const double one = ldexp(1, ilogb(y) - 7); /* the distance of bf16 numbers around y */
                if (!(fabs(x - y) < one)) fail_msg("output %d, element %d: %g, wanted %g", k, (int)i, x, y);
                sum += (x - y) / one;
            }
            assert_true(fabs(sum / (64 * 64)) < 5 * 0.5 / 64); /* five standard deviations at most */
        }
        run_release(&half);
        run_release(&wide);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_formula),
        cmocka_unit_test(steps_are_orthogonal),
        cmocka_unit_test(may_change_nothing),
        cmocka_unit_test(rounds_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
