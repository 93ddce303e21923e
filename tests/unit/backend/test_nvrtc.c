/* test_nvrtc.c - covers: src/core/backend/cuda/nvrtc.c
 *
 * NVRTC, where it is installed: images for real architectures and for unknown ones, and a source with an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cuda/nvrtc.h"

static const char good[] = "extern \"C\" __global__ void twice(float *x, int n)\n"
                           "{\n"
                           "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                           "    if (i < n) x[i] *= 2;\n"
                           "}\n";

static void here_or_skip(void)
{
    if (lvn_library_open(&lvn_library_nvrtc) == LVN_OK) return;
    assert_non_null(strstr(levin_error_text(), "nvidia-cuda-nvrtc")); /* how to get it */
    print_message("skipped: %s\n", levin_error_text());
    lvn_error_clear();
    skip();
}

static void a_source_becomes_a_cubin(void **state)
{
    (void)state;
    here_or_skip();
    static const int devices[] = {80, 90, 100};
    static const char *const expected[] = {"sm_80", "sm_90a", "sm_100"};
    for (int i = 0; i < 3; i++) {
        struct lvn_nvrtc_image image;
        char architecture[LVN_NVRTC_ARCHITECTURE], *log;
        assert_int_equal(lvn_nvrtc_architecture(architecture, devices[i]), LVN_OK);
        assert_string_equal(architecture, expected[i]);
        if (lvn_nvrtc_compile(&image, "twice", good, architecture, NULL, &log)) fail_msg("%s", levin_error_text());
        assert_false(image.ptx);
        assert_memory_equal(image.bytes, "\177ELF", 4);
        assert_string_equal(log, "");
        free(log);
        free(image.bytes);
    }
}

static void a_newer_device_gets_ptx(void **state)
{
    (void)state;
    here_or_skip();
    struct lvn_nvrtc_image image;
    char architecture[LVN_NVRTC_ARCHITECTURE];
    assert_int_equal(lvn_nvrtc_architecture(architecture, 990), LVN_OK);
    assert_memory_equal(architecture, "compute_", 8);
    assert_int_equal(lvn_nvrtc_compile(&image, "twice", good, architecture, NULL, NULL), LVN_OK);
    assert_true(image.ptx);
    assert_non_null(strstr(image.bytes, ".entry twice"));
    free(image.bytes);
    assert_int_equal(lvn_nvrtc_architecture(architecture, 35), LVN_UNSUPPORTED);
    assert_non_null(strstr(levin_error_text(), "3.5"));
    lvn_error_clear();
}

static void the_compilers_first_line_is_reported(void **state)
{
    (void)state;
    here_or_skip();
    struct lvn_nvrtc_image image;
    static const char *const options[] = {"-DN=missing", NULL};
    assert_int_equal(lvn_nvrtc_compile(&image, "wrong", "extern \"C\" __global__ void f(int *x) { *x = N; }", "sm_80",
                                       options, NULL),
                     LVN_UNSUPPORTED);
    if (!strstr(levin_error_text(), "wrong: the kernel does not compile for sm_80") ||
        !strstr(levin_error_text(), "wrong.k(1): error") || !strstr(levin_error_text(), "missing") ||
        strchr(levin_error_text(), '\n'))
        fail_msg("%s", levin_error_text());
    assert_null(image.bytes);
    lvn_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_source_becomes_a_cubin),
        cmocka_unit_test(a_newer_device_gets_ptx),
        cmocka_unit_test(the_compilers_first_line_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
