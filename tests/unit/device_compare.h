/* device_compare.h - compares the results of an operation on a device with its specification in double.
 * LEVIN_DEVICE_TEST names one operation to test alone, or is `small`: no large cases. The largest deviations are
 * printed. */
#ifndef LVN_DEVICE_COMPARE_H
#define LVN_DEVICE_COMPARE_H

#include "backend/backend.h"
#include "backend/cpu/cpu_kernels.h"
#include "device_run.h"
#include "device_skip.h"
#include "device_variants.h"
#include "ops_cases.h"
#include "ops_tolerances.h"

/* Exponentials and similar functions of a device have errors of a few ulp more than the CPU's, and so have results
 * computed from them. Optimizers have no fixed order of operations. */
static double tolerance_of(double of_processor)
{
    return of_processor > 0 ? 4 * of_processor : 3e-7;
}

static double worst[LVN_OP_COUNT][2];
static bool one_by_one[LVN_OP_COUNT]; /* has a case of the operation had its gradients computed one by one? */

static enum numbers {
    FP32,
    HALF,    /* operands are 16-bit where the operation accepts it */
    ROUNDED, /* no operand is, but products may round their operands */
} numbers;
static enum lvn_dtype half; /* BF16 or F16 */
static bool units; /* matrix units compute products: fp32 operands are rounded, too, and so are factors of sums */

/* The additional tolerance for 16-bit values, in units of half an ulp. The bias's
 * gradient is a sum of gradients before GELU, each rounded: their errors are as random as the numbers, so it is off by
 * less than half a unit, as each of them. Logits are off by half a unit, so a loss, the difference of two numbers as
 * large as they, by two; a probability p changes by p (1 - p), at most a quarter, times that of its logit, which is up
 * to 16 here. */
static double of_16_bits_within(const struct op_case *c, bool backward, const struct buffer *found)
{
    if (numbers == FP32) return 0;
    if (c->op == LVN_OP_linear_cross_entropy) return backward ? 4 : 2;
    if (c->op == LVN_OP_linear_gelu && numbers == HALF && found->desc.dtype == LVN_F32) return backward;
    return 0;
}

static double tolerance(const struct op_case *c, bool backward, const struct buffer *found)
{
    double max =
        tolerance_of(backward ? tolerance_of_op(c->op, &c->attr)->backward : tolerance_of_op(c->op, &c->attr)->forward);
    if (c->slack > 0) max *= c->slack;
    max += of_16_bits_within(c, backward, found) * (half == LVN_F16 ? ldexp(1, -11) : ldexp(1, -8));
    if (found->desc.dtype == LVN_BF16)
        max += ldexp(1, -7); /* rounded, and so is the value added to; updates: at random */
    if (found->desc.dtype == LVN_F16) max += ldexp(1, -10);
    return units ? max + (half == LVN_F16 ? ldexp(1, -9) : ldexp(1, -6)) : max;
}

static void compare(const struct op_case *c, bool backward, const char *what, int index, const struct buffer *found,
                    const struct buffer *expected)
{
    double scale = 1, max = tolerance(c, backward, found);
    int64_t n = expected->p ? lvn_desc_count(&expected->desc) : 0;
    for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(buffer_get(expected, i)));
    for (int64_t i = 0; i < n; i++) {
        double x = buffer_get(found, i), y = buffer_get(expected, i), difference = fabs(x - y) / scale;
        if (isnan(x) && isnan(y)) continue;
        if (!(difference <= max))
            fail_msg("%s: %s %d, element %lld is %.9g, expected %.9g within %.1e", case_text(c), what, index,
                     (long long)i, x, y, max * scale);
        worst[c->op][backward] = fmax(worst[c->op][backward], difference / (c->slack > 0 ? c->slack : 1));
    }
}

static void compare_outputs(const struct op_case *c, bool backward, const struct run *found, const struct run *expected)
{
    /* The checksum of an update is a sum of bits, which rounding changes. */
    const int saved = numbers != FP32 && op_is_update(c->op) ? 0 : expected->op->n_saved;
    for (int k = 0; k < expected->op->n_out + saved; k++)
        compare(c, backward, "output", k, &found->out[k], &expected->out[k]);
    double norm = expected->result.grad_norm;
    if (!(fabs(found->result.grad_norm - norm) <= 1e-6 * norm) ||
        !(fabs(found->result.clip_scale - expected->result.clip_scale) <= 1e-6))
        fail_msg("%s: norm %g, clip %g; expected %g, %g", case_text(c), found->result.grad_norm,
                 found->result.clip_scale, norm, expected->result.clip_scale);
}

static void poison_gradients(struct run *r, unsigned add)
{
    for (int i = 0; i < r->op->n_in; i++) {
        buffer_poison(&r->din[i]);
        if (r->din[i].p && add >> i & 1) buffer_fill(&r->din[i], 3000 + (uint64_t)i, 0, 1);
    }
}

static void compare_backward(struct lvn_device *d, const struct op_case *c, struct run *found, struct run *expected,
                             unsigned which, unsigned add)
{
    run_backward(expected, which, add, 1);
    poison_gradients(found, add);
    if (device_phase(d, found, LVN_BACKWARD, which, add) != LVN_OK) fail_msg("%s", levin_error_text());
    for (int i = 0; i < found->op->n_in; i++)
        if (found->din[i].p && which >> i & 1)
            compare(c, true, add ? "added gradient" : "gradient", i, &found->din[i], &expected->din[i]);
    if (found->op->forward_in_backward) compare_outputs(c, true, found, expected);
}

static void compare_restore(struct lvn_device *d, const struct op_case *c, struct run *found,
                            const struct run *expected)
{
    for (int k = 0; k < found->op->n_out; k++)
        if (!(found->op->restores & LVN_READS_OUT(k))) buffer_poison(&found->out[k]);
    if (device_phase(d, found, LVN_RESTORE, 0, 0) != LVN_OK) fail_msg("%s", levin_error_text());
    compare_outputs(c, false, found, expected);
}

/* Copy the rounded inputs. */
static void copy_inputs(struct run *to, const struct run *from)
{
    for (int i = 0; i < to->op->n_in; i++) buffer_copy(&to->in[i], &from->in[i]);
    for (int k = 0; k < to->op->n_out; k++) {
        buffer_copy(&to->dout[k], &from->dout[k]);
        if (op_is_update(to->c->op)) buffer_copy(&to->out[k], &from->out[k]);
    }
}

/* Is one small case of each operation enough? Runs with the double of CUDA's driver compare all cases on cuda, in the
 * order `late`. Other backends are compared without the double, too. */
static bool is_sample(const struct lvn_device *d)
{
    const char *order = getenv("LEVIN_DOUBLE_ORDER");
    return order && (strcmp(order, "late") || strcmp(d->backend->name, "cuda"));
}

static bool sample;

static bool is_mode(const char *text)
{
    const char *mode = getenv("LEVIN_DEVICE_TEST");
    return mode && !strcmp(mode, text);
}

static void compare_gradients(struct lvn_device *d, const struct op_case *c, struct run *found, struct run *expected)
{
    const unsigned all = (1u << expected->op->n_in) - 1;
    for (int k = 0; numbers != FP32 && k < expected->op->n_out + expected->op->n_saved; k++)
        buffer_copy(&expected->out[k], &found->out[k]); /* its backward reads rounded values */
    const bool had = one_by_one[c->op];
    for (int one = 0; one < expected->op->n_in && !c->large && !sample; one++) {
        if (!expected->din[one].p || (had && variants_of(d, found, LVN_BACKWARD, 1u << one, false) != ALL_COMPILED))
            continue;
        compare_backward(d, c, found, expected, 1u << one, one % 2 ? all : 0);
        variants_of(d, found, LVN_BACKWARD, 1u << one, true);
        one_by_one[c->op] = true;
    }
    compare_backward(d, c, found, expected, all, 0);
    compare_backward(d, c, found, expected, all, 2);
}

/* False: the device has no kernel for it. */
static bool compare_case(struct lvn_device *d, const struct op_case *c)
{
    enum lvn_dtype exact = op_is_exact(c->op) ? LVN_F32 : LVN_F64;
    const struct lvn_cpu_op *plain = &lvn_cpu_plain_ops(exact)[c->op];
    struct run found, expected;
    run_init(&expected, c, exact, plain);
    run_init(&found, c, LVN_F32, &lvn_cpu_plain_ops(LVN_F32)[c->op]);
    if (numbers == HALF) run_round_to_16_bits(&found, half);
    if (numbers != FP32) found.half = half, copy_inputs(&expected, &found);
    const bool backward = expected.op->spec.backward,
               out = variants_leave_out(d, &found, backward, expected.op->restores);
    const bool has = out || device_phase(d, &found, LVN_FORWARD, 0, 0) == LVN_OK;
    if (has && !out) {
        run_forward(&expected, 1);
        compare_outputs(c, false, &found, &expected);
        if (expected.op->restores) compare_restore(d, c, &found, &expected);
        if (backward) compare_gradients(d, c, &found, &expected);
    } else {
        lvn_error_clear();
    }
    run_release(&found);
    run_release(&expected);
    return has;
}

static int64_t case_elements(const struct op_case *c)
{
    int64_t all = c->count;
    for (int k = 0; k < LVN_MAX_IN; k++) {
        int64_t n = c->in[k].rank > 0;
        for (int i = 0; i < c->in[k].rank; i++) n *= c->in[k].dim[i];
        all += n;
    }
    return all;
}

/* True for the last small case of an operation, separately with and without constant input; a sample counts only cases
 * of few elements. */
static bool is_last_small(const struct op_case *c)
{
    enum { MANY = 14000 };
    if (c->large || (sample && case_elements(c) > MANY)) return false;
    for (const struct op_case *next = c + 1; next < op_cases + N_OP_CASES; next++)
        if (next->op == c->op && !next->large && next->in[0].constant == c->in[0].constant &&
            !(sample && case_elements(next) > MANY))
            return false;
    return true;
}

static bool runs_in_fp16(const struct op_case *c)
{
    return !op_is_update(c->op) && lvn_op(c->op, LVN_F32)->low_precision_ok && is_last_small(c);
}

/* The cases that LEVIN_DEVICE_TEST selects (an operation's; small ones; one small one of each operation), and of these
 * only those of `only`, unless it is LVN_OP_COUNT. */
static bool is_wanted(const struct op_case *c, enum lvn_op_id only)
{
    if (numbers == HALF && half == LVN_F16 && !runs_in_fp16(c)) return false;
    if (c->for_cpu || (only != LVN_OP_COUNT && c->op != only)) return false;
    if (is_mode("small")) return !c->large;
    if (sample) return is_last_small(c);
    return !getenv("LEVIN_DEVICE_TEST") || is_mode(lvn_op(c->op, LVN_F32)->name);
}

/* The sizes for which kernels are compiled are rounded up to a multiple of `round` (device_variants.h). */
static inline void compare_begin(int round)
{
    variants = (struct variants){.round = round};
    sample = false;
    memset(worst, 0, sizeof worst);
    memset(one_by_one, 0, sizeof one_by_one);
}

/* as: BF16 or F16, where `in` is HALF. These kernels differ from those in fp32 only by types, so a kernel for one size
 * of a head or row is enough. If is_sample(), nothing runs in 16 bits, because another test has the backend without the
 * double. */
static inline void compare_all(struct lvn_device *d, enum numbers in, enum lvn_dtype as)
{
    enum { HEADS_IN_FP32 = 16, HEADS_IN_16_BITS = 256 };
    bool missing[LVN_OP_COUNT] = {false};
    int without = 0;
    if (in == HALF && is_sample(d)) {
        print_message("skipped: the run without doubles, or with LEVIN_DOUBLE_ORDER=late, has %s\n", d->backend->name);
        d->backend->close(d);
        skip();
    }
    numbers = in;
    half = as;
    compare_begin(in == HALF ? HEADS_IN_16_BITS : HEADS_IN_FP32);
    sample = is_mode("once") || is_sample(d);
    for (int n = N_OP_CASES - 1; n >= 0; n--)
        if (is_wanted(&op_cases[n], LVN_OP_COUNT) && !compare_case(d, &op_cases[n])) missing[op_cases[n].op] = true;
    for (int id = 0; id < LVN_OP_COUNT; id++) {
        const char *name = lvn_op((enum lvn_op_id)id, LVN_F32)->name;
        if (worst[id][0] > 0 || worst[id][1] > 0)
            print_message("%-22s forward %.1e  backward %.1e\n", name, worst[id][0], worst[id][1]);
        if (missing[id]) print_message("%-22s has no kernel\n", name), without++;
    }
    if (without) print_message("%d operations without a kernel\n", without);
    if (!variants.n) fail_msg("no kernel was compared (LEVIN_DEVICE_TEST)");
    print_message("%d kernels ran, %d cases were left out (device_variants.h)\n", variants.n, variants.left_out);
}

#endif
