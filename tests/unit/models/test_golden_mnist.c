/* test_golden_mnist.c - covers: src/nets/models/mnist.c src/core/ops/conv2d.c
 *
 * label: computes
 * The nets for digits, and convolutions, against PyTorch: tests/golden/digits, written by tools/make_golden_digits.py,
 * which says what is held there and by which rule weights and pictures come about.
 *
 * levin must agree, with its plain kernels in double and in float, and with the fast ones of every instruction set.
 *
 *                                double   float   why
 *   losses, predictions          1e-12    2e-6    of their size; PyTorch sums in another order
 *   gradients, convolutions      1e-12    2e-6    of the tensor's norm
 *   updates                      1e-10    1e-3    of the update's norm: Adam divides by the gradient's size, so entries
 *                                                 with a gradient near rounding error move at random */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bound_program.h"
#include "device_skip.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/keys.h"
#include "passes/program.h"
#include "tasks/task.h"

enum { SAMPLES = 6, PIXELS = 28 * 28, SUMS = 16, HELD = 1 + SUMS };

/* A backend and a precision, with a tolerance. */
struct setup {
    const char *name;
    enum lvn_dtype real;
    const char *backend;
    enum lvn_isa isa;
    int threads;
    double max, updates;
};

/* --- the rule -------------------------------------------------------------------------------------------------- */

static uint32_t seed_of(const char *name)
{
    uint32_t seed = 2166136261u;
    for (; *name; name++) seed = (seed ^ (unsigned char)*name) * 16777619u;
    return seed;
}

static uint32_t hash(uint32_t seed, int64_t i)
{
    uint32_t h = (uint32_t)i * 0x9E3779B9u + seed;
    h = (h ^ h >> 16) * 0x85EBCA6Bu;
    h = (h ^ h >> 13) * 0xC2B2AE35u;
    return h ^ h >> 16;
}

static double get(enum lvn_dtype dtype, const void *p, int64_t i)
{
    return dtype == LVN_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

/* A parameter's values: weights within two over the root of what one output reads, as a power of two; others within
 * `scale`. */
static void draw(const struct setup *w, const struct lvn_param *q, const char *name, double scale, void *flat)
{
    uint32_t seed = seed_of(name);
    if (q->kind == LVN_WEIGHT) scale = exp2(1 - floor(log2((double)(q->count / q->desc.dim[0])) / 2 + 0.5));
    for (int64_t i = 0; i < q->count; i++) {
        double x = (double)((int32_t)hash(seed, i) >> 8) * (scale / 8388608.0);
        if (w->real == LVN_F64)
            ((double *)flat)[q->offset + i] = x;
        else
            ((float *)flat)[q->offset + i] = (float)x;
    }
}

/* Of values less those of `start`, where there are any: the norm, and sums with sixteen rows of signs. */
static void hold(const struct setup *w, const void *values, const void *start, int64_t first, int64_t n,
                 double out[HELD])
{
    uint32_t seed = seed_of("signs");
    double squares = 0.0;
    memset(out, 0, sizeof *out * HELD);
    for (int64_t i = 0; i < n; i++) {
        double x = get(w->real, values, first + i) - (start ? get(w->real, start, first + i) : 0.0);
        uint32_t h = hash(seed, i);
        squares += x * x;
        for (int k = 0; k < SUMS; k++) out[1 + k] += h >> k & 1 ? -x : x;
    }
    out[0] = sqrt(squares);
}

/* --- comparing ------------------------------------------------------------------------------------------------- */

static double of_file(const struct lvn_safetensors *f, const char *name, int64_t n, const double **out)
{
    const struct lvn_safetensor *t = lvn_safetensors_find(f, name);
    double squares = 0.0;
    if (!t || t->desc.dtype != LVN_F64 || lvn_desc_count(&t->desc) != n) fail_msg("no reference '%s'", name);
    *out = t->data;
    for (int64_t i = 0; i < n; i++) squares += (*out)[i] * (*out)[i];
    return sqrt(squares);
}

/* Compare a whole tensor; the tolerance is relative to its norm. */
static void compare_all(const struct setup *w, const struct lvn_safetensors *f, const char *name, const void *got,
                        int64_t n)
{
    const double *expected;
    double norm = of_file(f, name, n, &expected), distance = 0.0;
    for (int64_t i = 0; i < n; i++) distance += pow(get(w->real, got, i) - expected[i], 2.0);
    if (!(sqrt(distance) <= w->max * norm))
        fail_msg("%s: %s is %.3g of its norm off (at most %g)", w->name, name, sqrt(distance) / norm, w->max);
}

/* Compare a tensor by its sums. Their rounding in PyTorch is far below the tolerance. */
static void compare(const struct setup *w, const struct lvn_safetensors *f, const char *prefix, const char *name,
                    const void *values, const void *start, int64_t first, int64_t n, double max)
{
    char full[96];
    const double *expected;
    double got[HELD], distance = 0.0;
    snprintf(full, sizeof full, "%s%s", prefix, name);
    of_file(f, full, HELD, &expected);
    hold(w, values, start, first, n, got);
    assert_true(expected[0] > 0.0);
    for (int k = 1; k < HELD; k++) distance += pow(got[k] - expected[k], 2.0) / SUMS;
    distance = fmax(sqrt(distance), fabs(got[0] - expected[0])) / expected[0];
    if (!(distance <= max)) fail_msg("%s: %s is %.3g of its norm off (at most %g)", w->name, full, distance, max);
}

static void compare_number(const struct setup *w, const char *what, double got, const json_t *expected)
{
    assert_true(json_is_number(expected));
    double x = json_number_value(expected);
    if (!(fabs(got - x) <= w->max * fabs(x))) fail_msg("%s: %s is %.15g, PyTorch says %.15g", w->name, what, got, x);
}

/* --- the nets -------------------------------------------------------------------------------------------------- */

struct net {
    struct lvn_params *params;
    struct levin_graph *graph;
    struct lvn_task_graph model;
    struct lvn_program *program;
    struct bound_program b;
    struct lvn_step step;
    int64_t B;
    unsigned char pixels[SAMPLES * PIXELS];
    int32_t labels[SAMPLES * PIXELS / 4]; /* of the same size in bytes as the other input */
};

static void fill_inputs(struct net *n)
{
    uint32_t pixels = seed_of("pixels"), labels = seed_of("label");
    for (int64_t i = 0; i < SAMPLES * PIXELS; i++) n->pixels[i] = (unsigned char)(hash(pixels, i) >> 24);
    for (int64_t i = 0; i < SAMPLES; i++) n->labels[i] = (int32_t)(hash(labels, i) % 10);
}

/* Without an optimizer and with `all`: forward alone, which gives the prediction. */
static void net_open(struct net *n, const char *name, const struct setup *w, int64_t B, bool all,
                     const struct lvn_optimizer *optimizer)
{
    static const struct lvn_fields fields = {
        .field = {{.name = "pixels", .dtype = LVN_U8, .rank = 3, .dim = {1, 28, 28}, .below = 256},
                  {.name = "label", .dtype = LVN_I32, .below = 10, .label = LVN_LABEL_CLASS}},
        .n = 2};
    struct lvn_model_config config;
    *n = (struct net){.params = lvn_params_new(), .B = B};
    lvn_model_config_init(&config, lvn_model_find(name));
    if (strcmp(name, "mnist-autoencoder") != 0) must(lvn_model_put(&config, "dropout", 0));
    if (strcmp(name, "mnist-cnn") == 0) must(lvn_model_put(&config, "conv_dropout", 0));
    n->graph = lvn_graph_new(n->params, w->real);
    must(lvn_task_build(&n->model, n->graph, &config, lvn_task_find(config.model->tasks[0]), &fields, B));
    must(lvn_params_layout(n->params, LVN_DECAY_ALL));
    struct lvn_device *device = open_device(w->backend, w->real, w->threads, w->isa);
    struct lvn_plan_options plan = {.n_sums = 1, .train = !all, .fuse = true, .optimizer = optimizer, .device = device};
    struct levin_tensor *outputs[] = {n->model.loss, n->model.losses, n->model.prediction};
    must(lvn_program_new(&n->program, n->graph, outputs, all ? 3 : 2, &plan));
    fill_inputs(n);
    bound_program_open(&n->b, device, n->program, 1, B, n->pixels, n->labels, sizeof n->pixels, &n->step);
    n->step = (struct lvn_step){.grad_scale = 1.0 / (double)(B * n->model.numbers), .training = !all};
    for (int i = 0; i < n->params->n; i++) draw(w, n->params->list[i], n->params->list[i]->name, 0.25, n->b.params);
}

static void net_close(struct net *n)
{
    bound_program_close(&n->b);
    lvn_program_free(n->program);
    lvn_graph_free(n->graph);
    lvn_params_free(n->params);
}

/* The mean loss of samples first .. first + B - 1. */
static double run(struct net *n, int64_t first)
{
    struct bound_program *b = &n->b;
    memmove(n->pixels, n->pixels + first * PIXELS, (size_t)(n->B * PIXELS));
    memmove(n->labels, n->labels + first, sizeof *n->labels * (size_t)n->B);
    bound_program_run(b, 1, 0);
    fill_inputs(n);
    return bound_program_sum(b, 0, 0) * n->step.grad_scale;
}

static void compare_forward(const char *name, const struct setup *w, const struct lvn_safetensors *f,
                            const json_t *meta)
{
    struct net *n = malloc(sizeof *n);
    net_open(n, name, w, SAMPLES, true, NULL);
    compare_number(w, "the loss", run(n, 0), json_object_get(meta, "loss"));
    void *losses = bound_program_output(&n->b, n->model.losses);
    void *prediction = bound_program_output(&n->b, n->model.prediction);
    compare_all(w, f, "losses", losses, SAMPLES);
    compare_all(w, f, "prediction", prediction, lvn_desc_count(&n->model.prediction->desc));
    free(losses);
    free(prediction);
    net_close(n);
    free(n);
}

static void compare_params(const struct net *n, const struct setup *w, const struct lvn_safetensors *f,
                           const char *prefix, const void *flat, const void *start, double max)
{
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *q = n->params->list[i];
        compare(w, f, prefix, q->name, flat, start, q->offset, q->count, max);
    }
}

static void compare_gradients(const char *name, const struct setup *w, const struct lvn_safetensors *f,
                              const json_t *meta)
{
    struct net *n = malloc(sizeof *n);
    net_open(n, name, w, SAMPLES, false, NULL);
    compare_number(w, "the loss", run(n, 0), json_object_get(meta, "loss"));
    compare_params(n, w, f, "gradient.", n->b.grads, NULL, w->max);
    net_close(n);
    free(n);
}

static void compare_updates(const char *name, const struct setup *w, const struct lvn_safetensors *f,
                            const json_t *meta)
{
    const json_t *betas = json_object_get(meta, "betas"), *losses = json_object_get(meta, "step_losses");
    const json_t *norms = json_object_get(meta, "step_grad_norms");
    int64_t B = json_integer_value(json_object_get(meta, "batch_size"));
    struct lvn_optimizer adam = {.op = LVN_OP_adamw,
                                 .attr.adamw = {.beta1 = json_number_value(json_array_get(betas, 0)),
                                                .beta2 = json_number_value(json_array_get(betas, 1)),
                                                .eps = json_number_value(json_object_get(meta, "eps")),
                                                .coupled = true}};
    struct setup loose = *w;
    struct net *n = malloc(sizeof *n);
    net_open(n, name, w, B, false, &adam);
    void *start = malloc((size_t)n->b.flat_bytes);
    memcpy(start, n->b.params, (size_t)n->b.flat_bytes);
    n->step.lr = json_number_value(json_object_get(meta, "lr"));
    assert_int_equal(json_array_size(losses), 5);
    loose.max = w->real == LVN_F64 ? w->max : 1e-5; /* from the second step on weights differ */
    for (size_t step = 0; step < 5; step++) {
        n->step.step = (int64_t)step;
        compare_number(&loose, "a step's loss", run(n, (int64_t)step % (SAMPLES / B) * B),
                       json_array_get(losses, step));
        compare_number(&loose, "a step's gradient norm", n->b.result->grad_norm, json_array_get(norms, step));
    }
    compare_params(n, w, f, "update.", n->b.params, start, w->updates);
    free(start);
    net_close(n);
    free(n);
}

static void compare_nets(const struct setup *w)
{
    static const char *const nets[] = {"mnist-cnn", "mnist-mlp", "mnist-autoencoder"};
    char path[64];
    for (int i = 0; i < 3; i++) {
        struct lvn_safetensors f;
        json_t *meta;
        snprintf(path, sizeof path, "tests/golden/digits/%s.safetensors", nets[i]);
        must(lvn_safetensors_open(&f, path));
        snprintf(path, sizeof path, "tests/golden/digits/%s.json", nets[i]);
        must(lvn_json_read(path, &meta));
        compare_forward(nets[i], w, &f, meta);
        compare_gradients(nets[i], w, &f, meta);
        compare_updates(nets[i], w, &f, meta);
        json_decref(meta);
        lvn_safetensors_close(&f);
    }
}

/* --- convolutions ---------------------------------------------------------------------------------------------- */

enum { N, C, H, W, O, KH, KW, BIAS, RELU, CASE };

/* The sum of (y - target)^2, all operands parameters. */
static void compare_convolution(const struct setup *w, const struct lvn_safetensors *f, int number, const int64_t *c)
{
    struct lvn_step step = {.grad_scale = 1.0, .training = true};
    struct lvn_params *params = lvn_params_new();
    struct levin_graph *g = lvn_graph_new(params, w->real);
    levin_scope(g, "%d", number);
    const struct lvn_init zero = LVN_CONSTANT(0);
    struct levin_tensor *x = lvn_param(g, "x", LVN_VECTOR, zero, LVN_DESC(LVN_F32, c[N], c[C], c[H], c[W]));
    struct levin_tensor *k = lvn_param(g, "w", LVN_WEIGHT, zero, LVN_DESC(LVN_F32, c[O], c[C], c[KH], c[KW]));
    struct levin_tensor *b = c[BIAS] ? lvn_param(g, "b", LVN_VECTOR, zero, LVN_DESC(LVN_F32, c[O])) : NULL;
    struct levin_tensor *y = levin_conv2d(g, x, k, b);
    if (y && c[RELU]) y = levin_relu(g, y);
    must(lvn_graph_status(g));
    struct lvn_desc shape = LVN_DESC(LVN_F32, y->desc.dim[0], y->desc.dim[1], y->desc.dim[2], y->desc.dim[3]);
    struct levin_tensor *outputs[] = {levin_squared_error(g, y, lvn_param(g, "target", LVN_VECTOR, zero, shape)), y};
    must(lvn_graph_status(g));
    must(lvn_params_layout(params, LVN_DECAY_ALL));
    struct lvn_device *device = open_device(w->backend, w->real, w->threads, w->isa);
    struct lvn_plan_options plan = {.n_sums = 1, .train = true, .fuse = true, .device = device};
    struct lvn_program *program;
    struct bound_program p;
    int64_t nothing[8] = {0};
    must(lvn_program_new(&program, g, outputs, 2, &plan));
    bound_program_open(&p, device, program, 1, c[N], nothing, nothing, sizeof nothing, &step);
    for (int i = 0; i < params->n; i++) {
        const char *name = params->list[i]->name;
        draw(w, params->list[i], name, strchr(name, 'b') ? 0.25 : 1.0, p.params);
    }
    bound_program_run(&p, 1, 0);
    void *out = bound_program_output(&p, y);
    char name[24];
    snprintf(name, sizeof name, "%d.y", number);
    compare(w, f, "", name, out, NULL, 0, lvn_desc_count(&y->desc), w->max);
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *q = params->list[i];
        if (!strstr(q->name, "target")) compare(w, f, "", q->name, p.grads, NULL, q->offset, q->count, w->max);
    }
    free(out);
    bound_program_close(&p);
    lvn_program_free(program);
    lvn_graph_free(g);
    lvn_params_free(params);
}

static void compare_convolutions(const struct setup *w)
{
    struct lvn_safetensors f;
    json_t *cases, *one, *value;
    size_t i, k;
    must(lvn_safetensors_open(&f, "tests/golden/digits/conv2d.safetensors"));
    must(lvn_json_read("tests/golden/digits/conv2d.json", &cases));
    assert_true(json_array_size(cases) > 10);
    json_array_foreach(cases, i, one)
    {
        int64_t c[CASE];
        assert_int_equal(json_array_size(one), CASE);
        json_array_foreach(one, k, value) c[k] = json_integer_value(value);
        compare_convolution(w, &f, (int)i, c);
    }
    json_decref(cases);
    lvn_safetensors_close(&f);
}

/* --- the ways -------------------------------------------------------------------------------------------------- */

static void compare_as(struct setup w)
{
    bool wide = w.real == LVN_F64;
    w.max = wide ? 1e-12 : 2e-6;
    w.updates = wide ? 1e-10 : 1e-3;
    compare_nets(&w);
    compare_convolutions(&w);
}

static void plain_double(void **state)
{
    (void)state;
    compare_as((struct setup){.name = "plain, double", .real = LVN_F64, .backend = "reference", .threads = 1});
}

static void plain_float(void **state)
{
    (void)state;
    compare_as((struct setup){.name = "plain, float", .real = LVN_F32, .backend = "reference", .threads = 1});
}

static void fast(void **state)
{
    (void)state;
    for (enum lvn_isa isa = LVN_ISA_GENERIC; isa <= lvn_isa_best(); isa++)
        for (int threads = 1; threads <= 3; threads += 2)
            compare_as((struct setup){
                .name = lvn_isa_name(isa), .real = LVN_F32, .backend = "cpu", .isa = isa, .threads = threads});
}

/* On a device, if there is one. */
static void opencl(void **state)
{
    (void)state;
    need_device(lvn_backend_find("opencl"));
    compare_as((struct setup){.name = "opencl", .real = LVN_F32, .backend = "opencl", .threads = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_double),
        cmocka_unit_test(plain_float),
        cmocka_unit_test(fast),
        cmocka_unit_test(opencl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
