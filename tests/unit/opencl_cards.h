/* opencl_cards.h - a fake OpenCL library: a platform with a CPU, one with a GPU of another vendor (if there is one),
 * and one with two GPUs of two tiles each. Some drivers list the tiles as devices. It allocates buffers and programs,
 * and computes nothing. */
#ifndef LVN_OPENCL_CARDS_H
#define LVN_OPENCL_CARDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/opencl/opencl_device.h"

/* Devices are numbers: 1 a processor, 10 and 20 cards, 11 and 12 the tiles of 10, 30 the other vendor's. */
static bool cuttable, has_gpus, has_other_gpu, integrated; /* integrated: the tiles' cards use the host's memory */
static bool not_intel, has_units;                          /* of all devices */
static bool takes_large;                                   /* does their compiler have the option for 256 registers? */
static const char *cl_version = "";
static size_t group_items = 1024, local_bytes = 128 << 10;
static int no_buffer, no_fill; /* errors of allocations */
static int held;               /* sub-devices that are not released yet */

static inline void *device(uintptr_t number)
{
    return (void *)number;
}

static inline int platforms(uint32_t n, void **out, uint32_t *found)
{
    (void)n;
    *found = 0;
    out[(*found)++] = device(100);
    if (has_other_gpu) out[(*found)++] = device(300);
    if (has_gpus) out[(*found)++] = device(200);
    return CL_SUCCESS;
}

static inline int platform_info(void *p, uint32_t what, size_t capacity, void *text, size_t *n)
{
    (void)what, (void)n;
    snprintf(text, capacity, "%s", p == device(100) ? "Processors" : "Cards");
    return CL_SUCCESS;
}

static inline int devices(void *p, uint64_t type, uint32_t capacity, void **out, uint32_t *n)
{
    (void)type, (void)capacity;
    *n = p == device(200) ? 2 : 1;
    out[0] = p == device(100) ? device(1) : p == device(300) ? device(30) : device(10);
    out[1] = device(20);
    return CL_SUCCESS;
}

static inline int device_info(void *id, uint32_t what, size_t capacity, void *out, size_t *n)
{
    const bool is_card = (uintptr_t)id % 10 == 0;
    if (n) *n = 0;
    if (out) memset(out, 0, capacity);
    if (what == CL_DEVICE_TYPE) *(uint64_t *)out = id == device(1) ? CL_DEVICE_TYPE_CPU : 4;
    if (what == CL_DEVICE_MAX_COMPUTE_UNITS) *(uint32_t *)out = 6;
    if (what == CL_DEVICE_PARTITION_MAX_SUB_DEVICES)
        *(uint32_t *)out = id == device(1) ? 6 : is_card && cuttable && id != device(30) ? 2 : 0;
    if (what == CL_DEVICE_VENDOR_ID) *(uint32_t *)out = not_intel || id == device(30) ? 0x1002 : LVN_OPENCL_INTEL;
    if (what == CL_DEVICE_HOST_UNIFIED_MEMORY) *(uint32_t *)out = integrated && id != device(30);
    if (what == CL_DEVICE_GLOBAL_MEM_SIZE) *(uint64_t *)out = 48ull << 30;
    if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE) *(uint64_t *)out = 4ull << 30;
    if (what == CL_DEVICE_NAME) snprintf(out, capacity, "device %d", (int)(uintptr_t)id);
    if (what == CL_DEVICE_MAX_WORK_GROUP_SIZE) *(size_t *)out = group_items;
    if (what == CL_DEVICE_LOCAL_MEM_SIZE) *(uint64_t *)out = local_bytes;
    if (what == CL_DEVICE_VERSION) snprintf(out, capacity, "%s", cl_version);
    if (what == CL_DRIVER_VERSION) snprintf(out, capacity, "driver 7");
    if (what == CL_DEVICE_EXTENSIONS && has_units) {
        static const char name[] = "cl_intel_subgroup_matrix_multiply_accumulate";
        if (out) snprintf(out, capacity, "%s", name);
        if (n) *n = sizeof name;
    }
    if (what == CL_DEVICE_SUB_GROUP_SIZES_INTEL && n) *(size_t *)out = 16, *n = sizeof(size_t);
    return CL_SUCCESS;
}

static inline int sub_devices(void *id, const intptr_t *how, uint32_t capacity, void **out, uint32_t *n)
{
    const bool tiles = how[0] == CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN;
    *n = tiles ? 2 : 6 / (uint32_t)how[1];
    if (tiles != (id != device(1))) return -30;
    assert_true(*n <= capacity);
    for (uint32_t k = 0; k < *n; k++) out[k] = device((uintptr_t)id + 1 + k);
    held += (int)*n;
    return CL_SUCCESS;
}

static inline int release_device(void *id)
{
    assert_true((uintptr_t)id % 10);
    held--;
    return CL_SUCCESS;
}

static uint64_t asked_with; /* flags of the last buffer */

static inline void *buffer(void *context, uint64_t flags, size_t bytes, void *p, int *error)
{
    (void)context, (void)bytes, (void)p;
    asked_with = flags;
    *error = no_buffer;
    return no_buffer ? NULL : device(1000);
}

static inline int fill(void *queue, void *to, const void *what, size_t n, size_t from, size_t bytes, uint32_t events,
                       void *wait, void *event)
{
    (void)queue, (void)to, (void)what, (void)n, (void)from, (void)bytes, (void)events, (void)wait, (void)event;
    return no_fill;
}

static inline int release_buffer(void *b)
{
    assert_ptr_equal(b, device(1000));
    return CL_SUCCESS;
}

/* --- compiling: a program records how it was made and built --- */

struct program {
    bool probe, from_cache;
    char options[200];
};
static int n_probes; /* builds of texts other than an operation's */
static const char large_registers[] = "-cl-intel-256-GRF-per-thread";

static inline void *program(void *context, uint32_t n, const char **text, const size_t *length, int *error)
{
    struct program *p = calloc(1, sizeof *p);
    (void)context, (void)n, (void)length;
    assert_non_null(p);
    p->probe = !strstr(*text, "#define LVN_DEVICE");
    *error = CL_SUCCESS;
    return p;
}

static inline void *program_of_binary(void *context, uint32_t n, void *const *ids, const size_t *bytes,
                                      const unsigned char **binary, int *status, int *error)
{
    struct program *p = calloc(1, sizeof *p);
    (void)context, (void)n, (void)ids, (void)bytes, (void)binary, (void)status;
    assert_non_null(p);
    p->from_cache = true;
    *error = CL_SUCCESS;
    return p;
}

static inline int build(void *of, uint32_t n, void *const *ids, const char *options, void *call, void *data)
{
    struct program *p = of;
    (void)n, (void)ids, (void)call, (void)data;
    snprintf(p->options, sizeof p->options, "%s", options);
    if (p->probe) n_probes++;
    return strstr(options, large_registers) && !takes_large ? -43 : CL_SUCCESS; /* CL_INVALID_BUILD_OPTIONS */
}

static inline int program_info(void *of, uint32_t what, size_t capacity, void *out, size_t *n)
{
    (void)of, (void)capacity, (void)n;
    if (what == CL_PROGRAM_BINARY_SIZES) *(size_t *)out = 1;
    if (what == CL_PROGRAM_BINARIES) **(unsigned char **)out = 7;
    return CL_SUCCESS;
}

static inline int release_program(void *p)
{
    free(p);
    return CL_SUCCESS;
}

static inline void *context(const intptr_t *what, uint32_t n, void *const *ids, void *call, void *data, int *error)
{
    (void)what, (void)n, (void)ids, (void)call, (void)data;
    *error = CL_SUCCESS;
    return device(2000);
}

static inline void *queue(void *c, void *id, uint64_t what, int *error)
{
    (void)c, (void)id, (void)what;
    *error = CL_SUCCESS;
    return device(3000);
}

static inline int done(void *p)
{
    (void)p;
    return CL_SUCCESS;
}

static inline int begin(void **state)
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
    lvn_cl.program = program;
    lvn_cl.program_of_binary = program_of_binary;
    lvn_cl.build = build;
    lvn_cl.program_info = program_info;
    lvn_cl.release_program = release_program;
    lvn_cl.context = context;
    lvn_cl.queue = queue;
    lvn_cl.release_context = lvn_cl.release_queue = lvn_cl.finish = done;
    lvn_library_opencl.state = LVN_LIBRARY_LOADED;
    cuttable = has_gpus = takes_large = true;
    has_units = not_intel = has_other_gpu = integrated = false;
    unsetenv("ZE_FLAT_DEVICE_HIERARCHY");
    unsetenv("LEVIN_OPENCL_PLATFORM");
    unsetenv("LEVIN_OPENCL_PARTS");
    return 0;
}

#endif
