/* test_devices_bf16.c - as test_devices.c, with all in bf16 that may be; and what matrix units compute, with each form
 * of the words for them (matrix_gpu.h): loops, NVIDIA's and Intel's, the last two with doubles of the instructions,
 * since no such device is here. Skipped where there is no device.
 *
 * label: long */
#include "backend/opencl/device.h"
#include "device_compare.h"
#include "matrix_doubles.h"

static void kernels_agree_in_bf16(void **state)
{
    struct lvn_device *d = device_or_skip(*state);
    compare_all(d, HALF, LVN_BF16);
    d->backend->close(d);
}

/* Of attention what is for units. */
static bool is_for_units(const struct op_case *c, const struct matrix_double *m)
{
    const int64_t *q = c->in[0].dim, least = m->wants ? 24 : 16;
    if (c->op != LVN_OP_attention) return true;
    return numbers == HALF && q[1] >= 16 && q[3] % 8 == 0 && q[3] >= least && q[3] <= m->heads;
}

static void matrix_units_agree(void **state)
{
    static const enum lvn_op_id ops[] = {LVN_OP_linear, LVN_OP_linear_gelu, LVN_OP_linear_cross_entropy,
                                         LVN_OP_attention};
    const struct matrix_double *m = *state;
    lvn_opencl_prelude = m->text;
    struct lvn_device *d = device_or_skip(lvn_backend_find("opencl"));
    bool can = !m->wants || strstr(((struct lvn_opencl_device *)d)->platform, m->wants);
    units = true;
    numbers = HALF;
    half = m->half;
    if (can) assert_true(compare_case(d, &op_case_wide));
    for (int k = 0; can && k < 4; k++) {
        memset(worst, 0, sizeof worst);
        for (int n = 0; n < N_OP_CASES; n++)
            for (numbers = HALF; numbers <= ROUNDED; numbers++)
                if (is_wanted(&op_cases[n], ops[k]) && is_for_units(&op_cases[n], m))
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
