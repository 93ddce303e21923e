/* opencl.c - the backend `opencl`: devices with OpenCL 1.2 or later. These are Intel GPUs, and CPUs, on which the
 * kernels are tested.
 *
 * One queue runs programs in order. Snapshots (for checkpoints) are read through a second queue; double-buffered memory
 * (for batches) is written through a third one, to a staging buffer, from which it is copied before the next run. Each
 * memory is one buffer. If it exceeds the device's limit for one allocation, an Intel GPU allocates it nevertheless
 * with an option (ALLOCATIONS_GREATER_THAN_4GB.md of its compute runtime), and others refuse. See opencl_device_find.c
 * for finding devices, programs.c for kernels and launches, and backend/gpu for the part shared with CUDA. */
#include <glob.h>

#include "backend/opencl/opencl_device.h"
#include "backend/opencl/programs.h"
#include "base/text.h"

extern const struct lvn_backend lvn_backend_opencl;

/* --- the device --- */

static void close_device(struct lvn_device *base)
{
    struct lvn_opencl_device *d = (struct lvn_opencl_device *)base;
    if (d->queue) lvn_cl.finish(d->queue);
    lvn_opencl_programs_free(d);
    if (d->snapshot_event) lvn_cl.release_event(d->snapshot_event);
    if (d->copy_queue) lvn_cl.release_queue(d->copy_queue);
    if (d->snapshot_queue) lvn_cl.release_queue(d->snapshot_queue);
    if (d->queue) lvn_cl.release_queue(d->queue);
    if (d->context) lvn_cl.release_context(d->context);
    lvn_opencl_release(d);
    free(d);
}

static enum lvn_status make_queue(const struct lvn_opencl_device *d, void **queue)
{
    int error = CL_SUCCESS;
    if (!*queue) *queue = lvn_cl.queue(d->context, d->id, 0, &error);
    LVN_CHECK(*queue, UNSUPPORTED, "%s (%s): cannot create a queue: %s", d->name, d->platform, lvn_cl_error(error));
    return LVN_OK;
}

static enum lvn_status open_context(struct lvn_opencl_device *d)
{
    int error;
    d->context = lvn_cl.context(NULL, 1, &d->id, NULL, NULL, &error);
    LVN_CHECK(d->context, UNSUPPORTED, "%s (%s) cannot be opened: %s", d->name, d->platform, lvn_cl_error(error));
    lvn_opencl_probe_options(d);
    return make_queue(d, &d->queue);
}

/* Does the system have an Intel GPU? If not, `auto` does not load OpenCL, whose platforms may need a second to start.
 */
static bool intel_gpu_is_here(void)
{
    glob_t found;
    bool here = false;
    if (glob("/sys/class/drm/renderD*/device/vendor", 0, NULL, &found)) return false;
    for (size_t i = 0; i < found.gl_pathc && !here; i++) {
        char vendor[16] = "";
        FILE *f = fopen(found.gl_pathv[i], "r");
        here = f && fgets(vendor, sizeof vendor, f) && strtol(vendor, NULL, 16) == LVN_OPENCL_INTEL;
        if (f) fclose(f);
    }
    globfree(&found);
    return here;
}

static bool describe(int i, struct lvn_device_facts *f)
{
    struct lvn_opencl_device d;
    if (lvn_library_open(&lvn_library_opencl) != LVN_OK) {
        lvn_error_clear();
        return false;
    }
    lvn_opencl_find(&d, i);
    *f = (struct lvn_device_facts){.memory = d.memory, .gpu = !d.cpu, .xpu = !d.cpu && d.intel};
    memcpy(f->name, d.name, sizeof f->name);
    memcpy(f->driver, d.driver, sizeof f->driver);
    memcpy(f->id, d.unique_id, sizeof f->id);
    lvn_opencl_release(&d);
    return d.id;
}

static enum lvn_status open_device(struct lvn_device **out, const struct lvn_device_options *o)
{
    *out = NULL;
    LVN_CHECK(o->real == LVN_F32, UNSUPPORTED,
              "opencl computes in fp32, not in %s; set trainer.accelerator to reference", lvn_dtype_name(o->real));
    LVN_TRY(lvn_library_open(&lvn_library_opencl));
    struct lvn_opencl_device *d = lvn_calloc(1, sizeof *d);
    if (!d) return LVN_MEMORY;
    int platforms = lvn_opencl_find(d, o->number);
    d->base = (struct lvn_device){.backend = &lvn_backend_opencl, .real = LVN_F32, .threads = 1};
    enum lvn_status status = lvn_opencl_check(d, platforms);
    if (status == LVN_OK) status = open_context(d);
    if (!d->shares_memory) d->base.memory_bytes = d->memory - lvn_backend_reserve(&lvn_backend_opencl, d->memory);
    if (status != LVN_OK)
        close_device(&d->base);
    else
        *out = &d->base;
    return status;
}

static enum lvn_status wait(struct lvn_device *base)
{
    struct lvn_opencl_device *d = (struct lvn_opencl_device *)base;
    int error = lvn_cl.finish(d->queue);
    if (error == CL_SUCCESS) return LVN_OK;
    return lvn_fail(lvn_cl_status(error), "a computation on %s failed: %s%s", d->name, lvn_cl_error(error),
                    lvn_cl_cure(error));
}

/* Record an event after all calls so far of the main queue. Only events order other queues after it, even after a wait.
 */
static enum lvn_status record_event(const struct lvn_opencl_device *d, void **event)
{
    if (*event) lvn_cl.release_event(*event);
    *event = NULL;
    int error = lvn_cl.marker(d->queue, 0, NULL, event);
    if (error == CL_SUCCESS) error = lvn_cl.flush(d->queue);
    LVN_CHECK(error == CL_SUCCESS, IO, "%s: cannot create an event: %s", d->name, lvn_cl_error(error));
    return LVN_OK;
}

/* --- memory --- */

static struct lvn_opencl_device *device_of(const struct lvn_memory *m)
{
    return (struct lvn_opencl_device *)m->device;
}

static void free_memory(struct lvn_memory *base)
{
    struct lvn_opencl_memory *m = (struct lvn_opencl_memory *)base;
    struct lvn_opencl_memory **at = &device_of(base)->double_buffered;
    while (*at && *at != m) at = &(*at)->next;
    if (*at) *at = m->next;
    if (m->moved) lvn_cl.release_event(m->moved);
    if (m->sent) lvn_cl.release_event(m->sent);
    if (m->staging) lvn_cl.release_buffer(m->staging);
    if (m->buffer) lvn_cl.release_buffer(m->buffer);
    free(m);
}

static enum lvn_status no_capacity(const struct lvn_opencl_device *d, int64_t bytes, int error)
{
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT];
    LVN_FAIL(MEMORY,
             "%s cannot allocate %s (it has %s in total): %s; choose a smaller trainer.micro_batch_size, or end other "
             "programs that use the device",
             d->name, lvn_bytes_text(bytes, a), lvn_bytes_text(d->memory, b), lvn_cl_error(error));
}

/* A zeroed buffer; NULL: it failed and recorded the error. */
static void *new_buffer(struct lvn_opencl_device *d, int64_t bytes)
{
    char a[LVN_NUMBER_TEXT], b[LVN_NUMBER_TEXT];
    const uint32_t zero = 0;
    const size_t whole = ((size_t)bytes + 63) / 64 * 64;
    int error;
    if (bytes > d->largest && !d->can_pass_limit) {
        (void)lvn_fail(
            LVN_MEMORY,
            "%s allocates at most %s per buffer, and %s is needed; choose a smaller trainer.micro_batch_size or "
            "model",
            d->name, lvn_bytes_text(d->largest, a), lvn_bytes_text(bytes, b));
        return NULL;
    }
    const bool past_limit = bytes > d->largest;
    const uint64_t flags = CL_MEM_READ_WRITE | (past_limit ? CL_MEM_ALLOW_UNRESTRICTED_SIZE_INTEL : 0);
    d->past_limit = d->past_limit || past_limit;
    void *buffer = lvn_cl.buffer(d->context, flags, whole, NULL, &error);
    if (buffer) error = lvn_cl.fill(d->queue, buffer, &zero, sizeof zero, 0, whole, 0, NULL, NULL);
    if (buffer && error == CL_SUCCESS) return buffer;
    if (buffer) lvn_cl.release_buffer(buffer);
    (void)no_capacity(d, bytes, error);
    return NULL;
}

static enum lvn_status alloc_memory(struct lvn_memory **out, struct lvn_device *base, int64_t bytes)
{
    struct lvn_opencl_memory *m = lvn_calloc(1, sizeof *m);
    *out = NULL;
    if (!m) return LVN_MEMORY;
    m->base = (struct lvn_memory){.device = base, .bytes = bytes};
    m->buffer = new_buffer((struct lvn_opencl_device *)base, bytes);
    if (m->buffer) *out = &m->base;
    if (!m->buffer) free_memory(&m->base);
    return *out ? LVN_OK : LVN_MEMORY;
}

/* --- writing and reading --- */

static enum lvn_status make_double_buffered(struct lvn_memory *base)
{
    struct lvn_opencl_memory *m = (struct lvn_opencl_memory *)base;
    struct lvn_opencl_device *d = device_of(base);
    if (m->staging) return LVN_OK;
    LVN_TRY(make_queue(d, &d->copy_queue));
    m->staging = new_buffer(d, base->bytes);
    if (!m->staging) return LVN_MEMORY;
    m->next = d->double_buffered;
    d->double_buffered = m;
    return record_event(d, &m->moved); /* orders its zeroing before the first write */
}

/* Write to the staging buffer, after its previous contents have been copied out. The caller may reuse `from` on return.
 */
static int send(const struct lvn_opencl_device *d, struct lvn_opencl_memory *m, int64_t offset, const void *from,
                int64_t bytes)
{
    const bool more = m->to > m->from;
    m->from = more && m->from < offset ? m->from : offset;
    m->to = more && m->to > offset + bytes ? m->to : offset + bytes;
    if (m->sent) lvn_cl.release_event(m->sent);
    m->sent = NULL;
    return lvn_cl.write(d->copy_queue, m->staging, 1, (size_t)offset, (size_t)bytes, from, m->moved != NULL,
                        m->moved ? &m->moved : NULL, &m->sent);
}

/* Copy staged writes to their buffers, before anything launched later. */
static enum lvn_status commit_writes(const struct lvn_opencl_device *d)
{
    int error = CL_SUCCESS;
    bool any = false;
    for (struct lvn_opencl_memory *m = d->double_buffered; m && error == CL_SUCCESS; m = m->next) {
        if (m->to == m->from) continue;
        if (m->moved) lvn_cl.release_event(m->moved);
        m->moved = NULL;
        error = lvn_cl.copy(d->queue, m->staging, m->buffer, (size_t)m->from, (size_t)m->from,
                            (size_t)(m->to - m->from), 1, &m->sent, &m->moved);
        m->from = m->to = 0;
        any = true;
    }
    if (any && error == CL_SUCCESS) error = lvn_cl.flush(d->queue); /* the copy queue waits for the event */
    LVN_CHECK(error == CL_SUCCESS, IO, "copying a batch on %s failed: %s", d->name, lvn_cl_error(error));
    return LVN_OK;
}

/* Small writes are copied, so that struct lvn_step is sent while the device is busy. */
static enum lvn_status write_memory(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes)
{
    struct lvn_opencl_device *d = device_of(to);
    struct lvn_opencl_memory *m = (struct lvn_opencl_memory *)to;
    bool small = bytes <= LVN_OPENCL_SMALL && !m->staging;
    int error = CL_SUCCESS;
    if (m->staging) error = send(d, m, offset, from, bytes);
    if (small) {
        if (d->n_small == LVN_OPENCL_WRITES) error = lvn_cl.finish(d->queue), d->n_small = 0;
        from = memcpy(d->small[d->n_small++], from, (size_t)bytes);
    }
    if (error == CL_SUCCESS && !m->staging)
        error =
            lvn_cl.write(d->queue, lvn_opencl_buffer(to), !small, (size_t)offset, (size_t)bytes, from, 0, NULL, NULL);
    LVN_CHECK(error == CL_SUCCESS, IO, "writing %lld bytes to %s failed: %s", (long long)bytes, d->name,
              lvn_cl_error(error));
    return LVN_OK;
}

static enum lvn_status read_memory(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes)
{
    struct lvn_opencl_device *d = device_of(from);
    LVN_TRY(commit_writes(d));
    int error = lvn_cl.read(d->queue, lvn_opencl_buffer(from), 1, (size_t)offset, (size_t)bytes, to, 0, NULL, NULL);
    LVN_CHECK(error == CL_SUCCESS, IO, "reading %lld bytes from %s failed: %s", (long long)bytes, d->name,
              lvn_cl_error(error));
    return LVN_OK;
}

static enum lvn_status take_snapshot(struct lvn_device *base)
{
    struct lvn_opencl_device *d = (struct lvn_opencl_device *)base;
    LVN_TRY(make_queue(d, &d->snapshot_queue));
    return record_event(d, &d->snapshot_event);
}

static enum lvn_status read_snapshot(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes)
{
    struct lvn_opencl_device *d = device_of(from);
    int error = lvn_cl.read(d->snapshot_queue, lvn_opencl_buffer(from), 1, (size_t)offset, (size_t)bytes, to, 1,
                            &d->snapshot_event, NULL);
    LVN_CHECK(error == CL_SUCCESS, IO, "copying %lld bytes from %s for a checkpoint failed: %s", (long long)bytes,
              d->name, lvn_cl_error(error));
    return LVN_OK;
}

/* --- programs --- */

static enum lvn_status choose(const struct lvn_device *d, struct lvn_instr *i, int64_t *scratch)
{
    return lvn_gpu_choose("opencl", i, scratch, NULL, d && ((const struct lvn_opencl_device *)d)->matrix_units);
}

static enum lvn_status bind(struct lvn_bound **out, const struct lvn_program *p, const struct lvn_binding *b)
{
    return lvn_gpu_bind(out, p, b, &lvn_opencl_driver, NULL,
                        ((const struct lvn_opencl_device *)p->device)->matrix_units);
}

static enum lvn_status run(struct lvn_bound *b, const struct lvn_execution *execution)
{
    LVN_TRY(commit_writes((const struct lvn_opencl_device *)b->device));
    return lvn_gpu_run(b, execution);
}

const struct lvn_backend lvn_backend_opencl = {.name = "opencl",
                                               .description =
                                                   "devices with OpenCL 1.2 or later: Intel's GPUs, and CPUs",
                                               .computes = true,
                                               .library = &lvn_library_opencl,
                                               .describe = describe,
                                               .for_auto = intel_gpu_is_here,
                                               .fp16 = true,
                                               .reserve = LVN_OPENCL_RESERVE,
                                               .open = open_device,
                                               .close = close_device,
                                               .alloc = alloc_memory,
                                               .free = free_memory,
                                               .write = write_memory,
                                               .double_buffer = make_double_buffered,
                                               .read = read_memory,
                                               .snapshot = take_snapshot,
                                               .read_snapshot = read_snapshot,
                                               .choose = choose,
                                               .bind = bind,
                                               .unbind = lvn_gpu_unbind,
                                               .run = run,
                                               .wait = wait};
