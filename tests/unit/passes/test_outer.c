/* test_outer.c - covers: src/passes/outer.c
 *
 * Gradients that are products of a column and a row and are never written: norm and update give the same bits as for
 * written gradients, in kernels and in whole programs. Parameters that must not have such a gradient have a written
 * one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "bound_program.h"
#include "data/dataset.h"
#include "initial_values.h"
#include "models/keys.h"
#include "ops_cases.h"
#include "passes/program.h"
#include "tasks/task.h"

/* --- kernels --- */

/* Two products in a range of three blocks, with other numbers before, between and after them: (7, 48) and (65, 128). */
#define PRODUCTS(first) .outers = {2, {(first) + 64, (first) + 448}}
#define OPERANDS .count = 3 * 4096 + 33, .in = {REAL(1), REAL(7), REAL(48), REAL(65), REAL(128)}

static const struct op_case cases[] = {
    {LVN_OP_grad_norm, .attr.grad_norm = {.clip_norm = 1, PRODUCTS(0)}, OPERANDS},
    {LVN_OP_adamw, .attr.adamw = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .lr_scale = 1, PRODUCTS(0)}, OPERANDS},
    {LVN_OP_adamw,
     .attr.adamw = {.beta1 = 0.9,
                    .beta2 = 0.95,
                    .eps = 1e-8,
                    .weight_decay = 0.1,
                    .lr_scale = 0.5,
                    .clip_value = 0.1,
                    .first = 640,
                    PRODUCTS(640)},
     OPERANDS},
    {LVN_OP_adamw,
     .attr.adamw =
         {.beta1 = 0.8, .beta2 = 0.999, .eps = 1e-6, .weight_decay = 0.1, .lr_scale = 1, .coupled = true, PRODUCTS(0)},
     OPERANDS},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* The same with both gradients written, and without products. */
static void written(const struct op_case *plain, struct run *from, struct run *to)
{
    const int64_t first[2] = {64, 448};
    const enum lvn_dtype real = from->real;
    run_init(to, plain, real, &from->kernels);
    for (int k = 0; k < 2; k++) {
        const struct buffer *down = &from->in[1 + 2 * k], *across = down + 1;
        const int64_t rows = lvn_desc_count(&down->desc), columns = lvn_desc_count(&across->desc);
        for (int64_t i = 0; i < rows * columns; i++) {
            const double x = buffer_get(down, i / columns), y = buffer_get(across, i % columns);
            buffer_set(&to->in[0], first[k] + i, real == LVN_F64 ? x * y : (double)((float)x * (float)y));
            buffer_set(&from->in[0], first[k] + i, NAN); /* a read of it shows */
        }
    }
}

static void check_kernels(const struct op_case *c, enum lvn_dtype real, const struct lvn_cpu_op *kernels, int threads)
{
    struct run products, all;
    struct op_case plain = *c;
    if (c->op == LVN_OP_adamw)
        plain.attr.adamw.outers.n = 0;
    else
        plain.attr.grad_norm.outers.n = 0;
    run_init(&products, c, real, kernels);
    written(&plain, &products, &all);
    run_forward(&products, threads);
    run_forward(&all, threads);
    assert_true(products.result.grad_norm == all.result.grad_norm);
    assert_true(products.result.clip_scale == all.result.clip_scale);
    for (int k = 0; k < all.op->n_out; k++) {
        assert_false(isnan(buffer_get(&all.out[k], 64)));
        assert_memory_equal(products.out[k].p, all.out[k].p, all.out[k].bytes);
    }
    run_release(&products);
    run_release(&all);
}

static void test_products_stand_for_gradients(void **state)
{
    (void)state;
    for (int n = 0; n < N_CASES; n++) {
        const enum lvn_op_id id = cases[n].op;
        check_kernels(&cases[n], LVN_F64, &lvn_cpu_plain_ops(LVN_F64)[id], 1);
        check_kernels(&cases[n], LVN_F32, &lvn_cpu_plain_ops(LVN_F32)[id], 1);
        for (int isa = 0; isa <= (int)lvn_isa_best(); isa++)
            for (int threads = 1; threads <= 3; threads++)
                check_kernels(&cases[n], LVN_F32, &lvn_cpu_ops((enum lvn_isa)isa)[id], threads);
    }
}

static void test_products_beyond_the_range_are_refused(void **state)
{
    (void)state;
    union lvn_attr attr = {.grad_norm = {.outers = {1, {64}}}};
    struct lvn_shapes s = {.op = "grad_norm", .attr = &attr, .real = LVN_F32, .has = {true, true, true}};
    s.in[0] = LVN_DESC(LVN_F32, 64 + 7 * 48);
    s.in[1] = LVN_DESC(LVN_F32, 7);
    s.in[2] = LVN_DESC(LVN_F32, 48);
    const struct lvn_op *op = lvn_op(LVN_OP_grad_norm, LVN_F32);
    must(op->shape(&s));
    s.in[1] = LVN_DESC(LVN_F32, 8);
    assert_int_equal(op->shape(&s), LVN_SHAPE);
    assert_string_equal(lvn_error_text(), "grad_norm: a gradient of rows of 48 numbers is at elements 64 to 448 of "
                                          "400; wanted are whole vectors of 16 in the range");
    s.in[2] = LVN_DESC(LVN_F32, 40);
    assert_int_equal(op->shape(&s), LVN_SHAPE);
}

/* --- programs --- */

struct net {
    struct lvn_params *params;
    struct lvn_graph *graph;
    struct lvn_task_graph model;
    struct lvn_program *program;
    struct lvn_device *device;
};

static const struct lvn_key_value small_gpt[] = {{"n_layer", 1},    {"n_head", 2},    {"n_embd", 64}, {"block_size", 4},
                                                 {"vocab_size", 9}, {"dropout", 0.0}, {NULL, 0}};
static const struct lvn_optimizer adam = {
    .kind = LVN_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip_norm = 0.5};

/* One token or picture a micro-batch, unless `rows` says otherwise. */
static void open_net(struct net *n, const char *model, const char *backend, int64_t rows,
                     const struct lvn_plan_options *with)
{
    const bool pictures = strcmp(model, "mnist-autoencoder") == 0;
    struct lvn_fields fields = {
        .field = {{.name = "pixels", .dtype = LVN_U8, .rank = 3, .dim = {1, 28, 28}, .below = 256},
                  {.name = "label", .dtype = LVN_I32, .below = 10, .label = LVN_LABEL_CLASS}},
        .n = 2};
    if (!pictures) fields = lvn_stream_fields(1, 9);
    struct lvn_model_config config;
    *n = (struct net){.params = lvn_params_new(), .device = open_device(backend, LVN_F32, 2, LVN_ISA_COUNT - 1)};
    lvn_model_config_init(&config, lvn_model_find(model));
    if (!pictures) must(lvn_model_put_all(&config, small_gpt));
    n->graph = lvn_graph_new(n->params, LVN_F32);
    must(lvn_task_build(&n->model, n->graph, &config, lvn_task_find(config.model->tasks[0]), &fields, rows, false));
    must(lvn_params_layout(n->params, LVN_DECAY_MATRICES));
    struct lvn_plan_options plan = *with;
    plan.n_sums = 1;
    plan.train = true;
    plan.device = n->device;
    struct lvn_tensor *outputs[] = {n->model.loss, n->model.losses};
    must(lvn_program_new(&n->program, n->graph, outputs, 2, &plan));
}

/* Without its device, which bound programs close. */
static void close_net(struct net *n)
{
    lvn_program_free(n->program);
    lvn_graph_free(n->graph);
    lvn_params_free(n->params);
}

/* The gradients that the norm computes itself. */
static int outers_of_norm(const struct net *n)
{
    for (int i = 0; i < n->program->n_instrs; i++)
        if (n->program->instrs[i].id == LVN_OP_grad_norm) return n->program->instrs[i].attr.grad_norm.outers.n;
    return 0;
}

enum { STEPS = 4, BYTES = 784 };

struct outcome {
    double loss[STEPS], norm[STEPS];
    float *params;
};

static struct outcome train(struct net *n)
{
    struct outcome o;
    struct bound_program b;
    struct lvn_step step = {.seed = 1, .lr = 0.1, .grad_scale = 1, .training = 1};
    unsigned char input[BYTES] = {0}, label[BYTES] = {0};
    bound_program_open(&b, n->device, n->program, 1, 1, input, label, BYTES, &step);
    initial_values(n->params, 3, b.params);
    for (int s = 0; s < STEPS; s++) {
        step.step = s;
        const bool pictures = n->graph->inputs[0]->desc.dtype == LVN_U8;
        for (int i = 0; i < BYTES; i++) input[i] = (unsigned char)(pictures ? (i * 7 + s * 31) % 251 : 0);
        input[0] = (unsigned char)(s + 1); /* a token */
        label[0] = (unsigned char)(s + 2);
        bound_program_run(&b, 1, 0);
        o.loss[s] = bound_program_sum(&b, 0, 0);
        o.norm[s] = b.result->grad_norm;
    }
    o.params = malloc((size_t)b.flat_bytes);
    memcpy(o.params, b.params, (size_t)b.flat_bytes);
    bound_program_close(&b);
    return o;
}

/* With `pieces` 2 another instruction adds to the gradients, so they are written. */
static void compare_programs(const char *model, const char *backend)
{
    struct net product, all;
    const struct lvn_sharding alone = {.size = 1};
    const struct lvn_plan_options one = {.fuse = true, .n_partial_sums = 1, .optimizer = &adam, .sharding = &alone};
    const struct lvn_plan_options two = {.fuse = true, .n_partial_sums = 2, .optimizer = &adam};
    open_net(&product, model, backend, 1, &one);
    open_net(&all, model, backend, 1, &two);
    assert_int_equal(outers_of_norm(&product), 2);
    assert_int_equal(outers_of_norm(&all), 0);
    struct outcome a = train(&product), b = train(&all);
    assert_memory_equal(a.loss, b.loss, sizeof a.loss);
    assert_memory_equal(a.norm, b.norm, sizeof a.norm);
    assert_true(a.norm[0] > 0.5 && a.loss[0] != a.loss[STEPS - 1]); /* it is clipped, and parameters change */
    assert_memory_equal(a.params, b.params, sizeof(float) * (size_t)all.params->flat_count);
    free(a.params);
    free(b.params);
    close_net(&product);
    close_net(&all);
}

static void test_programs_keep_their_bits(void **state)
{
    (void)state;
    compare_programs("mnist-autoencoder", "cpu");
    compare_programs("mnist-autoencoder", "reference");
    compare_programs("gpt2", "cpu");
}

static void test_others_write_their_gradients(void **state)
{
    (void)state;
    static const struct lvn_optimizer sgd = {.kind = LVN_SGD}, half = {.kind = LVN_ADAMW, .bf16_state = true};
    const struct lvn_tree_leaves tree = {0, 1, 1};
    const struct lvn_sharding ranks = {.size = 2};
    const struct lvn_plan_options plans[] = {
        {.fuse = true, .n_partial_sums = 1, .optimizer = &sgd},
        {.fuse = true, .n_partial_sums = 1, .optimizer = &half},
        {.fuse = true, .n_partial_sums = 1, .optimizer = &adam, .tree = &tree},
        {.fuse = true, .n_partial_sums = 1, .optimizer = &adam, .sharding = &ranks},
        {.fuse = true, .n_partial_sums = 1, .optimizer = &adam, .precision = LVN_PRECISION_BF16_TRUE},
        {.fuse = false, .n_partial_sums = 1, .optimizer = &adam},
    };
    struct net n;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        open_net(&n, "mnist-autoencoder", "cpu", 1, &plans[i]);
        assert_int_equal(outers_of_norm(&n), 0);
        n.device->backend->close(n.device);
        close_net(&n);
    }
    open_net(&n, "mnist-autoencoder", "cpu", 2,
             &(struct lvn_plan_options){.fuse = true, .n_partial_sums = 1, .optimizer = &adam});
    assert_int_equal(outers_of_norm(&n), 0);
    n.device->backend->close(n.device);
    close_net(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_stand_for_gradients),
        cmocka_unit_test(test_products_beyond_the_range_are_refused),
        cmocka_unit_test(test_programs_keep_their_bits),
        cmocka_unit_test(test_others_write_their_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
