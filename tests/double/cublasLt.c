/* cublasLt.c - a double of cuBLASLt: products on the processor, put onto the streams of the driver's double, so that
 * they run as late as its order says, and again whenever a graph is launched.
 *
 * It accepts what the tables of NVIDIA's documentation list, and requires of callers: operands of one type, rows as
 * long as their layout, addresses aligned as declared when the algorithm was queried, scratch at multiples of 256
 * bytes, which it overwrites. An algorithm is valid for one product. Callers must have excluded algorithms that sum
 * along K in several orders or round partial sums.
 *
 *   LEVIN_DOUBLE_CUBLASLT   its major version (13)
 *   LEVIN_DOUBLE_TIMES      milliseconds of its algorithms on the clock of the driver's double, the best by its
 *                           heuristics first (1,1); 0: it is offered, and cannot run. The first one adds in fp64, the
 *                           others in fp32, so bits differ; each needs more scratch than the one before */
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>

#include "double.h"

#define EXPORT __attribute__((visibility("default")))
#define CALL(name, code)                                                                                               \
    do {                                                                                                               \
        int failed_ = double_call(name, code);                                                                         \
        if (failed_) return failed_;                                                                                   \
    } while (0)

enum { NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID = 7, ARCH_MISMATCH = 8 };
enum { EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { REAL_32 = 0, REAL_16 = 2, REAL_BF16 = 14, COMPUTE_32 = 68, COMPUTE_TF32 = 77 };
enum { TRANSPOSE_A = 3, TRANSPOSE_B = 4, EPILOGUE = 7, BIAS_AT = 8, KEPT_AT = 11, KEPT_LD = 12 };
enum { BIAS = 4, GELU = 32, KEEP = 128 };
enum { MAGIC = 0x4c74, SCRATCH = 1000 };

struct layout {
    int type;
    uint64_t rows, columns;
    int64_t ld;
};

struct operation {
    int compute, transpose_a, transpose_b, epilogue;
    void *bias, *kept;
    int64_t kept_ld;
};

struct preference {
    uint64_t max;
    uint32_t reductions, at[4]; /* of A, B, C, D */
};

struct algorithm {
    uint64_t magic, what, scratch, at[4], number;
};

struct answer {
    struct algorithm algorithm;
    size_t scratch;
    int status;
    float waves;
    int none[4];
};

static struct {
    long handles, operations, layouts, preferences;
} left;

/* Kept to the end, because a graph may run it again. */
static struct job {
    struct operation o;
    struct layout a, b, d;
    const void *from_a, *from_b;
    void *to;
    float beta;
    void *scratch;
    size_t scratch_bytes;
    uint64_t algorithm;
    double ms;
    struct job *next;
} * jobs;

EXPORT void doubleBegin(void)
{
    double_begin();
}

EXPORT long doubleLeft(void)
{
    return left.handles + left.operations + left.layouts + left.preferences;
}

EXPORT long doubleCalls(const char *name)
{
    return double_calls(name);
}

__attribute__((destructor)) static void report(void)
{
    FILE *f = double_report();
    if (!f) return;
    fprintf(f, "left of cublasLt %ld\n", doubleLeft());
    if (jobs) fprintf(f, "last algorithm %d\n", (int)jobs->algorithm);
    fclose(f);
}

EXPORT int cublasLtGetProperty(int which, int *value)
{
    CALL("cublasLtGetProperty", INVALID);
    *value = which == 0 ? (int)double_number("LEVIN_DOUBLE_CUBLASLT", 13) : 0;
    return 0;
}

EXPORT int cublasLtCreate(void **handle)
{
    CALL("cublasLtCreate", NOT_INITIALIZED);
    *handle = calloc(1, 16);
    left.handles++;
    return 0;
}

EXPORT int cublasLtDestroy(void *handle)
{
    CALL("cublasLtDestroy", NOT_INITIALIZED);
    free(handle);
    left.handles--;
    return 0;
}

EXPORT int cublasLtMatmulDescCreate(struct operation **o, int compute, int scale)
{
    CALL("cublasLtMatmulDescCreate", ALLOC_FAILED);
    if (scale != REAL_32) return INVALID;
    *o = calloc(1, sizeof **o);
    **o = (struct operation){.compute = compute, .epilogue = 1};
    left.operations++;
    return 0;
}

static int set(void *to, size_t bytes, const void *value, size_t given)
{
    if (!value || bytes != given) return INVALID;
    memcpy(to, value, bytes);
    return 0;
}

EXPORT int cublasLtMatmulDescSetAttribute(struct operation *o, int what, const void *value, size_t bytes)
{
    CALL("cublasLtMatmulDescSetAttribute", INVALID);
    switch (what) {
    case TRANSPOSE_A:
        return set(&o->transpose_a, sizeof o->transpose_a, value, bytes);
    case TRANSPOSE_B:
        return set(&o->transpose_b, sizeof o->transpose_b, value, bytes);
    case EPILOGUE:
        return set(&o->epilogue, sizeof o->epilogue, value, bytes);
    case BIAS_AT:
        return set(&o->bias, sizeof o->bias, value, bytes);
    case KEPT_AT:
        return set(&o->kept, sizeof o->kept, value, bytes);
    case KEPT_LD:
        return set(&o->kept_ld, sizeof o->kept_ld, value, bytes);
    default:
        return INVALID;
    }
}

EXPORT int cublasLtMatmulDescDestroy(struct operation *o)
{
    CALL("cublasLtMatmulDescDestroy", INVALID);
    free(o);
    left.operations--;
    return 0;
}

EXPORT int cublasLtMatrixLayoutCreate(struct layout **l, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
    CALL("cublasLtMatrixLayoutCreate", ALLOC_FAILED);
    *l = calloc(1, sizeof **l);
    **l = (struct layout){type, rows, columns, ld};
    left.layouts++;
    return 0;
}

EXPORT int cublasLtMatrixLayoutDestroy(struct layout *l)
{
    CALL("cublasLtMatrixLayoutDestroy", INVALID);
    free(l);
    left.layouts--;
    return 0;
}

EXPORT int cublasLtMatmulPreferenceCreate(struct preference **p)
{
    CALL("cublasLtMatmulPreferenceCreate", ALLOC_FAILED);
    *p = calloc(1, sizeof **p);
    **p = (struct preference){.reductions = 7, .at = {256, 256, 256, 256}};
    left.preferences++;
    return 0;
}

EXPORT int cublasLtMatmulPreferenceSetAttribute(struct preference *p, int what, const void *value, size_t bytes)
{
    CALL("cublasLtMatmulPreferenceSetAttribute", INVALID);
    if (what == 1) return set(&p->max, sizeof p->max, value, bytes);
    if (what == 3) return set(&p->reductions, sizeof p->reductions, value, bytes);
    return what >= 5 && what <= 8 ? set(&p->at[what - 5], sizeof p->at[0], value, bytes) : INVALID;
}

EXPORT int cublasLtMatmulPreferenceDestroy(struct preference *p)
{
    CALL("cublasLtMatmulPreferenceDestroy", INVALID);
    free(p);
    left.preferences--;
    return 0;
}

/* --- products --- */

static uint64_t length_along_k(const struct operation *o, const struct layout *a)
{
    return o->transpose_a ? a->rows : a->columns;
}

static bool fits(const struct operation *o, const struct layout *a, const struct layout *b, const struct layout *d)
{
    const struct layout *all[3] = {a, b, d};
    for (int k = 0; k < 3; k++)
        if (!all[k]->rows || !all[k]->columns || all[k]->ld < (int64_t)all[k]->rows) return false;
    return (o->transpose_a ? a->columns : a->rows) == d->rows &&
           (o->transpose_b ? b->rows : b->columns) == d->columns &&
           (o->transpose_b ? b->columns : b->rows) == length_along_k(o, a);
}

static bool supported(const struct operation *o, const struct layout *a, const struct layout *b, const struct layout *d)
{
    const bool gelu = o->epilogue & GELU, known = (o->epilogue & ~(1 | BIAS | GELU | KEEP)) == 0;
    if (!known || (o->epilogue & GELU && !(o->epilogue & KEEP)) || a->type != b->type) return false;
    if (gelu && (o->kept_ld % 8 || o->kept_ld < (int64_t)d->rows || !o->kept)) return false;
    if (o->epilogue & BIAS && !o->bias) return false;
    if (a->type == REAL_BF16 || a->type == REAL_16)
        return o->compute == COMPUTE_32 && (d->type == a->type || d->type == REAL_32);
    return a->type == REAL_32 && d->type == REAL_32 && (o->compute == COMPUTE_32 || o->compute == COMPUTE_TF32);
}

/* The product that an algorithm was chosen for; it is valid for no other. */
static uint64_t number_of(const struct operation *o, const struct layout *a, const struct layout *b,
                          const struct layout *d)
{
    const int64_t all[] = {o->compute, o->transpose_a, o->transpose_b,   o->epilogue,         a->type,
                           b->type,    d->type,        (int64_t)a->rows, (int64_t)a->columns, a->ld,
                           b->ld,      d->ld,          (int64_t)d->rows, (int64_t)d->columns};
    uint64_t number = 0;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) number = number * 1000003 + (uint64_t)all[k];
    return number;
}

/* Milliseconds of algorithm k; -1: there are fewer. */
static double time_of(uint64_t k)
{
    const char *times = getenv("LEVIN_DOUBLE_TIMES");
    if (!times || !*times) times = "1,1";
    for (; k && times; k--) times = strchr(times, ',') ? strchr(times, ',') + 1 : NULL;
    return times ? strtod(times, NULL) : -1;
}

static void offer(struct answer *to, uint64_t k, uint64_t what, const struct preference *p)
{
    const size_t scratch = (size_t)SCRATCH * (k + 1);
    *to = (struct answer){.scratch = p->max < scratch ? (size_t)p->max : scratch};
    to->algorithm = (struct algorithm){.magic = MAGIC, .what = what, .scratch = to->scratch, .number = k};
    for (int i = 0; i < 4; i++) to->algorithm.at[i] = p->at[i];
}

EXPORT int cublasLtMatmulAlgoGetHeuristic(void *handle, struct operation *o, struct layout *a, struct layout *b,
                                          struct layout *c, struct layout *d, struct preference *p, int wanted,
                                          struct answer *to, int *n)
{
    *n = 0;
    CALL("cublasLtMatmulAlgoGetHeuristic", INVALID);
    if (!handle || wanted < 1 || c != d || !fits(o, a, b, d) || p->reductions & 5) return INVALID;
    if (!supported(o, a, b, d)) return NOT_SUPPORTED;
    if (a->type == REAL_BF16 && double_number("LEVIN_DOUBLE_CAPABILITY", 90) < 80) return ARCH_MISMATCH;
    while (*n < wanted && time_of((uint64_t)*n) >= 0) {
        offer(&to[*n], (uint64_t)*n, number_of(o, a, b, d), p);
        ++*n;
    }
    return 0;
}

EXPORT int cublasLtMatmulAlgoCheck(void *handle, struct operation *o, struct layout *a, struct layout *b,
                                   struct layout *c, struct layout *d, const struct algorithm *how, struct answer *to)
{
    CALL("cublasLtMatmulAlgoCheck", INVALID);
    if (!handle || c != d || how->magic != MAGIC || how->what != number_of(o, a, b, d)) return INVALID;
    if (time_of(how->number) < 0) return NOT_SUPPORTED;
    *to = (struct answer){.algorithm = *how, .scratch = how->scratch};
    return 0;
}

/* fp16 has steps of 2^(e - 11) where a number is in [2^(e - 1), 2^e), and none finer than 2^-24. */
static float get16(uint16_t x)
{
    const int e = x >> 10 & 31, m = x & 1023;
    const float y = e == 31 ? (m ? NAN : INFINITY) : e ? ldexpf((float)(1024 + m), e - 25) : ldexpf((float)m, -24);
    return x >> 15 ? -y : y;
}

static uint16_t put16(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    int e;
    if (x != x) return 0x7e00;
    if (x == 0) return sign;
    if (fabsf(x) >= 65520) return sign | 0x7c00;
    (void)frexpf(fabsf(x), &e);
    if (e < -13)
        e = -13; /* the same steps below 2^-14 as above it; a number that is rounded up may get the next exponent */
    return (uint16_t)(sign | (uint16_t)((e + 13) * 1024 + (int)nearbyintf(ldexpf(fabsf(x), 11 - e))));
}

static float get(const void *p, int type, int64_t i)
{
    uint32_t bits;
    if (type == REAL_32) return ((const float *)p)[i];
    if (type == REAL_16) return get16(((const uint16_t *)p)[i]);
    bits = (uint32_t)((const uint16_t *)p)[i] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void put(void *p, int type, int64_t i, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (type == REAL_32)
        ((float *)p)[i] = x;
    else if (type == REAL_16)
        ((uint16_t *)p)[i] = put16(x);
    else
        ((uint16_t *)p)[i] = (uint16_t)(x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float to_tf32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + 0x1000) & ~0x1fffu;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Element (i,k) of a factor, K the faster dimension. */
static float *gather(const void *from, const struct layout *l, bool k_down, uint64_t n, uint64_t K, bool tf32)
{
    float *to = malloc(n * K * sizeof *to + 1);
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < K; k++) {
            float x = get(from, l->type, k_down ? (int64_t)k + (int64_t)i * l->ld : (int64_t)i + (int64_t)k * l->ld);
            to[i * K + k] = tf32 ? to_tf32(x) : x;
        }
    return to;
}

static void pass(double ms)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *p = driver ? dlsym(driver, "doublePass") : NULL;
    void (*f)(double ms);
    if (driver) dlclose(driver);
    memcpy((void *)&f, &p, sizeof p);
    if (f) f(ms);
}

/* As a float adds, for all algorithms but the first. */
static double add(const struct job *j, double sum, double x)
{
    return j->algorithm ? (double)((float)sum + (float)x) : sum + x;
}

static void run(void *argument)
{
    const struct job *j = argument;
    const uint64_t K = length_along_k(&j->o, &j->a);
    const bool tf32 = j->o.compute == COMPUTE_TF32;
    if (j->scratch_bytes) memset(j->scratch, 0xff, j->scratch_bytes);
    float *a = gather(j->from_a, &j->a, j->o.transpose_a, j->d.rows, K, tf32);
    float *b = gather(j->from_b, &j->b, !j->o.transpose_b, j->d.columns, K, tf32);
    for (uint64_t i = 0; i < j->d.rows; i++)
        for (uint64_t n = 0; n < j->d.columns; n++) {
            const int64_t at = (int64_t)i + (int64_t)n * j->d.ld;
            double sum = 0;
            for (uint64_t k = 0; k < K; k++) sum = add(j, sum, (double)a[i * K + k] * (double)b[n * K + k]);
            if (j->beta != 0) sum += (double)j->beta * (double)get(j->to, j->d.type, at);
            if (j->o.epilogue & BIAS) sum += (double)get(j->o.bias, j->d.type, (int64_t)i);
            if (j->o.epilogue & GELU) {
                put(j->o.kept, j->d.type, (int64_t)i + (int64_t)n * j->o.kept_ld, (float)sum);
                sum = 0.5 * sum * (1 + tanh(0.79788456080286535588 * (sum + 0.044715 * sum * sum * sum)));
            }
            put(j->to, j->d.type, at, (float)sum);
        }
    free(a);
    free(b);
    pass(j->ms);
}

/* As a kernel, on the driver's stream. */
static int on_stream(struct job *j, void *stream)
{
    static int (*launch)(void *stream, void (*f)(void *), void *argument);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void *p = driver ? dlsym(driver, "cuLaunchHostFunc") : NULL;
    if (driver) dlclose(driver);
    memcpy((void *)&launch, &p, sizeof p);
    j->next = jobs;
    jobs = j;
    return launch && launch(stream, run, j) == 0 ? 0 : EXECUTION_FAILED;
}

EXPORT int cublasLtMatmul(void *handle, struct operation *o, const float *alpha, const void *a, struct layout *la,
                          const void *b, struct layout *lb, const float *beta, const void *c, struct layout *lc,
                          void *d, struct layout *ld, const struct algorithm *how, void *scratch, size_t scratch_bytes,
                          void *stream)
{
    const void *const at[4] = {a, b, c, d};
    CALL("cublasLtMatmul", EXECUTION_FAILED);
    if (!handle || lc != ld || c != d || *alpha != 1 || how->magic != MAGIC) return INVALID;
    if (!fits(o, la, lb, ld) || !supported(o, la, lb, ld) || how->what != number_of(o, la, lb, ld)) return INVALID;
    for (int k = 0; k < 4; k++)
        if (!at[k] || (uintptr_t)at[k] % how->at[k]) return INVALID;
    if ((o->epilogue & BIAS && (uintptr_t)o->bias % how->at[2]) ||
        (o->epilogue & GELU && (uintptr_t)o->kept % how->at[2]))
        return INVALID;
    if (time_of(how->number) <= 0) return NOT_SUPPORTED;
    if (scratch_bytes < how->scratch || (uintptr_t)scratch % 256 || (scratch_bytes && !scratch)) return INVALID;
    struct job *j = calloc(1, sizeof *j);
    *j = (struct job){.o = *o,
                      .a = *la,
                      .b = *lb,
                      .d = *ld,
                      .from_a = a,
                      .from_b = b,
                      .to = d,
                      .beta = *beta,
                      .scratch = scratch,
                      .scratch_bytes = scratch_bytes,
                      .algorithm = how->number,
                      .ms = time_of(how->number)};
    return on_stream(j, stream);
}
