/* test_attention_bf16.c - covers: src/core/ops/attention.c src/core/ops/attention.cpu.c
 *
 * Attention of bf16 tensors in mixed precision: every instruction set against the plain kernels in double, and equal
 * bits for every number of threads. */
#include "attention_world.h"

/* Each probability and each gradient of a score is rounded once, and so is the output, from which rowsum(dO O) is
 * computed: the error is at most 2^-9 of the size of the tensor or, if it is small because terms cancel, of its
 * terms. */
static void check_close(const struct world *w, int t, const char *what)
{
    const struct lvn_desc *d = &w->desc[t];
    const int64_t count = lvn_desc_count(d);
    double errors = 0, squares = 0, worst = 0;
    for (int64_t n = 0; n < count; n++) {
        const int64_t o = offset_of(d, n);
        const double error = fabs(get(w, t, o) - w->f64[t][o]);
        if (!(error <= worst)) worst = error; /* NaN too */
        errors += error * error;
        squares += w->f64[t][o] * w->f64[t][o];
    }
    const double rms = sqrt(errors / (double)count), size = sqrt(squares / (double)count);
    const double limit = t == LSE ? 1e-6 * (size + 1) : 0.004 * size + 0.002;
    if (getenv("SHOW")) print_message("%s %s: %g of %g, worst %g\n", what, tensor_names[t], rms, size, worst);
    if (!(rms <= limit && worst <= 12 * limit))
        fail_msg("%s, %s: off by %g, at most %g, where values are %g " PROBLEM_TEXT, what, tensor_names[t], rms, worst,
                 size, PROBLEM_NUMBERS(w->p));
}

static void *copy_of(const struct world *w, int t)
{
    return memcpy(malloc(bytes_of(w, t)), w->found[t], bytes_of(w, t));
}

static void check_bits(const struct world *w, int t, const void *first, int threads, const char *what)
{
    if (memcmp(first, w->found[t], bytes_of(w, t)))
        fail_msg("%s: %d threads give other bits of %s " PROBLEM_TEXT, what, threads, tensor_names[t],
                 PROBLEM_NUMBERS(w->p));
}

static void check(struct problem p)
{
    static const int teams[] = {2, 3, 4, 8};
    struct world *w = world_new(p, LVN_BF16);
    both_phases(w, lvn_cpu_plain_ops(LVN_F64) + LVN_OP_attention, 1, true);
    for (int isa = LVN_ISA_GENERIC; isa <= (int)lvn_isa_best(); isa++)
        for (int bf16 = 0; bf16 < 2; bf16++) { /* whether products may round */
            const char *what = lvn_isa_name((enum lvn_isa)isa);
            const struct lvn_cpu_op *k = lvn_cpu_ops((enum lvn_isa)isa) + LVN_OP_attention;
            if (isa == LVN_ISA_GENERIC && p.Tq * p.Tk * p.D > 20000) continue; /* slow: fma in software */
            void *first[N_TENSORS] = {NULL};
            w->bf16 = bf16;
            both_phases(w, k, 1, false);
            for (int t = OUT; t < N_TENSORS; t++) {
                if (t == DOUT) continue;
                check_close(w, t, what);
                first[t] = copy_of(w, t);
            }
            for (int i = 0; i < 4; i++) {
                both_phases(w, k, teams[i], false);
                for (int t = OUT; t < N_TENSORS; t++)
                    if (t != DOUT) check_bits(w, t, first[t], teams[i], what);
            }
            for (int t = 0; t < N_TENSORS; t++) free(first[t]);
        }
    world_free(w);
}

static void test_sizes(void **state)
{
    (void)state;
    static const int64_t T[] = {1, 2, 15, 16, 17, 33, 63, 64, 65, 97, 129, 200}, D[] = {1, 8, 16, 31, 32, 64, 80};
    for (size_t i = 0; i < sizeof T / sizeof *T; i++)
        for (size_t j = i % 2; j < sizeof D / sizeof *D; j += 2) {
            const bool odd = (i + j) / 2 % 2;
            check((struct problem){1 + odd, T[i], T[i], 2, 2, D[j], .causal = true, .p = odd ? 0.1 : 0});
            if (j == i % 7) check((struct problem){1, T[i], T[i], 1, 1, D[j], .causal = false, .add = odd});
        }
}

static void test_kinds(void **state)
{
    (void)state;
    for (int i = 0; i < N_TRAINING_KINDS; i++) check(training_kinds[i]);
}

/* Values that were not computed in bf16, as nanochat's with value embeddings: each is rounded once more. */
static void test_wide_values(void **state)
{
    (void)state;
    for (int i = 0; i < N_TRAINING_KINDS; i += 2) {
        struct problem p = training_kinds[i];
        p.wide_values = true;
        check(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_kinds),
                                       cmocka_unit_test(test_wide_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
