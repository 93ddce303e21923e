/* test_program.c - the passes on whole models: gradients against finite differences in double, fused against not,
 * recompute on and off, micro-batches against one batch, poisoned arenas. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "base/bf16.h"
#include "base/random.h"
#include "base/threads.h"
#include "models/model.h"
#include "passes/program.h"

enum { V = 11, C = 12, T = 7, MAX_B = 8 };

/* Everything that a run needs, in the model's real type. */
struct rig {
    struct lvn_params *params;
    struct lvn_graph *graph;
    struct lvn_model_graph model;
    struct lvn_program *program;
    struct lvn_binding binding;
    void *inputs[2];
    struct lvn_step step;
    int32_t ids[MAX_B * T], labels[MAX_B * T];
    int slots;
    enum lvn_dtype weights; /* of parameters and gradients */
    int64_t flat_bytes;
};

struct rig_options {
    const char *kind;
    enum lvn_dtype real;
    int64_t B, micro; /* samples of the batch and of a micro-batch */
    bool fuse, deterministic;
    enum lvn_precision precision;
    enum lvn_recompute recompute;
    double dropout;
    int threads;
    const struct lvn_kernels *kernels;
};

static void fill_batch(struct rig *r, int64_t B)
{
    for (int64_t i = 0; i < B * T; i++) {
        r->ids[i] = (int32_t)lvn_random_below(3, 1, (uint64_t)i, V);
        r->labels[i] = (int32_t)lvn_random_below(3, 2, (uint64_t)i, V);
        if (i % 5 == 2 || i < T - 1) r->labels[i] = -1; /* unequal numbers of valid labels */
    }
    int64_t valid = 0;
    for (int64_t i = 0; i < B * T; i++) valid += r->labels[i] >= 0;
    r->step = (struct lvn_step){.seed = 5, .step = 3, .grad_scale = 1.0 / (double)valid, .training = 1};
}

static enum lvn_dtype weights_of(const struct rig_options *o)
{
    return o->precision == LVN_PRECISION_BF16_TRUE ? LVN_BF16 : o->real;
}

static void fill_params(struct rig *r)
{
    float *values = calloc((size_t)r->params->flat_count, sizeof *values);
    lvn_params_init_values(r->params, 42, values);
    for (int i = 0; i < r->params->n; i++) /* constants would hide mistakes; weights large enough to matter */
        lvn_random_normal(9, r->params->list[i]->hash, 0.3f, r->params->list[i]->count,
                          values + r->params->list[i]->offset);
    for (int64_t i = 0; i < r->params->flat_count; i++) {
        uint16_t half = lvn_bf16_make(values[i]); /* all types hold these numbers */
        if (r->weights == LVN_F64)
            ((double *)r->binding.buffer[LVN_BUFFER_PARAM])[i] = (double)lvn_bf16_get(half);
        else if (r->weights == LVN_BF16)
            ((uint16_t *)r->binding.buffer[LVN_BUFFER_PARAM])[i] = half;
        else
            ((float *)r->binding.buffer[LVN_BUFFER_PARAM])[i] = lvn_bf16_get(half);
    }
    free(values);
}

static struct rig *rig_new(const struct rig_options *o)
{
    struct rig *r = calloc(1, sizeof *r);
    struct lvn_model_config c = {.model = lvn_model_find(o->kind),
                                 .n_layer = 2,
                                 .n_head = 3,
                                 .n_embd = C,
                                 .n_positions = T + 2,
                                 .vocab_size = V};
    c.model->defaults(&c);
    c.dropout_embedding = c.dropout_residual = c.dropout_attention = o->dropout;
    r->params = lvn_params_new();
    r->graph = lvn_graph_new(r->params, o->real);
    r->model = lvn_model_build(r->graph, &c, o->micro, T, true);
    if (lvn_graph_status(r->graph) != LVN_OK) fail_msg("%s", lvn_error_text());
    assert_int_equal(lvn_params_layout(r->params, LVN_DECAY_MATRICES), LVN_OK);
    struct lvn_plan_options plan = {.train = true,
                                    .fuse = o->fuse,
                                    .precision = o->precision,
                                    .recompute = o->recompute,
                                    .kernels = o->kernels,
                                    .n_threads = o->threads};
    struct lvn_tensor *outputs[] = {r->model.loss, r->model.losses};
    if (lvn_program_new(&r->program, r->graph, outputs, 2, &plan) != LVN_OK)
        fail_msg("%s\n%s", lvn_error_text(), lvn_error_trace());
    int64_t n = o->B / o->micro, bytes = lvn_dtype_bytes(weights_of(o));
    r->weights = weights_of(o);
    r->slots = o->deterministic ? lvn_grad_slots(0, n, n) : 1;
    r->flat_bytes = r->params->flat_count * bytes;
    r->binding.buffer[LVN_BUFFER_PARAM] = lvn_pages_alloc(r->flat_bytes);
    r->binding.buffer[LVN_BUFFER_GRAD] = lvn_pages_alloc(r->flat_bytes * r->slots);
    r->binding.buffer[LVN_BUFFER_ARENA] = lvn_pages_alloc(r->program->arena_bytes);
    memset(r->binding.buffer[LVN_BUFFER_ARENA], 0xff,
           (size_t)r->program->arena_bytes); /* NaN: reading too early shows */
    r->inputs[0] = r->ids;
    r->inputs[1] = r->labels;
    r->binding.inputs = r->inputs;
    r->binding.step = &r->step;
    r->binding.micro_batch_rows = o->micro;
    fill_params(r);
    fill_batch(r, o->B);
    return r;
}

static void rig_free(struct rig *r)
{
    lvn_pages_free(r->binding.buffer[LVN_BUFFER_PARAM], r->flat_bytes);
    lvn_pages_free(r->binding.buffer[LVN_BUFFER_GRAD], r->flat_bytes * r->slots);
    lvn_pages_free(r->binding.buffer[LVN_BUFFER_ARENA], r->program->arena_bytes);
    lvn_program_free(r->program);
    lvn_graph_free(r->graph);
    lvn_params_free(r->params);
    free(r);
}

static double loss_sum;

static void collect(void *argument, int64_t micro_batch)
{
    (void)micro_batch;
    struct rig *r = argument;
    loss_sum += *(double *)lvn_program_output(r->program, &r->binding, r->model.loss);
}

/* Mean loss of the batch; gradients are left in slot 0. */
static double run(struct rig *r, int64_t n_micro)
{
    struct lvn_run_hooks hooks = {.micro_batch_done = collect, .argument = r};
    loss_sum = 0.0;
    lvn_program_run(r->program, &r->binding, n_micro, r->slots, r->flat_bytes, &hooks);
    return loss_sum * r->step.grad_scale;
}

static void gradients_are_right(void **state)
{
    (void)state;
    const char *kinds[] = {"gpt2", "nanogpt", "mingpt"};
    for (int k = 0; k < 6; k++) {
        struct rig_options o = {.kind = kinds[k % 3],
                                .real = LVN_F64,
                                .B = 2,
                                .micro = 2,
                                .fuse = k < 3,
                                .threads = 1,
                                .dropout = k == 4 ? 0.2 : 0.0,
                                .kernels = lvn_reference_kernels(LVN_F64)};
        struct rig *r = rig_new(&o);
        run(r, 1);
        double *grad = malloc((size_t)r->flat_bytes), *p = r->binding.buffer[LVN_BUFFER_PARAM];
        memcpy(grad, r->binding.buffer[LVN_BUFFER_GRAD], (size_t)r->flat_bytes);
        for (int i = 0; i < r->params->n; i++) {
            const struct lvn_param *q = r->params->list[i];
            for (int64_t j = 0; j < q->count; j += 1 + q->count / 7) {
                double *x = &p[q->offset + j], old = *x, h = 1e-5;
                *x = old + h;
                double up = run(r, 1);
                *x = old - h;
                double down = run(r, 1);
                *x = old;
                double want = (up - down) / (2 * h), got = grad[q->offset + j];
                if (!(fabs(want - got) <= 1e-7 + 1e-6 * fabs(want)))
                    fail_msg("%s %s[%lld]: gradient %.10g, finite difference %.10g", o.kind, q->name, (long long)j, got,
                             want);
            }
        }
        free(grad);
        rig_free(r);
    }
}

/* Element j of the flat gradient of a program in fp32 or bf16. */
static double gradient(const struct rig *r, int64_t j)
{
    const void *p = r->binding.buffer[LVN_BUFFER_GRAD];
    return r->weights == LVN_BF16 ? (double)lvn_bf16_get(((const uint16_t *)p)[j]) : (double)((const float *)p)[j];
}

/* Largest difference of two gradients relative to the norm of each parameter's. */
static double difference(const struct rig *a, const struct rig *b)
{
    double worst = 0.0;
    for (int i = 0; i < a->params->n; i++) {
        const struct lvn_param *q = a->params->list[i];
        double norm = 0.0, diff = 0.0;
        for (int64_t j = q->offset; j < q->offset + q->count; j++) {
            double x = gradient(a, j), y = gradient(b, j);
            norm += x * x;
            diff += (x - y) * (x - y);
        }
        double relative = sqrt(diff) / (sqrt(norm) + 1e-3);
        worst = !(relative <= worst) ? relative : worst; /* NaN is worst */
    }
    return worst;
}

static struct rig_options fast(const char *kind)
{
    return (struct rig_options){.kind = kind,
                                .real = LVN_F32,
                                .B = 8,
                                .micro = 8,
                                .fuse = true,
                                .threads = 2,
                                .kernels = lvn_cpu_kernels(lvn_isa_best())};
}

static void check_variants(enum lvn_precision precision, double losses, double gradients)
{
    struct rig_options o = fast("mingpt");
    o.dropout = 0.1;
    o.precision = precision;
    o.recompute = LVN_RECOMPUTE_NONE;
    struct rig *whole = rig_new(&o);
    double loss = run(whole, 1);
    struct {
        const char *what;
        struct rig_options o;
        bool same_bits;
    } variant[] = {{"not fused", o, false},
                   {"micro-batches of 2", o, false},
                   {"micro-batches of 1, summed as a tree", o, false},
                   {"recompute", o, true},
                   {"one thread", o, true},
                   {"eight threads", o, true},
                   {"plain kernels", o, false}};
    variant[0].o.fuse = false;
    variant[1].o.micro = 2;
    variant[2].o.micro = 1;
    variant[2].o.deterministic = true;
    variant[3].o.recompute = LVN_RECOMPUTE_CHEAP;
    variant[4].o.threads = 1;
    variant[5].o.threads = 8;
    variant[6].o.kernels = lvn_reference_kernels(LVN_F32);
    variant[6].o.precision = LVN_PRECISION_TRUE; /* they know nothing else */
    for (size_t i = 0; i < sizeof variant / sizeof variant[0]; i++) {
        struct rig *r = rig_new(&variant[i].o);
        double l = run(r, variant[i].o.B / variant[i].o.micro), d = difference(whole, r);
        if (!(fabs(l - loss) < losses) || !(d < gradients))
            fail_msg("%s: loss %.9g against %.9g, gradients differ by %g", variant[i].what, l, loss, d);
        if (variant[i].same_bits && (l != loss || d != 0.0))
            fail_msg("%s: not the same bits (loss %.17g and %.17g, gradients %g)", variant[i].what, l, loss, d);
        rig_free(r);
    }
    rig_free(whole);
}

static void variants_agree(void **state)
{
    (void)state;
    check_variants(LVN_PRECISION_TRUE, 1e-6, 1e-5);
}

/* bf16 has 8 significant bits: each rounding is up to 2^-9 off, and a gradient hangs on some tens of them. */
static void variants_agree_in_bf16(void **state)
{
    (void)state;
    check_variants(LVN_PRECISION_BF16_MIXED, 1e-2, 4e-2);
    check_variants(LVN_PRECISION_BF16_TRUE, 1e-2, 5e-2);
}

/* The tree over micro-batches is the one the design names: split at the largest power of two below n. */
static void tree_of_sums(void **state)
{
    (void)state;
    const int64_t slots[][2] = {{1, 1}, {2, 2}, {3, 2}, {4, 3}, {7, 3}, {8, 4}};
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++)
        assert_int_equal(lvn_grad_slots(0, slots[i][0], slots[i][0]), slots[i][1]);
    struct rig_options o = fast("nanogpt");
    o.B = 7, o.micro = 1, o.deterministic = true;
    struct rig *r = rig_new(&o);
    run(r, 7);
    const float *sum = r->binding.buffer[LVN_BUFFER_GRAD];
    float *single[7], *want = malloc((size_t)r->flat_bytes);
    struct rig *one = rig_new(&o); /* the same micro-batches, each alone */
    for (int m = 0; m < 7; m++) {
        struct lvn_binding b = one->binding;
        void *inputs[] = {one->ids + m * T, one->labels + m * T};
        b.inputs = inputs;
        one->step.first_row = m;
        lvn_program_run(one->program, &b, 1, 1, one->flat_bytes, NULL);
        single[m] = malloc((size_t)one->flat_bytes);
        memcpy(single[m], one->binding.buffer[LVN_BUFFER_GRAD], (size_t)one->flat_bytes);
    }
    for (int64_t i = 0; i < r->params->flat_count; i++) {
        float left = (single[0][i] + single[1][i]) + (single[2][i] + single[3][i]);
        want[i] = left + ((single[4][i] + single[5][i]) + single[6][i]);
    }
    assert_memory_equal(sum, want, (size_t)r->flat_bytes);
    for (int m = 0; m < 7; m++) free(single[m]);
    free(want);
    rig_free(one);
    rig_free(r);
}

static float rounded_sum(float a, float b)
{
    return lvn_bf16_get(lvn_bf16_make(a + b));
}

/* In bf16 every node of the tree is rounded; the gradient of a micro-batch alone is what it is in the sum. */
static void tree_of_sums_in_bf16(void **state)
{
    (void)state;
    struct rig_options o = fast("nanogpt");
    o.B = 3, o.micro = 1, o.deterministic = true, o.precision = LVN_PRECISION_BF16_TRUE;
    struct rig *r = rig_new(&o), *one = rig_new(&o);
    int64_t n = r->params->flat_count, differs = 0;
    assert_int_equal(r->flat_bytes, n * 2);
    run(r, 3);
    float *single[3];
    for (int m = 0; m < 3; m++) {
        struct lvn_binding b = one->binding;
        void *inputs[] = {one->ids + m * T, one->labels + m * T};
        b.inputs = inputs;
        one->step.first_row = m;
        lvn_program_run(one->program, &b, 1, 1, one->flat_bytes, NULL);
        single[m] = malloc((size_t)n * sizeof *single[m]);
        for (int64_t i = 0; i < n; i++) single[m][i] = (float)gradient(one, i);
    }
    for (int64_t i = 0; i < n; i++) {
        float want = rounded_sum(rounded_sum(single[0][i], single[1][i]), single[2][i]);
        assert_true((float)gradient(r, i) == want);
        differs += lvn_bf16_get(lvn_bf16_make(single[0][i] + single[1][i] + single[2][i])) != want;
    }
    assert_true(differs > 0); /* or the test would not see where it is rounded */
    for (int m = 0; m < 3; m++) free(single[m]);
    rig_free(one);
    rig_free(r);
}

static void memory_is_planned(void **state)
{
    (void)state;
    struct rig_options o = fast("gpt2");
    struct rig *r = rig_new(&o);
    assert_true(r->program->arena_bytes > 0);
    assert_true(r->program->arena_bytes < r->program->unplaced_bytes * 3 / 4);
    o.recompute = LVN_RECOMPUTE_CHEAP;
    struct rig *less = rig_new(&o);
    assert_true(less->program->arena_bytes < r->program->arena_bytes);
    rig_free(less);
    rig_free(r);
    /* bf16, on kernels that compute as in fp32: others want scratch that outweighs so small a model */
    o.kernels = lvn_cpu_kernels(lvn_isa_best() < LVN_ISA_AVX512 ? lvn_isa_best() : LVN_ISA_AVX512);
    o.recompute = LVN_RECOMPUTE_NONE;
    r = rig_new(&o);
    o.precision = LVN_PRECISION_BF16_MIXED;
    struct rig *half = rig_new(&o);
    assert_true(half->program->arena_bytes < r->program->arena_bytes);
    rig_free(half);
    rig_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_right),    cmocka_unit_test(variants_agree),
        cmocka_unit_test(variants_agree_in_bf16), cmocka_unit_test(tree_of_sums),
        cmocka_unit_test(tree_of_sums_in_bf16),   cmocka_unit_test(memory_is_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
