/* test_passes_memory.c - covers: src/core/passes/verify.c src/core/passes/memory_planning.c
 * src/core/passes/program_print.c src/core/passes/program_facts.c src/core/passes/program_checksum.c
 *
 * The passes of a finished program alone: verify, which must refuse wrong programs, and memory_planning, by the listing
 * before it and after it. Then the columns that levin plan --program shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "pass_listing.h"
#include "passes/pass.h"

static const struct lvn_optimizer adamw = {.op = LVN_OP_adamw,
                                           .attr.adamw = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8}};
static const struct lvn_optimizer sgd = {.op = LVN_OP_sgd, .attr.sgd.momentum = 0.9};

/* --- verify: one fault in a good program, whose instruction 0 is linear_gelu, and 4 is adamw --- */

static struct lvn_value *value_of(struct lvn_program *p, const struct lvn_operand *o)
{
    return &p->values[o->value];
}

static void w1_read_as_bf16(struct lvn_program *p)
{
    p->instrs[0].in[1].desc.dtype = LVN_BF16;
}

static void b_shorter_than_its_operand(struct lvn_program *p)
{
    value_of(p, &p->instrs[0].in[2])->bytes /= 2;
}

static void w1_with_five_rows(struct lvn_program *p)
{
    p->instrs[0].in[1].desc = LVN_DESC(LVN_F32, 5, 8);
    value_of(p, &p->instrs[0].in[1])->bytes = 5 * 8 * 4;
}

static void output_of_one_row(struct lvn_program *p)
{
    p->instrs[0].out[0].desc = LVN_DESC(LVN_F32, 1, 8);
}

static void output_in_fp64(struct lvn_program *p)
{
    struct lvn_operand *gelu = &p->instrs[0].out[0];
    gelu->desc.dtype = value_of(p, gelu)->dtype = LVN_F64;
    value_of(p, gelu)->bytes *= 2;
}

static void second_moment_in_bf16(struct lvn_program *p)
{
    struct lvn_operand *moment = &p->instrs[4].out[2];
    moment->desc.dtype = value_of(p, moment)->dtype = LVN_BF16;
}

static void verify(void **state)
{
    (void)state;
    static const struct {
        void (*damage)(struct lvn_program *p);
        enum lvn_status status;
        const char *sentence;
    } cases[] = {
        {w1_read_as_bf16, LVN_INTERNAL, "gelu:0: linear_gelu does not accept 'w1' with its type or size (fp32)"},
        {b_shorter_than_its_operand, LVN_INTERNAL,
         "gelu:0: linear_gelu does not accept 'b' with its type or size (fp32)"},
        {w1_with_five_rows, LVN_SHAPE,
         "linear_gelu: input 'x' has 4 features, but weight 'w1' of shape (5, 8) (stored in, out) requires 5"},
        {output_of_one_row, LVN_SHAPE, "gelu:0: linear_gelu writes 16 elements to 'gelu:0', which has 8"},
        {output_in_fp64, LVN_UNSUPPORTED, "gelu:0: linear_gelu writes 'gelu:0' as fp32, but its type is fp64"},
        {second_moment_in_bf16, LVN_INTERNAL,
         "update, decayed parameters: adamw does not accept 'second moment' with its type or size (bf16)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model m = classifier_new();
        must(lvn_pass_fuse(m.program));
        must(lvn_pass_differentiate(m.program));
        must(lvn_pass_gradient_accumulation(m.program, NULL));
        must(lvn_pass_update(m.program, &adamw, false));
        must(lvn_pass_verify(m.program));
        cases[i].damage(m.program);
        assert_int_equal(lvn_pass_verify(m.program), cases[i].status);
        assert_string_equal(levin_error_text(), cases[i].sentence);
        model_free(&m);
    }
}

/* --- memory_planning and the listing --- */

/* A value has the lowest offset that is free while it lives: %11 that of %9, %12 that of %6. gelu's backward writes %14
 * over %12, which is not read later. The loss is a sum that the run returns. */
static void place(void **state)
{
    (void)state;
    struct model m = classifier_new();
    struct lvn_device *reference = open_device("reference", LVN_F32, 1, LVN_ISA_COUNT - 1);
    must(lvn_pass_differentiate(m.program));
    must(lvn_pass_gradient_accumulation(m.program, NULL));
    must(lvn_pass_update(m.program, &sgd, false));
    expect(&m, " 0 forward  linear               x, w1, b -> %3 (2, 8)\n"
               " 1 forward  gelu                 %3 -> %4 (2, 8)\n"
               " 2 forward  linear               %4, w2 -> %6 (2, 3)\n"
               " 3 forward  cross_entropy        %6, labels:int32 -> %8:fp64 (1), %9 (2), %10 (2)\n"
               " 4 backward cross_entropy        %6, labels:int32, %10 -> %11 (2, 3)\n"
               " 5 backward linear               %4, w2, %11 -> %12 (2, 8), gradient of w2 (8, 3)\n"
               " 6 backward gelu                 %3, %12 -> %14 (2, 8)\n"
               " 7 backward linear               x, w1, %14 -> gradient of w1 (4, 8), gradient of b (8)\n"
               " 8 update   grad_norm            gradients[0:192]\n"
               " 9 update   sgd                  gradients[0:128] -> parameters[0:128], first moment[0:128]\n"
               "10 update   sgd                  gradients[128:192] -> parameters[128:192], first moment[128:192]\n"
               "gradients: 1 x 768 bytes\n");
    must(lvn_pass_memory_planning(m.program, 1, reference));
    expect(&m, " 0 forward  linear               x, w1, b -> %3@0 (2, 8)\n"
               " 1 forward  gelu                 %3@0 -> %4@64 (2, 8)\n"
               " 2 forward  linear               %4@64, w2 -> %6@128 (2, 3)\n"
               " 3 forward  cross_entropy        %6@128, labels:int32 -> result@40:fp64, %9@192 (2), %10@256 (2)\n"
               " 4 backward cross_entropy        %6@128, labels:int32, %10@256 -> %11@192 (2, 3)\n"
               " 5 backward linear               %4@64, w2, %11@192 -> %12@128 (2, 8), gradient of w2 (8, 3)\n"
               " 6 backward gelu                 %3@0, %12@128 -> %14@128 (2, 8)\n"
               " 7 backward linear               x, w1, %14@128 -> gradient of w1 (4, 8), gradient of b (8)\n"
               " 8 update   grad_norm            gradients[0:192] -> %24@0 scratch of 8 bytes\n"
               " 9 update   sgd                  gradients[0:128] -> parameters[0:128], first moment[0:128]\n"
               "10 update   sgd                  gradients[128:192] -> parameters[128:192], first moment[128:192]\n"
               "gradients: 1 x 768 bytes\n"
               "arena: 320 bytes, unplanned 576\n");
    reference->backend->close(reference);
    model_free(&m);
}

/* Values of one size, of which two live at one time, need memory of two, in whichever order they are numbered. */
static void place_equals(void **state)
{
    (void)state;
    static const int order[] = {0, 3, 2, 1}; /* the k-th copy reads value order[k - 1] and writes order[k] */
    struct model m = classifier_new();
    struct lvn_device *reference = open_device("reference", LVN_F32, 1, LVN_ISA_COUNT - 1);
    struct lvn_operand values[4];
    m.program->n_instrs = 0;
    for (int k = 0; k < 4; k++) values[k] = lvn_program_add_range(m.program, "one", LVN_BUFFER_ARENA, LVN_F32, 0, 16);
    for (int k = 0; k < 4; k++) {
        struct lvn_instr *copy = lvn_program_add_instr(m.program, k ? LVN_OP_accumulate : LVN_OP_zeros, LVN_FORWARD);
        if (k) copy->attr.accumulate.copy = true;
        if (k) copy->in[0] = values[order[k - 1]];
        copy->out[0] = values[order[k]];
    }
    must(lvn_pass_memory_planning(m.program, 0, reference));
    expect(&m, " 0 forward  zeros                -> %11@0 (16)\n"
               " 1 forward  accumulate           %11@0 -> %14@64 (16)\n"
               " 2 forward  accumulate           %14@64 -> %13@0 (16)\n"
               " 3 forward  accumulate           %13@0 -> %12@64 (16)\n"
               "arena: 128 bytes, unplanned 256\n");
    reference->backend->close(reference);
    model_free(&m);
}

/* A sum overwrites one of its terms, and the memory of the other one is free after it. */
static void place_sum(void **state)
{
    (void)state;
    struct model m = classifier_new();
    struct lvn_device *reference = open_device("reference", LVN_F32, 1, LVN_ISA_COUNT - 1);
    struct lvn_operand values[5];
    m.program->n_instrs = 0;
    for (int k = 0; k < 5; k++) values[k] = lvn_program_add_range(m.program, "one", LVN_BUFFER_ARENA, LVN_F32, 0, 16);
    for (int k = 0; k < 5; k++) { /* 2 = 0 + 1, 4 = 2 + 3 */
        const bool sum = k == 2 || k == 4;
        struct lvn_instr *i = lvn_program_add_instr(m.program, sum ? LVN_OP_add : LVN_OP_zeros, LVN_FORWARD);
        if (sum) i->in[0] = values[k - 2];
        if (sum) i->in[1] = values[k - 1];
        i->out[0] = values[k];
    }
    must(lvn_pass_memory_planning(m.program, 0, reference));
    expect(&m, " 0 forward  zeros                -> %11@0 (16)\n"
               " 1 forward  zeros                -> %12@64 (16)\n"
               " 2 forward  add                  %11@0, %12@64 -> %13@0 (16)\n"
               " 3 forward  zeros                -> %14@64 (16)\n"
               " 4 forward  add                  %13@0, %14@64 -> %15@0 (16)\n"
               "arena: 128 bytes, unplanned 320\n");
    reference->backend->close(reference);
    model_free(&m);
}

/* The other columns, as levin plan --program shows them: 2 x 1024 x 256 x 256 multiplications and additions, and the
 * output, 1024 x 256 numbers of 4 bytes, is 1 MiB. */
static void cost_columns(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct lvn_device *reference = open_device("reference", LVN_F32, 1, LVN_ISA_COUNT - 1);
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 1024, 256));
    levin_scope(g, "h.%d", 0);
    model_build(&m, levin_linear(g, x, levin_weight(g, "w", 256, 256, 1), NULL, true));
    must(lvn_pass_memory_planning(m.program, 0, reference));
    LVN_LOCAL_TEXT(text);
    must(lvn_program_print(&text, m.program, LVN_PRINT_COST));
    assert_string_equal(lvn_text_string(&text),
                        "       phase    operation              name                              "
                        " writes                      MFLOP  arena MiB\n"
                        "    0  forward  linear                 h.0.linear:0                      "
                        " (1024, 256)                134.22       1.00\n");
    reference->backend->close(reference);
    model_free(&m);
}

/* One instruction for each parameter, in the order of declaration; their sums are contiguous, and stay after the run.
 */
static void checksums(void **state)
{
    (void)state;
    struct model m = classifier_new();
    struct lvn_device *reference = open_device("reference", LVN_F32, 1, LVN_ISA_COUNT - 1);
    struct levin_graph *empty = lvn_graph_new(m.params, LVN_F32);
    struct lvn_program *classifier = m.program;
    struct lvn_operand sums;
    must(lvn_program_new_checksums(&m.program, empty, LVN_F32, NULL, reference, &sums));
    assert_true(m.program->values[sums.value].keep);
    expect(&m, " 0 forward  parameter_checksum   w1[0:32] -> %0@0:int32 (4)\n"
               " 1 forward  parameter_checksum   b[128:136] -> %0@0+4:int32 (4)\n"
               " 2 forward  parameter_checksum   w2[64:88] -> %0@0+8:int32 (4)\n"
               "arena: 64 bytes, unplanned 64\n");
    lvn_program_free(m.program);
    lvn_graph_free(empty);
    m.program = classifier;
    reference->backend->close(reference);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verify),    cmocka_unit_test(place),        cmocka_unit_test(place_equals),
        cmocka_unit_test(place_sum), cmocka_unit_test(cost_columns), cmocka_unit_test(checksums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
