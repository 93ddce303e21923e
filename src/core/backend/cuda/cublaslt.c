/* cublaslt.c - see cublaslt.h.
 *
 * cuBLASLt's matrices are column-major: a row-major matrix here is a transposed one there, so c^T = b^T a^T is
 * computed, and the library's `a` is our b. This file declares what it uses of the library.
 *
 * Sources: NVIDIA's cuBLAS documentation ("Using the cuBLASLt API", "Results reproducibility"). GELU is the tanh
 * approximation. Attribute numbers and sizes are those of versions 11 to 13. */
#include "backend/cuda/cublaslt.h"

#include "backend/gpu/kernel_cache.h"
#include "base/arena.h"
#include "base/getenv.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "base/work.h"

/* cublasLtMatmulAlgo_t */
struct algorithm {
    uint64_t opaque[8];
};
struct heuristic {
    struct algorithm algorithm;
    size_t scratch;
    int status; /* the rest is valid if this is 0 */
    float waves;
    int none[4];
};
_Static_assert(sizeof(struct heuristic) == 96, "as cublasLtMatmulHeuristicResult_t");

typedef void *handle, *operation, *layout, *preference;

#define FUNCTIONS(F)                                                                                                   \
    F(int, property, (int which, int *value), "cublasLtGetProperty")                                                   \
    F(int, create, (handle * h), "cublasLtCreate")                                                                     \
    F(int, destroy, (handle h), "cublasLtDestroy")                                                                     \
    F(int, operation_new, (operation * o, int compute, int scale), "cublasLtMatmulDescCreate")                         \
    F(int, operation_set, (operation o, int attribute, const void *value, size_t bytes),                               \
      "cublasLtMatmulDescSetAttribute")                                                                                \
    F(int, operation_free, (operation o), "cublasLtMatmulDescDestroy")                                                 \
    F(int, layout_new, (layout * l, int type, uint64_t rows, uint64_t columns, int64_t ld),                            \
      "cublasLtMatrixLayoutCreate")                                                                                    \
    F(int, layout_free, (layout l), "cublasLtMatrixLayoutDestroy")                                                     \
    F(int, preference_new, (preference * p), "cublasLtMatmulPreferenceCreate")                                         \
    F(int, preference_set, (preference p, int attribute, const void *value, size_t bytes),                             \
      "cublasLtMatmulPreferenceSetAttribute")                                                                          \
    F(int, preference_free, (preference p), "cublasLtMatmulPreferenceDestroy")                                         \
    F(int, choose,                                                                                                     \
      (handle h, operation o, layout a, layout b, layout c, layout d, preference p, int max, struct heuristic *to,     \
       int *n),                                                                                                        \
      "cublasLtMatmulAlgoGetHeuristic")                                                                                \
    F(int, accept,                                                                                                     \
      (handle h, operation o, layout a, layout b, layout c, layout d, const struct algorithm *chosen,                  \
       struct heuristic *to),                                                                                          \
      "cublasLtMatmulAlgoCheck")                                                                                       \
    F(int, multiply,                                                                                                   \
      (handle h, operation o, const void *alpha, lvn_cuda_address a, layout la, lvn_cuda_address b, layout lb,         \
       const void *beta, lvn_cuda_address c, layout lc, lvn_cuda_address d, layout ld, const struct algorithm *chosen, \
       lvn_cuda_address scratch, size_t scratch_bytes, struct lvn_cuda_stream *s),                                     \
      "cublasLtMatmul")

static struct {
    FUNCTIONS(LVN_LIBRARY_POINTER)
} blas;

enum { OLD_DEVICE = 8 /* ARCH_MISMATCH: version 13 and a V100 */, NOT_SUPPORTED = 15 };
enum { REAL_32 = 0, REAL_16 = 2, REAL_BF16 = 14 }; /* cudaDataType_t */
enum { COMPUTE_32 = 68, COMPUTE_TF32 = 77 };       /* cublasComputeType_t: in fp32; operands rounded to TF32 */
enum {
    TRANSPOSE_A = 3,
    TRANSPOSE_B,
    EPILOGUE = 7,
    BIAS_POINTER,
    AUX_POINTER = 11,
    AUX_LD
};                                                                                /* attributes of an operation */
enum { MAX_SCRATCH = 1, REDUCTIONS = 3, ALIGN_A = 5, ALIGN_B, ALIGN_C, ALIGN_D }; /* attributes of a preference */
enum { EPILOGUE_NONE = 1, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32, EPILOGUE_AUX = 128 };
/* Allowed split-K schemes: none, or partial sums that are stored in fp32 and added in a fixed order.
 * Partial sums that are added to the result, or stored in its type, are excluded. */
enum { REDUCTION_COMPUTE_TYPE = 2 };
enum { OLDEST = 11, NEWEST = 13, SCRATCH_ALIGN = 256, PLACED = 64 };
/* Bytes, as NVIDIA recommends: 32 MiB for Hopper and later, 4 MiB for earlier GPUs. */
enum { SCRATCH = 4 << 20, SCRATCH_HOPPER = 32 << 20 };

static int version_of(int number[3])
{
    int result = 0;
    for (int k = 0; k < 3 && !result; k++) result = blas.property(k, &number[k]);
    return result;
}

static const char *version(void)
{
    static char text[40];
    int n[3] = {0};
    (void)version_of(n);
    snprintf(text, sizeof text, "cuBLASLt %d.%d.%d", n[0], n[1], n[2]);
    return text;
}

static bool fits(void)
{
    int n[3] = {0};
    return version_of(n) || lvn_cuda_driver_supports(n[0]);
}

struct lvn_library lvn_library_cublaslt = {
    .name = "libcublasLt",
    .files = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"},
    .folders = (const char *const[]){"$CUDA_HOME/lib64", "$CUDA_PATH/lib64",
                                     "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/cu13/lib",
                                     "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/cublas/lib", "$CONDA_PREFIX/lib",
                                     "/usr/local/cuda/lib64", "$HOME/.local/lib/python3*/site-packages/nvidia/cu13/lib",
                                     "$HOME/.local/lib/python3*/site-packages/nvidia/cublas/lib",
                                     "/usr/local/lib/python3*/*-packages/nvidia/cu13/lib",
                                     "/usr/local/lib/python3*/*-packages/nvidia/cublas/lib", NULL},
    .use = "fast matrix multiplications on NVIDIA GPUs",
    .hint = "pip install nvidia-cublas into an active environment, or set LD_LIBRARY_PATH or CUDA_HOME to a CUDA "
            "toolkit",
    .symbols = (const char *const[]){FUNCTIONS(LVN_LIBRARY_SYMBOL) NULL},
    .functions = &blas,
    .requires = &lvn_library_cuda,
    .is_compatible = fits,
    .version = version};

/* --- answers --- */

static enum lvn_status check(const struct lvn_cuda_device *d, int result, const char *action)
{
    static const char *const names[] = {
        [1] = "not initialized",    [3] = "allocation failed", [7] = "invalid value",
        [8] = "not for this GPU",   [11] = "mapping failed",   [13] = "execution failed",
        [14] = "an internal error", [15] = "not supported",    [16] = "license error"};
    const int n = (int)(sizeof names / sizeof *names);
    const char *name = result > 0 && result < n && names[result] ? names[result] : "an error without a name";
    if (result == 0) return LVN_OK;
    LVN_CHECK(
        result != 3, MEMORY,
        "%s on device %d: %s could not allocate memory (3); choose a smaller trainer.micro_batch_size, or end other "
        "programs on it (nvidia-smi)",
        action, d->facts.number, version());
    LVN_CHECK(result != 13, COMM,
              "%s on device %d: the device was lost: %s returned %s (%d); a training can be resumed from its last "
              "checkpoint. If a restart "
              "does not help, search the kernel's log for 'Xid'",
              action, d->facts.number, version(), name, result);
    LVN_FAIL(UNSUPPORTED, "%s on device %d: %s returned %s (%d); LEVIN_CUBLASLT=off uses levin's own kernels instead",
             action, d->facts.number, version(), name, result);
}
#define DO(d, result, action) LVN_TRY(check(d, result, action))

/* --- choosing algorithms --- */

enum { CANDIDATES = 8 };

struct chosen {
    struct lvn_gpu_matmul product;
    operation o;
    layout a, b, c; /* of our a, b, c; y has the layout of c */
    struct algorithm algorithm;
    struct algorithm candidate[CANDIDATES]; /* the library's answers, the best by its heuristics first */
    int n;                                  /* of them; 0: the library has no algorithm */
    int64_t scratch;                        /* maximum that one of them needs */
    bool tuned;                             /* the algorithm was measured, or recorded */
    struct chosen *next;
};

/* A recorded choice. */
struct recorded {
    uint64_t key; /* hash of key_of() */
    struct algorithm algorithm;
    struct recorded *next;
};

struct lvn_cuda_products {
    struct lvn_gpu_matmul_library library;
    struct lvn_cuda_device *device;
    handle h;
    preference p;
    bool tf32;     /* fp32 operands are rounded to TF32 */
    bool tunes;    /* query several algorithms */
    bool no_cache; /* a choice could not be stored: measure no more */
    bool refused;  /* an unsupported multiplication is already in the note */
    struct chosen *list;
    struct recorded *recorded;
};

static void chosen_free(struct chosen *c)
{
    if (c->c) (void)blas.layout_free(c->c);
    if (c->b) (void)blas.layout_free(c->b);
    if (c->a) (void)blas.layout_free(c->a);
    if (c->o) (void)blas.operation_free(c->o);
    free(c);
}

static enum lvn_status describe(const struct lvn_cuda_products *l, struct chosen *c)
{
    const struct lvn_gpu_matmul *m = &c->product;
    const struct lvn_cuda_device *d = l->device;
    static const int real[LVN_DTYPE_COUNT] = {[LVN_F32] = REAL_32, [LVN_F16] = REAL_16, [LVN_BF16] = REAL_BF16};
    const int in = real[m->in], out = real[m->out];
    const int compute = l->tf32 && in == REAL_32 ? COMPUTE_TF32 : COMPUTE_32, ta = m->a_transposed,
              tb = m->b_transposed;
    const int epilogue = (m->bias ? EPILOGUE_BIAS : 0) | (m->gelu ? EPILOGUE_GELU | EPILOGUE_AUX : 0);
    const int last = epilogue ? epilogue : EPILOGUE_NONE;
    /* Algorithms depend on the alignment of these pointers; any address with that alignment works. */
    const lvn_cuda_address like = (lvn_cuda_address)m->c_at;
    DO(d, blas.operation_new(&c->o, compute, REAL_32), "describing a matrix multiplication");
    DO(d, blas.operation_set(c->o, TRANSPOSE_A, &tb, sizeof tb), "describing a matrix multiplication");
    DO(d, blas.operation_set(c->o, TRANSPOSE_B, &ta, sizeof ta), "describing a matrix multiplication");
    DO(d, blas.operation_set(c->o, EPILOGUE, &last, sizeof last), "describing a matrix multiplication");
    if (m->bias)
        DO(d, blas.operation_set(c->o, BIAS_POINTER, &like, sizeof like), "describing a matrix multiplication");
    if (m->gelu) DO(d, blas.operation_set(c->o, AUX_POINTER, &like, sizeof like), "describing a matrix multiplication");
    if (m->gelu)
        DO(d, blas.operation_set(c->o, AUX_LD, &m->c_ld, sizeof m->c_ld), "describing a matrix multiplication");
    const uint64_t M = (uint64_t)m->M, N = (uint64_t)m->N, K = (uint64_t)m->K;
    DO(d, blas.layout_new(&c->a, in, ta ? M : K, ta ? K : M, m->a_ld), "describing a matrix");
    DO(d, blas.layout_new(&c->b, in, tb ? K : N, tb ? N : K, m->b_ld), "describing a matrix");
    DO(d, blas.layout_new(&c->c, out, N, M, m->c_ld), "describing a matrix");
    return LVN_OK;
}

static enum lvn_status prefer(const struct lvn_cuda_products *l, const struct lvn_gpu_matmul *m)
{
    const uint64_t max = (uint64_t)m->max_scratch_bytes;
    const uint32_t at[4] = {(uint32_t)m->b_at, (uint32_t)m->a_at, (uint32_t)m->c_at, (uint32_t)m->c_at};
    DO(l->device, blas.preference_set(l->p, MAX_SCRATCH, &max, sizeof max), "querying an algorithm");
    for (int k = 0; k < 4; k++)
        DO(l->device, blas.preference_set(l->p, ALIGN_A + k, &at[k], sizeof at[k]), "querying an algorithm");
    return LVN_OK;
}

/* bf16 requires compute capability 8.0. */
static bool multiplies(const struct lvn_cuda_device *d, const struct lvn_gpu_matmul *m)
{
    return m->in != LVN_BF16 || d->facts.capability >= 80;
}

/* In fp32 only the first answer is used, so that no bit depends on a measurement. */
static int candidates_of(const struct lvn_cuda_products *l, const struct lvn_gpu_matmul *m)
{
    return l->tunes && (m->in != LVN_F32 || l->tf32) ? CANDIDATES : 1;
}

static enum lvn_status query_algorithms(const struct lvn_cuda_products *l, struct chosen *c)
{
    struct heuristic a[CANDIDATES];
    int n = 0;
    memset(a, 0, sizeof a);
    if (c->product.gelu && c->product.c_ld % 8)
        return LVN_OK; /* the auxiliary output requires rows of a multiple of 8 */
    if (!multiplies(l->device, &c->product)) return LVN_OK;
    LVN_TRY(describe(l, c));
    LVN_TRY(prefer(l, &c->product));
    int result = blas.choose(l->h, c->o, c->b, c->a, c->c, c->c, l->p, candidates_of(l, &c->product), a, &n);
    if (result == NOT_SUPPORTED || result == OLD_DEVICE) return LVN_OK;
    DO(l->device, result, "querying an algorithm");
    for (int k = 0; k < n && k < CANDIDATES; k++) {
        if (a[k].status) continue;
        c->candidate[c->n++] = a[k].algorithm;
        if ((int64_t)a[k].scratch > c->scratch) c->scratch = (int64_t)a[k].scratch;
    }
    c->algorithm = c->candidate[0];
    return LVN_OK;
}

static enum lvn_status find(struct lvn_cuda_products *l, const struct lvn_gpu_matmul *m, struct chosen **out)
{
    for (*out = l->list; *out; *out = (*out)->next)
        if (!memcmp(&(*out)->product, m, sizeof *m)) return LVN_OK;
    struct chosen *c = lvn_calloc(1, sizeof *c);
    if (!c) return LVN_MEMORY;
    c->product = *m;
    enum lvn_status status = lvn_cuda_use(l->device);
    if (status == LVN_OK) status = query_algorithms(l, c);
    if (status != LVN_OK) {
        chosen_free(c);
        return status;
    }
    c->next = l->list;
    l->list = *out = c;
    return LVN_OK;
}

static enum lvn_status supports(const struct lvn_gpu_matmul_library *library, const struct lvn_gpu_matmul *m,
                                bool *supported, int64_t *scratch)
{
    struct lvn_cuda_products *l = (struct lvn_cuda_products *)(uintptr_t)library;
    struct chosen *c;
    LVN_TRY(find(l, m, &c));
    char *note = l->device->base.note;
    if (!c->n && !m->gelu && !l->refused) { /* logged when a run starts, as part of the note */
        l->refused = true;
        if (multiplies(l->device, m))
            lvn_print_append(
                note, sizeof l->device->base.note,
                ", which has no algorithm for %lld x %lld x %lld; levin's kernels compute those matrix multiplications",
                (long long)m->M, (long long)m->N, (long long)m->K);
        else
            lvn_print_append(note, sizeof l->device->base.note,
                             ", which multiplies bf16 matrices from compute capability 8.0 on, and this device has "
                             "%d.%d; levin's slow kernels do: trainer.precision 16-mixed is faster here",
                             l->device->facts.capability / 10, l->device->facts.capability % 10);
    }
    *supported = c->n > 0;
    *scratch = c->scratch ? c->scratch + SCRATCH_ALIGN - PLACED : 0; /* scratch is aligned to 64 bytes */
    return LVN_OK;
}

static enum lvn_status supports_all(const struct lvn_gpu_matmul_library *library, const struct lvn_gpu_matmul *m,
                                    bool *supported, int64_t *scratch)
{
    (void)m;
    *supported = true;
    *scratch = library->max_scratch_bytes + SCRATCH_ALIGN - PLACED;
    return LVN_OK;
}

const struct lvn_gpu_matmul_library lvn_cuda_products_planned = {.supports = supports_all,
                                                                 .max_scratch_bytes = SCRATCH_HOPPER};

/* --- opening --- */

/* LEVIN_CUBLASLT=first: no algorithm is measured. */
static bool measures(void)
{
    const char *text = lvn_getenv("LEVIN_CUBLASLT");
    return !text || strcmp(text, "first") != 0;
}

/* The reason why the library cannot be used; "": it can. */
static const char *why_unusable(const struct lvn_cuda_device *d, char text[200])
{
    int n[3] = {0}, driver = d->facts.driver / 1000;
    *text = '\0';
    if (measures() && !lvn_cuda_switch("LEVIN_CUBLASLT", true)) return "LEVIN_CUBLASLT is off";
    if (lvn_library_open(&lvn_library_cublaslt) != LVN_OK) {
        snprintf(text, 200, "libcublasLt was not found: %s", lvn_library_cublaslt.hint);
        lvn_error_clear();
        return text;
    }
    if (version_of(n) || n[0] < OLDEST || n[0] > NEWEST)
        snprintf(text, 200, "%s is not supported (versions %d to %d are); install a supported nvidia-cublas", version(),
                 OLDEST, NEWEST);
    else if (n[0] > driver)
        snprintf(text, 200,
                 "%s requires a driver of CUDA %d, and this one supports %d.%d; install a newer driver, or "
                 "nvidia-cublas-cu%d",
                 version(), n[0], driver, d->facts.driver % 1000 / 10, driver);
    return text;
}

static enum lvn_status begin(struct lvn_cuda_products *l)
{
    const uint32_t reductions = REDUCTION_COMPUTE_TYPE;
    int result = blas.create(&l->h);
    if (result) l->h = NULL;
    DO(l->device, result, "opening cuBLASLt");
    result = blas.preference_new(&l->p);
    if (result) l->p = NULL;
    DO(l->device, result, "opening cuBLASLt");
    DO(l->device, blas.preference_set(l->p, REDUCTIONS, &reductions, sizeof reductions), "opening cuBLASLt");
    return LVN_OK;
}

enum lvn_status lvn_cuda_products_open(struct lvn_cuda_device *d, const struct lvn_device_options *o)
{
    char text[200];
    const char *reason = why_unusable(d, text);
    if (*reason) {
        snprintf(d->base.note, sizeof d->base.note, "%s: matrix multiplication by levin's kernels; %s", d->facts.name,
                 reason);
        return LVN_OK;
    }
    struct lvn_cuda_products *l = d->products = lvn_calloc(1, sizeof *l);
    if (!l) return LVN_MEMORY;
    d->base.tf32 = o->tf32 && d->facts.capability >= 80;
    l->library = (struct lvn_gpu_matmul_library){
        .supports = supports, .max_scratch_bytes = d->facts.capability >= 90 ? SCRATCH_HOPPER : SCRATCH};
    l->device = d;
    l->tf32 = d->base.tf32;
    l->tunes = o->tunes && measures();
    snprintf(d->base.note, sizeof d->base.note, "%s: matrix multiplication by %s%s", d->facts.name, version(),
             l->tf32 ? ", fp32 in TF32" : "");
    return begin(l);
}

static void forget_recorded(struct lvn_cuda_products *l)
{
    for (struct recorded *t = l->recorded, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    l->recorded = NULL;
}

void lvn_cuda_products_close(struct lvn_cuda_device *d)
{
    struct lvn_cuda_products *l = d->products;
    if (!l) return;
    forget_recorded(l);
    for (struct chosen *c = l->list, *next; c; c = next) {
        next = c->next;
        chosen_free(c);
    }
    if (l->p) (void)blas.preference_free(l->p);
    if (l->h) (void)blas.destroy(l->h);
    free(l);
    d->products = NULL;
}

const struct lvn_gpu_matmul_library *lvn_cuda_products_library(const struct lvn_device *d)
{
    const struct lvn_cuda_products *l = lvn_cuda_of(d)->products;
    return l ? &l->library : NULL;
}

/* --- launches --- */

static void lower(int *at, int64_t offset)
{
    while (offset % *at) *at /= 2;
}

/* Micro-batches of odd lengths may be less aligned than their operand's shape implies. */
static void lower_alignments(const struct lvn_gpu_program *p, const struct lvn_gpu_launch *l, struct lvn_gpu_matmul *m)
{
    int *const at[LVN_GPU_PRODUCT_ARGS] = {[LVN_GPU_PRODUCT_A] = &m->a_at,
                                           [LVN_GPU_PRODUCT_B] = &m->b_at,
                                           [LVN_GPU_PRODUCT_BIAS] = &m->c_at,
                                           [LVN_GPU_PRODUCT_C] = &m->c_at,
                                           [LVN_GPU_PRODUCT_Y] = &m->c_at};
    for (int k = 0; k < LVN_GPU_PRODUCT_ARGS; k++)
        if (at[k] && l->args[k].memory) lower(at[k], l->args[k].offset);
    for (int k = 0; k < p->n_varying; k++)
        if (p->varying[k].launch == l && at[p->varying[k].arg]) lower(at[p->varying[k].arg], p->varying[k].stride);
}

enum lvn_status lvn_cuda_product_prepare(const struct lvn_gpu_program *p, struct lvn_gpu_launch *l)
{
    const struct lvn_cuda_device *d = lvn_cuda_of(p->base.device);
    struct lvn_gpu_matmul m = *l->product;
    struct chosen *c;
    LVN_TRY(find(d->products, &m, &c));
    const int64_t planned = c->scratch;
    lower_alignments(p, l, &m);
    if (memcmp(&m, l->product, sizeof m) != 0) {
        m.max_scratch_bytes = planned;
        LVN_TRY(find(d->products, &m, &c));
    }
    LVN_CHECK(
        c->n > 0, UNSUPPORTED,
        "%s has no algorithm for a matrix multiplication of %lld x %lld x %lld with operands aligned to %d, %d and "
        "%d bytes; set LEVIN_CUBLASLT=off",
        version(), (long long)m.M, (long long)m.N, (long long)m.K, m.a_at, m.b_at, m.c_at);
    l->backend_data = c;
    return LVN_OK;
}

static lvn_cuda_address address(const struct lvn_gpu_launch *l, int arg)
{
    return lvn_cuda_address_of(l->args[arg].memory, l->args[arg].offset);
}

enum lvn_status lvn_cuda_product_launch(const struct lvn_cuda_device *d, const struct lvn_gpu_launch *l)
{
    const struct chosen *c = l->backend_data;
    const float one = 1, sum = l->args[LVN_GPU_PRODUCT_ADD].number ? 1 : 0;
    const lvn_cuda_address bias = address(l, LVN_GPU_PRODUCT_BIAS), aux = address(l, LVN_GPU_PRODUCT_C);
    const lvn_cuda_address to = c->product.gelu ? address(l, LVN_GPU_PRODUCT_Y) : aux;
    const lvn_cuda_address scratch =
        c->scratch ? (address(l, LVN_GPU_PRODUCT_SCRATCH) + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN : 0;
    if (c->product.bias)
        DO(d, blas.operation_set(c->o, BIAS_POINTER, &bias, sizeof bias), "launching a matrix multiplication");
    if (c->product.gelu)
        DO(d, blas.operation_set(c->o, AUX_POINTER, &aux, sizeof aux), "launching a matrix multiplication");
    DO(d,
       blas.multiply(d->products->h, c->o, &one, address(l, LVN_GPU_PRODUCT_B), c->b, address(l, LVN_GPU_PRODUCT_A),
                     c->a, &sum, to, c->c, to, c->c, &c->algorithm, scratch, (size_t)c->scratch, d->work),
       "launching a matrix multiplication");
    return LVN_OK;
}

/* --- choosing by measuring --- */

enum { RUNS = 4 };                                       /* that are timed together */
static const float max_ms = 500, required_ratio = 0.97f; /* for a multiplication; of the time of the first answer */

/* Everything that decides which algorithms there are and how fast they are. */
static const char *key_of(struct lvn_arena *a, const struct lvn_cuda_products *l, const struct lvn_gpu_matmul *m)
{
    return lvn_arena_printf(
        a,
        "%s, %s, compute capability %d%s: %lld x %lld x %lld, rows of %lld, %lld, %lld, transposed %d, %d, %s to %s, "
        "bias %d, gelu %d, aligned to %d, %d, %d, scratch %lld",
        version(), l->device->facts.name, l->device->facts.capability, l->tf32 ? ", TF32" : "", (long long)m->M,
        (long long)m->N, (long long)m->K, (long long)m->a_ld, (long long)m->b_ld, (long long)m->c_ld, m->a_transposed,
        m->b_transposed, lvn_dtype_name((enum lvn_dtype)m->in), lvn_dtype_name((enum lvn_dtype)m->out), m->bias,
        m->gelu, m->a_at, m->b_at, m->c_at, (long long)m->max_scratch_bytes);
}

/* Use an algorithm from elsewhere, if the library accepts it within the planned scratch. */
static bool use(const struct lvn_cuda_products *l, struct chosen *c, const struct algorithm *algorithm)
{
    struct heuristic h;
    memset(&h, 0, sizeof h);
    if (blas.accept(l->h, c->o, c->b, c->a, c->c, c->c, algorithm, &h) || h.status || (int64_t)h.scratch > c->scratch)
        return false;
    c->algorithm = *algorithm;
    return c->tuned = true;
}

static bool use_cached(const struct lvn_cuda_products *l, struct chosen *c, const char *key)
{
    void *found;
    int64_t bytes;
    struct algorithm algorithm;
    if (!lvn_kernel_cache_find(key, &found, &bytes)) return false;
    const bool whole = bytes == (int64_t)sizeof algorithm;
    if (whole) memcpy(&algorithm, found, sizeof algorithm);
    free(found);
    return whole && use(l, c, &algorithm);
}

struct stopwatch {
    struct lvn_cuda_event *begin, *end;
};

/* *ms: time of n runs of the launch; *works is false: the library refuses the algorithm. */
static enum lvn_status time_runs(const struct lvn_cuda_device *d, const struct stopwatch *w,
                                 const struct lvn_gpu_launch *l, int n, float *ms, bool *works)
{
    *works = true;
    LVN_CUDA_DO(d, lvn_cuda.event_record(w->begin, d->work), "timing a matrix multiplication");
    for (int k = 0; k < n && *works; k++) *works = lvn_cuda_product_launch(d, l) == LVN_OK;
    if (!*works) lvn_error_clear();
    LVN_CUDA_DO(d, lvn_cuda.event_record(w->end, d->work), "timing a matrix multiplication");
    LVN_CUDA_DO(d, lvn_cuda.event_finish(w->end), "timing a matrix multiplication");
    LVN_CUDA_DO(d, lvn_cuda.event_elapsed(ms, w->begin, w->end), "timing a matrix multiplication");
    return LVN_OK;
}

/* Time of a run of the launch's algorithm; one that is far slower than `best` is timed once. Adds to *spent. */
static enum lvn_status time_algorithm(const struct lvn_cuda_device *d, const struct stopwatch *w,
                                      const struct lvn_gpu_launch *l, float best, float *ms, float *spent, bool *works)
{
    float first = 0, more = 0;
    LVN_TRY(time_runs(d, w, l, 1, &first, works)); /* it loads its kernel */
    if (*works) LVN_TRY(time_runs(d, w, l, 1, ms, works));
    *spent += first + *ms;
    if (!*works || *ms > 2 * best || *spent > max_ms) return LVN_OK;
    LVN_TRY(time_runs(d, w, l, RUNS, &more, works));
    *ms = more / RUNS;
    *spent += more;
    return LVN_OK;
}

/* Set the algorithm of a launch to the fastest candidate; the first one, unless another is faster by some percent. */
static enum lvn_status measure_candidates(const struct lvn_cuda_device *d, const struct stopwatch *w,
                                          const struct lvn_gpu_launch *l)
{
    struct chosen *c = l->backend_data;
    float best = INFINITY, spent = 0;
    int fastest = 0;
    enum lvn_status status = LVN_OK;
    for (int k = 0; k < c->n && spent < max_ms && status == LVN_OK; k++) {
        float ms = 0;
        bool works;
        c->algorithm = c->candidate[k];
        status = time_algorithm(d, w, l, best, &ms, &spent, &works);
        lvn_work_done(1);
        if (status == LVN_OK) status = lvn_interrupt_check();
        if (status != LVN_OK || !works || !(ms < best)) continue;
        best = k ? ms : ms * required_ratio;
        fastest = k;
    }
    c->algorithm = c->candidate[fastest];
    return status;
}

/* The cache decides even after a measurement: another process may have measured too, and without a cache the next run
 * would not find the choice. */
static enum lvn_status measure_launch(const struct lvn_cuda_device *d, const struct stopwatch *w,
                                      const struct lvn_gpu_launch *l, const char *key, struct lvn_tuned *t)
{
    struct lvn_cuda_products *all = d->products;
    struct chosen *c = l->backend_data;
    if (all->no_cache) return LVN_OK;
    LVN_TRY(measure_candidates(d, w, l));
    if (lvn_kernel_cache_store(key, &c->algorithm, sizeof c->algorithm) != LVN_OK) {
        all->no_cache = true;
        lvn_log(LVN_LOG_WARN,
                "no algorithms of matrix multiplications are chosen by measuring, because a choice could not be stored "
                "for later runs (%s): cuBLASLt's first ones are used, which may be slower",
                levin_error_text());
        lvn_error_clear();
    }
    if (use_cached(all, c, key))
        t->measured++;
    else
        c->algorithm = c->candidate[0];
    return LVN_OK;
}

static enum lvn_status tune_launch(const struct lvn_cuda_device *d, const struct stopwatch *w,
                                   const struct lvn_gpu_launch *l, bool measure, struct lvn_tuned *t)
{
    const struct lvn_cuda_products *all = d->products;
    struct chosen *c = l->backend_data;
    LVN_LOCAL_ARENA(a);
    if (c->tuned) return LVN_OK;
    const char *key = key_of(&a, all, &c->product);
    if (!key) return LVN_MEMORY;
    const uint64_t hash = lvn_name_hash(key);
    const struct recorded *recorded = all->recorded;
    while (recorded && recorded->key != hash) recorded = recorded->next;
    if (recorded && use(all, c, &recorded->algorithm)) return LVN_OK;
    t->refused += recorded != NULL;
    if (measure && c->n > 1 && !use_cached(all, c, key)) LVN_TRY(measure_launch(d, w, l, key, t));
    t->first += !c->tuned && (recorded || c->n > 1);
    return LVN_OK;
}

static enum lvn_status tune(struct lvn_bound *b, bool measure, struct lvn_tuned *t)
{
    const struct lvn_gpu_program *p = (const struct lvn_gpu_program *)b;
    const struct lvn_cuda_device *d = lvn_cuda_of(b->device);
    struct stopwatch w = {0};
    if (!d->products) return LVN_OK;
    LVN_TRY(lvn_cuda_use(d));
    enum lvn_status status = lvn_cuda_answer(lvn_cuda.event_new(&w.begin, 0), "creating an event", d->facts.number);
    if (status == LVN_OK) status = lvn_cuda_answer(lvn_cuda.event_new(&w.end, 0), "creating an event", d->facts.number);
    for (int k = 0; k < p->n_launches && status == LVN_OK; k++)
        if (p->launches[k].product) status = tune_launch(d, &w, &p->launches[k], measure && d->products->tunes, t);
    if (w.begin) (void)lvn_cuda.event_free(w.begin);
    if (w.end) (void)lvn_cuda.event_free(w.end);
    return status;
}

/* A line: the hash of the key and the algorithm, hexadecimal. */
static void list(const struct lvn_device *d, struct lvn_text *out)
{
    const struct lvn_cuda_products *l = lvn_cuda_of(d)->products;
    LVN_LOCAL_ARENA(a);
    for (const struct chosen *c = l ? l->list : NULL; c; c = c->next) {
        const char *key = c->tuned ? key_of(&a, l, &c->product) : NULL;
        char hex[2 * sizeof c->algorithm + 1];
        lvn_hex_text(&c->algorithm, sizeof c->algorithm, hex);
        if (key) lvn_text_printf(out, "%016llx %s\n", (unsigned long long)lvn_name_hash(key), hex);
        out->failed = out->failed || (c->tuned && !key);
    }
}

/* Lines of another form are ignored. */
static enum lvn_status use_recorded(struct lvn_device *d, const char *lines)
{
    enum { KEY = 16 };
    struct lvn_cuda_products *l = lvn_cuda_of(d)->products;
    if (!l) return LVN_OK;
    forget_recorded(l);
    for (const char *line = lines; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        struct recorded *t = lvn_calloc(1, sizeof *t);
        if (!t) return LVN_MEMORY;
        const bool whole = strcspn(line, "\n") == KEY + 1 + 2 * sizeof t->algorithm && line[KEY] == ' ' &&
                           lvn_hex_bytes(line + KEY + 1, sizeof t->algorithm, &t->algorithm);
        t->key = strtoull(line, NULL, 16);
        t->next = l->recorded;
        if (whole)
            l->recorded = t;
        else
            free(t);
    }
    return LVN_OK;
}

const struct lvn_tuning_ops lvn_cuda_tuning_ops = {.use_recorded = use_recorded, .tune = tune, .list = list};
