/* test_ops.c - covers: src/core/ops/ops.def src/core/ops/ops.c
 *
 * Every operation, in every case of ops_cases.h:
 *
 *   - the plain kernels in double: gradients against finite differences;
 *   - all other kernels (plain in float, fast ones of every instruction set of this machine) against those in double;
 *   - fast kernels: equal bits on 1, 2, 4 and 8 threads, and on AVX2 and AVX-512;
 *   - restore gives the bits of forward; operations that declare to work in place do.
 *
 * Further properties of dropout and of the optimizers are tested in test_ops_more.c. */
#include "backend/cpu/cpu_kernels.h"
#include "ops_cases.h"
#include "ops_tolerances.h"

/* --- sets of kernels --- */

enum { PLAIN = LVN_ISA_COUNT }; /* in addition to the instruction sets: the plain kernels in float */

static const char *set_name(int set)
{
    return set == PLAIN ? "plain float" : lvn_isa_name((enum lvn_isa)set);
}

static const struct lvn_cpu_op *kernels_of(int set, enum lvn_op_id id)
{
    return set == PLAIN ? &lvn_cpu_plain_ops(LVN_F32)[id] : &lvn_cpu_ops((enum lvn_isa)set)[id];
}

/* Can this machine run the set, and does the set have its own kernel for the operation? */
static bool set_counts(int set, enum lvn_op_id id)
{
    if (set == PLAIN) return true;
    const struct lvn_cpu_op *k = kernels_of(set, id);
    return set <= (int)lvn_isa_best() && (k->fast[LVN_FORWARD] || k->fast[LVN_BACKWARD]);
}

static bool has_backward(const struct op_case *c)
{
    return lvn_op(c->op, LVN_F32)->spec.backward != NULL;
}

/* --- comparisons --- */

/* The largest difference is at most tolerance * max(1, the largest expected number). Unwritten elements are NaN in
 * both. */
static void assert_close(const struct op_case *c, int set, const char *what, int index, const struct buffer *found,
                         const struct buffer *expected, double tolerance)
{
    double scale = 1;
    int64_t n = lvn_desc_count(&expected->desc);
    if (c->slack > 0) tolerance *= c->slack;
    for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(buffer_get(expected, i)));
    for (int64_t i = 0; i < n; i++) {
        double x = buffer_get(found, i), y = buffer_get(expected, i);
        if ((isnan(x) && isnan(y)) || fabs(x - y) <= tolerance * scale) continue;
        fail_msg("%s, %s: %s %d, element %lld is %.9g, expected %.9g within %.1e (%s)", case_text(c), set_name(set),
                 what, index, (long long)i, x, y, tolerance * scale, tolerance_of_op(c->op, &c->attr)->reason);
    }
}

static void assert_same_bits(const struct op_case *c, const char *what, int index, const struct buffer *a,
                             const struct buffer *b)
{
    if (!a->p || memcmp(a->p, b->p, a->bytes) == 0) return;
    int64_t i = 0, n = lvn_desc_count(&a->desc);
    while (i < n && memcmp(buffer_at(a, i), buffer_at(b, i), (size_t)lvn_dtype_bytes(a->desc.dtype)) == 0) i++;
    if (i == n) fail_msg("%s: %s %d: bytes between the elements differ", case_text(c), what, index);
    fail_msg("%s: %s %d, element %lld: %.9g and %.9g", case_text(c), what, index, (long long)i, buffer_get(a, i),
             buffer_get(b, i));
}

static void assert_same_run(const char *what, const struct run *a, const struct run *b)
{
    for (int k = 0; k < LVN_MAX_OUT; k++) assert_same_bits(a->c, what, k, &a->out[k], &b->out[k]);
    for (int i = 0; i < LVN_MAX_IN; i++) assert_same_bits(a->c, what, 10 + i, &a->din[i], &b->din[i]);
    if (memcmp(&a->step, &b->step, sizeof a->step) != 0)
        fail_msg("%s: %s: norm %.17g, %.17g, clip %.17g, %.17g", case_text(a->c), what, a->result.grad_norm,
                 b->result.grad_norm, a->result.clip_scale, b->result.clip_scale);
}

/* The gaps between the heads of a view belong to other views: a kernel must not write there. */
static void assert_gaps_untouched(const struct run *r)
{
    for (int i = 0; i < r->op->n_in; i++) {
        const struct buffer *d = &r->din[i];
        if (!d->p || lvn_desc_contiguous(&d->desc)) continue;
        int64_t written = 0, inside = 0, all = (int64_t)d->bytes / lvn_dtype_bytes(r->real);
        for (int64_t e = 0; e < all; e++)
            written += r->real == LVN_F64 ? !isnan(((double *)d->p)[e]) : !isnan(((float *)d->p)[e]);
        for (int64_t e = 0; e < lvn_desc_count(&d->desc); e++) inside += !isnan(buffer_get(d, e));
        if (written != inside) fail_msg("%s: gradient %d wrote outside its view", case_text(r->c), i);
    }
}

/* --- the specification against finite differences --- */

/* The slope of the objective along `direction`, from four points: the error falls with the fourth power of h. */
static double slope(struct run *r, int input, const double *direction)
{
    const double h = 1e-4, at[4] = {1, -1, 2, -2}, weight[4] = {8, -8, -1, 1};
    struct buffer *x = &r->in[input];
    int64_t n = lvn_desc_count(&x->desc);
    double sum = 0, *before = malloc((size_t)n * sizeof *before);
    assert_non_null(before);
    for (int64_t i = 0; i < n; i++) before[i] = buffer_get(x, i);
    for (int p = 0; p < 4; p++) {
        for (int64_t i = 0; i < n; i++) buffer_set(x, i, before[i] + at[p] * h * direction[i]);
        sum += weight[p] * run_objective(r);
    }
    for (int64_t i = 0; i < n; i++) buffer_set(x, i, before[i]);
    free(before);
    return sum / (12 * h);
}

/* Two directions that touch every element, and a few that touch one. */
static void check_input(struct run *r, int input)
{
    const struct buffer *gradient = &r->din[input];
    int64_t n = lvn_desc_count(&gradient->desc);
    double *direction = malloc((size_t)n * sizeof *direction);
    assert_non_null(direction);
    for (int d = 0; d < 8; d++) {
        double norm = 0, expected = 0, size = 0;
        for (int64_t i = 0; i < n; i++) {
            direction[i] = d < 2 ? made_up(500 + (uint64_t)d, i) : 0;
            norm += direction[i] * direction[i];
        }
        for (int64_t i = 0; d < 2 && i < n; i++) direction[i] /= sqrt(norm);
        if (d >= 2) direction[lvn_random_below(1, (uint64_t)d, (uint64_t)n, n)] = 1;
        for (int64_t i = 0; i < n; i++) {
            double g = direction[i] != 0 ? buffer_get(gradient, i) * direction[i] : 0;
            expected += g;
            size += fabs(g);
        }
        double found = slope(r, input, direction), tolerance = 1e-8 * (1 + size);
        if (!(fabs(found - expected) <= tolerance))
            fail_msg("%s: gradient of input %d, direction %d: %.12g by finite differences, %.12g by backward",
                     case_text(r->c), input, d, found, expected);
    }
    free(direction);
}

/* `add` adds to the one input for which it is set; a gradient that is requested alone equals the one that is requested
 * among others. */
static void check_adding(struct run *r)
{
    double *alone[LVN_MAX_IN] = {0};
    for (int i = 0; i < r->op->n_in; i++) {
        int64_t n = r->din[i].p ? lvn_desc_count(&r->din[i].desc) : 0;
        alone[i] = malloc((size_t)n * sizeof **alone + 1);
        assert_non_null(alone[i]);
        for (int64_t e = 0; e < n; e++) alone[i][e] = buffer_get(&r->din[i], e);
    }
    for (int added = 0; added < r->op->n_in; added++)
        for (int only = 0; only < 2; only++) {
            run_backward(r, only ? 1u << added : ~0u, 1u << added, 1);
            for (int i = only ? added : 0; i < (only ? added + 1 : r->op->n_in); i++)
                for (int64_t e = 0; r->din[i].p && e < lvn_desc_count(&r->din[i].desc); e++) {
                    double before = i == added ? made_up(3000 + (uint64_t)i, e) : 0;
                    if (!(fabs(buffer_get(&r->din[i], e) - before - alone[i][e]) <= 1e-12 * (1 + fabs(alone[i][e]))))
                        fail_msg("%s: gradient %d is wrong when that of input %d is added", case_text(r->c), i, added);
                }
        }
    for (int i = 0; i < LVN_MAX_IN; i++) free(alone[i]);
}

static void test_gradients_are_finite_differences(void **state)
{
    (void)state;
    for (int n = 0; n < N_OP_CASES; n++) {
        const struct op_case *c = &op_cases[n];
        if (!has_backward(c) || c->large) continue;
        struct run r;
        run_init(&r, c, LVN_F64, &lvn_cpu_plain_ops(LVN_F64)[c->op]);
        run_forward(&r, 1);
        run_backward(&r, ~0u, 0, 1);
        assert_gaps_untouched(&r);
        for (int i = 0; i < r.op->n_in; i++)
            if (r.din[i].p) check_input(&r, i);
        run_forward(&r, 1); /* finite differences changed the outputs */
        check_adding(&r);
        run_release(&r);
    }
}

/* --- all kernels against the specification in double --- */

static void compare_backward(struct run *found, struct run *expected, unsigned which, unsigned add)
{
    const struct op_case *c = expected->c;
    run_backward(expected, which, add, 1);
    for (int set = 0; set <= PLAIN; set++) {
        struct run *r = &found[set];
        if (!set_counts(set, c->op)) continue;
        run_backward(r, which, add, 2);
        assert_gaps_untouched(r);
        for (int i = 0; i < r->op->n_in; i++)
            if (r->din[i].p && which >> i & 1)
                assert_close(c, set, add ? "added gradient" : "gradient", i, &r->din[i], &expected->din[i],
                             tolerance_of_op(c->op, &c->attr)->backward);
        for (int k = 0; r->op->forward_in_backward && k < r->op->n_out + r->op->n_saved; k++)
            assert_close(c, set, "output in backward", k, &r->out[k], &expected->out[k],
                         tolerance_of_op(c->op, &c->attr)->forward);
    }
}

static void compare_forward(struct run *found, struct run *expected)
{
    const struct op_case *c = expected->c;
    run_forward(expected, 1);
    for (int set = 0; set <= PLAIN; set++) {
        if (!set_counts(set, c->op)) continue;
        run_forward(&found[set], 2);
        if (op_is_exact(c->op)) assert_same_run(set_name(set), &found[set], expected);
        for (int k = 0; !op_is_exact(c->op) && k < expected->op->n_out + expected->op->n_saved; k++)
            assert_close(c, set, "output", k, &found[set].out[k], &expected->out[k],
                         tolerance_of_op(c->op, &c->attr)->forward);
    }
}

static void compare_with_specification(const struct op_case *c)
{
    struct run found[PLAIN + 1], expected;
    enum lvn_dtype exact = op_is_exact(c->op) ? LVN_F32 : LVN_F64;
    run_init(&expected, c, exact, &lvn_cpu_plain_ops(exact)[c->op]);
    for (int set = 0; set <= PLAIN; set++) run_init(&found[set], c, LVN_F32, kernels_of(set, c->op));
    compare_forward(found, &expected);
    unsigned all = (1u << expected.op->n_in) - 1;
    for (unsigned one = 0; has_backward(c) && (int)one < expected.op->n_in; one++)
        if (expected.din[one].p) compare_backward(found, &expected, 1u << one, one % 2 ? all : 0);
    if (has_backward(c)) {
        compare_backward(found, &expected, all, 0);
        compare_backward(found, &expected, all, all);
        compare_backward(found, &expected, all, 2);
    }
    for (int set = 0; set <= PLAIN; set++) run_release(&found[set]);
    run_release(&expected);
}

static void test_kernels_agree_with_the_specification(void **state)
{
    (void)state;
    for (int n = 0; n < N_OP_CASES; n++) compare_with_specification(&op_cases[n]);
}

/* --- equal bits --- */

static void run_whole(struct run *r, const struct op_case *c, int set, int n_threads)
{
    run_init(r, c, LVN_F32, kernels_of(set, c->op));
    run_forward(r, n_threads);
    if (has_backward(c)) run_backward(r, ~0u, 2, n_threads);
}

static void test_threads_do_not_change_bits(void **state)
{
    (void)state;
#if defined(LVN_SANITIZED) /* each number takes half a minute */
    const int fewest = 8;
#else
    const int fewest = 2;
#endif
    for (int set = 0; set < PLAIN; set++)
        for (int n = 0; n < N_OP_CASES; n++) {
            if (!set_counts(set, op_cases[n].op)) continue;
            struct run one, more;
            run_whole(&one, &op_cases[n], set, 1);
            for (int threads = fewest; threads <= 8; threads *= 2) {
                char what[64];
                snprintf(what, sizeof what, "%s, 1 and %d threads", set_name(set), threads);
                run_whole(&more, &op_cases[n], set, threads);
                assert_same_run(what, &one, &more);
                run_release(&more);
            }
            run_release(&one);
        }
}

static void test_avx2_and_avx512_give_the_same_bits(void **state)
{
    (void)state;
    if (lvn_isa_best() < LVN_ISA_AVX512) {
        print_message("no AVX-512 here: skipped\n");
        skip();
    }
    for (int n = 0; n < N_OP_CASES; n++) {
        struct run a, b;
        if (!set_counts(LVN_ISA_AVX2, op_cases[n].op)) continue;
        run_whole(&a, &op_cases[n], LVN_ISA_AVX2, 2);
        run_whole(&b, &op_cases[n], LVN_ISA_AVX512, 2);
        assert_same_run("AVX2 and AVX-512", &a, &b);
        run_release(&a);
        run_release(&b);
    }
}

static void test_restore_gives_the_bits_of_forward(void **state)
{
    (void)state;
    for (int set = 0; set <= PLAIN; set++)
        for (int n = 0; n < N_OP_CASES; n++) {
            const struct op_case *c = &op_cases[n];
            if (!lvn_op(c->op, LVN_F32)->restores || !set_counts(set, c->op)) continue;
            struct run a, b;
            run_init(&a, c, LVN_F32, kernels_of(set, c->op));
            run_init(&b, c, LVN_F32, kernels_of(set, c->op));
            run_forward(&a, 1);
            run_forward(&b, 1);
            for (int k = 0; k < b.op->n_out; k++)
                if (!(b.op->restores & LVN_READS_OUT(k))) buffer_poison(&b.out[k]);
            run_phase(&b, LVN_RESTORE, 0, 0, 2);
            assert_same_run("forward and restore", &a, &b);
            run_release(&a);
            run_release(&b);
        }
}

/* --- in place --- */

/* out[0] over in[i] forward, din[i] over dout[0] backward. */
static void check_in_place(const struct op_case *c, int set, int i)
{
    struct run difference, over;
    for (int phase = LVN_FORWARD; phase <= LVN_BACKWARD; phase++) {
        run_init(&difference, c, LVN_F32, kernels_of(set, c->op));
        run_init(&over, c, LVN_F32, kernels_of(set, c->op));
        run_forward(&difference, 2);
        if (phase == LVN_FORWARD) {
            over.out[0].arg.p = over.in[i].arg.p;
            over.aliased = true;
            run_forward(&over, 2);
            assert_same_bits(c, "output in place", 0, &difference.out[0], &over.in[i]);
        } else if (over.dout[0].p) {
            run_forward(&over, 2);
            run_backward(&difference, ~0u, 0, 2);
            over.din[i].arg.p = over.dout[0].arg.p;
            over.aliased = true;
            run_backward(&over, ~0u, 0, 2);
            assert_same_bits(c, "gradient in place", i, &difference.din[i], &over.dout[0]);
            for (int k = 0; k < over.op->n_in; k++)
                if (k != i) assert_same_bits(c, "gradient beside one in place", k, &difference.din[k], &over.din[k]);
        }
        run_release(&difference);
        run_release(&over);
    }
}

static void test_in_place(void **state)
{
    (void)state;
    for (int set = 0; set <= PLAIN; set++)
        for (int n = 0; n < N_OP_CASES; n++)
            for (int i = 0; set_counts(set, op_cases[n].op) && i < LVN_MAX_IN; i++) {
                const bool is_given = op_cases[n].in[i].filling != ABSENT || (op_cases[n].count && i == 0);
                if (is_given && lvn_op(op_cases[n].op, LVN_F32)->in_place >> i & 1)
                    check_in_place(&op_cases[n], set, i);
            }
}

/* --- the table --- */

static void test_every_operation_has_cases(void **state)
{
    (void)state;
    for (int id = 0; id < LVN_OP_COUNT; id++) {
        const struct lvn_op *op = lvn_op((enum lvn_op_id)id, LVN_F32);
        int cases = 0;
        for (int n = 0; n < N_OP_CASES; n++) cases += op_cases[n].op == (enum lvn_op_id)id;
        if (op->collective || id == LVN_OP_grad_clip || id == LVN_OP_narrow) continue; /* see test_ops_more.c */
        if (id == LVN_OP_scale_loss) continue;                                         /* see test_backend.c */
        if (cases == 0) fail_msg("%s has no case in ops_cases.h", op->name);
        if (!tolerances[id].reason) fail_msg("%s has no tolerance", op->name);
        assert_string_equal(op->name, lvn_op((enum lvn_op_id)id, LVN_F64)->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_operation_has_cases),
        cmocka_unit_test(test_gradients_are_finite_differences),
        cmocka_unit_test(test_kernels_agree_with_the_specification),
        cmocka_unit_test(test_threads_do_not_change_bits),
        cmocka_unit_test(test_avx2_and_avx512_give_the_same_bits),
        cmocka_unit_test(test_restore_gives_the_bits_of_forward),
        cmocka_unit_test(test_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
