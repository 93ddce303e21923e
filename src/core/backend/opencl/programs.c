/* programs.c - kernels on an OpenCL device: modules are compiled in parallel or loaded from the cache, and each launch
 * has a kernel object with its arguments. It is the struct lvn_gpu_driver of backend/gpu. */
#include "backend/opencl/programs.h"

#include <pthread.h>

#include "backend/gpu/kernel_cache.h"
#include "backend/gpu/kernel_sources.h"
#include "backend/opencl/opencl_device.h"
#include "base/text.h"
#include "base/threads.h"
#include "base/work.h"
#include "host/machine.h"

const char *lvn_opencl_prelude;
bool lvn_opencl_prelude_units;

/* A program compiled for a device. Programs of different shapes share many modules. */
struct lvn_opencl_program {
    struct lvn_opencl_program *next;
    char *key;
    void *program;
};

void lvn_opencl_programs_free(struct lvn_opencl_device *d)
{
    while (d->programs) {
        struct lvn_opencl_program *t = d->programs;
        d->programs = t->next;
        lvn_cl.release_program(t->program);
        free(t->key);
        free(t);
    }
}

/* --- compiling --- */

#define EXACT "-cl-fp32-correctly-rounded-divide-sqrt"
#define BEYOND "-cl-intel-greater-than-4GB-buffer-required"
#define LARGE "-cl-intel-256-GRF-per-thread"

/* Attention on matrix units (ops/matrix_gpu.h) and multiplications in large tiles require more than the 128 registers
 * of a thread of an Intel GPU and would spill. With 256 registers half as many threads run concurrently.
 * Multiplications in small tiles fit into 128. Source: tests/golden/kernels_intel.txt. */
static bool needs_large_registers(const char *defines)
{
    return strstr(defines, "#define ROUNDED ") &&
           (strstr(defines, "#define ROWS ") || strstr(defines, "#define TILE "));
}

const char *lvn_opencl_options(const struct lvn_opencl_device *d, const char *defines)
{
    static const char *const options[] = {
        "", EXACT, BEYOND, EXACT " " BEYOND, LARGE, EXACT " " LARGE, BEYOND " " LARGE, EXACT " " BEYOND " " LARGE,
    };
    if (lvn_opencl_prelude) return d->divides_exactly ? "-cl-opt-disable " EXACT : "-cl-opt-disable";
    const bool large = d->large_registers && needs_large_registers(defines);
    return options[(d->divides_exactly ? 1 : 0) + (d->past_limit ? 2 : 0) + (large ? 4 : 0)];
}

void lvn_opencl_probe_options(struct lvn_opencl_device *d)
{
    const char *text = "__kernel void probe(void) {}\n";
    int error;
    d->large_registers = false;
    if (!d->intel || d->cpu || !d->matrix) return;
    void *program = lvn_cl.program(d->context, 1, &text, NULL, &error);
    if (!program) return;
    d->large_registers = lvn_cl.build(program, 1, &d->id, LARGE, NULL, NULL) == CL_SUCCESS;
    lvn_cl.release_program(program);
}

/* The first line of the compiler's log that contains "error", otherwise its first line. */
static void first_line(const struct lvn_opencl_device *d, void *program, char *line, size_t capacity)
{
    size_t n = 0;
    *line = 0;
    if (lvn_cl.build_info(program, d->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &n) != CL_SUCCESS || n == 0) return;
    char *log = lvn_calloc(n + 1, 1);
    if (log && lvn_cl.build_info(program, d->id, CL_PROGRAM_BUILD_LOG, n, log, NULL) == CL_SUCCESS) {
        char *at = strstr(log, "error");
        while (at && at > log && at[-1] != '\n') at--;
        at = at ? at : log;
        snprintf(line, capacity, "%.*s", (int)strcspn(at, "\n"), at);
    }
    free(log);
}

static void *from_cache(const struct lvn_opencl_device *d, const char *key, const char *options)
{
    void *binary, *program = NULL;
    int64_t bytes;
    int status, error;
    if (!lvn_kernel_cache_find(key, &binary, &bytes)) return NULL;
    size_t n = (size_t)bytes;
    const unsigned char *p = binary;
    program = lvn_cl.program_of_binary(d->context, 1, &d->id, &n, &p, &status, &error);
    free(binary);
    if (!program) return NULL;
    if (lvn_cl.build(program, 1, &d->id, options, NULL, NULL) == CL_SUCCESS) return program;
    lvn_cl.release_program(program);
    return NULL;
}

static void store_binary(const char *key, void *program)
{
    size_t n = 0;
    if (lvn_cl.program_info(program, CL_PROGRAM_BINARY_SIZES, sizeof n, &n, NULL) != CL_SUCCESS || !n) return;
    unsigned char *binary = lvn_malloc(n);
    if (binary && lvn_cl.program_info(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS &&
        lvn_kernel_cache_store(key, binary, (int64_t)n) != LVN_OK)
        lvn_error_clear();
    free(binary);
}

static enum lvn_status compile(const struct lvn_opencl_device *d, const char *source, const char *text,
                               const char *options, void **out)
{
    int error;
    char line[300];
    void *program = lvn_cl.program(d->context, 1, &text, NULL, &error);
    LVN_CHECK(program, UNSUPPORTED, "%s rejected the kernels of '%s': %s", d->name, source, lvn_cl_error(error));
    error = lvn_cl.build(program, 1, &d->id, options, NULL, NULL);
    if (error != CL_SUCCESS) {
        first_line(d, program, line, sizeof line);
        lvn_cl.release_program(program);
        LVN_FAIL(UNSUPPORTED, "the kernels of '%s' do not compile for %s (%s): %s", source, d->name, d->driver,
                 *line ? line : lvn_cl_error(error));
    }
    *out = program;
    return LVN_OK;
}

static char *module_source(const struct lvn_opencl_device *d, const struct lvn_gpu_module *m)
{
    struct lvn_text t = {0};
    if (d->matrix) lvn_text_printf(&t, "#define LVN_MATRIX_INTEL %d\n", d->matrix);
    lvn_text_printf(&t, "%s#define LVN_DEVICE\n%s%s%s%s", lvn_opencl_prelude ? lvn_opencl_prelude : "",
                    d->has_double ? "#define LVN_DOUBLE\n" : "", m->definition, lvn_gpu_language_source(),
                    lvn_gpu_kernel_source(m->source));
    char *text = lvn_text_string(&t) ? lvn_strdup(t.p) : NULL;
    lvn_text_release(&t);
    return text;
}

/* --- all modules of a program, by several threads --- */

struct job {
    struct lvn_opencl_device *d;
    struct lvn_gpu_program *p;
    pthread_mutex_t lock;
    int next;
    enum lvn_status status;
    char reason[600];
};

static void *find(const struct job *j, const char *key)
{
    for (struct lvn_opencl_program *t = j->d->programs; t; t = t->next)
        if (!strcmp(t->key, key)) return t->program;
    return NULL;
}

/* Called with the lock held. The device takes ownership of key and program. */
static enum lvn_status add_to_device(struct job *j, char *key, void *program)
{
    struct lvn_opencl_program *t = lvn_calloc(1, sizeof *t);
    if (!t) return LVN_MEMORY;
    *t = (struct lvn_opencl_program){.next = j->d->programs, .key = key, .program = program};
    j->d->programs = t;
    return LVN_OK;
}

static enum lvn_status make(struct job *j, struct lvn_gpu_module *m)
{
    struct lvn_opencl_device *d = j->d;
    struct lvn_text key = {0};
    const char *options = lvn_opencl_options(d, m->definition);
    char *text = module_source(d, m);
    if (!text) return LVN_MEMORY;
    lvn_text_printf(&key, "opencl\n%s\n%s\n%s\n%s\n%s\n%s", d->platform, d->name, d->driver, d->version, options, text);
    enum lvn_status status = lvn_text_string(&key) ? LVN_OK : LVN_MEMORY;
    pthread_mutex_lock(&j->lock);
    m->backend_data = status == LVN_OK ? find(j, key.p) : NULL;
    pthread_mutex_unlock(&j->lock);
    if (status == LVN_OK && !m->backend_data) {
        m->backend_data = from_cache(d, key.p, options);
        if (!m->backend_data) {
            status = compile(d, m->source, text, options, &m->backend_data);
            if (status == LVN_OK) store_binary(key.p, m->backend_data);
        }
        pthread_mutex_lock(&j->lock);
        if (status == LVN_OK) status = add_to_device(j, key.p, m->backend_data);
        if (status == LVN_OK) key = (struct lvn_text){0};
        pthread_mutex_unlock(&j->lock);
    }
    lvn_text_release(&key);
    free(text);
    return status;
}

/* One thread of the team compiles one module after the other. The first failure is stored for the caller. */
static void work(void *argument, int thread, int n_threads)
{
    struct job *j = argument;
    (void)thread;
    (void)n_threads;
    for (;;) {
        pthread_mutex_lock(&j->lock);
        int k = j->status == LVN_OK ? j->next++ : j->p->n_modules;
        pthread_mutex_unlock(&j->lock);
        if (k >= j->p->n_modules) return;
        enum lvn_status status = make(j, &j->p->modules[k]);
        lvn_work_done(1);
        if (status == LVN_OK) continue;
        pthread_mutex_lock(&j->lock);
        if (j->status == LVN_OK) snprintf(j->reason, sizeof j->reason, "%s", levin_error_text());
        j->status = status;
        pthread_mutex_unlock(&j->lock);
    }
}

static enum lvn_status compile_all(struct lvn_gpu_program *p)
{
    struct job j = {.d = (struct lvn_opencl_device *)p->base.device, .p = p, .lock = PTHREAD_MUTEX_INITIALIZER};
    int threads = lvn_threads_default();
    lvn_team_run(threads < p->n_modules ? threads : p->n_modules > 0 ? p->n_modules : 1, work, &j);
    if (j.status != LVN_OK) return lvn_fail(j.status, "%s", j.reason);
    return LVN_OK;
}

/* --- launches --- */

static int set_argument(void *kernel, const struct lvn_gpu_arg *a, uint32_t *at)
{
    void *buffer = a->memory ? lvn_opencl_buffer(a->memory) : NULL;
    int32_t number = (int32_t)a->number;
    uint64_t offset = (uint64_t)a->offset;
    int error;
    switch (a->kind) {
    case LVN_GPU_VALUE_ADD:
    case LVN_GPU_VALUE_INT:
        return lvn_cl.argument(kernel, (*at)++, sizeof number, &number);
    case LVN_GPU_VALUE_LONG:
        return lvn_cl.argument(kernel, (*at)++, sizeof a->number, &a->number);
    case LVN_GPU_VALUE_FLOAT:
        return lvn_cl.argument(kernel, (*at)++, sizeof a->real, &a->real);
    default:
        error = lvn_cl.argument(kernel, (*at)++, sizeof buffer, buffer ? &buffer : NULL);
        return error ? error : lvn_cl.argument(kernel, (*at)++, sizeof offset, &offset);
    }
}

static enum lvn_status prepare_launch(struct lvn_gpu_program *p, struct lvn_gpu_launch *l)
{
    const struct lvn_opencl_device *d = (const struct lvn_opencl_device *)p->base.device;
    uint32_t at = 0;
    int error;
    l->backend_data = lvn_cl.kernel(p->modules[l->module].backend_data, l->kernel, &error);
    LVN_CHECK(l->backend_data, INTERNAL, "the kernels of '%s' have no %s for %s: %s", l->source, l->kernel, d->name,
              lvn_cl_error(error));
    uint64_t local = 0;
    error = lvn_cl.kernel_info(l->backend_data, d->id, CL_KERNEL_LOCAL_MEM_SIZE, sizeof local, &local, NULL);
    LVN_CHECK(error != CL_SUCCESS || (int64_t)local <= d->local, UNSUPPORTED,
              "%s requires %lld bytes of local memory, but %s has %lld; %sset trainer.accelerator to cpu", l->kernel,
              (long long)local, d->name, (long long)d->local,
              strcmp(l->source, "attention") ? "" : "choose a model with heads of at most 128 channels, or ");
    for (int k = 0; k < l->n_args; k++) {
        error = set_argument(l->backend_data, &l->args[k], &at);
        LVN_CHECK(error == CL_SUCCESS, INTERNAL, "%s rejected argument %d: %s", l->kernel, k, lvn_cl_error(error));
    }
    return LVN_OK;
}

static enum lvn_status prepare(struct lvn_gpu_program *p)
{
    LVN_TRY(compile_all(p));
    for (int k = 0; k < p->n_launches; k++) LVN_TRY(prepare_launch(p, &p->launches[k]));
    return LVN_OK;
}

static void release(struct lvn_gpu_program *p)
{
    lvn_cl.finish(((struct lvn_opencl_device *)p->base.device)->queue);
    for (int k = 0; k < p->n_launches; k++) {
        const struct lvn_gpu_launch *l = &p->launches[k];
        if (l->backend_data) lvn_cl.release_kernel(l->backend_data);
    }
}

static enum lvn_status launch(struct lvn_gpu_program *p, struct lvn_gpu_launch *l)
{
    const struct lvn_opencl_device *d = (const struct lvn_opencl_device *)p->base.device;
    const size_t group[3] = {LVN_ITEMS, 1, 1};
    const size_t all[3] = {(size_t)l->grid[0] * LVN_ITEMS, (size_t)l->grid[1], (size_t)l->grid[2]};
    int error = lvn_cl.launch(d->queue, l->backend_data, 3, NULL, all, group, 0, NULL, NULL);
    if (error == CL_SUCCESS) return LVN_OK;
    return lvn_fail(lvn_cl_status(error), "%s failed to launch on %s: %s%s", l->kernel, d->name, lvn_cl_error(error),
                    lvn_cl_cure(error));
}

static void changed(struct lvn_gpu_program *p, struct lvn_gpu_launch *l, int arg)
{
    uint32_t at = 0;
    (void)p;
    for (int k = 0; k < arg; k++) at += l->args[k].name ? 2 : 1; /* an operand is two arguments: buffer and offset */
    set_argument(l->backend_data, &l->args[arg], &at);
}

const struct lvn_gpu_driver lvn_opencl_driver = {
    .prepare = prepare, .release = release, .launch = launch, .changed = changed};
