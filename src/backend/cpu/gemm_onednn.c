/* gemm_onednn.c - matrix products by oneDNN, where that is better than our own or asked for.
 *
 * The library is opened at run time (version 2 or 3; nothing of it is needed to build): of its C interface one function
 * is used, dnnl_sgemm, the same in both. Called by one thread of a team it works on that thread alone. C is cut into
 * tiles fixed by its shape, and each is one call: so which thread computes a tile, and how many threads there are, does
 * not change its bits; how many rows are computed may, unlike with our own product.
 *
 * Our own product is faster on AVX2 and AVX-512 (bench/bench_gemm.c shows both). So oneDNN is the choice only on x86
 * processors without AVX2, for which we have SSE only, and with LEVIN_MATMUL=onednn; LEVIN_MATMUL=native forbids it. */
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/cpu/gemm.h"
#include "base/threads.h"

/* From oneapi/dnnl/dnnl_types.h, versions 2 and 3. */
struct version {
    int major, minor, patch;
    const char *hash;
    unsigned cpu_runtime, gpu_runtime;
};
enum { RUNTIME_SEQUENTIAL = 1, RUNTIME_OPENMP = 2 };
typedef int sgemm_function(char transa, char transb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                           int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

static pthread_once_t once = PTHREAD_ONCE_INIT;
static sgemm_function *sgemm; /* NULL: not there */
static bool chosen;
static char engine[96] = "levin's own";

#if defined(LVN_ONEDNN)
/* Other builds of the library would start threads of their own inside ours. */
static bool usable(void *library)
{
    const struct version *(*version)(void);
    *(void **)&version = dlsym(library, "dnnl_version");
    if (!version || !dlsym(library, "dnnl_sgemm")) return false;
    const struct version *v = version();
    if (v->cpu_runtime != RUNTIME_SEQUENTIAL && v->cpu_runtime != RUNTIME_OPENMP) return false;
    snprintf(engine, sizeof engine, "oneDNN %d.%d.%d", v->major, v->minor, v->patch);
    return true;
}

static void load(void)
{
    static const char *const names[] = {"libdnnl.so.3", "libdnnl.so.2", "libdnnl.so"};
    for (size_t i = 0; !sgemm && i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library && usable(library))
            *(void **)&sgemm = dlsym(library, "dnnl_sgemm");
        else if (library)
            dlclose(library);
    }
}
#else
static void load(void)
{
}
#endif

static void choose(void)
{
    const char *wanted = getenv("LEVIN_MATMUL");
    bool ours_is_slow = false;
#if defined(LVN_X86)
    ours_is_slow = lvn_isa_of_processor() == LVN_ISA_GENERIC;
#endif
    if (wanted && !strcmp(wanted, "onednn"))
        chosen = true;
    else
        chosen = ours_is_slow && !(wanted && !strcmp(wanted, "native"));
    if (chosen) load();
    chosen = sgemm != NULL;
}

bool lvn_gemm_onednn_chosen(void)
{
    pthread_once(&once, choose);
    return chosen;
}

const char *lvn_gemm_engine(void)
{
    lvn_gemm_onednn_chosen();
    return engine;
}

/* --- one product --- */

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Side of the tiles along a dimension: even parts of at most `most`, multiples of 48 where there are several. */
static int64_t tile_side(int64_t n, int64_t most)
{
    int64_t parts = (n + most - 1) / most;
    return parts == 1 ? n : ((n + parts - 1) / parts + 47) / 48 * 48;
}

static void run_tile(const struct lvn_gemm *g, int64_t i, int64_t m, int64_t j, int64_t n)
{
    bool a_transposed = g->a_col != 1, b_transposed = g->b_col != 1;
    float *c = g->c + i * g->c_row + j;
    for (int64_t r = 0; g->bias && r < m; r++) memcpy(c + r * g->c_row, g->bias + j, (size_t)n * sizeof *c);
    sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', m, n, g->k, 1, (const float *)g->a + i * g->a_row,
          a_transposed ? g->a_col : g->a_row, (const float *)g->b + j * g->b_col, b_transposed ? g->b_col : g->b_row,
          g->add || g->bias ? 1 : 0, c, g->c_row);
    if (g->finish) g->finish(g, i, m, j, n);
}

bool lvn_gemm_onednn(const struct lvn_gemm *g, int thread, int n_threads)
{
    if (g->a_bf16 || g->b_bf16 || g->bf16) return false;
    if ((g->a_row != 1 && g->a_col != 1) || (g->b_row != 1 && g->b_col != 1)) return false;
    /* A matrix of one row or column may come with distances that dnnl_sgemm refuses. */
    if (g->m == 1 || g->n == 1 || g->k == 1) return false;
    int64_t m = tile_side(g->m, 384), n = tile_side(g->n, 768), columns = (g->n + n - 1) / n;
    int64_t tiles = (g->m + m - 1) / m * columns, tile, end;
    int threads_before = omp_get_max_threads();
    lvn_share(tiles, 1, thread, n_threads, &tile, &end);
    if (n_threads == 1) omp_set_num_threads(1); /* outside a team it would start one of its own */
    for (; tile < end; tile++) {
        int64_t i = tile / columns * m, j = tile % columns * n;
        run_tile(g, i, min(m, g->m - i), j, min(n, g->n - j));
    }
    if (n_threads == 1) omp_set_num_threads(threads_before);
    return true;
}

bool lvn_gemm_onednn_open(void)
{
    pthread_once(&once, choose);
    if (!sgemm) load();
    return sgemm != NULL;
}
