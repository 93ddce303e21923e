/* bench_gemm.c - speed of matrix multiplications.
 *
 *     build/bench_gemm [THREADS] [SECONDS a shape] [NAME...]     all models, or those whose name contains one of these
 *
 * For linear layers of some models: forward y = x w with w stored (in,out) and (out,in), dx, and dw, in GFLOP/s, best
 * of several, each as percent of the best rate that this processor's multiply-add instructions reached in the same run;
 * in fp32, and with operands rounded to bf16 while they are packed. LEVIN_ISA limits the instruction set. Rates of one
 * run may be compared with each other, not those of different runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/gemm.h"
#include "base/status.h"
#include "base/threads.h"
#include "host/machine.h"
#include "host/pages.h"

/* Rows (batch times positions), inputs, outputs. */
static const struct shape {
    const char *model;
    int64_t rows, in, out;
} shapes[] = {
    {"nanogpt-4x128 c_attn", 768, 128, 384},  {"nanogpt-4x128 attn.c_proj", 768, 128, 128},
    {"nanogpt-4x128 c_fc", 768, 128, 512},    {"nanogpt-4x128 c_proj", 768, 512, 128},
    {"nanogpt-4x128 head", 768, 128, 65},     {"gpt-mini c_attn", 8192, 192, 576},
    {"gpt-mini c_fc", 8192, 192, 768},        {"gpt-mini c_proj", 8192, 768, 192},
    {"dawn c_attn", 2048, 768, 2304},         {"dawn attn.c_proj", 2048, 768, 768},
    {"dawn c_fc", 2048, 768, 3072},           {"dawn c_proj", 2048, 3072, 768},
    {"gpt2-124m c_attn", 1024, 768, 2304},    {"gpt2-124m c_fc", 1024, 768, 3072},
    {"gpt2-124m c_proj", 1024, 3072, 768},    {"gpt2-124m head", 512, 768, 50304},
    {"gpt2-124m decode c_fc", 1, 768, 3072},  {"gpt2-124m decode c_proj", 1, 3072, 768},
    {"gpt2-124m decode head", 1, 768, 50304},
};

enum kind { FORWARD_IN_OUT, FORWARD_OUT_IN, DX_IN_OUT, DX_OUT_IN, DW_IN_OUT, DW_OUT_IN, KINDS };
static const char *const kind_names[KINDS] = {"y (in,out)",  "y (out,in)",  "dx (in,out)",
                                              "dx (out,in)", "dw (in,out)", "dw (out,in)"};

static const struct lvn_gemm_kernel *gemm;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct lvn_gemm make(const struct shape *s, enum kind kind, float *x, float *w, float *y)
{
    int64_t R = s->rows, K = s->in, N = s->out;
    bool in_out = kind == FORWARD_IN_OUT || kind == DX_IN_OUT || kind == DW_IN_OUT;
    int64_t wk = in_out ? N : 1, wn = in_out ? 1 : K;
    switch (kind) {
    case FORWARD_IN_OUT:
    case FORWARD_OUT_IN:
        return (struct lvn_gemm){.m = R,
                                 .n = N,
                                 .k = K,
                                 .a = x,
                                 .a_row = K,
                                 .a_col = 1,
                                 .b = w,
                                 .b_row = wk,
                                 .b_col = wn,
                                 .c = y,
                                 .c_row = N};
    case DX_IN_OUT:
    case DX_OUT_IN:
        return (struct lvn_gemm){.m = R,
                                 .n = K,
                                 .k = N,
                                 .a = y,
                                 .a_row = N,
                                 .a_col = 1,
                                 .b = w,
                                 .b_row = wn,
                                 .b_col = wk,
                                 .c = x,
                                 .c_row = K};
    case DW_IN_OUT:
        return (struct lvn_gemm){
            .m = K, .n = N, .k = R, .a = x, .a_row = 1, .a_col = K, .b = y, .b_row = N, .b_col = 1, .c = w, .c_row = N};
    default:
        return (struct lvn_gemm){
            .m = N, .n = K, .k = R, .a = y, .a_row = 1, .a_col = N, .b = x, .b_row = K, .b_col = 1, .c = w, .c_row = K};
    }
}

enum type { FP32, BF16, TYPES };

struct work {
    struct lvn_gemm g;
    char *scratch;
    int64_t scratch_bytes;
};

static void task(void *argument, int thread, int n_threads)
{
    struct work *w = argument;
    gemm->run(&w->g, w->scratch + thread * w->scratch_bytes, thread, n_threads);
}

/* Best rates of the first `types` in GFLOP/s, in turns. */
static void measure(struct work *w, int n_threads, double seconds, int types, double rate[TYPES])
{
    double flops = 2.0 * (double)w->g.m * (double)w->g.n * (double)w->g.k, end = now() + seconds;
    for (int e = 0; e < TYPES; e++) rate[e] = 0;
    for (int i = 0; i < 3 || now() < end; i++)
        for (int e = 0; e < types; e++) {
            w->g.bf16 = e == BF16;
            double start = now();
            lvn_team_run(n_threads, task, w);
            double r = flops / (now() - start) * 1e-9;
            rate[e] = r > rate[e] ? r : rate[e];
        }
}

/* The rate of a matrix multiplication whose operands are in the caches, with little to pack: close to the peak of the
 * multiply-add instructions. */
static double peak(struct work *w, int n_threads)
{
    double rate[TYPES];
    struct lvn_gemm g = {.m = 560 * n_threads, .n = 64, .k = 256, .a_row = 0, .a_col = 1, .b_row = 64, .b_col = 1};
    g.a = g.b = (float *)w->scratch + w->scratch_bytes * n_threads / 4;
    g.c = (float *)g.a + 64 * 256, g.c_row = 64;
    w->g = g;
    measure(w, n_threads, 0.02, 1, rate);
    return rate[FP32];
}

static bool selected(const char *name, int argc, char **argv)
{
    for (int i = 3; i < argc; i++)
        if (strstr(name, argv[i])) return true;
    return argc <= 3;
}

int main(int argc, char **argv)
{
    int n_threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : lvn_threads_default();
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 0.1, best = 0;
    enum lvn_isa isa = lvn_isa_best();
    gemm = lvn_gemm_kernel(isa);
    int64_t floats = (int64_t)50304 * 1024, bytes = floats * (int64_t)sizeof(float);
    float *x = lvn_pages_alloc(bytes), *w = lvn_pages_alloc(bytes), *y = lvn_pages_alloc(bytes);
    struct work work = {.scratch_bytes = 8 << 20};
    int64_t extra = (int64_t)n_threads * (1 << 20); /* operands of peak() */
    work.scratch = lvn_pages_alloc(work.scratch_bytes * n_threads + extra);
    if (!x || !w || !y || !work.scratch) {
        fprintf(stderr, "bench_gemm: %s\n", levin_error_text());
        return 1;
    }
    for (int64_t i = 0; i < floats; i++) x[i] = w[i] = y[i] = (float)(i * 7919 % 1000) * 1e-3f - 0.5f;
    printf("%s, %d threads; GFLOP/s and percent of the best small multiplication\n", lvn_isa_name(isa), n_threads);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (!selected(shapes[i].model, argc, argv)) continue;
        printf("%s, %lld rows, %lld to %lld\n", shapes[i].model, (long long)shapes[i].rows, (long long)shapes[i].in,
               (long long)shapes[i].out);
        for (int kind = 0; kind < KINDS; kind++) {
            double rate[TYPES], p = peak(&work, n_threads);
            best = p > best ? p : best;
            work.g = make(&shapes[i], (enum kind)kind, x, w, y);
            if (gemm->scratch(&work.g) > work.scratch_bytes) {
                fprintf(stderr, "bench_gemm: %s requires more than %lld bytes of scratch\n", kind_names[kind],
                        (long long)work.scratch_bytes);
                return 1;
            }
            measure(&work, n_threads, seconds, TYPES, rate);
            printf("  %-12s fp32 %6.1f (%3.0f %%)   bf16 %6.1f (%3.0f %%)\n", kind_names[kind], rate[FP32],
                   rate[FP32] / best * 100, rate[BF16], rate[BF16] / best * 100);
            fflush(stdout);
        }
    }
    lvn_pages_free(x, bytes), lvn_pages_free(w, bytes), lvn_pages_free(y, bytes);
    lvn_pages_free(work.scratch, work.scratch_bytes * n_threads + extra);
    return 0;
}
