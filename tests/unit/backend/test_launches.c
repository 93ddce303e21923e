/* test_launches.c - covers: src/core/backend/gpu/kernel_launch.c
 *
 * How many kernels operations launch on devices, with how many groups, for sizes of real models. */
#include "unit/kernel_texts.h"

static bool adds; /* the gradients are added to others */

/* The launches of a phase. */
static struct lvn_gpu launches_in(const struct op_case *c, enum lvn_phase phase, enum lvn_dtype type)
{
    const struct lvn_gpu_operation *o = lvn_gpu_operation_of(c->op);
    struct lvn_shapes *s = lvn_arena_alloc(&arena, sizeof *s);
    struct lvn_call *call = lvn_arena_alloc(&arena, sizeof *call);
    assert_true(o && s && call);
    describe(c, type, s, call);
    call->phase = phase;
    for (int k = 0; k < LVN_MAX_IN; k++) call->add[k] = adds;
    struct lvn_gpu g = {.call = call, .arena = &arena, .source = o->name, .matrix_units = true};
    (phase == LVN_FORWARD ? o->forward : o->backward)(&g);
    must(g.status);
    return g;
}

static struct lvn_gpu launches_of(const struct op_case *c, enum lvn_phase phase)
{
    return launches_in(c, phase, LVN_BF16);
}

static int number_of(const struct lvn_gpu *g, const char *kernel)
{
    int n = 0;
    for (int k = 0; k < g->n_launches; k++) n += !strcmp(g->launches[k].kernel, kernel);
    return n;
}

/* GPT-2's head, 32 x 1,024 tokens: each chunk reads and writes the gradient of the weight. */
static void the_head_has_few_chunks(void **state)
{
    static const struct op_case head = {LVN_OP_linear_cross_entropy, .attr.linear_cross_entropy = {.ignore = -100},
                                        .in = {REAL(32768, 768), REAL(50304, 768), NONE, LABEL(50304, 32768)}};
    (void)state;
    const struct lvn_gpu g = launches_of(&head, LVN_BACKWARD);
    assert_int_equal(number_of(&g, "cross_entropy_rows"), 2);
    assert_true(g.scratch_bytes < (int64_t)1 << 31);
}

/* The description of a head with many chunks, as in fp32 with many classes, is as long as its launches. */
static void many_launches_need_little_memory(void **state)
{
    static const struct op_case head = {LVN_OP_linear_cross_entropy, .attr.linear_cross_entropy = {.ignore = -100},
                                        .in = {REAL(131072, 256), REAL(262144, 256), NONE, LABEL(262144, 131072)}};
    (void)state;
    const size_t before = arena.used;
    const struct lvn_gpu g = launches_in(&head, LVN_BACKWARD, LVN_F32);
    assert_int_equal(number_of(&g, "cross_entropy_rows"), 1024);
    assert_in_range(arena.used - before, 1, 8 << 20);
}

/* Tokens of an embedding's gradient are compared with a group's other tokens, then merged: the work for a token grows
 * with the logarithm of their number. */
static void tokens_are_sorted_in_few_passes(void **state)
{
    static const struct op_case few = {LVN_OP_embedding, .in = {IDS(50304, 1, 256), REAL(50304, 768), NONE}};
    static const struct op_case many = {LVN_OP_embedding, .in = {IDS(50304, 256, 1024), REAL(50304, 768), NONE}};
    (void)state;
    struct lvn_gpu g = launches_of(&few, LVN_BACKWARD);
    assert_int_equal(number_of(&g, "embedding_merge"), 0);
    g = launches_of(&many, LVN_BACKWARD);
    assert_int_equal(number_of(&g, "embedding_merge"), 10); /* 2^18 tokens, 2^8 a group */
    for (int k = 0; k < g.n_launches; k++)
        if (!strcmp(g.launches[k].kernel, "embedding_clear")) /* eight values an item */
            assert_int_equal(g.launches[k].grid[0], 50304 * 768 / 8 / LVN_ITEMS);
    assert_int_equal(number_of(&g, "embedding_clear"), 1);
    adds = true; /* the head, which has the same table, came first */
    g = launches_of(&few, LVN_BACKWARD);
    adds = false;
    assert_int_equal(number_of(&g, "embedding_clear"), 0);
}

/* The sums of squares of 124 million gradients are added by several groups, then by one. */
static void sums_of_a_norm_are_added_by_many_groups(void **state)
{
    static const struct op_case norm = {LVN_OP_grad_norm, .count = 124439808},
                                small = {LVN_OP_grad_norm, .count = 9999};
    (void)state;
    struct lvn_gpu g = launches_of(&norm, LVN_FORWARD);
    assert_int_equal(number_of(&g, "grad_sums"), 1);
    assert_int_equal(g.launches[1].grid[0], 15);
    g = launches_of(&small, LVN_FORWARD);
    assert_int_equal(g.n_launches, 2);
}

/* An update with a running sum reads and writes its operands once, and adds what its groups changed. */
static void an_update_sums_its_own_changes(void **state)
{
    static const struct op_case updates[] = {
        {LVN_OP_adamw, .attr.adamw = {{.lr_scale = 1, .summed = 7}, .beta1 = 0.9, .beta2 = 0.99}, .count = 7000000},
        {LVN_OP_sgd, .attr.sgd = {{.lr_scale = 1, .summed = 3}, .momentum = 0.9}, .count = 7000000},
        {LVN_OP_lion, .attr.lion = {{.lr_scale = 1, .summed = 3}, .beta1 = 0.9, .beta2 = 0.99}, .count = 7000000},
        {LVN_OP_muon_direction, .attr.muon_direction = {{.lr_scale = 1, .summed = 2}, .momentum = 0.9},
         .count = 7000000},
        {LVN_OP_muon_step, .attr.muon_step = {{.lr_scale = 1, .summed = 1}, .ratio = 1}, .count = 7000000},
    };
    (void)state;
    for (size_t k = 0; k < sizeof updates / sizeof *updates; k++) {
        const struct lvn_gpu g = launches_in(&updates[k], LVN_FORWARD, LVN_F32);
        assert_int_equal(g.n_launches, updates[k].op == LVN_OP_adamw ? 4 : 3);
        assert_int_equal(number_of(&g, "bits_sum_parts") + number_of(&g, "bits_sum_total"), 2);
        assert_true(g.scratch_bytes < 7000000 / 32);
    }
}

/* The gradient of a bias behind GELU is summed where the gradient of its values is made, which is not read again. */
static void the_bias_of_a_gelu_is_summed_where_its_gradient_is_made(void **state)
{
    static const struct op_case gelu = {LVN_OP_linear_gelu, .attr.linear_gelu = {.in_out = true},
                                        .in = {REAL(32768, 768), REAL(768, 3072), REAL(3072)}};
    (void)state;
    const struct lvn_gpu g = launches_of(&gelu, LVN_BACKWARD);
    assert_int_equal(number_of(&g, "gelu_backward_sums"), 1);
    assert_int_equal(number_of(&g, "gelu_backward") + number_of(&g, "column_sums"), 0);
    assert_int_equal(number_of(&g, "column_parts"), 1);
}

/* The gradients of a norm's gain and bias are read eight values at a time. */
static void the_vectors_of_a_norm_are_summed_by_wide_loads(void **state)
{
    static const struct op_case norm = {LVN_OP_layernorm, .attr.layernorm.eps = 1e-5,
                                        .in = {REAL(32768, 768), REAL(768), REAL(768)}};
    (void)state;
    const struct lvn_gpu g = launches_of(&norm, LVN_BACKWARD);
    assert_int_equal(number_of(&g, "norm_weight_gradients"), 1);
    for (int k = 0; k < g.n_launches; k++)
        if (!strcmp(g.launches[k].kernel, "norm_weight_gradients"))
            assert_int_equal(g.launches[k].grid[0], 768 / 32 / 8);
}

/* Rows are divided among at most the 65,535 groups that CUDA has in the second dimension of a grid. */
static void sums_over_many_rows_fit_a_grid(void **state)
{
    const int64_t rows = 20000000;
    const struct op_case many[] = {
        {LVN_OP_rmsnorm, .attr.rmsnorm.eps = 1e-5, .in = {REAL(rows, 64), REAL(64)}},
        {LVN_OP_linear, .attr.linear = {true}, .in = {REAL(rows, 8), REAL(8, 8), REAL(8)}},
        {LVN_OP_mul_rows, .in = {REAL(rows, 8), REAL(8)}},
    };
    (void)state;
    for (size_t k = 0; k < sizeof many / sizeof *many; k++) {
        const struct lvn_gpu g = launches_of(&many[k], LVN_BACKWARD);
        int64_t parts = 1;
        for (int n = 0; n < g.n_launches; n++)
            if (strcmp(g.launches[n].kernel, "product") && g.launches[n].grid[1] > parts) parts = g.launches[n].grid[1];
        assert_in_range(parts, 60000, 65535);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_head_has_few_chunks),
        cmocka_unit_test(many_launches_need_little_memory),
        cmocka_unit_test(tokens_are_sorted_in_few_passes),
        cmocka_unit_test(sums_of_a_norm_are_added_by_many_groups),
        cmocka_unit_test(an_update_sums_its_own_changes),
        cmocka_unit_test(the_bias_of_a_gelu_is_summed_where_its_gradient_is_made),
        cmocka_unit_test(the_vectors_of_a_norm_are_summed_by_wide_loads),
        cmocka_unit_test(sums_over_many_rows_fit_a_grid),
    };
    lvn_arena_init(&arena);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    lvn_arena_release(&arena);
    return failed;
}
