/* test_opencl_devices.c - which devices OpenCL has, over a made-up library: a platform with a processor, one with two
 * cards of two tiles each, of which some drivers show the tiles; and what they give out in one piece. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/opencl/device.h"

/* Devices are numbers: 1 a processor, 10 and 20 cards, 11 and 12 the tiles of 10. */
static bool cuttable, has_gpus;
static int held; /* parts that nobody released yet */

static void *device(uintptr_t number)
{
    return (void *)number;
}

static int platforms(uint32_t n, void **out, uint32_t *found)
{
    (void)n;
    out[0] = device(100);
    out[1] = device(200);
    *found = has_gpus ? 2 : 1;
    return CL_SUCCESS;
}

static int platform_info(void *p, uint32_t what, size_t room, void *text, size_t *n)
{
    (void)what, (void)n;
    snprintf(text, room, "%s", p == device(100) ? "Processors" : "Cards");
    return CL_SUCCESS;
}

static int devices(void *p, uint64_t type, uint32_t room, void **out, uint32_t *n)
{
    (void)type, (void)room;
    *n = p == device(100) ? 1 : 2;
    out[0] = p == device(100) ? device(1) : device(10);
    out[1] = device(20);
    return CL_SUCCESS;
}

static int device_info(void *id, uint32_t what, size_t room, void *out, size_t *n)
{
    const bool card = (uintptr_t)id % 10 == 0;
    if (n) *n = 0;
    if (out) memset(out, 0, room);
    if (what == CL_DEVICE_TYPE) *(uint64_t *)out = id == device(1) ? CL_DEVICE_TYPE_CPU : 4;
    if (what == CL_DEVICE_MAX_COMPUTE_UNITS) *(uint32_t *)out = 6;
    if (what == CL_DEVICE_PARTITION_MAX_SUB_DEVICES) *(uint32_t *)out = id == device(1) ? 6 : card && cuttable ? 2 : 0;
    if (what == CL_DEVICE_VENDOR_ID) *(uint32_t *)out = LVN_OPENCL_INTEL;
    if (what == CL_DEVICE_GLOBAL_MEM_SIZE) *(uint64_t *)out = 48ull << 30;
    if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE) *(uint64_t *)out = 4ull << 30;
    if (what == CL_DEVICE_NAME) snprintf(out, room, "device %d", (int)(uintptr_t)id);
    return CL_SUCCESS;
}

static int sub_devices(void *id, const intptr_t *how, uint32_t room, void **out, uint32_t *n)
{
    const bool tiles = how[0] == CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN;
    *n = tiles ? 2 : 6 / (uint32_t)how[1];
    if (tiles != (id != device(1))) return -30;
    assert_true(*n <= room);
    for (uint32_t k = 0; k < *n; k++) out[k] = device((uintptr_t)id + 1 + k);
    held += (int)*n;
    return CL_SUCCESS;
}

static int release_device(void *id)
{
    assert_true((uintptr_t)id % 10);
    held--;
    return CL_SUCCESS;
}

static uint64_t asked_with; /* flags of the last buffer */

static void *buffer(void *context, uint64_t flags, size_t bytes, void *p, int *error)
{
    (void)context, (void)bytes, (void)p;
    asked_with = flags;
    *error = CL_SUCCESS;
    return device(1000);
}

static int fill(void *queue, void *to, const void *what, size_t n, size_t from, size_t bytes, uint32_t events,
                void *wait, void *event)
{
    (void)queue, (void)to, (void)what, (void)n, (void)from, (void)bytes, (void)events, (void)wait, (void)event;
    return CL_SUCCESS;
}

static int release_buffer(void *b)
{
    assert_ptr_equal(b, device(1000));
    return CL_SUCCESS;
}

/* The device of each number, 0 ends them. */
static void expect(const uintptr_t *want)
{
    char own[8][128];
    for (int i = 0, over = 0; !over; i++) {
        struct lvn_opencl_device d;
        lvn_opencl_find(&d, i);
        assert_int_equal((uintptr_t)d.id, want[i]);
        over = !want[i];
        memcpy(own[i], d.own, sizeof d.own);
        for (int k = 0; k < i; k++) assert_string_not_equal(own[i], own[k]);
        assert_int_equal(held, d.part);
        lvn_opencl_leave(&d);
        assert_int_equal(held, 0);
    }
}
#define EXPECT(...) expect((const uintptr_t[]){__VA_ARGS__, 0})

static int begin(void **state)
{
    (void)state;
    lvn_cl.platforms = platforms;
    lvn_cl.platform_info = platform_info;
    lvn_cl.devices = devices;
    lvn_cl.device_info = device_info;
    lvn_cl.sub_devices = sub_devices;
    lvn_cl.release_device = release_device;
    lvn_cl.buffer = buffer;
    lvn_cl.fill = fill;
    lvn_cl.release_buffer = release_buffer;
    cuttable = has_gpus = true;
    unsetenv("ZE_FLAT_DEVICE_HIERARCHY");
    unsetenv("LEVIN_OPENCL_PLATFORM");
    unsetenv("LEVIN_OPENCL_PARTS");
    return 0;
}

static void a_tile_is_a_device(void **state)
{
    (void)state;
    EXPECT(11, 12, 21, 22);
    cuttable = false; /* the driver shows tiles, or the cards have one */
    EXPECT(10, 20);
}

static void cards_stay_whole_where_that_is_asked_for(void **state)
{
    (void)state;
    setenv("ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE", 1);
    EXPECT(10, 20);
    setenv("ZE_FLAT_DEVICE_HIERARCHY", "FLAT", 1);
    EXPECT(11, 12, 21, 22);
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

/* Pieces beyond what a driver gives out by itself: cards are asked in the way that they want, and so are compilers,
 * from then on; processors are not asked. */
static void a_card_gives_out_large_pieces(void **state)
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
        const bool told = strstr(lvn_opencl_options(&d), "-cl-intel-greater-than-4GB-buffer-required");
        assert_int_equal(told, large);
        backend->free(m);
    }
    lvn_opencl_leave(&d);
    has_gpus = false;
    lvn_opencl_find(&d, 0);
    d.base.backend = backend;
    assert_int_equal(backend->alloc(&m, &d.base, 5ll << 30), LVN_MEMORY);
    assert_non_null(strstr(lvn_error_text(), "gives out at most 4.0 GiB in one piece, and 5.0 GiB are wanted"));
    lvn_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_tile_is_a_device, begin),
        cmocka_unit_test_setup(cards_stay_whole_where_that_is_asked_for, begin),
        cmocka_unit_test_setup(a_processor_is_one_device_or_parts, begin),
        cmocka_unit_test_setup(a_platform_is_picked_by_name, begin),
        cmocka_unit_test_setup(a_card_gives_out_large_pieces, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
