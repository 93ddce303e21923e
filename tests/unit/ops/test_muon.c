/* test_muon.c - covers: src/core/ops/muon_direction.c src/core/ops/orthogonalize.c src/core/ops/muon_step.c
 * src/nets/optimizers/optimizer.c
 *
 * A step of Muon, which is three operations, against its formula in double, written as torch.optim.Muon writes it: the
 * matrix is transposed if it has more rows than columns. What all operations promise (bits on any number of threads,
 * memory) is in test_ops.c. */
#include "base/bf16.h"
#include "formats/json.h"
#include "ops_cases.h"
#include "optimizers/optimizer.h"

/* A matrix, and how it is updated. */
struct matrix_case {
    int64_t inputs, outputs;
    double width; /* of gradients */
    double weight_decay, lr_scale;
    struct lvn_optimizer_options o;
};
enum { MATCH_RMS_ADAMW, ORIGINAL }; /* optimizer.adjust_lr_fn, in the order of its choices */
enum { TORCH, NANOCHAT };           /* optimizer.variant */

static const struct matrix_case cases[] = {
    {1, 1, 1, 0, 1, {.kind = "muon", .momentum = 0.95, .ns_steps = 5}},
    {17, 33, 1, 0.1, 2, {.kind = "muon", .momentum = 0.95, .ns_steps = 5}},
    {33, 67, 1, 0, 1, {.kind = "muon", .momentum = 0.9, .ns_steps = 4, .adjust_lr_fn = ORIGINAL}},
    {67, 33, 1, 0, 1, {.kind = "muon", .momentum = 0, .ns_steps = 5, .adjust_lr_fn = ORIGINAL, .clip_value = 0.1}},
    {130, 97, 1e-9, 0.1, 1, {.kind = "muon", .momentum = 0.95, .ns_steps = 5}},
};

/* The operations of a step, and their operands. */
enum { DIRECTION, WHOLE, STEP, OPERATIONS };
struct matrix_step {
    struct op_case c[OPERATIONS];
    struct run r[OPERATIONS];
};

static void step_init(struct matrix_step *s, const struct matrix_case *m, enum lvn_dtype real, int isa)
{
    const struct op_input matrix = REAL(m->inputs, m->outputs);
    const struct lvn_desc desc = LVN_DESC(real, m->inputs, m->outputs);
    struct lvn_optimizer o;
    lvn_optimizer_init(&o, &m->o);
    s->c[DIRECTION] = (struct op_case){o.matrices.direction, .attr = o.matrices.direction_attr, .in = {matrix}};
    s->c[WHOLE] = (struct op_case){o.matrices.whole, .attr = o.matrices.whole_attr, .in = {matrix}};
    s->c[STEP] = (struct op_case){o.matrices.step, .attr = o.matrices.step_attr, .in = {matrix}};
    s->c[STEP].attr.update.weight_decay = m->weight_decay;
    s->c[STEP].attr.update.lr_scale = m->lr_scale;
    o.matrices.fit(&desc, &s->c[STEP].attr);
    for (int k = 0; k < OPERATIONS; k++) {
        const struct lvn_cpu_op *kernels = isa < 0 ? lvn_cpu_plain_ops(real) : lvn_cpu_ops((enum lvn_isa)isa);
        run_init(&s->r[k], &s->c[k], real, &kernels[s->c[k].op]);
    }
}

static void step_forward(struct matrix_step *s, int threads)
{
    run_forward(&s->r[DIRECTION], threads);
    buffer_copy(&s->r[WHOLE].in[0], &s->r[DIRECTION].out[0]);
    run_forward(&s->r[WHOLE], threads);
    buffer_copy(&s->r[STEP].in[0], &s->r[WHOLE].out[0]);
    run_forward(&s->r[STEP], threads);
}

static void step_release(struct matrix_step *s)
{
    for (int k = 0; k < OPERATIONS; k++) run_release(&s->r[k]);
}

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
static void textbook_muon(const struct matrix_case *c, double lr, const double *g, double *p, double *m)
{
    const int64_t inputs = c->inputs, outputs = c->outputs, n = inputs * outputs;
    const double clip = c->o.clip_value, mu = c->o.momentum;
    double *x = new_matrix(n), *turned = new_matrix(n);
    lr *= c->lr_scale;
    for (int64_t i = 0; i < n; i++) {
        const double one = clip > 0 ? fmin(fmax(g[i], -clip), clip) : g[i];
        m[i] = mu * m[i] + (1 - mu) * one;
        x[i] = (1 - mu) * one + mu * m[i];
    }
    if (inputs <= outputs) {
        orthogonalize(inputs, outputs, c->o.ns_steps, x);
    } else {
        transpose(inputs, outputs, x, turned);
        orthogonalize(outputs, inputs, c->o.ns_steps, turned);
        transpose(outputs, inputs, turned, x);
    }
    const double ratio = c->o.adjust_lr_fn == ORIGINAL ? sqrt(fmax(1, (double)outputs / (double)inputs))
                                                       : 0.2 * sqrt(fmax((double)outputs, (double)inputs));
    for (int64_t i = 0; i < n; i++) p[i] = p[i] * (1 - lr * c->weight_decay) - lr * ratio * x[i];
    free(x), free(turned);
}

/* Five steps from no momentum, with a new gradient each. isa < 0: the plain kernels. */
static void check_steps(const struct matrix_case *c, enum lvn_dtype real, int isa)
{
    struct matrix_step s;
    const double tolerance = real == LVN_F64 ? 1e-12 : 2e-6;
    const int64_t n = c->inputs * c->outputs;
    step_init(&s, c, real, isa);
    double *p = new_matrix(n), *m = new_matrix(n), *g = new_matrix(n);
    struct buffer *grad = &s.r[DIRECTION].in[0], *moment = &s.r[DIRECTION].out[1], *param = &s.r[STEP].out[0];
    for (int64_t i = 0; i < n; i++) buffer_set(moment, i, 0), p[i] = buffer_get(param, i);
    for (int64_t t = 0; t < 5; t++) {
        s.r[DIRECTION].result.clip_scale = t == 3 ? 0.25 : 1;
        buffer_fill(grad, 700 + (uint64_t)t, 0, c->width);
        for (int64_t i = 0; i < n; i++) g[i] = buffer_get(grad, i) * s.r[DIRECTION].result.clip_scale;
        textbook_muon(c, s.r[STEP].step.lr, g, p, m);
        step_forward(&s, 2);
        for (int64_t i = 0; i < n; i++)
            if (!(fabs(buffer_get(param, i) - p[i]) <= tolerance))
                fail_msg("%d x %d, step %d, element %d: %.17g, by the formula %.17g", (int)c->inputs, (int)c->outputs,
                         (int)t, (int)i, buffer_get(param, i), p[i]);
    }
    free(p), free(m), free(g);
    step_release(&s);
}

static void follows_its_formula(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        check_steps(&cases[n], LVN_F64, -1);
        for (int isa = LVN_ISA_GENERIC; isa <= (int)lvn_isa_best(); isa++) check_steps(&cases[n], LVN_F32, isa);
    }
}

/* --- optimizer.variant nanochat --- */

static double number_of(const json_t *list, int64_t i)
{
    return json_number_value(json_array_get(list, (size_t)i));
}

/* nanochat's own updates (tools/make_golden_nanochat.py), whose matrices are (outputs,inputs). */
static void check_nanochat(const json_t *golden, const json_t *one, enum lvn_dtype real, int isa, int threads)
{
    const int64_t inputs = json_integer_value(json_object_get(one, "inputs"));
    const int64_t outputs = json_integer_value(json_object_get(one, "outputs")), n = inputs * outputs;
    const json_t *steps = json_object_get(golden, "steps"), *expected = json_object_get(one, "parameters");
    const struct matrix_case c = {.inputs = inputs,
                                  .outputs = outputs,
                                  .weight_decay = 0.28,
                                  .lr_scale = 1,
                                  .o = {.kind = "muon",
                                        .momentum = 0.97,
                                        .ns_steps = 5,
                                        .adjust_lr_fn = ORIGINAL,
                                        .variant = NANOCHAT,
                                        .fall = json_integer_value(json_object_get(golden, "fall")),
                                        .end = json_integer_value(json_object_get(golden, "end"))}};
    const double tolerance = real == LVN_F64 ? 1e-12 : 5e-6;
    const int64_t lines = inputs > outputs ? inputs : outputs;
    struct matrix_step s;
    step_init(&s, &c, real, isa);
    for (int64_t i = 0; i < lines; i++) buffer_set(&s.r[WHOLE].out[1], i, 0);
    for (int64_t i = 0; i < n; i++) {
        buffer_set(&s.r[DIRECTION].out[1], i % outputs * inputs + i / outputs, 0);
        buffer_set(&s.r[STEP].out[0], i % inputs * outputs + i / inputs, sin(0.9 * (double)i + 0.5));
    }
    for (size_t t = 0; t < json_array_size(steps); t++) {
        for (int64_t i = 0; i < n; i++) {
            const double x = (double)i;
            buffer_set(&s.r[DIRECTION].in[0], i % inputs * outputs + i / inputs,
                       sin(0.013 * x * x + 0.7 * x + 1.3 * (double)t) * (1 + (double)(i % 5)));
        }
        for (int k = 0; k < OPERATIONS; k++) {
            s.r[k].step.step = (int64_t)number_of(steps, (int64_t)t);
            s.r[k].step.lr = 0.02;
            s.r[k].result.clip_scale = 1;
        }
        step_forward(&s, threads);
    }
    const json_t *moments = json_object_get(one, "second_moments");
    assert_int_equal(json_array_size(moments), lines);
    for (int64_t i = 0; i < lines; i++)
        assert_true(fabs(buffer_get(&s.r[WHOLE].out[1], i) - number_of(moments, i)) <= tolerance);
    for (int64_t i = 0; i < n; i++) {
        const double got = buffer_get(&s.r[STEP].out[0], i % inputs * outputs + i / inputs),
                     want = number_of(expected, i);
        if (!(fabs(got - want) <= tolerance))
            fail_msg("%d x %d, isa %d, element %d: %.17g, in nanochat %.17g", (int)outputs, (int)inputs, isa, (int)i,
                     got, want);
    }
    step_release(&s);
}

static void variant_is_nanochats(void **state)
{
    (void)state;
    json_t *golden;
    assert_int_equal(lvn_json_read("tests/golden/nanochat-muon.json", &golden), LVN_OK);
    const json_t *cases_of = json_object_get(golden, "cases");
    assert_int_equal(json_array_size(cases_of), 3);
    for (size_t k = 0; k < 3; k++) {
        const json_t *one = json_array_get(cases_of, k);
        check_nanochat(golden, one, LVN_F64, -1, 1);
        for (int isa = -1; isa <= (int)lvn_isa_best(); isa++)
            for (int threads = 1; threads <= 3; threads++) check_nanochat(golden, one, LVN_F32, isa, threads);
    }
    json_decref(golden);
}

static const struct matrix_case square = {64, 64, 1, 0, 1, {.kind = "muon", .momentum = 0.95, .ns_steps = 5}};

/* All singular values are near 1: the sum of their squares is near the number of rows. In place, too, after an even and
 * an odd number of iterations. */
static void steps_are_orthogonal(void **state)
{
    (void)state;
    for (int isa = -1; isa <= (int)lvn_isa_best(); isa++)
        for (int steps = 5; steps < 7; steps++) {
            struct matrix_step s;
            double squares = 0;
            step_init(&s, &square, LVN_F32, isa);
            struct run *r = &s.r[WHOLE];
            s.c[WHOLE].attr.orthogonalize.steps = steps;
            run_forward(r, 2);
            for (int64_t i = 0; i < 64 * 64; i++) squares += buffer_get(&r->out[0], i) * buffer_get(&r->out[0], i);
            assert_true(squares > 0.6 * 64 && squares < 1.3 * 64);
            buffer_copy(&s.r[STEP].in[0], &r->out[0]);
            buffer_copy(&r->out[0], &r->in[0]);
            struct lvn_arg apart = r->in[0].arg;
            r->in[0].arg = r->out[0].arg;
            r->aliased = true;
            run_forward(r, 2);
            r->in[0].arg = apart;
            for (int64_t i = 0; i < 64 * 64; i++)
                assert_true(buffer_get(&r->out[0], i) == buffer_get(&s.r[STEP].in[0], i));
            step_release(&s);
        }
}

/* A gradient that is not finite changes nothing; a gradient of zeros moves nothing. */
static void may_change_nothing(void **state)
{
    (void)state;
    for (int zero = 0; zero < 2; zero++)
        for (int isa = -1; isa <= (int)lvn_isa_best(); isa++) {
            struct matrix_step s;
            step_init(&s, &square, LVN_F32, isa);
            struct buffer *moment = &s.r[DIRECTION].out[1], *param = &s.r[STEP].out[0];
            for (int64_t i = 0; i < 64 * 64; i++) {
                buffer_set(&s.r[DIRECTION].in[0], i, zero ? 0 : NAN);
                buffer_set(moment, i, zero ? 0 : 0.25);
                buffer_set(param, i, 0.25);
            }
            for (int k = 0; k < OPERATIONS; k++) s.r[k].result.clip_scale = zero;
            step_forward(&s, 2);
            for (int64_t i = 0; i < 64 * 64; i++)
                assert_true(buffer_get(moment, i) == (zero ? 0 : 0.25) && buffer_get(param, i) == 0.25);
            step_release(&s);
        }
}

/* With operands in bf16, from the same numbers: each that is updated is one of the two bf16 numbers beside that of
 * fp32, and their mean is the same; the direction is that of fp32. */
static void rounds_at_random(void **state)
{
    (void)state;
    for (int isa = LVN_ISA_GENERIC; isa <= (int)lvn_isa_best(); isa++) {
        struct matrix_step halves, wides;
        step_init(&halves, &square, LVN_F32, isa);
        step_init(&wides, &square, LVN_F32, isa);
        for (int n = DIRECTION; n <= STEP; n += STEP - DIRECTION) {
            struct run *half = &halves.r[n], *wide = &wides.r[n];
            run_round_to_16_bits(half, LVN_BF16);
            half->half = LVN_F32;
            buffer_copy(&wide->in[0], &half->in[0]);
            for (int k = 0; k < half->op->n_out; k++) buffer_copy(&wide->out[k], &half->out[k]);
            run_forward(half, 2);
            run_forward(wide, 2);
            for (int k = 0; k < half->op->n_out; k++) {
                const bool rounded = half->op->low_precision_ok & LVN_READS_OUT(k);
                double sum = 0;
                for (int64_t i = 0; i < 64 * 64; i++) {
                    const double x = buffer_get(&half->out[k], i), y = buffer_get(&wide->out[k], i);
                    const double one = rounded ? ldexp(1, ilogb(y) - 7) : 0; /* the distance of bf16 numbers around y */
                    if (!(fabs(x - y) < one || x == y))
                        fail_msg("%s, output %d, element %d: %g, expected %g", half->op->name, k, (int)i, x, y);
                    if (rounded) sum += (x - y) / one;
                }
                assert_true(fabs(sum / (64 * 64)) < 5 * 0.5 / 64); /* five standard deviations at most */
            }
        }
        step_release(&halves);
        step_release(&wides);
    }
}

/* As with trainer.precision bf16-mixed. */
static void orthogonalize_in_bf16(struct run *r, int threads)
{
    struct team_task t = {&r->kernels,
                          {.phase = LVN_FORWARD,
                           .attr = &r->c->attr,
                           .in = {r->in[0].arg},
                           .out = {r->out[0].arg, r->out[1].arg},
                           .matmul_dtype = LVN_BF16,
                           .step = &r->step,
                           .result = &r->result}};
    t.call.scratch = aligned_alloc(64, (size_t)(scratch_bytes(r, &t.call, threads) + 63) / 64 * 64);
    assert_non_null(t.call.scratch);
    lvn_team_run(threads, team_task, &t);
    free(t.call.scratch);
}

/* Multiplications in bf16, where the processor has them, stay near those in fp32, on any number of threads with the
 * same bits; elsewhere they are those in fp32. */
static void multiplies_in_bf16(void **state)
{
    (void)state;
    for (int variant = TORCH; variant <= NANOCHAT; variant++)
        for (int isa = LVN_ISA_GENERIC; isa <= (int)lvn_isa_best(); isa++) {
            enum { ROWS = 96, COLUMNS = 160 };
            const struct matrix_case c = {
                ROWS, COLUMNS, 1, 0, 1, {.kind = "muon", .momentum = 0.95, .ns_steps = 5, .variant = variant}};
            /* A build for tests may lack instruction sets (LVN_ISAS). */
            const bool rounds =
                isa >= LVN_ISA_AVX512_BF16 && lvn_gemm_kernel((enum lvn_isa)isa) != lvn_gemm_kernel(LVN_ISA_AVX512);
            struct matrix_step bf16, fp32;
            double distance = 0, norm = 0;
            step_init(&bf16, &c, LVN_F32, isa);
            step_init(&fp32, &c, LVN_F32, isa);
            for (int threads = 1; threads <= 3; threads++) {
                struct run *r = &bf16.r[WHOLE];
                for (int64_t j = 0; j < COLUMNS; j++) buffer_set(&r->out[1], j, 1);
                orthogonalize_in_bf16(r, threads);
                for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
                    if (threads == 1) buffer_set(&bf16.r[STEP].in[0], i, buffer_get(&r->out[0], i));
                    assert_true(buffer_get(&bf16.r[STEP].in[0], i) == buffer_get(&r->out[0], i));
                }
            }
            for (int64_t j = 0; j < COLUMNS; j++) buffer_set(&fp32.r[WHOLE].out[1], j, 1);
            run_forward(&fp32.r[WHOLE], 2);
            for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
                const double x = buffer_get(&bf16.r[WHOLE].out[0], i), y = buffer_get(&fp32.r[WHOLE].out[0], i);
                distance += (x - y) * (x - y);
                norm += y * y;
            }
            assert_true(distance <= 1e-3 * norm && (distance > 0) == rounds);
            step_release(&bf16);
            step_release(&fp32);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(follows_its_formula),  cmocka_unit_test(variant_is_nanochats),
        cmocka_unit_test(steps_are_orthogonal), cmocka_unit_test(may_change_nothing),
        cmocka_unit_test(rounds_at_random),     cmocka_unit_test(multiplies_in_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
