/* test_opencl_options.c - covers: src/core/backend/opencl/opencl.c src/core/backend/opencl/programs.c
 *
 * Options for compilers of OpenCL, with a fake OpenCL library (opencl_cards.h): Intel's large register file is asked
 * for in modules that need it, if the compiler has the option, and the cache distinguishes it. */
#include <unistd.h>

#include "backend/opencl/programs.h"
#include "unit/opencl_cards.h"

/* Open device 0 and compile a text with these definitions there. Returns how; *probes: builds that asked whether an
 * option is taken. */
static struct program compiled(const char *definition, int *probes)
{
    const struct lvn_device_options o = {.real = LVN_F32, .threads = 1};
    struct lvn_gpu_module m = {.source = "linear", .definition = definition};
    struct lvn_gpu_program p = {.modules = &m, .n_modules = 1};
    n_probes = 0;
    assert_int_equal(lvn_backend_find("opencl")->open(&p.base.device, &o), LVN_OK);
    *probes = n_probes;
    assert_int_equal(lvn_opencl_driver.prepare(&p), LVN_OK);
    const struct program how = *(const struct program *)m.backend_data;
    p.base.device->backend->close(p.base.device);
    assert_int_equal(held, 0);
    return how;
}

static const char for_units[] = "#define ROUNDED bf16\n#define TILE 128\n", plain[] = "#define TYPE_a f32\n";
static const char attention[] = "#define D 64\n#define ROWS 128\n#define ROUNDED bf16\n";
static const char small_tiles[] = "#define ROUNDED bf16\n", /* a product of few rows, which fits */
    plain_tiles[] = "#define TILE 128\n";                   /* in fp32 */

/* Kernels are cached in a folder of this test, which is removed. */
static void forget(void)
{
    static char cache[] = "/tmp/levin-options.XXXXXX";
    char remove[64];
    if (strstr(cache, "XXXXXX")) assert_non_null(mkdtemp(cache));
    snprintf(remove, sizeof remove, "rm -rf %s", cache);
    assert_int_equal(system(remove), 0);
    setenv("LEVIN_CACHE", cache, 1);
}

static void the_large_register_file_is_for_matrix_units(void **state)
{
    static const struct {
        bool gpu, intel, units, takes; /* what the device is */
        int probes;                    /* wanted */
        bool large;                    /* wanted, of a text for matrix units */
    } cases[] = {
        {true, true, true, true, 1, true},   {true, true, true, false, 1, false}, {true, true, false, true, 0, false},
        {true, false, true, true, 0, false}, {false, true, true, true, 0, false},
    };
    int probes;
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        forget();
        has_gpus = cases[k].gpu;
        not_intel = !cases[k].intel;
        has_units = cases[k].units;
        takes_large = cases[k].takes;
        const struct program units = compiled(for_units, &probes);
        assert_int_equal(probes, cases[k].probes);
        assert_int_equal(strstr(units.options, large_registers) != NULL, cases[k].large);
        assert_int_equal(strstr(compiled(attention, &probes).options, large_registers) != NULL, cases[k].large);
        assert_null(strstr(compiled(plain, &probes).options, large_registers));
        assert_null(strstr(compiled(small_tiles, &probes).options, large_registers));
        assert_null(strstr(compiled(plain_tiles, &probes).options, large_registers));
    }
    forget();
}

/* A cached kernel is used only with the same options of the compiler. */
static void the_cache_knows_the_register_file(void **state)
{
    int probes;
    (void)state;
    forget();
    has_units = true;
    assert_false(compiled(for_units, &probes).from_cache);
    assert_false(compiled(plain, &probes).from_cache);
    const struct program again = compiled(for_units, &probes);
    assert_true(again.from_cache && strstr(again.options, large_registers));
    takes_large = false;
    assert_false(compiled(for_units, &probes).from_cache);
    assert_true(compiled(plain, &probes).from_cache);
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_large_register_file_is_for_matrix_units, begin),
        cmocka_unit_test_setup(the_cache_knows_the_register_file, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
