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
