/* test_opencl_devices.c - covers: src/core/backend/opencl/opencl_device_find.c src/core/backend/backend.c
 * src/core/backend/opencl/programs.c
 *
 * Enumeration of OpenCL devices, and allocations above CL_DEVICE_MAX_MEM_ALLOC_SIZE, with a fake OpenCL library
 * (opencl_cards.h). */
#include "backend/opencl/programs.h"
#include "unit/opencl_cards.h"

/* Check that lvn_opencl_find(i) returns the device expected[i]; 0 ends the list. */
static void expect(const uintptr_t *expected)
{
    char own[8][128];
    for (int i = 0, over = 0; !over; i++) {
        struct lvn_opencl_device d;
        lvn_opencl_find(&d, i);
        assert_int_equal((uintptr_t)d.id, expected[i]);
        over = !expected[i];
        memcpy(own[i], d.unique_id, sizeof d.unique_id);
        for (int k = 0; k < i; k++) assert_string_not_equal(own[i], own[k]);
        assert_int_equal(held, d.is_sub_device);
        lvn_opencl_release(&d);
        assert_int_equal(held, 0);
    }
}
#define EXPECT(...) expect((const uintptr_t[]){__VA_ARGS__, 0})

static void a_tile_is_a_device(void **state)
{
    (void)state;
    EXPECT(11, 12, 21, 22);
    cuttable = false; /* the driver already lists tiles as devices, or each card has a single tile */
    EXPECT(10, 20);
}

static void cards_stay_whole_if_requested(void **state)
{
    (void)state;
    setenv("ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE", 1);
    EXPECT(10, 20);
    setenv("ZE_FLAT_DEVICE_HIERARCHY", "FLAT", 1);
    EXPECT(11, 12, 21, 22);
}

static void gpus_with_memory_are_preferred_then_intel_gpus(void **state)
{
    char why[200];
    (void)state;
    has_other_gpu = true;
    EXPECT(11, 12, 21, 22);
    integrated = true;
    EXPECT(30);
    has_gpus = false;
    EXPECT(30);
    lvn_backend_why_none(lvn_backend_find("opencl"), why, sizeof why);
    assert_string_equal(why, "its device device 30 is not an Intel GPU");
}

static void a_processor_is_one_device_or_parts(void **state)
{
    (void)state;
    has_gpus = false;
    EXPECT(1);
    setenv("LEVIN_OPENCL_PARTS", "3", 1);
    EXPECT(2, 3, 4);
    setenv("LEVIN_OPENCL_PARTS", "7", 1); /* more than it has units */
    EXPECT(1);
}

static void a_platform_is_picked_by_name(void **state)
{
    (void)state;
    setenv("LEVIN_OPENCL_PLATFORM", "Proc", 1);
    EXPECT(1);
    setenv("LEVIN_OPENCL_PLATFORM", "Abacus", 1);
    struct lvn_opencl_device d;
    assert_int_equal(lvn_opencl_find(&d, 0), 0);
    assert_null(d.id);
}

/* An allocation above the driver's limit: on a GPU it is requested with CL_MEM_ALLOW_UNRESTRICTED_SIZE_INTEL, and later
 * kernels are compiled with the matching option. On a CPU it is refused. */
static void a_gpu_allocates_large_buffers(void **state)
{
    const struct lvn_backend *backend = lvn_backend_find("opencl");
    struct lvn_opencl_device d;
    struct lvn_memory *m;
    (void)state;
    lvn_opencl_find(&d, 0);
    d.base.backend = backend;
    for (int64_t large = 0; large < 2; large++) {
        assert_int_equal(backend->alloc(&m, &d.base, (4 + large) << 30), LVN_OK);
        assert_int_equal(asked_with, CL_MEM_READ_WRITE | (large ? CL_MEM_ALLOW_UNRESTRICTED_SIZE_INTEL : 0));
        const bool has_option = strstr(lvn_opencl_options(&d, ""), "-cl-intel-greater-than-4GB-buffer-required");
        assert_int_equal(has_option, large);
        backend->free(m);
    }
    lvn_opencl_release(&d);
    has_gpus = false;
    lvn_opencl_find(&d, 0);
    d.base.backend = backend;
    assert_int_equal(backend->alloc(&m, &d.base, 5ll << 30), LVN_MEMORY);
    assert_non_null(strstr(levin_error_text(), "allocates at most 4.0 GiB per buffer, and 5.0 GiB is needed"));
    lvn_error_clear();
}

/* Memory that another process took, whether the driver allocates at once or at the first use. */
static void memory_that_is_gone_is_reported(void **state)
{
    const struct lvn_backend *backend = lvn_backend_find("opencl");
    struct lvn_opencl_device d;
    struct lvn_memory *m;
    (void)state;
    lvn_opencl_find(&d, 0);
    d.base.backend = backend;
    for (int k = 0; k < 2; k++) {
        no_buffer = k ? 0 : -4;
        no_fill = k ? -5 : 0;
        assert_int_equal(backend->alloc(&m, &d.base, 3ll << 30), LVN_MEMORY);
        if (!strstr(levin_error_text(), "device 11 cannot allocate 3.0 GiB (it has 48 GiB in total): ") ||
            !strstr(levin_error_text(), "trainer.micro_batch_size, or end other programs that use the device"))
            fail_msg("%s", levin_error_text());
        lvn_error_clear();
    }
    no_buffer = no_fill = 0;
    lvn_opencl_release(&d);
}

static int finish_code;

static int failing_finish(void *queue)
{
    (void)queue;
    return finish_code;
}

/* Only a lack of memory is reported as one. */
static void a_failed_computation_is_reported(void **state)
{
    static const struct {
        int code;
        enum lvn_status status;
        const char *cure;
    } ways[] = {{-4, LVN_MEMORY, "; choose a smaller trainer.micro_batch_size"},
                {-5, LVN_MEMORY, "; choose a smaller trainer.micro_batch_size"},
                {-6, LVN_MEMORY, "out of memory on the host"},
                {-36, LVN_IO, "; a training can be resumed from its last checkpoint"}};
    const struct lvn_backend *backend = lvn_backend_find("opencl");
    struct lvn_opencl_device d;
    (void)state;
    lvn_opencl_find(&d, 0);
    d.base.backend = backend;
    lvn_cl.finish = failing_finish;
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        finish_code = ways[k].code;
        assert_int_equal(backend->wait(&d.base), ways[k].status);
        if (!strstr(levin_error_text(), ways[k].cure)) fail_msg("%s", levin_error_text());
        lvn_error_clear();
    }
    finish_code = 0;
    lvn_opencl_release(&d);
}

static void refused(const char *says)
{
    struct lvn_device *d;
    assert_int_equal(lvn_backend_find("opencl")->open(&d, &(struct lvn_device_options){.real = LVN_F32}),
                     LVN_UNSUPPORTED);
    if (!strstr(levin_error_text(), says)) fail_msg("'%s' without '%s'", levin_error_text(), says);
    lvn_error_clear();
    assert_int_equal(held, 0);
}

static void what_is_too_old_or_too_small_is_refused(void **state)
{
    (void)state;
    struct lvn_device *d;
    cl_version = "OpenCL 1.1 old";
    refused("device 11 has OpenCL 1.1, but 1.2 or later is required; install a newer driver (Cards is driver 7), or "
            "set trainer.accelerator to cpu");
    for (int k = 0; k < 2; k++) {
        cl_version = k ? "OpenCL 3.0 NEO" : "OpenCL 1.2 ";
        assert_int_equal(lvn_backend_find("opencl")->open(&d, &(struct lvn_device_options){.real = LVN_F32}), LVN_OK);
        d->backend->close(d);
    }
    group_items = 128;
    refused("device 11 has groups of 128 items and 131072 bytes of local memory, but kernels require 256 and 32768");
    group_items = 1024;
    local_bytes = 16 << 10;
    refused("device 11 has groups of 1024 items and 16384 bytes of local memory");
    local_bytes = 128 << 10;
    cl_version = "";
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_tile_is_a_device, begin),
        cmocka_unit_test_setup(cards_stay_whole_if_requested, begin),
        cmocka_unit_test_setup(a_processor_is_one_device_or_parts, begin),
        cmocka_unit_test_setup(gpus_with_memory_are_preferred_then_intel_gpus, begin),
        cmocka_unit_test_setup(a_platform_is_picked_by_name, begin),
        cmocka_unit_test_setup(a_gpu_allocates_large_buffers, begin),
        cmocka_unit_test_setup(memory_that_is_gone_is_reported, begin),
        cmocka_unit_test_setup(a_failed_computation_is_reported, begin),
        cmocka_unit_test_setup(what_is_too_old_or_too_small_is_refused, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
