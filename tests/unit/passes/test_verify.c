/* test_verify.c - covers: src/core/passes/verify.c
 *
 * Planning refuses programs in which a kernel would read or write an operand as another type, or beyond its buffer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "bound_program.h"
#include "data/dataset.h"
#include "models/keys.h"
#include "passes/pass.h"
#include "tasks/task.h"

struct planned {
    struct lvn_params *params;
    struct levin_graph *graph;
    struct lvn_device *device;
    struct lvn_program *program;
};

static enum lvn_status plan(struct planned *t, enum lvn_dtype real, enum lvn_precision precision,
                            const struct lvn_optimizer *optimizer, const struct lvn_sharding *sharding)
{
    const struct lvn_key_value sizes[] = {{"n_layer", 1},    {"n_head", 2},     {"n_embd", 8},
                                          {"block_size", 4}, {"vocab_size", 7}, {NULL, 0}};
    const struct lvn_fields fields = lvn_stream_fields(4, 7);
    struct lvn_model_config c;
    struct lvn_task_graph model;
    lvn_model_config_init(&c, lvn_model_find("gpt2"));
    assert_int_equal(lvn_model_put_all(&c, sizes), LVN_OK);
    *t = (struct planned){.params = lvn_params_new()};
    t->graph = lvn_graph_new(t->params, real);
    assert_int_equal(lvn_task_build(&model, t->graph, &c, lvn_task_find("lm"), &fields, 1), LVN_OK);
    assert_int_equal(lvn_params_layout(t->params, LVN_DECAY_MATRICES), LVN_OK);
    t->device = open_device(real == LVN_F64 ? "reference" : "cpu", real, 1, LVN_ISA_COUNT - 1);
    struct lvn_plan_options o = {.n_sums = 1,
                                 .train = true,
                                 .fuse = true,
                                 .precision = precision,
                                 .recompute = LVN_RECOMPUTE_CHEAP,
                                 .optimizer = optimizer,
                                 .sharding = sharding,
                                 .device = t->device};
    return lvn_program_new(&t->program, t->graph, (struct levin_tensor *[]){model.loss}, 1, &o);
}

static void release(struct planned *t)
{
    lvn_program_free(t->program);
    t->device->backend->close(t->device);
    lvn_graph_free(t->graph);
    lvn_params_free(t->params);
}

static struct lvn_optimizer optimizer_of(enum lvn_op_id op, bool bf16_state)
{
    struct lvn_optimizer o = {.op = op, .bf16_state = bf16_state};
    if (op == LVN_OP_adamw) o.attr.adamw.beta1 = 0.9, o.attr.adamw.beta2 = 0.99, o.attr.adamw.eps = 1e-8;
    if (op == LVN_OP_sgd) o.attr.sgd.momentum = 0.9;
    if (op == LVN_OP_lion) o.attr.lion.beta1 = 0.9, o.attr.lion.beta2 = 0.99;
    return o;
}

/* Moments in bf16 are not for SGD, and for kernels that compute in fp32. */
static void types_of_moments(void **state)
{
    (void)state;
    static const enum lvn_op_id ops[] = {LVN_OP_adamw, LVN_OP_lion, LVN_OP_sgd};
    const struct lvn_sharding zero1 = {.rank = 1, .size = 3, .sharded = LVN_SHARDS_STATE};
    for (int k = 0; k < 3 * 2 * 4 * 2; k++) {
        enum lvn_op_id op = ops[k % 3];
        int mode = k / 6 % 4;
        bool half = k / 3 % 2;
        enum lvn_dtype real = mode == 3 ? LVN_F64 : LVN_F32;
        struct lvn_optimizer o = optimizer_of(op, half);
        struct planned t;
        enum lvn_status status =
            plan(&t, real, mode == 3 ? LVN_PRECISION_TRUE : (enum lvn_precision)mode, &o, k / 24 ? &zero1 : NULL);
        bool good = !half || (op != LVN_OP_sgd && real == LVN_F32);
        if (status != (good ? LVN_OK : LVN_UNSUPPORTED))
            fail_msg("%s, bf16 moments %d, mode %d: status %d, %s", lvn_op(op, LVN_F32)->name, half, mode, status,
                     levin_error_text());
        release(&t);
    }
    struct lvn_optimizer o = optimizer_of(LVN_OP_sgd, true);
    struct planned t;
    assert_int_equal(plan(&t, LVN_F32, LVN_PRECISION_TRUE, &o, NULL), LVN_UNSUPPORTED);
    assert_non_null(strstr(levin_error_text(), "sgd writes 'first moment' as fp32, but its type is bf16"));
    release(&t);
}

static struct lvn_instr *update_of(struct planned *t)
{
    struct lvn_instr *i = t->program->instrs;
    while (i->id != LVN_OP_adamw) i++;
    return i;
}

/* One fault in a good program; each must be detected. */
static void short_moments(struct planned *t)
{
    int64_t half = lvn_desc_count(&update_of(t)->in[0].desc) / 2;
    update_of(t)->out[2].desc = lvn_desc_make(LVN_F32, 1, &half);
}
static void gradient_beyond_its_value(struct planned *t)
{
    t->program->values[update_of(t)->in[0].value].bytes /= 2;
}
static void parameters_of_another_type(struct planned *t)
{
    struct lvn_operand *o = &update_of(t)->out[0];
    o->desc.dtype = t->program->values[o->value].dtype = LVN_BF16;
}
static void moments_of_two_types(struct planned *t)
{
    struct lvn_operand *o = &update_of(t)->out[1];
    o->desc.dtype = t->program->values[o->value].dtype = LVN_BF16;
}
static void read_as_another_type(struct planned *t)
{
    update_of(t)->in[0].desc.dtype = LVN_BF16;
}
static void not_a_probability(struct planned *t)
{
    update_of(t)->attr.adamw.beta1 = 1;
}
static void activation_of_another_type(struct planned *t)
{
    struct lvn_operand *o = &t->program->instrs[0].out[0];
    assert_int_equal(t->program->instrs[0].id, LVN_OP_embedding);
    o->desc.dtype = t->program->values[o->value].dtype = LVN_F64;
    t->program->values[o->value].bytes *= 2;
}

static void one_wrong_thing(void **state)
{
    (void)state;
    void (*const damage[])(struct planned *) = {
        short_moments,        gradient_beyond_its_value, parameters_of_another_type, moments_of_two_types,
        read_as_another_type, not_a_probability,         activation_of_another_type,
    };
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        struct lvn_optimizer o = optimizer_of(LVN_OP_adamw, false);
        struct planned t;
        assert_int_equal(plan(&t, LVN_F32, LVN_PRECISION_TRUE, &o, NULL), LVN_OK);
        assert_int_equal(lvn_pass_verify(t.program), LVN_OK);
        damage[i](&t);
        if (lvn_pass_verify(t.program) == LVN_OK) fail_msg("damage %zu is not seen", i);
        release(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_of_moments),
        cmocka_unit_test(one_wrong_thing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
