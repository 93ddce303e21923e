/* run_rate.c - peak rates of the CPU for rate() of the backend: matrix multiplication and reading memory. Returns the
 * best of several runs. */
#ifdef __x86_64__
#include <emmintrin.h>
#endif

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/run.h"
#include "base/clock.h"
#include "base/threads.h"
#include "host/machine.h"
#include "host/pages.h"

/* Repeated runs by one team of threads, since starting a team takes longer than a multiplication. */
struct measurement {
    void (*prepare)(void *argument, int thread, int n_threads); /* before each run, not timed; or NULL */
    void (*run)(void *argument, int thread, int n_threads);
    void *argument;
    double seconds; /* time budget */
    double best;    /* seconds of the fastest run */
    bool unfinished;
};

static void repeat(void *argument, int thread, int n_threads)
{
    struct measurement *t = argument;
    double end = lvn_seconds() + t->seconds;
    for (int i = 0; t->unfinished; i++) {
        if (t->prepare) t->prepare(t->argument, thread, n_threads);
        lvn_team_barrier();
        double start = lvn_seconds();
        t->run(t->argument, thread, n_threads);
        lvn_team_barrier();
        if (thread == 0) {
            double seconds = lvn_seconds() - start;
            if (i == 0 || seconds < t->best) t->best = seconds;
            t->unfinished = i < 3 || lvn_seconds() < end;
        }
        lvn_team_barrier();
    }
}

static double best_of(struct measurement t, int threads)
{
    t.unfinished = true;
    lvn_team_run(threads, repeat, &t);
    return t.best;
}

struct product {
    struct lvn_gemm gemm;
    const struct lvn_gemm_kernel *kernel;
    char *scratch; /* `each` bytes per thread */
    int64_t each;
};

static void multiply(void *argument, int thread, int n_threads)
{
    const struct product *p = argument;
    p->kernel->run(&p->gemm, p->scratch + thread * p->each, thread, n_threads);
}

static enum lvn_status measure_products(int threads, bool bf16, double *flops_per_s)
{
    enum { M = 1024, N = 768, K = 768 };
    struct product p = {.kernel = lvn_gemm_kernel(lvn_isa_best())};
    int64_t values = (int64_t)M * K + (int64_t)K * N + (int64_t)M * N;
    p.gemm = (struct lvn_gemm){
        .m = M, .n = N, .k = K, .a_row = K, .a_col = 1, .b_row = N, .b_col = 1, .bf16 = bf16, .c_row = N};
    int64_t bytes = values * (int64_t)sizeof(float), extra;
    p.each = p.kernel->scratch(&p.gemm);
    extra = p.each * threads + 64;
    float *all = lvn_pages_alloc(bytes);
    p.scratch = lvn_pages_alloc(extra);
    *flops_per_s = 0;
    if (all && p.scratch) {
        for (int64_t i = 0; i < values; i++) all[i] = (float)(i % 13) * 0.25f - 1.5f;
        p.gemm.a = all;
        p.gemm.b = all + (int64_t)M * K;
        p.gemm.c = all + (int64_t)M * K + (int64_t)K * N;
        *flops_per_s =
            2.0 * M * N * K / best_of((struct measurement){.run = multiply, .argument = &p, .seconds = 0.25}, threads);
    }
    lvn_pages_free(all, bytes);
    lvn_pages_free(p.scratch, extra);
    return *flops_per_s > 0 ? LVN_OK : LVN_MEMORY;
}

struct reading {
    const uint64_t *words;
    int64_t n;
    uint64_t sum[64][8]; /* one cache line per thread: prevents the reads from being optimized away */
};

static void read_all(void *argument, int thread, int n_threads)
{
    struct reading *r = argument;
    int64_t begin, end;
    uint64_t s[8] = {0};
    lvn_thread_range(r->n, 512, thread, n_threads, &begin, &end);
    for (int64_t i = begin; i + 8 <= end; i += 8) {
        for (int k = 0; k < 8; k++) s[k] += r->words[i + k];
    }
    for (int k = 0; k < 8; k++) r->sum[thread % 64][k] = s[k];
}

#ifdef __x86_64__
/* Evict the thread's words from the CPU's caches, so that reads come from memory even with large caches. */
static void evict_all(void *argument, int thread, int n_threads)
{
    struct reading *r = argument;
    int64_t begin, end;
    lvn_thread_range(r->n, 512, thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i += 8) _mm_clflush(r->words + i);
    _mm_mfence();
}

static int64_t reading_bytes(void)
{
    return (int64_t)128 << 20;
}
#else
static void (*const evict_all)(void *argument, int thread, int n_threads) = NULL;

/* Four times the last-level cache, so that most reads come from memory; 128 MiB if its size is unknown. */
static int64_t reading_bytes(void)
{
    struct lvn_machine m;
    lvn_machine_read(&m);
    return m.cache[2] > (int64_t)32 << 20 ? 4 * m.cache[2] : (int64_t)128 << 20;
}
#endif

static enum lvn_status measure_reading(int threads, double *bytes_per_s)
{
    int64_t bytes = reading_bytes(), max = lvn_memory_available() / 4;
    if (max > 0 && bytes > max) bytes = max;
    bytes = bytes / 4096 * 4096;
    struct reading r = {.n = bytes / (int64_t)sizeof *r.words};
    uint64_t *words = lvn_pages_alloc(bytes);
    *bytes_per_s = 0;
    if (!words) return LVN_MEMORY;
    for (int64_t i = 0; i < r.n; i++) words[i] = (uint64_t)i;
    r.words = words;
    *bytes_per_s =
        (double)bytes /
        best_of((struct measurement){.prepare = evict_all, .run = read_all, .argument = &r, .seconds = 0.2}, threads);
    lvn_pages_free(words, bytes);
    return LVN_OK;
}

enum lvn_status lvn_cpu_rate(struct lvn_device *d, enum lvn_rate rate, double *per_s)
{
    return rate == LVN_RATE_READING ? measure_reading(d->threads, per_s)
                                    : measure_products(d->threads, rate == LVN_RATE_PRODUCTS_BF16, per_s);
}
