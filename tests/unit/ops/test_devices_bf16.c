/* test_devices_bf16.c - covers: src/core/ops/ops.def
 *
 * label: long. As test_devices.c, with all operands in bf16 that may be, and products by matrix units, with each
 * implementation of their functions (matrix_gpu.h): loops, NVIDIA's and Intel's, the last two with doubles of the
 * instructions.
 *   unit.test_devices_bf16         PoCL: the cases in bf16; products by loops, in bf16 and fp16
 *   double.test_devices_bf16.late  cuda: the cases in bf16, attention by matrix units; Intel's OpenCL runtime: products
 *                                  and attention by each implementation, in bf16 and fp16, and attention by
 *                                  warpgroups (wgmma_double.h)
 * Every kernel runs with each set of definitions other than the size of a head or row (device_variants.h). Products in
 * large tiles (op_case_wide) run in bf16. Skipped if there is no device. */
#include "backend/opencl/opencl_device.h"
#include "backend/opencl/programs.h"
#include "device_compare.h"
#include "wgmma_double.h"

static void kernels_agree_in_bf16(void **state)
{
    struct lvn_device *d = device_or_skip(*state);
    compare_all(d, HALF, LVN_BF16);
    d->backend->close(d);
}

/* Attention for matrix units, on Intel's runtime: PoCL 3.1 handles barriers within loops within loops wrongly. Loops
 * compile quickly; a double takes seconds for a kernel, so it is tested with small heads only. */
static bool is_for_units(const struct op_case *c, const struct matrix_double *m, const struct lvn_device *d)
{
    const int64_t *q = c->in[0].dim;
    if (c->op != LVN_OP_attention) return true;
    if (numbers != HALF || q[1] < 16 || q[3] % 8) return false;
    if (q[3] > m->heads && !(m->shared && q[3] > 128)) return false;
    const bool dropout = !m->wants || !strncmp(m->name, "NVIDIA", 6); /* those have their own code for it */
    return strstr(((const struct lvn_opencl_device *)d)->platform, "Intel") && (dropout || c->attr.attention.p == 0);
}

static void matrix_units_agree(void **state)
{
    static const enum lvn_op_id ops[] = {LVN_OP_linear, LVN_OP_linear_gelu, LVN_OP_linear_cross_entropy,
                                         LVN_OP_attention};
    const struct matrix_double *m = *state;
    lvn_opencl_prelude = m->text;
    lvn_opencl_prelude_units = m->heads > 0;
    struct lvn_device *d = device_or_skip(lvn_backend_find("opencl"));
    bool can = !m->wants || strstr(((struct lvn_opencl_device *)d)->platform, m->wants);
    units = true;
    numbers = HALF;
    half = m->half;
    if (can && m->half == LVN_BF16) assert_true(compare_case(d, &op_case_wide));
    for (int k = 0; can && k < 4; k++) {
        compare_begin(64);
        for (int n = N_OP_CASES - 1; n >= 0; n--)
            for (numbers = HALF; numbers <= ROUNDED; numbers++)
                if (is_wanted(&op_cases[n], ops[k]) && is_for_units(&op_cases[n], m, d))
                    assert_true(compare_case(d, &op_cases[n]));
        const double *w = worst[ops[k]];
        if (w[0] > 0) print_message("%s: forward %.1e  backward %.1e\n", m->name, w[0], w[1]);
        assert_true(w[0] == 0 || w[1] > 1e-4); /* were operands rounded? */
    }
    units = false;
    lvn_opencl_prelude = NULL;
    d->backend->close(d);
    if (can) return;
    print_message("skipped: the double of %s wants %s\n", m->name, m->wants);
    skip();
}

/* y = x w + b on the device; the `rows` rows of x are the first of the `of` rows of another x; NULL: its own. */
static void product(struct lvn_device *d, const struct op_case *c, const struct run *of, struct run *r)
{
    run_init(r, c, LVN_F32, &lvn_cpu_plain_ops(LVN_F32)[c->op]);
    r->half = LVN_BF16;
    for (int k = 0; of && k < 3; k++) memcpy(r->in[k].p, of->in[k].p, r->in[k].bytes);
    device_must(device_phase(d, r, LVN_FORWARD, 0, 0));
}

/* A product of many rows is made in large tiles, one of few in small ones (matmul_gpu.h). Both give the same bits, so
 * a run may continue where other tiles are chosen. */
static void tiles_change_no_bits(void **state)
{
    static const struct op_case many = {LVN_OP_linear, .attr.linear = {true},
                                        .in = {REAL(129, 70), REAL(70, 8065), REAL(8065)}, .large = true};
    static const struct op_case few = {LVN_OP_linear, .attr.linear = {true},
                                       .in = {REAL(3, 70), REAL(70, 8065), REAL(8065)}, .large = true};
    const struct matrix_double *m = *state;
    lvn_opencl_prelude = m->text;
    struct lvn_device *d = device_or_skip(lvn_backend_find("opencl"));
    bool can = !m->wants || strstr(((struct lvn_opencl_device *)d)->platform, m->wants);
    struct run large, small;
    if (can) {
        product(d, &many, NULL, &large);
        product(d, &few, &large, &small);
        assert_memory_equal(small.out[0].p, large.out[0].p, small.out[0].bytes);
        run_release(&large);
        run_release(&small);
    }
    lvn_opencl_prelude = NULL;
    d->backend->close(d);
    if (!can) skip();
}

/* --- attention by warpgroups --- */

static const struct op_case case_80 = {LVN_OP_attention, .attr.attention = {.causal = true, .scale = 0.11},
                                       .in = {REAL(1, 150, 2, 80), REAL(1, 150, 1, 80), REAL(1, 150, 1, 80)},
                                       .large = true};

static struct lvn_device *device_with(const char *prelude)
{
    lvn_opencl_prelude = prelude;
    lvn_opencl_prelude_units = true;
    struct lvn_device *d = device_or_skip(lvn_backend_find("opencl"));
    numbers = HALF;
    units = true;
    if (strstr(((struct lvn_opencl_device *)d)->platform, "Intel")) return d;
    print_message("skipped: the double of wgmma wants Intel's runtime\n");
    d->backend->close(d);
    lvn_opencl_prelude = NULL;
    units = false;
    skip();
    return NULL;
}

static void close_device(struct lvn_device *d)
{
    units = false;
    lvn_opencl_prelude = NULL;
    d->backend->close(d);
}

static const struct matrix_double warpgroup_doubles[] = {
    {"NVIDIA's wgmma, early", "Intel", WGMMA(bf16, "0", ""), LVN_BF16, 64, false},
    {"NVIDIA's wgmma, late", "Intel", WGMMA(bf16, "1", ""), LVN_BF16, 128, false},
    {"NVIDIA's wgmma, in fp16", "Intel", WGMMA(f16, "1", ""), LVN_F16, 0, false},
};

/* Kernels differ by the channels of a head, rounded up to a multiple of 16. */
static void warpgroups_agree(void **state)
{
    const struct matrix_double *m = *state;
    half = m->half;
    struct lvn_device *d = device_with(m->text);
    compare_begin(16);
    assert_true(compare_case(d, &case_80));
    for (int n = N_OP_CASES - 1; n >= 0; n--)
        if (is_wanted(&op_cases[n], LVN_OP_attention) && is_for_units(&op_cases[n], m, d))
            assert_true(compare_case(d, &op_cases[n]));
    const double *w = worst[LVN_OP_attention];
    print_message("%s: forward %.1e  backward %.1e\n", m->name, w[0], w[1]);
    assert_true(w[1] > 1e-4); /* were operands rounded? */
    close_device(d);
}

/* Are outputs what the specification says? */
static bool forward_agrees(const char *prelude, const struct op_case *c)
{
    struct run found, expected;
    bool agrees = true;
    half = LVN_BF16;
    struct lvn_device *d = device_with(prelude);
    run_init(&expected, c, LVN_F64, &lvn_cpu_plain_ops(LVN_F64)[c->op]);
    run_init(&found, c, LVN_F32, &lvn_cpu_plain_ops(LVN_F32)[c->op]);
    run_round_to_16_bits(&found, half);
    found.half = half, copy_inputs(&expected, &found);
    run_forward(&expected, 1);
    device_must(device_phase(d, &found, LVN_FORWARD, 0, 0));
    for (int64_t i = 0; i < lvn_desc_count(&found.out[0].desc); i++)
        agrees &=
            fabs(buffer_get(&found.out[0], i) - buffer_get(&expected.out[0], i)) <= tolerance(c, false, &found.out[0]);
    run_release(&found);
    run_release(&expected);
    close_device(d);
    return agrees;
}

/* A kernel without a fence, a commit, a wait, or with other distances in its descriptors would fail the tests. */
static void defects_of_warpgroups_show(void **state)
{
    static const struct {
        const char *name, *prelude;
    } defects[] = {
        {"without wgmma.fence", WGMMA(bf16, "1", "#define NO_FENCE\n")},
        {"without commit_group", WGMMA(bf16, "1", "#define NO_COMMIT\n")},
        {"without wait_group", WGMMA(bf16, "1", "#define NO_WAIT\n")},
        {"without fence.proxy.async", WGMMA(bf16, "1", "#define NO_PROXY_FENCE\n")},
        {"with another stride", WGMMA(bf16, "0", "#define WRONG ((ulong)8 << 32)\n")},
        {"with another address", WGMMA(bf16, "0", "#define WRONG 1\n")},
        {"with another swizzle", WGMMA(bf16, "0", "#define WRONG ((ulong)1 << 62)\n")},
    };
    (void)state;
    assert_true(forward_agrees(WGMMA(bf16, "1", ""), &case_80));
    for (size_t k = 0; k < sizeof defects / sizeof *defects; k++)
        if (forward_agrees(defects[k].prelude, &case_80)) fail_msg("attention %s gives right results", defects[k].name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(kernels_agree_in_bf16, (void *)(uintptr_t)lvn_backend_find("opencl")),
        cmocka_unit_test_prestate(kernels_agree_in_bf16, (void *)(uintptr_t)lvn_backend_find("cuda")),
        cmocka_unit_test_prestate(matrix_units_agree, (void *)(uintptr_t)&matrix_doubles[0]),
        cmocka_unit_test_prestate(matrix_units_agree, (void *)(uintptr_t)&matrix_doubles[1]),
        cmocka_unit_test_prestate(matrix_units_agree, (void *)(uintptr_t)&matrix_doubles[2]),
        cmocka_unit_test_prestate(matrix_units_agree, (void *)(uintptr_t)&matrix_doubles[3]),
        cmocka_unit_test_prestate(matrix_units_agree, (void *)(uintptr_t)&matrix_doubles[4]),
        cmocka_unit_test_prestate(matrix_units_agree, (void *)(uintptr_t)&matrix_doubles[5]),
        cmocka_unit_test_prestate(matrix_units_agree, (void *)(uintptr_t)&matrix_doubles[6]),
        cmocka_unit_test_prestate(matrix_units_agree, (void *)(uintptr_t)&matrix_doubles[7]),
        cmocka_unit_test_prestate(tiles_change_no_bits, (void *)(uintptr_t)&matrix_doubles[0]),
        cmocka_unit_test_prestate(tiles_change_no_bits, (void *)(uintptr_t)&matrix_doubles[1]),
        cmocka_unit_test_prestate(tiles_change_no_bits, (void *)(uintptr_t)&matrix_doubles[2]),
        cmocka_unit_test_prestate(tiles_change_no_bits, (void *)(uintptr_t)&matrix_doubles[3]),
        cmocka_unit_test_prestate(warpgroups_agree, (void *)(uintptr_t)&warpgroup_doubles[0]),
        cmocka_unit_test_prestate(warpgroups_agree, (void *)(uintptr_t)&warpgroup_doubles[1]),
        cmocka_unit_test_prestate(warpgroups_agree, (void *)(uintptr_t)&warpgroup_doubles[2]),
        cmocka_unit_test(defects_of_warpgroups_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
