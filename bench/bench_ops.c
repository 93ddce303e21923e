/* bench_ops.c - speed of the operations other than matrix multiplications, one at a time.
 *
 *     build/bench_ops [THREADS] [NAME...]      the rows of `items`, or those whose name contains one of these
 *
 * Prints microseconds per call, nanoseconds per element and bytes per second, the best of many calls. LEVIN_ISA limits
 * the instruction set. Results of different runs are comparable only on an idle machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/cpu/cpu_kernels.h"
#include "base/random.h"
#include "base/threads.h"
#include "graph/op.h"
#include "host/machine.h"
#include "host/pages.h"

/* Shapes of operands for a row of `shapes`, R x C: (R,C), (C), (R), ids (R), (V,C), and one fp64. */
enum shape { FULL, VECTOR, ROWS, IDS, TABLE, SCALAR };

struct operand {
    bool present;
    enum shape shape;
};
#define F                                                                                                              \
    {                                                                                                                  \
        true, FULL                                                                                                     \
    }
#define V                                                                                                              \
    {                                                                                                                  \
        true, VECTOR                                                                                                   \
    }
#define R                                                                                                              \
    {                                                                                                                  \
        true, ROWS                                                                                                     \
    }
#define I                                                                                                              \
    {                                                                                                                  \
        true, IDS                                                                                                      \
    }
#define T                                                                                                              \
    {                                                                                                                  \
        true, TABLE                                                                                                    \
    }
#define S                                                                                                              \
    {                                                                                                                  \
        true, SCALAR                                                                                                   \
    }
#define O                                                                                                              \
    {                                                                                                                  \
        false, FULL                                                                                                    \
    }

/* Gradients have the shapes of out and in; the masks `dout` and `din` say which of them exist. */
static const struct item {
    const char *name;
    enum lvn_op_id op;
    enum lvn_phase phase;
    union lvn_attr attr;
    struct operand in[LVN_MAX_IN], out[LVN_MAX_OUT];
    unsigned dout, din;
    int passes; /* arrays of (R,C) that are read or written */
} items[] = {
    {"add", LVN_OP_add, LVN_FORWARD, {{0}}, {F, F}, {F}, 0, 0, 3},
    {"gelu", LVN_OP_gelu, LVN_FORWARD, {{0}}, {F}, {F}, 0, 0, 2},
    {"gelu backward", LVN_OP_gelu, LVN_BACKWARD, {{0}}, {F}, {F}, 1, 1, 3},
    {"gelu_tanh", LVN_OP_gelu_tanh, LVN_FORWARD, {{0}}, {F}, {F}, 0, 0, 2},
    {"gelu_tanh backward", LVN_OP_gelu_tanh, LVN_BACKWARD, {{0}}, {F}, {F}, 1, 1, 3},
    {"dropout", LVN_OP_dropout, LVN_FORWARD, {.dropout = {0.1}}, {F}, {F}, 0, 0, 2},
    {"layernorm", LVN_OP_layernorm, LVN_FORWARD, {.layernorm = {1e-5}}, {F, V, V}, {F, R, R}, 0, 0, 2},
    {"layernorm backward", LVN_OP_layernorm, LVN_BACKWARD, {.layernorm = {1e-5}}, {F, V, V}, {F, R, R}, 1, 7, 3},
    {"residual_layernorm",
     LVN_OP_residual_layernorm,
     LVN_FORWARD,
     {.residual_layernorm = {1e-5, 0}},
     {F, F, V, V},
     {F, F, R, R},
     0,
     0,
     4},
    {"residual_layernorm, dropout",
     LVN_OP_residual_layernorm,
     LVN_FORWARD,
     {.residual_layernorm = {1e-5, 0.1}},
     {F, F, V, V},
     {F, F, R, R},
     0,
     0,
     4},
    {"residual_layernorm backward",
     LVN_OP_residual_layernorm,
     LVN_BACKWARD,
     {.residual_layernorm = {1e-5, 0}},
     {F, F, V, V},
     {F, F, R, R},
     3,
     15,
     5},
    {"residual_layernorm backward, dropout",
     LVN_OP_residual_layernorm,
     LVN_BACKWARD,
     {.residual_layernorm = {1e-5, 0.1}},
     {F, F, V, V},
     {F, F, R, R},
     3,
     15,
     5},
    {"embedding", LVN_OP_embedding, LVN_FORWARD, {{0}}, {I, T, T}, {F}, 0, 0, 2},
    {"embedding backward", LVN_OP_embedding, LVN_BACKWARD, {{0}}, {I, T, T}, {F}, 1, 6, 1},
    {"cross_entropy", LVN_OP_cross_entropy, LVN_FORWARD, {.cross_entropy = {-1}}, {F, I}, {S, R, R}, 0, 0, 1},
    {"cross_entropy backward", LVN_OP_cross_entropy, LVN_BACKWARD, {.cross_entropy = {-1}}, {F, I}, {S, R, R}, 0, 1, 2},
    {"grad_norm", LVN_OP_grad_norm, LVN_FORWARD, {.grad_norm = {.clip_norm = 1}}, {F}, {O}, 0, 0, 1},
    {"adamw",
     LVN_OP_adamw,
     LVN_FORWARD,
     {.adamw = {{.weight_decay = 0.1, .lr_scale = 1}, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}},
     {F},
     {F, F, F},
     0,
     0,
     7},
    {"sgd",
     LVN_OP_sgd,
     LVN_FORWARD,
     {.sgd = {{.weight_decay = 0.1, .lr_scale = 1}, .momentum = 0.9}},
     {F},
     {F, F},
     0,
     0,
     5},
    {"lion",
     LVN_OP_lion,
     LVN_FORWARD,
     {.lion = {{.weight_decay = 0.1, .lr_scale = 1}, .beta1 = 0.9, .beta2 = 0.99}},
     {F},
     {F, F},
     0,
     0,
     5},
};
#undef F
#undef V
#undef R
#undef I
#undef T
#undef S
#undef O

static const int64_t shapes[][2] = {{768, 128}, {768, 512}, {8192, 192}, {1024, 768}, {4096, 3072}};

struct bench {
    struct lvn_call call;
    const struct lvn_cpu_op *kernels;
    struct lvn_desc desc[4 * LVN_MAX_IN];
    int n_desc;
    double best; /* seconds */
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct lvn_arg operand_new(struct bench *b, const struct operand *o, int64_t rows, int64_t columns)
{
    if (!o->present) return (struct lvn_arg){0};
    struct lvn_desc *d = &b->desc[b->n_desc++];
    const int64_t heads = rows / 16; /* ids are (16, rows / 16) */
    switch (o->shape) {
    case FULL:
        *d = LVN_DESC(LVN_F32, 16, heads, columns);
        break;
    case VECTOR:
        *d = LVN_DESC(LVN_F32, columns);
        break;
    case ROWS:
        *d = LVN_DESC(LVN_F32, rows);
        break;
    case IDS:
        *d = LVN_DESC(LVN_I32, 16, heads);
        break;
    case TABLE:
        *d = LVN_DESC(LVN_F32, 512, columns);
        break;
    case SCALAR:
        *d = LVN_DESC(LVN_F64, 1);
        break;
    }
    int64_t n = lvn_desc_count(d);
    void *p = lvn_pages_alloc(n * lvn_dtype_bytes(d->dtype));
    if (!p) exit(1);
    for (int64_t i = 0; i < n; i++) {
        struct lvn_philox r = lvn_philox(1, (uint32_t)i, 0, 0, LVN_STREAM_TEST);
        if (d->dtype == LVN_F32) ((float *)p)[i] = 4 * lvn_uniform(r.v[0]) - 2;
        if (d->dtype == LVN_F32 && o->shape == ROWS) ((float *)p)[i] = lvn_uniform(r.v[0]) * 0.1f + 0.5f;
        if (d->dtype == LVN_I32) ((int32_t *)p)[i] = (int32_t)(r.v[0] % 64);
    }
    return (struct lvn_arg){p, d};
}

static void operand_free(struct lvn_arg *a)
{
    if (a->p) lvn_pages_free(a->p, lvn_desc_count(a->desc) * lvn_dtype_bytes(a->desc->dtype));
}

static void measure(void *argument, int thread, int n_threads)
{
    struct bench *b = argument;
    double end = now() + 0.06;
    int calls = 0;
    static _Thread_local double begin;
    static bool more;
    do {
        lvn_team_barrier();
        begin = now();
        lvn_cpu_call(b->kernels, &b->call, thread, n_threads);
        lvn_team_barrier();
        double t = now() - begin;
        if (thread == 0) {
            b->best = t < b->best ? t : b->best;
            more = ++calls < 5 || now() < end;
        }
        lvn_team_barrier();
    } while (more);
}

static void run(const struct item *item, const int64_t *shape, int n_threads)
{
    struct lvn_step step = {.seed = 1, .step = 10, .lr = 1e-6, .grad_scale = 1, .training = 1};
    struct lvn_result result = {.clip_scale = 1};
    struct bench b = {.best = 1e9};
    b.call = (struct lvn_call){
        .phase = item->phase, .attr = &item->attr, .step = &step, .result = &result, .op_hash = 12345};
    for (int i = 0; i < LVN_MAX_IN; i++) {
        b.call.in[i] = operand_new(&b, &item->in[i], shape[0], shape[1]);
        if (item->din >> i & 1) b.call.din[i] = operand_new(&b, &item->in[i], shape[0], shape[1]);
    }
    for (int i = 0; i < LVN_MAX_OUT; i++) {
        b.call.out[i] = operand_new(&b, &item->out[i], shape[0], shape[1]);
        if (item->dout >> i & 1) b.call.dout[i] = operand_new(&b, &item->out[i], shape[0], shape[1]);
    }
    if (item->op == LVN_OP_adamw) {
        float *v = b.call.out[2].p;
        for (int64_t i = 0; i < shape[0] * shape[1]; i++) v[i] = v[i] * v[i];
    }
    b.kernels = &lvn_cpu_ops(lvn_isa_best())[item->op];
    int64_t scratch = lvn_cpu_scratch(b.kernels, &b.call, n_threads);
    if (scratch) b.call.scratch = lvn_pages_alloc(scratch);
    lvn_team_run(n_threads, measure, &b);
    double elements = (double)(shape[0] * shape[1]);
    printf("%-38s %5lld x %-5lld %9.1f us  %6.3f ns/element  %6.1f GB/s\n", item->name, (long long)shape[0],
           (long long)shape[1], 1e6 * b.best, 1e9 * b.best / elements, 4e-9 * elements * item->passes / b.best);
    for (int i = 0; i < LVN_MAX_IN; i++) operand_free(&b.call.in[i]), operand_free(&b.call.din[i]);
    for (int i = 0; i < LVN_MAX_OUT; i++) operand_free(&b.call.out[i]), operand_free(&b.call.dout[i]);
    if (scratch) lvn_pages_free(b.call.scratch, scratch);
}

int main(int argc, char **argv)
{
    int n_threads = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
    if (n_threads < 1) n_threads = lvn_threads_default();
    printf("%s, threads: %d\n", lvn_isa_name(lvn_isa_best()), n_threads);
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        bool selected = argc < 3;
        for (int a = 2; a < argc; a++) selected |= strstr(items[i].name, argv[a]) != NULL;
        for (size_t s = 0; selected && s < sizeof shapes / sizeof *shapes; s++) run(&items[i], shapes[s], n_threads);
    }
    return 0;
}
