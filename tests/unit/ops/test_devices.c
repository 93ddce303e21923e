/* test_devices.c - covers: src/core/ops/ops.def
 *
 * label: slow
 * The kernels of devices against the specification in double:
 *   unit.test_devices          PoCL: the cases of ops_cases.h in fp32, and one of each operation in fp16
 *   double.test_devices.late   cuda: the same; Intel's OpenCL runtime: one small case of each operation in fp32
 *   double.test_devices.early  cuda: one small case of each operation in fp32
 *   grind.test_devices         oclgrind: one small case of each operation in fp32 and fp16, every access checked
 * Cases whose kernels would differ by the size of a head or row alone are left out (device_variants.h). Gradients are
 * computed one by one in small cases, all together in every case. Skipped if there is no device. */
#include "backend/opencl/programs.h"
#include "device_compare.h"

static void kernels_agree_with_the_specification(void **state)
{
    struct lvn_device *d = device_or_skip(*state);
    compare_all(d, FP32, LVN_F32);
    d->backend->close(d);
}

static void kernels_agree_in_fp16(void **state)
{
    struct lvn_device *d = device_or_skip(*state);
    compare_all(d, HALF, LVN_F16);
    d->backend->close(d);
}

/* Loops without fp64, as on GPUs that compute it slowly: sums are pairs of floats, nearly as precise. */
static void sums_without_fp64_are_precise(void **state)
{
    static const enum lvn_op_id ops[] = {LVN_OP_layernorm, LVN_OP_rmsnorm,      LVN_OP_residual_layernorm,
                                         LVN_OP_mul_rows,  LVN_OP_weighted_sum, LVN_OP_gated_add};
    static const struct op_case many = {LVN_OP_grad_norm, .count = 7 * 4096 + 33};
    struct run found, expected;
    (void)state;
    lvn_opencl_prelude = "#define LVN_SLOW_DOUBLE\n";
    struct lvn_device *d = device_or_skip(lvn_backend_find("opencl"));
    numbers = FP32;
    compare_begin(16);
    sample = true;
    for (int n = N_OP_CASES - 1; n >= 0; n--)
        for (size_t k = 0; k < sizeof ops / sizeof *ops; k++)
            if (is_wanted(&op_cases[n], ops[k])) assert_true(compare_case(d, &op_cases[n]));
    run_init(&found, &many, LVN_F32, &lvn_cpu_plain_ops(LVN_F32)[many.op]);
    run_init(&expected, &many, LVN_F64, &lvn_cpu_plain_ops(LVN_F64)[many.op]);
    copy_inputs(&expected, &found);
    run_forward(&expected, 1);
    device_must(device_phase(d, &found, LVN_FORWARD, 0, 0));
    const double norm = expected.result.grad_norm, off = fabs(found.result.grad_norm - norm);
    if (((struct lvn_opencl_device *)d)->has_double && !(off <= 1e-12 * norm))
        fail_msg("the norm is off by %g of %g", off, norm);
    run_release(&found);
    run_release(&expected);
    lvn_opencl_prelude = NULL;
    sample = false;
    d->backend->close(d);
}

static uint64_t reported;
static int (*real_info)(void *kernel, void *device, uint32_t what, size_t capacity, void *out, size_t *n);

static int reporting_info(void *kernel, void *device, uint32_t what, size_t capacity, void *out, size_t *n)
{
    const int error = real_info(kernel, device, what, capacity, out, n);
    if (what == CL_KERNEL_LOCAL_MEM_SIZE && error == CL_SUCCESS && *(uint64_t *)out > reported)
        reported = *(uint64_t *)out;
    return error;
}

/* A device has at least 32 KiB, and attention with heads of more than 128 channels uses up to 48. */
static void kernels_that_need_more_local_memory_are_refused(void **state)
{
    static const struct op_case c = {LVN_OP_rmsnorm, .attr.rmsnorm.eps = 1e-5, .in = {REAL(3, 64), REAL(64)}};
    static struct device_run described;
    struct run r;
    struct lvn_binding b = {.step = &r.step, .micro_batch_rows = 1};
    struct lvn_bound *bound;
    int64_t scratch = 0;
    (void)state;
    struct lvn_device *d = device_or_skip(lvn_backend_find("opencl"));
    ((struct lvn_opencl_device *)d)->local = 4;
    real_info = lvn_cl.kernel_info;
    lvn_cl.kernel_info = reporting_info;
    run_init(&r, &c, LVN_F32, &lvn_cpu_plain_ops(LVN_F32)[c.op]);
    device_describe(&described, &r, LVN_FORWARD, 0, 0);
    described.program.device = d;
    device_must(d->backend->choose(d, &described.instr, &scratch));
    device_scratch(&described, scratch);
    device_must(lvn_memory_new(&b.buffer[LVN_BUFFER_ARENA], d, described.arena));
    device_must(lvn_memory_new(&b.buffer[LVN_BUFFER_RESULT], d, sizeof r.result));
    const enum lvn_status status = d->backend->bind(&bound, &described.program, &b);
    lvn_cl.kernel_info = real_info;
    if (status == LVN_OK) d->backend->unbind(bound);
    assert_int_equal(status, reported > 4 ? LVN_UNSUPPORTED : LVN_OK);
    const char *why = levin_error_text();
    if (status != LVN_OK && (!strstr(why, "bytes of local memory, but ") || strstr(why, "heads"))) fail_msg("%s", why);
    lvn_error_clear();
    for (int k = 0; k < LVN_BUFFER_COUNT; k++) lvn_memory_free(b.buffer[k]);
    run_release(&r);
    d->backend->close(d);
    if (reported > 4) return;
    print_message("skipped: the driver does not report the local memory of kernels\n");
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(kernels_agree_with_the_specification, (void *)(uintptr_t)lvn_backend_find("opencl")),
        cmocka_unit_test_prestate(kernels_agree_with_the_specification, (void *)(uintptr_t)lvn_backend_find("cuda")),
        cmocka_unit_test_prestate(kernels_agree_in_fp16, (void *)(uintptr_t)lvn_backend_find("opencl")),
        cmocka_unit_test_prestate(kernels_agree_in_fp16, (void *)(uintptr_t)lvn_backend_find("cuda")),
        cmocka_unit_test(sums_without_fp64_are_precise),
        cmocka_unit_test(kernels_that_need_more_local_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
