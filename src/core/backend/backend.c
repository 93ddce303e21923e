/* backend.c - the table of backends, and memory of any device. */
#include "backend/backend.h"

#include <pthread.h>

#include "base/arena.h"
#include "passes/device_query.h"

#define LVN_BACKEND(name) extern const struct lvn_backend lvn_backend_##name;
#include "backend/backends.def"

static const struct lvn_backend *const backends[] = {
#define LVN_BACKEND(name) &lvn_backend_##name,
#include "backend/backends.def"
};

const struct lvn_backend *lvn_backend_at(int i)
{
    return i >= 0 && i < (int)(sizeof backends / sizeof *backends) ? backends[i] : NULL;
}

int64_t lvn_backend_reserve(const struct lvn_backend *b, int64_t memory)
{
    return b->reserve < memory / 16 ? b->reserve : memory / 16;
}

int lvn_backend_devices(const struct lvn_backend *b)
{
    struct lvn_device_facts f;
    int n = 0;
    while (b->describe && b->describe(n, &f)) n++;
    return n;
}

static bool has_gpu(const struct lvn_backend *b, bool intel)
{
    struct lvn_device_facts f = {0};
    for (int i = 0; b->describe && b->describe(i, &f); i++)
        if (f.gpu && (f.xpu || !intel)) return true;
    return false;
}

void lvn_backend_why_none(const struct lvn_backend *b, char *text, size_t capacity)
{
    struct lvn_device_facts f;
    struct lvn_device *d = NULL;
    *text = '\0';
    if (b->describe(0, &f))
        snprintf(text, capacity, "its device %s is not %s", f.name, f.gpu ? "an Intel GPU" : "a GPU");
    else if (b->open(&d, &(struct lvn_device_options){.real = LVN_F32, .threads = 1}) != LVN_OK)
        snprintf(text, capacity, "%s", levin_error_text());
    if (d) b->close(d);
    lvn_error_clear();
}

static void append_why_none(const struct lvn_backend *b, char *text, size_t capacity)
{
    char reason[600];
    const size_t n = strlen(text);
    lvn_backend_why_none(b, reason, sizeof reason);
    if (*reason) snprintf(text + n, capacity - n, "; %s: %s", b->name, reason);
}

static enum lvn_status fail_none(struct lvn_device **out, const char *accelerator, const char *kind)
{
    char reason[1200] = "";
    *out = NULL;
    for (int i = 0; lvn_backend_at(i); i++)
        if (lvn_backend_at(i)->describe) append_why_none(lvn_backend_at(i), reason, sizeof reason);
    LVN_FAIL(UNSUPPORTED, "trainer.accelerator %s found no %s; set it to cpu or auto%s", accelerator, kind, reason);
}

static enum lvn_status open_no_gpu(struct lvn_device **out, const struct lvn_device_options *o)
{
    (void)o;
    return fail_none(out, "gpu", "GPU");
}

static enum lvn_status open_no_xpu(struct lvn_device **out, const struct lvn_device_options *o)
{
    (void)o;
    return fail_none(out, "xpu", "Intel GPU");
}

static const struct lvn_backend *find_gpu(bool intel)
{
    static const struct lvn_backend no_gpu = {
        .name = "gpu", .description = "a GPU, and this machine has none", .computes = true, .open = open_no_gpu};
    static const struct lvn_backend no_xpu = {
        .name = "xpu", .description = "an Intel GPU, and this machine has none", .computes = true, .open = open_no_xpu};
    for (int i = 0; lvn_backend_at(i); i++)
        if (has_gpu(lvn_backend_at(i), intel)) return lvn_backend_at(i);
    return intel ? &no_xpu : &no_gpu;
}

/* Probed once per process, since the devices of a machine do not change. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const struct lvn_backend *auto_backend;

static void probe_auto(void)
{
    for (int i = 0; !auto_backend && lvn_backend_at(i); i++) {
        const struct lvn_backend *b = lvn_backend_at(i);
        if ((!b->for_auto || b->for_auto()) && has_gpu(b, false)) auto_backend = b;
    }
    if (!auto_backend) auto_backend = lvn_backend_at(0);
}

static const struct lvn_backend *find_auto(void)
{
    pthread_once(&once, probe_auto);
    return auto_backend;
}

const struct lvn_backend *lvn_backend_find(const char *name)
{
    if (!strcmp(name, "auto")) return find_auto();
    if (!strcmp(name, "gpu")) return find_gpu(false);
    if (!strcmp(name, "xpu")) return find_gpu(true);
    for (int i = 0; lvn_backend_at(i); i++)
        if (!strcmp(lvn_backend_at(i)->name, name)) return lvn_backend_at(i);
    return NULL;
}

bool lvn_device_has_memory(const struct lvn_device *d)
{
    return d && d->memory_bytes > 0;
}

int lvn_device_threads(const struct lvn_device *d)
{
    return !d || lvn_device_has_memory(d) ? 1 : d->threads;
}

bool lvn_device_has_queues(const struct lvn_device *d)
{
    return d && d->backend->queues;
}

bool lvn_device_rounds_decoding(const struct lvn_device *d)
{
    return d && d->backend->rounds_decoding;
}

enum lvn_status lvn_device_choose(const struct lvn_device *d, struct lvn_instr *i, int64_t *scratch)
{
    i->rounds = 0;
    return d->backend->choose(d, i, scratch);
}

enum lvn_status lvn_device_rate(struct lvn_device *d, enum lvn_rate rate, double *per_s)
{
    *per_s = 0;
    return d->backend->rate ? d->backend->rate(d, rate, per_s) : LVN_OK;
}

enum lvn_status lvn_device_wait(struct lvn_device *d)
{
    return d->backend->wait ? d->backend->wait(d) : LVN_OK;
}

enum lvn_status lvn_memory_new(struct lvn_memory **out, struct lvn_device *d, int64_t bytes)
{
    *out = NULL;
    return bytes > 0 ? d->backend->alloc(out, d, bytes) : LVN_OK;
}

void lvn_memory_free(struct lvn_memory *m)
{
    if (m) m->device->backend->free(m);
}

enum lvn_status lvn_memory_write(struct lvn_memory *to, int64_t offset, const void *from, int64_t bytes)
{
    return bytes > 0 ? to->device->backend->write(to, offset, from, bytes) : LVN_OK;
}

enum lvn_status lvn_memory_double_buffer(struct lvn_memory *m)
{
    return m && m->device->backend->double_buffer ? m->device->backend->double_buffer(m) : LVN_OK;
}

enum lvn_status lvn_device_snapshot(struct lvn_device *d)
{
    return d->backend->snapshot ? d->backend->snapshot(d) : LVN_OK;
}

enum lvn_status lvn_memory_read(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes)
{
    const struct lvn_backend *b = from->device->backend;
    if (bytes <= 0) return LVN_OK;
    LVN_TRY(b->read(from, offset, to, bytes));
    return lvn_device_wait(from->device);
}

enum lvn_status lvn_memory_read_snapshot(const struct lvn_memory *from, int64_t offset, void *to, int64_t bytes)
{
    const struct lvn_backend *b = from->device->backend;
    if (!b->read_snapshot) return lvn_memory_read(from, offset, to, bytes);
    return bytes > 0 ? b->read_snapshot(from, offset, to, bytes) : LVN_OK;
}

const void *lvn_memory_view(const struct lvn_memory *m, int64_t offset, int64_t bytes, void *buffer)
{
    if (m->host) return (const char *)m->host + offset;
    return lvn_memory_read(m, offset, buffer, bytes) == LVN_OK ? buffer : NULL;
}

enum lvn_status lvn_window_open(struct lvn_window *w, struct lvn_memory *m, int64_t offset, int64_t bytes, bool fill)
{
    *w = (struct lvn_window){.memory = m, .offset = offset, .bytes = bytes};
    if (bytes <= 0) return LVN_OK;
    w->p = m->host ? (char *)m->host + offset : lvn_malloc((size_t)bytes);
    if (!w->p) return LVN_MEMORY;
    return m->host || !fill ? LVN_OK : lvn_memory_read(m, offset, w->p, bytes);
}

enum lvn_status lvn_window_close(struct lvn_window *w, bool write_back)
{
    enum lvn_status status = LVN_OK;
    if (w->p && !w->memory->host) {
        if (write_back) status = lvn_memory_write(w->memory, w->offset, w->p, w->bytes);
        if (write_back && status == LVN_OK) status = lvn_device_wait(w->memory->device);
        free(w->p);
    }
    *w = (struct lvn_window){0};
    return status;
}
