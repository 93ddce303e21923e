/* cuda.c - the backend `cuda`: NVIDIA GPUs, through the CUDA driver and NVRTC, opened at run time.
 *
 * Launches are those of backend/gpu. A run is captured once for each kind of run (captured_run.h), as graphs that are
 * interrupted where the host has something to do (a collective, the hook before the update), and then replayed
 * (captured_run.c). docs/gpu-evidence.md lists what has run on a real GPU. See cuda_device.c for memory, streams and
 * the queues of communication libraries, modules.c and nvrtc.c for compiling, cublaslt.c for cuBLASLt. */

#include "backend/cuda/captured_run.h"
#include "backend/cuda/cublaslt.h"
#include "backend/cuda/modules.h"
#include "backend/cuda/nvrtc.h"
#include "base/arena.h"
#include "base/text.h"

extern const struct lvn_backend lvn_backend_cuda;

/* --- the device --- */

static bool describe(int i, struct lvn_device_facts *out)
{
    struct lvn_cuda_facts f;
    int n;
    if (lvn_cuda_devices(&n) != LVN_OK || i >= n || lvn_cuda_device_facts(&f, i) != LVN_OK) {
        lvn_error_clear(); /* open() reports it */
        return false;
    }
    *out = (struct lvn_device_facts){.memory = f.bytes, .gpu = true};
    snprintf(out->name, sizeof out->name, "%s", f.name);
    snprintf(out->card, sizeof out->card, "%s", f.card);
    lvn_hex_text(f.id, sizeof f.id, out->id);
    snprintf(out->driver, sizeof out->driver, "CUDA %d.%d, compute capability %d.%d", f.driver / 1000,
             f.driver % 1000 / 10, f.capability / 10, f.capability % 10);
    return true;
}

/* A driver loads images of an NVRTC with its own or an older major version. */
static enum lvn_status check_versions(const struct lvn_cuda_device *d)
{
    char nvrtc[32];
    int major;
    LVN_TRY(lvn_nvrtc_version(nvrtc, sizeof nvrtc, &major));
    LVN_CHECK(major <= d->facts.driver / 1000, UNSUPPORTED,
              "the driver of device %d (%s) supports CUDA %d.%d and cannot load kernels of %s (%s); install a newer "
              "driver, or nvidia-cuda-nvrtc-cu%d",
              d->facts.number, d->facts.name, d->facts.driver / 1000, d->facts.driver % 1000 / 10, nvrtc,
              lvn_library_path(*(void **)lvn_library_nvrtc.functions), d->facts.driver / 1000);
    return LVN_OK;
}

static void close_device(struct lvn_device *base)
{
    struct lvn_cuda_device *d = lvn_cuda_of(base);
    if (d->context) (void)lvn_cuda.context_use(d->context);
    lvn_cuda_products_close(d);
    lvn_cuda_modules_free(d);
    lvn_cuda_close(d);
    free(d);
}

/* LEVIN_WGMMA: attention's products by wgmma, which has not been measured yet (ops/wgmma_gpu.h). */
static enum lvn_status choose_wgmma(struct lvn_cuda_device *d)
{
    char architecture[LVN_NVRTC_ARCHITECTURE];
    if (!lvn_cuda_switch("LEVIN_WGMMA", false)) return LVN_OK;
    LVN_TRY(lvn_nvrtc_architecture(architecture, d->facts.capability));
    d->wgmma = !strcmp(architecture, "sm_90a");
    lvn_print_append(d->base.note, sizeof d->base.note, "; %s",
                     d->wgmma ? "attention by wgmma (LEVIN_WGMMA)"
                     : d->facts.capability == 90
                         ? "attention without wgmma, for which this NVRTC does not compile (LEVIN_WGMMA)"
                         : "attention without wgmma, which only compute capability 9.0 has (LEVIN_WGMMA)");
    return LVN_OK;
}

static enum lvn_status open_device(struct lvn_device **out, const struct lvn_device_options *o)
{
    *out = NULL;
    LVN_CHECK(o->real == LVN_F32, UNSUPPORTED,
              "cuda computes in fp32 and bf16, not in %s; set trainer.accelerator to reference",
              lvn_dtype_name(o->real));
    struct lvn_cuda_device *d = lvn_calloc(1, sizeof *d);
    if (!d) return LVN_MEMORY;
    d->base = (struct lvn_device){.backend = &lvn_backend_cuda, .real = o->real, .threads = o->threads};
    enum lvn_status status = lvn_cuda_open(d, o->number);
    if (status == LVN_OK) status = check_versions(d);
    if (status == LVN_OK) status = lvn_cuda_products_open(d, o);
    if (status == LVN_OK) status = choose_wgmma(d);
    if (status == LVN_OK)
        *out = &d->base;
    else
        close_device(&d->base);
    return status;
}

/* For ops/matrix_gpu.h: compute capability 8.0 and later. Plans without a device assume them. */
static bool has_matrix_units(const struct lvn_device *d)
{
    return !d || lvn_cuda_of(d)->facts.capability >= 80;
}

static enum lvn_status choose(const struct lvn_device *d, struct lvn_instr *i, int64_t *scratch)
{
    return lvn_gpu_choose("cuda", i, scratch, d ? lvn_cuda_products_library(d) : &lvn_cuda_products_planned,
                          has_matrix_units(d));
}

/* --- launches --- */

/* A kernel launch with its arguments as cuLaunchKernel() expects them. */
struct prepared {
    struct lvn_cuda_function *f;
    union value {
        lvn_cuda_address address;
        int64_t l;
        int32_t i;
        float f;
    } * value;
    void **args;
};

static void changed(struct lvn_gpu_program *p, struct lvn_gpu_launch *l, int arg)
{
    const struct lvn_gpu_arg *a = &l->args[arg];
    (void)p;
    if (l->product) return; /* lvn_cuda_product_launch() reads its arguments at every launch */
    union value *v = &((struct prepared *)l->backend_data)->value[arg];
    switch (a->kind) {
    case LVN_GPU_VALUE_ADD:
    case LVN_GPU_VALUE_INT:
        v->i = (int32_t)a->number;
        break;
    case LVN_GPU_VALUE_LONG:
        v->l = a->number;
        break;
    case LVN_GPU_VALUE_FLOAT:
        v->f = a->real;
        break;
    default:
        v->address = lvn_cuda_address_of(a->memory, a->offset);
    }
}

static enum lvn_status prepare_launch(struct lvn_gpu_program *p, struct lvn_gpu_launch *l)
{
    const struct lvn_cuda_device *d = lvn_cuda_of(p->base.device);
    if (l->product) return lvn_cuda_product_prepare(p, l);
    struct prepared *r = l->backend_data = lvn_arena_alloc(&p->arena, sizeof *r);
    if (!r) return LVN_MEMORY;
    r->value = lvn_arena_alloc(&p->arena, sizeof *r->value * (size_t)(l->n_args + 1));
    r->args = lvn_arena_alloc(&p->arena, sizeof *r->args * (size_t)(l->n_args + 1));
    if (!r->value || !r->args) return LVN_MEMORY;
    LVN_CHECK(l->grid[0] <= INT32_MAX && l->grid[1] <= UINT16_MAX && l->grid[2] <= UINT16_MAX, UNSUPPORTED,
              "%s: a grid of %lld x %lld x %lld groups exceeds the limits of the GPU; choose a smaller micro-batch",
              l->kernel, (long long)l->grid[0], (long long)l->grid[1], (long long)l->grid[2]);
    LVN_CUDA_DO(d, lvn_cuda.module_function(&r->f, p->modules[l->module].backend_data, l->kernel), "finding a kernel");
    for (int k = 0; k < l->n_args; k++) {
        r->args[k] = &r->value[k];
        changed(p, l, k);
    }
    return LVN_OK;
}

static enum lvn_status prepare(struct lvn_gpu_program *p)
{
    struct lvn_cuda_device *d = lvn_cuda_of(p->base.device);
    LVN_TRY(lvn_cuda_use(d));
    LVN_TRY(lvn_cuda_modules(d, p->modules, p->n_modules));
    for (int k = 0; k < p->n_launches; k++)
        LVN_TRY_WHILE(prepare_launch(p, &p->launches[k]), "preparing %s", p->launches[k].kernel);
    return LVN_OK;
}

/* With LEVIN_CUDA_WAIT, synchronize so that an error is reported for the launch that caused it. */
static enum lvn_status wait_for(const struct lvn_cuda_device *d, const char *kernel)
{
    char action[100];
    snprintf(action, sizeof action, "computing %s", kernel);
    LVN_CUDA_DO(d, lvn_cuda.stream_finish(d->work), action);
    return LVN_OK;
}

static enum lvn_status launch_kernel(const struct lvn_cuda_device *d, const struct lvn_gpu_launch *l)
{
    struct prepared *r = l->backend_data;
    LVN_CUDA_DO(d,
                lvn_cuda.launch(r->f, (unsigned)l->grid[0], (unsigned)l->grid[1], (unsigned)l->grid[2], LVN_ITEMS, 1, 1,
                                0, d->work, r->args, NULL),
                "launching a kernel");
    return LVN_OK;
}

static enum lvn_status launch(struct lvn_gpu_program *p, struct lvn_gpu_launch *l)
{
    const struct lvn_cuda_device *d = lvn_cuda_of(p->base.device);
    LVN_TRY(l->product ? lvn_cuda_product_launch(d, l) : launch_kernel(d, l));
    return d->synchronous ? wait_for(d, l->kernel) : LVN_OK;
}

static void release(struct lvn_gpu_program *p)
{
    (void)lvn_cuda.context_use(lvn_cuda_of(p->base.device)->context);
    lvn_cuda_captured_runs_free(p);
}

static const struct lvn_gpu_driver driver = {
    .prepare = prepare, .release = release, .launch = launch, .changed = changed};

/* --- programs --- */

static enum lvn_status bind(struct lvn_bound **out, const struct lvn_program *p, const struct lvn_binding *b)
{
    return lvn_gpu_bind(out, p, b, &driver, lvn_cuda_products_library(p->device), has_matrix_units(p->device));
}

/* Is this the program's first run with collectives between devices? It is not captured: NCCL connects an algorithm when
 * it first uses it, and a network plug-in may then allocate memory, which a capture forbids. */
static bool connects(struct lvn_gpu_program *p, const struct lvn_execution *execution)
{
    if (p->communicated || !execution->collectives || !lvn_gpu_has_device_comm(p, execution->collectives)) return false;
    return p->communicated = true;
}

static enum lvn_status run(struct lvn_bound *b, const struct lvn_execution *execution)
{
    LVN_TRY(lvn_cuda_use(lvn_cuda_of(b->device)));
    LVN_TRY(lvn_cuda_commit_writes(lvn_cuda_of(b->device)));
    struct lvn_gpu_program *p = (struct lvn_gpu_program *)b;
    bool ran = false;
    if (!execution->launched && !connects(p, execution) && lvn_cuda_captures(p, execution))
        LVN_TRY(lvn_cuda_run_captured(p, execution, &ran));
    if (ran) return LVN_OK;
    LVN_TRY(lvn_gpu_run(b, execution));
    return lvn_cuda_queues_end(lvn_cuda_of(b->device));
}

const struct lvn_backend lvn_backend_cuda = {.name = "cuda",
                                             .description = "an NVIDIA GPU",
                                             .computes = true,
                                             .library = &lvn_library_cuda,
                                             .describe = describe,
                                             .fp16 = true,
                                             .reserve = LVN_CUDA_RESERVE,
                                             .open = open_device,
                                             .close = close_device,
                                             .alloc = lvn_cuda_alloc,
                                             .free = lvn_cuda_free,
                                             .write = lvn_cuda_write,
                                             .double_buffer = lvn_cuda_double_buffer,
                                             .read = lvn_cuda_read,
                                             .snapshot = lvn_cuda_snapshot,
                                             .read_snapshot = lvn_cuda_read_snapshot,
                                             .staging = LVN_CUDA_CHUNKS * LVN_CUDA_CHUNK,
                                             .choose = choose,
                                             .bind = bind,
                                             .unbind = lvn_gpu_unbind,
                                             .run = run,
                                             .wait = lvn_cuda_wait,
                                             .queues = &lvn_cuda_queue_ops,
                                             .tuning = &lvn_cuda_tuning_ops};
