/* test_long_sums.c - covers: src/core/ops/linear.cpu.c src/core/ops/layernorm.cpu.c src/core/ops/conv2d.cpu.c
 * src/core/ops/attention.cpu.c
 *
 * label: computes
 * Sums along a very long batch, a very long row and very many keys lose no more than short ones: fp32 kernels of every
 * instruction set against the plain ones in double. */
#include "ops_cases.h"

enum { ROWS = 1 << 17, KEYS = 1 << 16 };

/* Nearly equal probabilities; the keys' mean is 0 and that of the values 1, so that sums grow. */
#define MANY_KEYS(queries, D)                                                                                          \
    {                                                                                                                  \
        LVN_OP_attention, .attr.attention = {.scale = 0.25}, .in = {                                                   \
            AROUND(0, 0.1, 1, queries, 1, D),                                                                          \
            AROUND(0, 0.1, 1, KEYS, 1, D),                                                                             \
            AROUND(1, 1, 1, KEYS, 1, D)                                                                                \
        }                                                                                                              \
    }

static const struct {
    struct op_case c;
    unsigned inputs;  /* whose gradients are sums over the batch */
    unsigned outputs; /* that are sums over a row */
    double limit;     /* a rounded result costs 6e-8; terms that nearly cancel, and were rounded themselves, more */
} sums[] = {
    {{LVN_OP_linear, .attr.linear = {true}, .in = {REAL(ROWS, 2), REAL(2, 5), REAL(5)}}, 1 << 2, 0, 1.2e-7},
    {{LVN_OP_linear, .attr.linear = {false}, .in = {REAL(ROWS / 8, 2), REAL(67, 2), REAL(67)}}, 1 << 2, 0, 2.5e-7},
    {{LVN_OP_linear_gelu, .attr.linear_gelu = {true, true}, .in = {REAL(ROWS, 2), REAL(2, 5), REAL(5)}},
     1 << 2,
     0,
     8e-7}, /* each term has the error of a slope, of up to 3e-6 */
    {{LVN_OP_layernorm, .attr.layernorm = {1e-5}, .in = {REAL(ROWS, 5), GAMMA(5), REAL(5)}}, 1 << 1 | 1 << 2, 0, 4e-7},
    {{LVN_OP_residual_layernorm, .attr.residual_layernorm = {1e-5, 0},
      .in = {REAL(ROWS, 5), REAL(ROWS, 5), GAMMA(5), REAL(5)}},
     1 << 2 | 1 << 3,
     0,
     2.5e-7},
    {{LVN_OP_embedding, .in = {IDS(3, ROWS / 2, 2), REAL(3, 5), REAL(2, 5)}}, 1 << 1 | 1 << 2, 0, 2.5e-7},
    {{LVN_OP_conv2d, .in = {REAL(ROWS / 64, 1, 8, 8), REAL(2, 1, 1, 1), REAL(2)}}, 1 << 2, 0, 2.5e-7},
    {{LVN_OP_add_rows, .in = {REAL(ROWS, 5), REAL(5)}}, 1 << 1, 0, 1e-7},
    {{LVN_OP_cross_entropy, .attr.cross_entropy = {-1}, .in = {REAL(2, ROWS), LABEL(ROWS, 2)}}, 0, 1 << 2, 1e-7},
    /* each probability has the error of the rounded logsumexp, of up to 5e-7 */
    {MANY_KEYS(16, 16), 1 << 0, 1 << 0 | 1 << 1, 8e-7},
    {MANY_KEYS(4, 19), 0, 1 << 0, 8e-7}, /* as when text is generated */
    {{LVN_OP_attention, .attr.attention = {.scale = 0.25},
      .in = {REAL(1, KEYS, 1, 3), REAL(1, 8, 1, 3), REAL(1, 8, 1, 3)}},
     1 << 1 | 1 << 2,
     0,
     4e-7}, /* many queries */
};

/* The largest error, relative to the largest element. */
static double error_of(const struct buffer *found, const struct buffer *expected)
{
    double error = 0, max = 0;
    for (int64_t i = 0; i < lvn_desc_count(&expected->desc); i++) {
        const double x = buffer_get(expected, i);
        error = fmax(error, fabs(buffer_get(found, i) - x)), max = fmax(max, fabs(x));
    }
    return error / max;
}

static void run_all(struct run *r, const struct op_case *c, enum lvn_dtype real, const struct lvn_cpu_op *kernels)
{
    run_init(r, c, real, kernels);
    run_forward(r, 2);
    run_backward(r, ~0u, 0, 2);
}

static void long_sums(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof sums / sizeof *sums; n++) {
        const struct op_case *c = &sums[n].c;
        struct run expected, found;
        run_all(&expected, c, LVN_F64, &lvn_cpu_plain_ops(LVN_F64)[c->op]);
        for (int isa = 0; isa <= (int)lvn_isa_best(); isa++) {
            double error = 0;
            run_all(&found, c, LVN_F32, &lvn_cpu_ops((enum lvn_isa)isa)[c->op]);
            for (int i = 0; i < LVN_MAX_IN; i++)
                if (sums[n].inputs >> i & 1) error = fmax(error, error_of(&found.din[i], &expected.din[i]));
            for (int k = 0; k < LVN_MAX_OUT; k++)
                if (sums[n].outputs >> k & 1) error = fmax(error, error_of(&found.out[k], &expected.out[k]));
            print_message("%s %s: %.2g\n", lvn_isa_name((enum lvn_isa)isa), case_text(c), error);
            if (!(error < sums[n].limit))
                fail_msg("%s: %s is off by %.3g", lvn_isa_name((enum lvn_isa)isa), case_text(c), error);
            run_release(&found);
        }
        run_release(&expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
