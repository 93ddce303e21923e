/* bench_decode.c - speed of generating tokens, compared with the rate of reading memory.
 *
 *     build/bench_decode [MODEL [THREADS [TOKENS [PROMPT | TYPE...]]]]
 *
 * MODEL: llama-124m, pythia-160m, smollm2-135m-instruct, llama-3.2-1b (only if it is named). Weights are random.
 *
 * With PROMPT, a number: the time to the first token after that many tokens, in fp32, the best of three runs.
 *
 * Otherwise, for one sample and for a batch of eight and for each type (default: fp32, bf16, and linear layers in int8
 * and nf4 with other weights in bf16; also GGUF types such as q4_k): the fastest step, tokens per second, and two upper
 * bounds that are measured first. One is reading all weights once per step, the other is matrix multiplication (in bf16
 * if the kernel for that many rows rounds its operands, else in fp32). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "backend/cpu/cpu_kernels.h"
#include "backend/cpu/gemm.h"
#include "engine/parameters.h"
#include "inference/sampler.h"
#include "models/keys.h"
#include "packed/ggml_blocks.h"

static const struct workload {
    const char *size;
    const char *model;
    const char *only_rows; /* a parameter of which a token reads one row; NULL: none */
    bool large;            /* only if it is named */
} workloads[] = {{"llama-124m", "llama", NULL, false},
                 {"pythia-160m", "neox", "gpt_neox.embed_in.weight", false},
                 {"smollm2-135m-instruct", "llama", NULL, false},
                 {"llama-3.2-1b", "llama", NULL, true}};

enum { FIRST = 8 }; /* tokens that are not timed */

struct watch {
    double last, best;
    int64_t tokens;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* on_token() of the first sample, called once per step. */
static bool timed(void *context, int32_t id)
{
    struct watch *w = context;
    const double t = now();
    if (w->tokens++ > FIRST && t - w->last < w->best) w->best = t - w->last;
    w->last = t;
    return id >= 0;
}

/* Bytes of the weights that a step reads, and the FLOPs of one row: a multiplication and an addition per weight. */
static void weights_of(const struct lvn_model_state *n, const struct workload *w, double *bytes, double *flops)
{
    *bytes = *flops = 0;
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *q = n->params->list[i];
        if (w->only_rows && strcmp(q->name, w->only_rows) == 0) continue;
        *bytes += (double)(lvn_param_is_packed(q) ? q->packed_bytes : q->count * lvn_dtype_bytes(n->weights));
        *flops += 2 * (double)q->count;
    }
}

static enum lvn_rate rate_of(enum lvn_dtype type, int64_t rows)
{
    enum { SIDE = 1024 };
    struct lvn_gemm g = {.m = rows, .n = SIDE, .k = SIDE, .a_row = SIDE, .a_col = 1, .b_row = 1, .b_col = SIDE};
    if (lvn_dtype_is_packed(type)) g.b_blocks = (struct lvn_blocks){type, SIDE, SIDE};
    g.b_bf16 = type == LVN_BF16;
    g.bf16 = type != LVN_F32;
    return lvn_gemm_kernel(lvn_isa_best())->rounds(&g) ? LVN_RATE_PRODUCTS_BF16 : LVN_RATE_PRODUCTS;
}

/* Random bytes as blocks of GGUF files, whose scales, in fp16, are made small. */
static void fill_ggml(const struct lvn_ggml_block *type, unsigned char *p, int64_t bytes)
{
    uint32_t x = 1;
    for (int64_t i = 0; i < bytes; i++) p[i] = (unsigned char)((x = x * 1664525 + 1013904223) >> 24);
    for (int64_t i = 0; i + type->bytes <= bytes; i += type->bytes) {
        p[i + 1] = 0x10, p[i + 3] = 0x10;
        if (type->bytes > 209) p[i + 209] = 0x10;
    }
}

/* Fill with random values; the initialization of training would be slower. */
static enum lvn_status fill(const struct lvn_model_state *n)
{
    struct lvn_parameters i = {n, LVN_PARAMETER_VALUES, 0};
    struct lvn_parameter_window w;
    float *values = malloc(sizeof *values * (size_t)(lvn_params_largest(n->params, false) + 1));
    uint32_t x = 1;
    enum lvn_status status = values ? LVN_OK : LVN_MEMORY;
    while (status == LVN_OK && lvn_parameters_next(&i, &w)) {
        const struct lvn_ggml_block *type = lvn_ggml_block(w.desc.dtype);
        if (type) {
            fill_ggml(type, (unsigned char *)w.host, w.bytes);
            continue;
        }
        for (int64_t k = 0; k < w.count; k++)
            values[k] = ((float)((x = x * 1664525 + 1013904223) >> 8) - 0x1p23F) * 0x1p-28F;
        status = lvn_parameter_store(n, &w, values, w.host);
    }
    free(values);
    return status;
}

/* A model with random weights, and a sampler for `rows` samples of `tokens` positions each. */
static enum lvn_status open_model(const struct workload *w, int threads, enum lvn_dtype type, int64_t rows,
                                  int64_t tokens, struct lvn_model_state **n, struct lvn_sampler **s)
{
    struct lvn_model_config c;
    lvn_model_config_init(&c, lvn_model_find(w->model));
    LVN_TRY(lvn_model_put_size(&c, lvn_size_find(c.model, w->size)));
    LVN_TRY(lvn_model_state_new(
        n, &c,
        &(struct lvn_model_state_options){.real = LVN_F32,
                                          .precision = type == LVN_F32 ? LVN_PRECISION_TRUE : LVN_PRECISION_BF16_TRUE,
                                          .quantize = lvn_dtype_is_packed(type) ? type : LVN_F32,
                                          .threads = threads}));
    LVN_TRY(lvn_sampler_new(s, *n, lvn_model_value(&c, LVN_ROLE_POSITIONS), rows, tokens));
    LVN_TRY(lvn_model_state_allocate(*n));
    return fill(*n);
}

static enum lvn_status run(const struct workload *w, int threads, int64_t tokens, enum lvn_dtype type, int64_t rows,
                           double *per_s)
{
    static const int32_t prompt[] = {5, 6, 7};
    struct lvn_model_state *n;
    struct lvn_sampler *s;
    struct lvn_sample samples[LVN_DECODE_ROWS] = {0};
    struct watch watch = {.best = 1e9};
    double reading, matmul, bytes, flops;
    LVN_TRY(open_model(w, threads, type, rows, tokens + 3, &n, &s));
    LVN_TRY(lvn_device_rate(n->device, LVN_RATE_READING, &reading));
    LVN_TRY(lvn_device_rate(n->device, rate_of(type, rows), &matmul));
    weights_of(n, w, &bytes, &flops);
    for (int64_t i = 0; i < rows; i++) samples[i] = (struct lvn_sample){.prompt = prompt, .n = 3, .max = tokens};
    samples[0].on_token = timed;
    samples[0].context = &watch;
    LVN_TRY(lvn_sampler_run(s, samples, rows, &(struct lvn_sampling_options){0}));
    *per_s = (double)rows / watch.best;
    const double read = (double)rows * reading / bytes, multiplied = matmul / flops;
    printf("%-21s %-5s %4lld %9.2f %10.1f %8.1f %8.0f %9.1f %8.0f %7.0f%%\n", w->size, lvn_dtype_name(type),
           (long long)rows, 1e3 * watch.best, *per_s, reading / 1e9, read, matmul / 1e9, multiplied,
           100 * *per_s / (read < multiplied ? read : multiplied));
    fflush(stdout);
    for (int64_t i = 0; i < rows; i++) lvn_sample_release(&samples[i]);
    lvn_sampler_free(s);
    lvn_model_state_free(n);
    return LVN_OK;
}

/* The time from the start of a run to its first token. */
static enum lvn_status prefill(const struct workload *w, int threads, int64_t length)
{
    struct lvn_model_state *n;
    struct lvn_sampler *s;
    double best = 1e9;
    int32_t *prompt = malloc(sizeof *prompt * (size_t)length);
    if (!prompt) return LVN_MEMORY;
    for (int64_t i = 0; i < length; i++) prompt[i] = (int32_t)(i * 7 % 30000);
    LVN_TRY(open_model(w, threads, LVN_F32, 1, length + 2, &n, &s));
    for (int i = 0; i < 3; i++) {
        struct watch watch = {0};
        struct lvn_sample sample = {.prompt = prompt, .n = length, .max = 1, .on_token = timed, .context = &watch};
        const double begin = now();
        LVN_TRY(lvn_sampler_run(s, &sample, 1, &(struct lvn_sampling_options){0}));
        if (watch.last - begin < best) best = watch.last - begin;
        lvn_sample_release(&sample);
    }
    printf("%-21s %lld tokens, first token after %.3f s\n", w->size, (long long)length, best);
    free(prompt);
    lvn_sampler_free(s);
    lvn_model_state_free(n);
    return LVN_OK;
}

enum { TYPES = 16 };
struct types {
    enum lvn_dtype type[TYPES];
    int n;
};

static enum lvn_status run_all(const struct workload *w, int threads, int64_t tokens, const struct types *types)
{
    double one[TYPES], eight[TYPES], bf16 = 0;
    for (int i = 0; i < types->n; i++) {
        LVN_TRY(run(w, threads, tokens, types->type[i], 1, &one[i]));
        LVN_TRY(run(w, threads, tokens, types->type[i], LVN_DECODE_ROWS, &eight[i]));
        if (types->type[i] == LVN_BF16) bf16 = one[i];
    }
    for (int i = 0; i < types->n && bf16 > 0; i++)
        printf("%-21s %-5s one sample: %.2f times bf16; eight: %.1f times one\n", w->size,
               lvn_dtype_name(types->type[i]), one[i] / bf16, eight[i] / one[i]);
    return LVN_OK;
}

static bool add_type(struct types *types, const char *name)
{
    for (int type = (int)LVN_DTYPE_END - 1; type >= 0 && types->n < TYPES; type--) {
        if (type == LVN_DTYPE_COUNT || strcasecmp(lvn_dtype_name((enum lvn_dtype)type), name) != 0) continue;
        types->type[types->n++] = (enum lvn_dtype)type;
        return true;
    }
    fprintf(stderr, "bench_decode: unknown type '%s'; expected fp32, bf16, int8, nf4 or a type of GGUF files\n", name);
    return false;
}

int main(int argc, char **argv)
{
    const int threads = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 0;
    const int64_t tokens = argc > 3 ? strtol(argv[3], NULL, 10) : 100;
    const int64_t prompt = argc > 4 ? strtol(argv[4], NULL, 10) : 0;
    struct types types = {{LVN_F32, LVN_BF16, LVN_INT8_ROWS, LVN_NF4}, 4};
    bool known = false;
    if (argc > 4 && !prompt) types.n = 0;
    for (int i = 4; i < argc && !prompt; i++)
        if (!add_type(&types, argv[i])) return 2;
    if (!prompt)
        printf("%-21s %-5s %4s %9s %10s %8s %8s %9s %8s %8s\n", "model", "", "rows", "ms", "tokens/s", "GB/s", "bound",
               "GFLOP/s", "bound", "reached");
    for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
        if (argc > 1 ? strcmp(argv[1], workloads[i].size) != 0 : workloads[i].large) continue;
        known = true;
        if ((prompt > 0 ? prefill(&workloads[i], threads, prompt)
                        : run_all(&workloads[i], threads, tokens < 2 * FIRST ? 2 * FIRST : tokens, &types)) == LVN_OK)
            continue;
        fprintf(stderr, "bench_decode: %s\n%s", levin_error_text(), levin_error_trace());
        return 1;
    }
    if (!known)
        fprintf(stderr,
                "bench_decode: unknown model '%s'; expected llama-124m, pythia-160m, smollm2-135m-instruct or "
                "llama-3.2-1b\n",
                argv[1]);
    return known ? 0 : 2;
}
