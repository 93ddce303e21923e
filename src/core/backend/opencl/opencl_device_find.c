/* opencl_device_find.c - finds OpenCL devices: the GPUs of one platform, otherwise the first device of all. It prefers
 * GPUs with their own memory, then Intel GPUs, then the first platform. Called by opencl.c to list and to open devices.
 *
 * A tile of an Intel GPU is a device. Drivers present tiles as separate devices, or as cards that can be partitioned
 * into them. Such cards are partitioned here, unless ZE_FLAT_DEVICE_HIERARCHY is COMPOSITE, which requests whole cards.
 * The driver hides devices excluded by ZE_AFFINITY_MASK. LEVIN_OPENCL_PLATFORM selects platforms by a part of their
 * name; LEVIN_OPENCL_PARTS=2 partitions devices without tiles into that many equal parts, so that a CPU can act as
 * several devices.
 *
 * Source: OpenCL 1.2, 4.3 (partitioning a device); Level Zero's specification of the two variables. */

#include "backend/opencl/opencl_device.h"
#include "backend/opencl/programs.h"
#include "base/getenv.h"
#include "base/text.h"

enum { MAX = 64 };

/* --- facts of a device --- */

static const char *device_text(void *id, uint32_t info, char *text, size_t capacity)
{
    if (lvn_cl.device_info(id, info, capacity, text, NULL) != CL_SUCCESS) *text = 0;
    text[capacity - 1] = 0;
    return text;
}

static int64_t device_number(void *id, uint32_t info, size_t bytes)
{
    uint64_t x = 0;
    return lvn_cl.device_info(id, info, bytes, &x, NULL) == CL_SUCCESS ? (int64_t)x : 0;
}

static bool is_intel(void *id)
{
    return device_number(id, CL_DEVICE_VENDOR_ID, 4) == LVN_OPENCL_INTEL;
}

static bool is_in_host_memory(void *id)
{
    return device_number(id, CL_DEVICE_HOST_UNIFIED_MEMORY, 4) != 0;
}

static bool has_extension(void *id, const char *name)
{
    size_t n = 0;
    if (lvn_cl.device_info(id, CL_DEVICE_EXTENSIONS, 0, NULL, &n) != CL_SUCCESS || !n) return false;
    char *all = lvn_calloc(n + 1, 1);
    bool has = all && lvn_cl.device_info(id, CL_DEVICE_EXTENSIONS, n, all, NULL) == CL_SUCCESS && strstr(all, name);
    free(all);
    return has;
}

/* Matrix instructions use the smallest sub-group size. */
static int matrix_of(void *id)
{
    enum { SIZES = 16 };
    size_t sizes[SIZES], bytes = 0;
    if (!has_extension(id, "cl_intel_subgroup_matrix_multiply_accumulate")) return 0;
    if (lvn_cl.device_info(id, CL_DEVICE_SUB_GROUP_SIZES_INTEL, sizeof sizes, sizes, &bytes) != CL_SUCCESS) return 0;
    size_t min = 0;
    for (size_t k = 0; k < bytes / sizeof *sizes; k++)
        if (!min || sizes[k] < min) min = sizes[k];
    return min == 8 || min == 16 ? (int)min : 0;
}

static void query(struct lvn_opencl_device *d, void *platform, void *id)
{
    *d = (struct lvn_opencl_device){.id = id};
    device_text(id, CL_DEVICE_NAME, d->name, sizeof d->name);
    device_text(id, CL_DRIVER_VERSION, d->driver, sizeof d->driver);
    device_text(id, CL_DEVICE_VERSION, d->version, sizeof d->version);
    if (lvn_cl.platform_info(platform, CL_PLATFORM_NAME, sizeof d->platform - 1, d->platform, NULL) != CL_SUCCESS)
        *d->platform = 0;
    d->memory = device_number(id, CL_DEVICE_GLOBAL_MEM_SIZE, 8);
    d->largest = device_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 8);
    d->local = device_number(id, CL_DEVICE_LOCAL_MEM_SIZE, 8);
    d->cpu = device_number(id, CL_DEVICE_TYPE, 8) & CL_DEVICE_TYPE_CPU;
    d->intel = is_intel(id);
    d->has_double = has_extension(id, "cl_khr_fp64");
    d->matrix = matrix_of(id);
    d->shares_memory = d->cpu || is_in_host_memory(id);
    d->matrix_units = lvn_opencl_prelude ? lvn_opencl_prelude_units : d->matrix == 16;
    d->can_pass_limit = d->intel && !d->cpu && d->largest < d->memory;
    d->divides_exactly = device_number(id, CL_DEVICE_SINGLE_FP_CONFIG, 8) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
}

/* Set its UUID, if it has one, otherwise its index among the devices that this process sees. With a mask, a tile may
 * report its card's UUID. */
static void set_unique_id(struct lvn_opencl_device *d, uint32_t root, uint32_t sub_device)
{
    unsigned char uuid[16];
    const char *mask = getenv("ZE_AFFINITY_MASK");
    char hex[33] = "";
    if (has_extension(d->id, "cl_khr_device_uuid") &&
        lvn_cl.device_info(d->id, CL_DEVICE_UUID, sizeof uuid, uuid, NULL) == CL_SUCCESS)
        lvn_hex_text(uuid, sizeof uuid, hex);
    if (*hex)
        snprintf(d->unique_id, sizeof d->unique_id, "%s.%u %.40s", hex, sub_device, mask ? mask : "");
    else
        snprintf(d->unique_id, sizeof d->unique_id, "%.60s %u.%u %.40s", d->platform, root, sub_device,
                 mask ? mask : "");
}

/* --- partitions --- */

static int64_t requested_parts(void)
{
    const char *text = lvn_getenv("LEVIN_OPENCL_PARTS");
    return text ? strtoll(text, NULL, 10) : 0;
}

/* Partition a device into its tiles, or by LEVIN_OPENCL_PARTS. Returns the number of parts; 1: it stays whole,
 * and sub_devices[0] is the device itself. */
static uint32_t partition_device(void *id, void *sub_devices[MAX])
{
    const char *hierarchy = getenv("ZE_FLAT_DEVICE_HIERARCHY");
    const bool whole = hierarchy && !strcmp(hierarchy, "COMPOSITE");
    const bool gpu = !(device_number(id, CL_DEVICE_TYPE, 8) & CL_DEVICE_TYPE_CPU);
    const int64_t parts = requested_parts(), units = device_number(id, CL_DEVICE_MAX_COMPUTE_UNITS, 4);
    const intptr_t tiles[] = {CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN, CL_DEVICE_AFFINITY_DOMAIN_NEXT_PARTITIONABLE, 0};
    const intptr_t equal[] = {CL_DEVICE_PARTITION_EQUALLY, parts > 1 ? units / parts : 0, 0};
    const intptr_t *partition = gpu && !whole ? tiles : parts > 1 && units / parts >= 1 ? equal : NULL;
    uint32_t n = 0;
    sub_devices[0] = id;
    if (!partition || device_number(id, CL_DEVICE_PARTITION_MAX_SUB_DEVICES, 4) < 2) return 1;
    if (lvn_cl.sub_devices(id, partition, MAX, sub_devices, &n) == CL_SUCCESS && n > 0) return n < MAX ? n : MAX;
    sub_devices[0] = id;
    return 1;
}

/* Open sub-device *at of device `root`. False: the device has fewer, and *at is reduced by their number. */
static bool find_sub_device(struct lvn_opencl_device *d, void *platform, void *id, uint32_t root, int *at)
{
    void *sub_devices[MAX];
    const uint32_t n = partition_device(id, sub_devices), mine = (uint32_t)*at;
    const bool here = mine < n, is_sub_device = sub_devices[0] != id;
    for (uint32_t k = 0; k < n && is_sub_device; k++)
        if (k != mine) lvn_cl.release_device(sub_devices[k]);
    if (!here) {
        *at -= (int)n;
        return false;
    }
    query(d, platform, sub_devices[mine]);
    d->is_sub_device = is_sub_device;
    set_unique_id(d, root, mine);
    return true;
}

void lvn_opencl_release(struct lvn_opencl_device *d)
{
    if (d->is_sub_device) lvn_cl.release_device(d->id);
    d->is_sub_device = false;
}

/* --- all devices --- */

/* The devices of a platform, GPUs first; returns their number and sets *gpus to the number of GPUs. */
static uint32_t list(void *platform, void *ids[MAX], uint32_t *gpus)
{
    void *all[MAX];
    uint32_t n = 0, at = 0;
    *gpus = 0;
    if (lvn_cl.devices(platform, ~0u, MAX, all, &n) != CL_SUCCESS) return 0;
    if (n > MAX) n = MAX;
    for (uint32_t k = 0; k < n; k++)
        if (!(device_number(all[k], CL_DEVICE_TYPE, 8) & CL_DEVICE_TYPE_CPU)) ids[at++] = all[k], ++*gpus;
    for (uint32_t k = 0; k < n; k++)
        if (device_number(all[k], CL_DEVICE_TYPE, 8) & CL_DEVICE_TYPE_CPU) ids[at++] = all[k];
    return n;
}

int lvn_opencl_find(struct lvn_opencl_device *d, int number)
{
    void *platforms[MAX], *ids[MAX], *best[MAX], *platform = NULL;
    uint32_t n = 0, devices = 0, gpus;
    int taken = 0, best_kind = 0;
    const char *name_part = lvn_getenv("LEVIN_OPENCL_PLATFORM");
    *d = (struct lvn_opencl_device){0};
    if (lvn_cl.platforms(MAX, platforms, &n) != CL_SUCCESS) n = 0;
    for (uint32_t p = 0; p < n && p < MAX; p++) {
        char name[128] = "";
        if (lvn_cl.platform_info(platforms[p], CL_PLATFORM_NAME, sizeof name - 1, name, NULL) != CL_SUCCESS) continue;
        if (name_part && !strstr(name, name_part)) continue;
        taken++;
        uint32_t n_devices = list(platforms[p], ids, &gpus);
        const int kind = !n_devices ? 0 : !gpus ? 1 : 2 + is_intel(ids[0]) + 2 * !is_in_host_memory(ids[0]);
        if (kind <= best_kind) continue;
        platform = platforms[p];
        best_kind = kind;
        devices = gpus ? gpus : 1;
        memcpy(best, ids, sizeof *ids * devices);
    }
    for (uint32_t k = 0; k < devices; k++)
        if (find_sub_device(d, platform, best[k], k, &number)) break;
    return taken;
}

enum lvn_status lvn_opencl_check(const struct lvn_opencl_device *d, int taken)
{
    const char *name_part = lvn_getenv("LEVIN_OPENCL_PLATFORM");
    LVN_CHECK(taken || !name_part, UNSUPPORTED,
              "LEVIN_OPENCL_PLATFORM is '%s', but no OpenCL platform has this in its name; `levin doctor` lists them",
              name_part);
    LVN_CHECK(d->id, UNSUPPORTED,
              "trainer.accelerator opencl found no device (%d platform%s); install the driver of the device (Intel: "
              "intel-opencl-icd), or set trainer.accelerator to cpu",
              taken, lvn_plural(taken));
    int major, minor;
    LVN_CHECK(sscanf(d->version, "OpenCL %d.%d", &major, &minor) != 2 || major > 1 || minor >= 2, UNSUPPORTED,
              "%s has OpenCL %d.%d, but 1.2 or later is required; install a newer driver (%s is %s), or set "
              "trainer.accelerator to cpu",
              d->name, major, minor, d->platform, d->driver);
    int64_t items = device_number(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t));
    LVN_CHECK(items >= LVN_ITEMS && d->local >= 32 << 10, UNSUPPORTED,
              "%s has groups of %lld items and %lld bytes of local memory, but kernels require %d and %d; set "
              "trainer.accelerator to cpu",
              d->name, (long long)items, (long long)d->local, LVN_ITEMS, 32 << 10);
    return LVN_OK;
}
