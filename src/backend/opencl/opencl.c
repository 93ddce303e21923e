/* opencl.c - any device with OpenCL 1.2 or later as a backend: Intel's GPUs, and CPUs, on which kernels are tested.
 *
 * A device is the first GPU, or else the first device at all; LEVIN_OPENCL_PLATFORM picks a platform by a part of its
 * name. One queue works in order. Memory is one buffer each: where that is more than the device allows in one piece,
 * it is refused. Kernels and launches: programs.c; what they share with CUDA: backend/gpu.
 *
 * Left out: buffers in several pieces, sub-devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device.h"
#include "base/text.h"

extern const struct lvn_backend lvn_backend_opencl;

/* --- choosing a device --- */

static const char *device_text(void *id, uint32_t what, char *text, size_t room)
{
    if (lvn_cl.device_info(id, what, room, text, NULL) != CL_SUCCESS) *text = 0;
    text[room - 1] = 0;
    return text;
}

static int64_t device_number(void *id, uint32_t what, size_t bytes)
{
    uint64_t x = 0;
    return lvn_cl.device_info(id, what, bytes, &x, NULL) == CL_SUCCESS ? (int64_t)x : 0;
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

/* The smallest of its sub-groups multiplies. */
static int matrix_of(void *id)
{
    enum { MOST = 16 };
    size_t sizes[MOST], bytes = 0;
    if (!has_extension(id, "cl_intel_subgroup_matrix_multiply_accumulate")) return 0;
    if (lvn_cl.device_info(id, CL_DEVICE_SUB_GROUP_SIZES_INTEL, sizeof sizes, sizes, &bytes) != CL_SUCCESS) return 0;
    size_t least = 0;
    for (size_t k = 0; k < bytes / sizeof *sizes; k++)
        if (!least || sizes[k] < least) least = sizes[k];
    return least == 8 || least == 16 ? (int)least : 0;
}

static void ask(struct lvn_opencl_device *d, void *platform, void *id)
{
    *d = (struct lvn_opencl_device){.id = id, .base.backend = &lvn_backend_opencl, .base.threads = 1};
    device_text(id, CL_DEVICE_NAME, d->name, sizeof d->name);
    device_text(id, CL_DRIVER_VERSION, d->driver, sizeof d->driver);
    device_text(id, CL_DEVICE_VERSION, d->version, sizeof d->version);
    if (lvn_cl.platform_info(platform, CL_PLATFORM_NAME, sizeof d->platform - 1, d->platform, NULL) != CL_SUCCESS)
        *d->platform = 0;
    d->memory = device_number(id, CL_DEVICE_GLOBAL_MEM_SIZE, 8);
    d->largest = device_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 8);
    d->cpu = device_number(id, CL_DEVICE_TYPE, 8) & CL_DEVICE_TYPE_CPU;
    d->has_double = has_extension(id, "cl_khr_fp64");
    d->matrix = matrix_of(id);
    d->divides_exactly = device_number(id, CL_DEVICE_SINGLE_FP_CONFIG, 8) & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
}

/* The first GPU of all platforms, or the first of all devices; d->id is NULL where there is none. `taken` counts
 * platforms, `wanted` is a part of the name of those that count. */
static void find_device(struct lvn_opencl_device *d, const char *wanted, int *taken)
{
    enum { MOST = 32 };
    void *platforms[MOST], *ids[MOST];
    uint32_t n = 0;
    *taken = 0;
    if (lvn_cl.platforms(MOST, platforms, &n) != CL_SUCCESS) n = 0;
    for (uint32_t p = 0; p < n && p < MOST; p++) {
        uint32_t devices = 0;
        char name[128] = "";
        if (lvn_cl.platform_info(platforms[p], CL_PLATFORM_NAME, sizeof name - 1, name, NULL) != CL_SUCCESS) continue;
        if (wanted && !strstr(name, wanted)) continue;
        ++*taken;
        if (lvn_cl.devices(platforms[p], ~0u, MOST, ids, &devices) != CL_SUCCESS) continue;
        for (uint32_t k = 0; k < devices && k < MOST; k++) {
            struct lvn_opencl_device one;
            ask(&one, platforms[p], ids[k]);
            if (!d->id || (d->cpu && !one.cpu)) *d = one;
        }
    }
}

static enum lvn_status check_device(const struct lvn_opencl_device *d, const char *wanted, int taken)
{
    LVN_CHECK(
        taken || !wanted, UNSUPPORTED,
        "LEVIN_OPENCL_PLATFORM is '%s', and no platform of OpenCL has that in its name: `levin doctor` lists them",
        wanted);
    LVN_CHECK(d->id, UNSUPPORTED,
              "trainer.accelerator opencl found no device (%d platform%s): install the driver of the device (Intel: "
              "intel-opencl-icd), or set trainer.accelerator to cpu",
              taken, taken == 1 ? "" : "s");
    int64_t items = device_number(d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t));
    int64_t local = device_number(d->id, CL_DEVICE_LOCAL_MEM_SIZE, 8);
    LVN_CHECK(items >= LVN_ITEMS && local >= 32 << 10, UNSUPPORTED,
              "%s has groups of %lld items and %lld bytes of local memory, and kernels need %d and %d: set "
              "trainer.accelerator to cpu",
              d->name, (long long)items, (long long)local, LVN_ITEMS, 32 << 10);
    return LVN_OK;
}

static void close_device(struct lvn_device *base)
{
    struct lvn_opencl_device *d = (struct lvn_opencl_device *)base;
    if (d->queue) lvn_cl.finish(d->queue);
    lvn_opencl_texts_free(d);
    if (d->queue) lvn_cl.release_queue(d->queue);
    if (d->context) lvn_cl.release_context(d->context);
    free(d);
}

static enum lvn_status connect(struct lvn_opencl_device *d)
{
    int error;
    d->context = lvn_cl.context(NULL, 1, &d->id, NULL, NULL, &error);
    LVN_CHECK(d->context, UNSUPPORTED, "%s (%s) cannot be opened: %s", d->name, d->platform, lvn_cl_error(error));
    d->queue = lvn_cl.queue(d->context, d->id, 0, &error);
    LVN_CHECK(d->queue, UNSUPPORTED, "%s (%s) gives no queue: %s", d->name, d->platform, lvn_cl_error(error));
    return LVN_OK;
}

static bool describe(int i, struct lvn_device_facts *f)
{
    const char *wanted = getenv("LEVIN_OPENCL_PLATFORM");
    struct lvn_opencl_device d = {0};
    int taken;
    if (i > 0 || lvn_library_open(&lvn_library_opencl) != LVN_OK) return lvn_error_clear(), false;
    find_device(&d, wanted && *wanted ? wanted : NULL, &taken);
    *f = (struct lvn_device_facts){.memory = d.memory, .gpu = !d.cpu};
    memcpy(f->name, d.name, sizeof f->name);
    memcpy(f->driver, d.driver, sizeof f->driver);
    return d.id;
}

static enum lvn_status open_device(struct lvn_device **out, const struct lvn_device_options *o)
{
    const char *wanted = getenv("LEVIN_OPENCL_PLATFORM");
    int taken;
    *out = NULL;
    LVN_CHECK(o->real == LVN_F32, UNSUPPORTED,
              "opencl computes in fp32, not in %s: set trainer.accelerator to reference", lvn_dtype_name(o->real));
    LVN_TRY(lvn_library_open(&lvn_library_opencl));
    struct lvn_opencl_device *d = lvn_calloc(1, sizeof *d);
    if (!d) return LVN_MEMORY;
    find_device(d, wanted && *wanted ? wanted : NULL, &taken);
    d->base.real = LVN_F32;
    enum lvn_status status = check_device(d, wanted && *wanted ? wanted : NULL, taken);
    if (status == LVN_OK) status = connect(d);
    if (status != LVN_OK)
        close_device(&d->base);
    else
        *out = &d->base;
    return status;
}

/* --- memory --- */

static struct lvn_opencl_device *device_of(const struct lvn_memory *m)
{
    return (struct lvn_opencl_device *)m->device;
}

static void free_memory(struct lvn_memory *m)
{
    if (lvn_opencl_buffer(m)) lvn_cl.release_buffer(lvn_opencl_buffer(m));
    free(m);
}

static enum lvn_status no_room(const struct lvn_opencl_device *d, int64_t bytes, int error)
{
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT];
    LVN_FAIL(MEMORY, "%s has no room for %s (it has %s in all): %s; a smaller trainer.micro_batch_size takes less",
             d->name, lvn_bytes_text(bytes, a), lvn_bytes_text(d->memory, b), lvn_cl_error(error));
}

static enum lvn_status alloc_memory(struct lvn_memory **out, struct lvn_device *base, int64_t bytes)
{
    struct lvn_opencl_device *d = (struct lvn_opencl_device *)base;
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT];
    const uint32_t zero = 0;
    int error;
    *out = NULL;
    LVN_CHECK(bytes <= d->largest, MEMORY,
              "%s gives out at most %s in one piece, and %s are wanted: a smaller trainer.micro_batch_size or "
              "model takes less",
              d->name, lvn_bytes_text(d->largest, a), lvn_bytes_text(bytes, b));
    struct lvn_opencl_memory *m = lvn_calloc(1, sizeof *m);
    if (!m) return LVN_MEMORY;
    size_t whole = ((size_t)bytes + 63) / 64 * 64;
    m->base = (struct lvn_memory){.device = base, .bytes = bytes};
    m->buffer = lvn_cl.buffer(d->context, CL_MEM_READ_WRITE, whole, NULL, &error);
    if (m->buffer) error = lvn_cl.fill(d->queue, m->buffer, &zero, sizeof zero, 0, whole, 0, NULL, NULL);
    if (m->buffer && error == CL_SUCCESS) {
        *out = &m->base;
        return LVN_OK;
    }
    free_memory(&m->base);
    return no_room(d, bytes, error);
}

/* Small ones are copied: the step's numbers go out while the device is at work. */
static enum lvn_status write_memory(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes)
{
    struct lvn_opencl_device *d = device_of(to);
    bool small = bytes <= LVN_OPENCL_SMALL;
    int error = CL_SUCCESS;
    if (small) {
        if (d->n_small == LVN_OPENCL_WRITES) error = lvn_cl.finish(d->queue), d->n_small = 0;
        from = memcpy(d->small[d->n_small++], from, (size_t)bytes);
    }
    if (error == CL_SUCCESS)
        error =
            lvn_cl.write(d->queue, lvn_opencl_buffer(to), !small, (size_t)offset, (size_t)bytes, from, 0, NULL, NULL);
    LVN_CHECK(error == CL_SUCCESS, IO, "writing %lld bytes to %s failed: %s", (long long)bytes, d->name,
              lvn_cl_error(error));
    return LVN_OK;
}

static enum lvn_status read_memory(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes)
{
    struct lvn_opencl_device *d = device_of(from);
    int error = lvn_cl.read(d->queue, lvn_opencl_buffer(from), 1, (size_t)offset, (size_t)bytes, to, 0, NULL, NULL);
    LVN_CHECK(error == CL_SUCCESS, IO, "reading %lld bytes from %s failed: %s", (long long)bytes, d->name,
              lvn_cl_error(error));
    return LVN_OK;
}

static enum lvn_status wait(struct lvn_device *base)
{
    struct lvn_opencl_device *d = (struct lvn_opencl_device *)base;
    int error = lvn_cl.finish(d->queue);
    LVN_CHECK(error == CL_SUCCESS, IO, "%s failed in what it was computing: %s", d->name, lvn_cl_error(error));
    return LVN_OK;
}

/* --- programs --- */

static enum lvn_status choose(const struct lvn_device *d, struct lvn_instr *i, int64_t *scratch)
{
    (void)d;
    return lvn_gpu_choose("opencl", i, scratch);
}

static enum lvn_status bind(struct lvn_bound **out, const struct lvn_program *p, const struct lvn_binding *b)
{
    return lvn_gpu_bind(out, p, b, &lvn_opencl_driver);
}

const struct lvn_backend lvn_backend_opencl = {.name = "opencl",
                                               .what = "devices with OpenCL 1.2 or later: Intel's GPUs, and CPUs",
                                               .computes = true,
                                               .describe = describe,
                                               .open = open_device,
                                               .close = close_device,
                                               .alloc = alloc_memory,
                                               .free = free_memory,
                                               .write = write_memory,
                                               .read = read_memory,
                                               .choose = choose,
                                               .bind = bind,
                                               .unbind = lvn_gpu_unbind,
                                               .run = lvn_gpu_run,
                                               .wait = wait};
