/* test_bf16.c - covers: src/core/ops/adamw.c src/core/ops/linear.c src/core/ops/linear.cpu.c
 *
 * Parameters in bf16, for the kernels of every instruction set: how operations read and write them, and how optimizers
 * round them. */
#include "backend/cpu/cpu_kernels.h"
#include "base/bf16.h"
#include "ops_cases.h"

/* --- operations with bf16 parameters: their results are those of fp32 parameters with the same values --- */

static bool is_parameter(enum lvn_op_id id, int k)
{
    return k == 1 || (id == LVN_OP_embedding && k == 2);
}

/* Round the contents of the buffer; only the bf16 numbers go to `half`, which is then `b` in that type. */
static void round_buffer(struct buffer *b, struct buffer *half)
{
    struct lvn_desc d = b->desc;
    d.dtype = LVN_BF16;
    buffer_init(half, &d);
    for (int64_t i = 0; i < lvn_desc_count(&d); i++) {
        uint16_t x = lvn_bf16_make((float)buffer_get(b, i));
        memcpy(buffer_at(half, i), &x, sizeof x);
        buffer_set(b, i, (double)lvn_bf16_get(x));
    }
}

static void free_buffer(struct buffer *b)
{
    free(b->p);
    *b = (struct buffer){0};
}

static uint16_t half_at(const struct buffer *b, int64_t i)
{
    uint16_t x;
    memcpy(&x, buffer_at(b, i), sizeof x);
    return x;
}

/* The gradient in bf16 is the fp32 one, rounded once; if it is added to another, their sum is rounded. */
static void check_gradient(const char *name, int k, const struct buffer *wide, const struct buffer *half)
{
    for (int64_t i = 0; i < lvn_desc_count(&wide->desc); i++) {
        float want = (float)buffer_get(wide, i), got = lvn_bf16_get(half_at(half, i));
        if (got != lvn_bf16_get(lvn_bf16_make(want)))
            fail_msg("%s: gradient %d, element %d is %.9g, expected %.9g rounded", name, k, (int)i, (double)got,
                     (double)want);
    }
}

static void compare_case(const struct op_case *c, const struct lvn_cpu_op *kernels, int threads)
{
    struct run wide, half;
    run_init(&wide, c, LVN_F32, kernels);
    run_init(&half, c, LVN_F32, kernels);
    unsigned wanted = 0;
    for (int k = 0; k < wide.op->n_in; k++) {
        if (!wide.in[k].p) continue;
        if (wide.din[k].p) wanted |= 1u << k;
        if (!is_parameter(c->op, k)) continue;
        free_buffer(&half.in[k]);
        free_buffer(&half.din[k]);
        round_buffer(&wide.in[k], &half.in[k]);
        struct lvn_desc d = half.in[k].desc;
        buffer_init(&half.din[k], &d);
        buffer_poison(&half.din[k]);
    }
    if (!op_is_loss(wide.op)) {
        run_forward(&wide, threads);
        run_forward(&half, threads);
    }
    run_backward(&wide, wanted, 0, threads);
    run_backward(&half, wanted, 0, threads);
    for (int k = 0; k < wide.op->n_out + wide.op->n_saved; k++)
        if (wide.out[k].p) assert_memory_equal(wide.out[k].p, half.out[k].p, wide.out[k].bytes);
    for (int k = 0; k < wide.op->n_in; k++) {
        if (!(wanted >> k & 1)) continue;
        if (is_parameter(c->op, k))
            check_gradient(wide.op->name, k, &wide.din[k], &half.din[k]);
        else
            assert_memory_equal(wide.din[k].p, half.din[k].p, wide.din[k].bytes);
    }
    run_release(&wide);
    run_release(&half);
}

static bool takes_bf16_parameters(enum lvn_op_id id)
{
    return lvn_op(id, LVN_F32)->low_precision_ok & LVN_READS_IN(1) && id != LVN_OP_attention &&
           id != LVN_OP_residual_layernorm && id != LVN_OP_residual_rmsnorm && id != LVN_OP_chain;
}

static void test_operations_take_parameters_in_bf16(void **state)
{
    (void)state;
    int n_cases = 0;
    for (int n = 0; n < N_OP_CASES; n++) {
        const struct op_case *c = &op_cases[n];
        int64_t rows =
            lvn_desc_rows(&(struct lvn_desc){.rank = c->in[0].rank, .dim = {c->in[0].dim[0], c->in[0].dim[1]}});
        if (!takes_bf16_parameters(c->op) || rows > 512)
            continue; /* a product of more rows is cut: see test_large_gradients */
        for (enum lvn_isa isa = LVN_ISA_GENERIC; isa <= lvn_isa_best(); isa++)
            for (int threads = 1; threads <= 3; threads++, n_cases++)
                compare_case(c, &lvn_cpu_ops(isa)[c->op], threads);
    }
    assert_true(n_cases > 60);
}

/* An input that is a bf16 parameter may have an fp32 gradient: its bits are those of an fp32 input of the same values.
 */
static void test_fp32_gradient_of_bf16_input(void **state)
{
    (void)state;
    int n_cases = 0;
    for (int n = 0; n < N_OP_CASES; n++) {
        const struct op_case *c = &op_cases[n];
        if (c->op != LVN_OP_linear && c->op != LVN_OP_linear_gelu && c->op != LVN_OP_linear_cross_entropy &&
            c->op != LVN_OP_chain)
            continue;
        for (enum lvn_isa isa = LVN_ISA_GENERIC; isa <= lvn_isa_best(); isa++, n_cases++) {
            const struct lvn_cpu_op *kernels = &lvn_cpu_ops(isa)[c->op];
            struct run wide, half;
            run_init(&wide, c, LVN_F32, kernels);
            run_init(&half, c, LVN_F32, kernels);
            free_buffer(&half.in[0]);
            round_buffer(&wide.in[0], &half.in[0]);
            buffer_poison(&half.din[0]);
            if (!op_is_loss(wide.op)) {
                run_forward(&wide, 2);
                run_forward(&half, 2);
            }
            run_backward(&wide, 1, 0, 2);
            run_backward(&half, 1, 0, 2);
            assert_memory_equal(wide.din[0].p, half.din[0].p, wide.din[0].bytes);
            run_release(&wide);
            run_release(&half);
        }
    }
    assert_true(n_cases > 20);
}

/* A weight whose gradient is computed some rows at a time, and a batch that is cut: each part is rounded once. */
static void test_large_gradients(void **state)
{
    (void)state;
    const struct op_case cases[] = {
        {LVN_OP_linear, .attr.linear = {true}, .in = {REAL(40, 700), REAL(700, 1900), NONE}},
        {LVN_OP_linear, .attr.linear = {false}, .in = {REAL(40, 700), REAL(1900, 700), NONE}},
        {LVN_OP_linear_gelu, .attr.linear_gelu = {.in_out = true}, .in = {REAL(1100, 20), REAL(20, 40), REAL(40)}},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        const struct op_case *c = &cases[n];
        struct run r[3];
        for (int k = 0; k < 3; k++) {
            run_init(&r[k], c, LVN_F32, &lvn_cpu_ops(lvn_isa_best())[c->op]);
            struct buffer half;
            round_buffer(&r[k].in[1], &half);
            if (k) {
                free_buffer(&r[k].in[1]);
                free_buffer(&r[k].din[1]);
                r[k].in[1] = half;
                buffer_init(&r[k].din[1], &half.desc);
                buffer_poison(&r[k].din[1]);
            } else {
                free_buffer(&half);
            }
            r[k].in[1].arg.desc = &r[k].in[1].desc;
            r[k].din[1].arg.desc = &r[k].din[1].desc;
            run_forward(&r[k], 1 + k);
            run_backward(&r[k], 2, 0, 1 + k);
        }
        assert_memory_equal(r[1].din[1].p, r[2].din[1].p, r[1].din[1].bytes); /* for every number of threads */
        double norm = 0, off = 0;
        for (int64_t i = 0; i < lvn_desc_count(&r[0].din[1].desc); i++) {
            double x = buffer_get(&r[0].din[1], i), y = (double)lvn_bf16_get(half_at(&r[1].din[1], i));
            norm += x * x, off += (x - y) * (x - y);
        }
        assert_true(off <= norm * ldexp(1, -16)); /* 2^-8 of it: two roundings of at most 2^-9 */
        for (int k = 0; k < 3; k++) run_release(&r[k]);
    }
}

/* A token that occurs at each of 2000 positions: its gradient is summed in fp32 and rounded once. Summed in bf16 it
 * would stop growing at 256 times one term. */
static void test_embedding_sums_before_it_rounds(void **state)
{
    (void)state;
    enum { V = 5, C = 35, R = 2000, TOKEN = 3, THREADS = 2 };
    static int32_t ids[R];
    static float dy[R * C];
    static uint16_t gradient[V * C];
    struct lvn_desc id = LVN_DESC(LVN_I32, R), half = LVN_DESC(LVN_BF16, V, C), out = LVN_DESC(LVN_F32, R, C);
    union lvn_attr attr = {0};
    struct lvn_step step = {0};
    for (int i = 0; i < R; i++) ids[i] = TOKEN;
    for (int i = 0; i < R * C; i++) dy[i] = 0.01f;
    for (enum lvn_isa isa = LVN_ISA_GENERIC; isa <= lvn_isa_best(); isa++) {
        const struct lvn_cpu_op *k = &lvn_cpu_ops(isa)[LVN_OP_embedding];
        for (int add = 0; add < 2; add++) {
            struct team_task t = {.kernels = k,
                                  .call = {.phase = LVN_BACKWARD,
                                           .attr = &attr,
                                           .in = {{ids, &id}},
                                           .dout = {{dy, &out}},
                                           .din = {{0}, {gradient, &half}},
                                           .add = {false, add},
                                           .step = &step}};
            t.call.scratch = malloc((size_t)lvn_cpu_scratch(k, &t.call, THREADS));
            assert_non_null(t.call.scratch);
            for (int i = 0; i < V * C; i++) gradient[i] = add ? lvn_bf16_make(4) : 0x7fff; /* NaN */
            lvn_team_run(THREADS, team_task, &t);
            for (int i = 0; i < V * C; i++) {
                double want = (i / C == TOKEN ? R * 0.01 : 0) + (add ? 4 : 0), got = (double)lvn_bf16_get(gradient[i]);
                assert_true(fabs(got - want) <= want / 256);
            }
            free(t.call.scratch);
        }
    }
}

/* --- the norm --- */

static void test_norm_of_bf16(void **state)
{
    (void)state;
    enum { N = 3 * 4096 + 37 };
    static float wide[N];
    static uint16_t half[N];
    static double sums[64];
    struct lvn_desc types[] = {LVN_DESC(LVN_F32, N), LVN_DESC(LVN_BF16, N)};
    union lvn_attr attr = {.grad_norm = {.clip_norm = 1}};
    struct lvn_step step = {.grad_scale = 1};
    for (int64_t i = 0; i < N; i++) half[i] = lvn_bf16_make((float)made_up(1, i)), wide[i] = lvn_bf16_get(half[i]);
    for (enum lvn_isa isa = LVN_ISA_GENERIC; isa <= lvn_isa_best(); isa++) {
        double norm[2];
        for (int k = 0; k < 2; k++) {
            struct lvn_result result = {0};
            struct team_task t = {.kernels = &lvn_cpu_ops(isa)[LVN_OP_grad_norm],
                                  .call = {.attr = &attr,
                                           .in = {{k ? (void *)half : wide, &types[k]}},
                                           .step = &step,
                                           .result = &result,
                                           .scratch = sums}};
            lvn_team_run(2, team_task, &t);
            norm[k] = result.grad_norm;
        }
        assert_true(norm[0] > 1 && norm[0] == norm[1]);
    }
}

/* --- optimizers --- */

/* One step of an optimizer on n parameters of 1 with gradients of 0.3, each bf16 or fp32, with moments in fp32. */
static void weights_step(enum lvn_isa isa, enum lvn_op_id id, bool half, bool half_gradients, int64_t first, int64_t n,
                         void *p)
{
    union lvn_attr attr = {.lion = {{.lr_scale = 1, .number = first}, .beta1 = 0.9, .beta2 = 0.99}};
    if (id == LVN_OP_adamw) attr.adamw.beta1 = 0.9, attr.adamw.beta2 = 0.999, attr.adamw.eps = 1e-8;
    if (id == LVN_OP_adamw) attr.adamw.coupled = false;
    if (id == LVN_OP_sgd) attr.sgd.momentum = 0.9;
    struct lvn_step step = {.seed = 5, .step = 7, .lr = 1e-3};
    struct lvn_result result = {.clip_scale = 1};
    struct lvn_desc real = LVN_DESC(LVN_F32, n), type = LVN_DESC(half ? LVN_BF16 : LVN_F32, n),
                    gradients = LVN_DESC(half_gradients ? LVN_BF16 : LVN_F32, n);
    float *m = calloc((size_t)n, sizeof *m), *v = calloc((size_t)n, sizeof *v),
          *wide = malloc((size_t)n * sizeof *wide);
    uint16_t *g = malloc((size_t)n * 2);
    assert_true(m && v && wide && g);
    for (int64_t i = 0; i < n; i++) {
        g[i] = lvn_bf16_make(0.3f), wide[i] = lvn_bf16_get(g[i]);
        if (half)
            ((uint16_t *)p)[i] = lvn_bf16_make(1);
        else
            ((float *)p)[i] = 1;
    }
    struct team_task t = {.kernels = &lvn_cpu_ops(isa)[id],
                          .call = {.attr = &attr,
                                   .in = {{half_gradients ? (void *)g : wide, &gradients}},
                                   .out = {{p, &type}, {m, &real}, {v, &real}},
                                   .step = &step,
                                   .result = &result}};
    lvn_team_run(3, team_task, &t);
    free(m), free(v), free(wide), free(g);
}

/* Updates of a tenth of a step of bf16, which rounding to nearest would lose: each parameter stays or moves by one
 * step, the mean moves as in fp32, and which ones move depends on the number of the element alone. */
static void test_parameters_are_rounded_at_random(void **state)
{
    (void)state;
    enum { N = 100003, FIRST = 640 };
    static uint16_t all[N], part[N];
    const double step = ldexp(1, -8); /* of bf16 below 1 */
    static const enum lvn_op_id ops[] = {LVN_OP_adamw, LVN_OP_sgd, LVN_OP_lion};
    for (int k = 0; k < 3; k++) {
        enum lvn_op_id id = ops[k];
        float want;
        double sum = 0;
        weights_step(LVN_ISA_GENERIC, id, false, false, 0, 1, &want);
        assert_true(want < 1 && 1 - (double)want < step / 2);
        weights_step(LVN_ISA_GENERIC, id, true, true, 0, N, all);
        for (int64_t i = 0; i < N; i++) {
            double x = (double)lvn_bf16_get(all[i]);
            assert_true(x == 1 || x == 1 - step);
            sum += x - (double)want;
        }
        assert_true(fabs(sum / N) < 5 * step / 2 / sqrt(N)); /* five standard deviations */
        for (enum lvn_isa isa = LVN_ISA_GENERIC; isa <= lvn_isa_best(); isa++) {
            for (int wide = 0; wide < 2; wide++) { /* gradients in fp32 of the same values */
                weights_step(isa, id, true, !wide, FIRST, N - FIRST, part);
                assert_memory_equal(part, all + FIRST, (N - FIRST) * 2);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations_take_parameters_in_bf16),
        cmocka_unit_test(test_large_gradients),
        cmocka_unit_test(test_fp32_gradient_of_bf16_input),
        cmocka_unit_test(test_embedding_sums_before_it_rounds),
        cmocka_unit_test(test_norm_of_bf16),
        cmocka_unit_test(test_parameters_are_rounded_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
