/* test_devices.c - covers: src/ops/ops.def
 *
 * The kernels of devices against the specification in double: every case of ops_cases.h in fp32, and one case of each
 * operation with all operands in fp16 that may be. Skipped if there is no device. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(kernels_agree_with_the_specification, (void *)(uintptr_t)lvn_backend_find("opencl")),
        cmocka_unit_test_prestate(kernels_agree_with_the_specification, (void *)(uintptr_t)lvn_backend_find("cuda")),
        cmocka_unit_test_prestate(kernels_agree_in_fp16, (void *)(uintptr_t)lvn_backend_find("opencl")),
        cmocka_unit_test_prestate(kernels_agree_in_fp16, (void *)(uintptr_t)lvn_backend_find("cuda")),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
