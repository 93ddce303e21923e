/* test_passes.c - covers: src/core/passes/program_build.c src/core/passes/prune.c src/core/passes/fuse.c
 * src/core/passes/fuse_chains.c src/core/passes/mixed_precision.c src/core/passes/differentiate.c
 * src/core/passes/recompute.c src/core/passes/blocks.c
 *
 * Each pass of a micro-batch alone: the listing of a small program before it and after it. Passes of a step are in
 * test_passes_step.c, those of a finished program in test_passes_memory.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "levin.h"
#include "models/transformer.h"
#include "pass_listing.h"
#include "passes/pass.h"

/* One forward instruction for each node; views are operands with an offset, not instructions. */
static void build(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *ids = lvn_input(g, "ids", LVN_DESC(LVN_I32, 1, 3));
    struct levin_tensor *x = levin_embedding(g, ids, levin_table(g, "wte", 11, 4, 1), NULL);
    struct levin_tensor *qkv = levin_linear(g, x, levin_weight(g, "w", 4, 12, 1), levin_vector(g, "b", 12, 0), true);
    struct levin_tensor *q = levin_heads(g, qkv, 0, 2, 2), *k = levin_heads(g, qkv, 4, 2, 2),
                        *v = levin_heads(g, qkv, 8, 2, 2);
    const struct levin_attention_options how = {.size = sizeof how, .causal = true, .scale = 1};
    model_build(&m, levin_attention(g, q, k, v, &how));
    expect(&m, " 0 forward  embedding            ids:int32, wte -> %2 (1, 3, 4)\n"
               " 1 forward  linear               %2, w, b -> %5 (1, 3, 12)\n"
               " 2 forward  attention            %5, %5+4, %5+8 -> %6 (1, 3, 4), %7 (1, 2, 3)\n");
    model_free(&m);
}

/* Nothing reads the second branch of this model: its instructions are removed. */
static void prune(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4));
    struct levin_tensor *h = levin_gelu(g, x);
    levin_gelu(g, levin_linear(g, h, levin_weight(g, "unused", 4, 3, 1), NULL, true));
    model_build(&m, levin_linear(g, h, levin_weight(g, "w", 4, 2, 1), NULL, true));
    expect(&m, " 0 forward  gelu                 x -> %1 (2, 4)\n"
               " 1 forward  linear               %1, unused -> %3 (2, 3)\n"
               " 2 forward  gelu                 %3 -> %4 (2, 3)\n"
               " 3 forward  linear               %1, w -> %6 (2, 2)\n");
    must(lvn_pass_prune(m.program));
    expect(&m, " 0 forward  gelu                 x -> %1 (2, 4)\n"
               " 1 forward  linear               %1, w -> %6 (2, 2)\n");
    model_free(&m);
}

/* linear + gelu, dropout + add + layernorm, and linear + cross_entropy become one operation each. */
static void fuse(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4));
    struct levin_tensor *labels = lvn_input(g, "labels", LVN_DESC(LVN_I32, 2));
    struct levin_tensor *h =
        levin_gelu(g, levin_linear(g, x, levin_weight(g, "w1", 4, 8, 1), levin_vector(g, "b1", 8, 0), true));
    struct levin_tensor *y = levin_linear(g, h, levin_weight(g, "w2", 8, 4, 1), levin_vector(g, "b2", 4, 0), true);
    struct levin_tensor *sum = levin_add(g, x, levin_dropout(g, y, 0.1));
    struct levin_tensor *norm =
        levin_layernorm(g, sum, levin_vector(g, "gamma", 4, 1), levin_vector(g, "beta", 4, 0), 1e-5);
    model_build(&m, levin_cross_entropy(g, levin_linear(g, norm, levin_weight(g, "w3", 4, 3, 1), NULL, true), labels));
    expect(&m, " 0 forward  linear               x, w1, b1 -> %3 (2, 8)\n"
               " 1 forward  gelu                 %3 -> %4 (2, 8)\n"
               " 2 forward  linear               %4, w2, b2 -> %7 (2, 4)\n"
               " 3 forward  dropout              %7 -> %8 (2, 4)\n"
               " 4 forward  add                  x, %8 -> %9 (2, 4)\n"
               " 5 forward  layernorm            %9, gamma, beta -> %12 (2, 4), %13 (2), %14 (2)\n"
               " 6 forward  linear               %12, w3 -> %16 (2, 3)\n"
               " 7 forward  cross_entropy        %16, labels:int32 -> %18:fp64 (1), %19 (2), %20 (2)\n");
    must(lvn_pass_fuse(m.program));
    expect(&m, " 0 forward  linear_gelu          x, w1, b1 -> %4 (2, 8), %3 (2, 8)\n"
               " 1 forward  linear               %4, w2, b2 -> %7 (2, 4)\n"
               " 2 forward  residual_layernorm   x, %7, gamma, beta -> %9 (2, 4), %12 (2, 4), %13 (2), %14 (2)\n"
               " 3 forward  linear_cross_entropy %12, w3, labels:int32 -> %18:fp64 (1), %19 (2)\n");
    model_free(&m);
}

/* The sum and its RMS norm, with or without a weight; a sum that is read before the norm is a separate operation. */
static void fuse_rmsnorm(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4));
    struct levin_tensor *sum = levin_add(g, x, levin_gelu(g, x));
    struct levin_tensor *first = levin_rmsnorm(g, sum, levin_vector(g, "gamma", 4, 1), 1e-5, 0);
    struct levin_tensor *next = levin_add(g, sum, levin_dropout(g, first, 0.1));
    struct levin_tensor *twice = levin_add(g, next, levin_rmsnorm(g, next, NULL, 1e-5, 0));
    struct levin_tensor *read = levin_gelu(g, twice);
    model_build(&m, levin_add(g, read, levin_rmsnorm(g, twice, NULL, 1e-5, 0)));
    must(lvn_pass_fuse(m.program));
    expect(&m, " 0 forward  gelu                 x -> %1 (2, 4)\n"
               " 1 forward  residual_rmsnorm     x, %1, gamma -> %2 (2, 4), %4 (2, 4), %5 (2)\n"
               " 2 forward  residual_rmsnorm     %2, %4 -> %7 (2, 4), %8 (2, 4), %9 (2)\n"
               " 3 forward  add                  %7, %8 -> %10 (2, 4)\n"
               " 4 forward  gelu                 %10 -> %11 (2, 4)\n"
               " 5 forward  rmsnorm              %10 -> %12 (2, 4), %13 (2)\n"
               " 6 forward  add                  %11, %12 -> %14 (2, 4)\n");
    model_free(&m);
}

/* A soft cap of the logits, c tanh(z / c), becomes a part of the loss; another factor does not. */
static void fuse_soft_cap(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        struct model m = model_new();
        struct levin_graph *g = m.graph;
        struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4));
        struct levin_tensor *labels = lvn_input(g, "labels", LVN_DESC(LVN_I32, 2));
        struct levin_tensor *z = levin_linear(g, x, levin_weight(g, "w", 4, 3, 1), NULL, true);
        z = k ? levin_scale(g, levin_tanh(g, levin_scale(g, z, 1 / 30.0)), 31) : lvn_softcap(g, z, 30);
        model_build(&m, levin_cross_entropy(g, z, labels));
        must(lvn_pass_fuse(m.program));
        assert_int_equal(m.program->n_instrs, k ? 5 : 1);
        const struct lvn_instr *loss = &m.program->instrs[m.program->n_instrs - 1];
        assert_int_equal(loss->id, k ? LVN_OP_cross_entropy : LVN_OP_linear_cross_entropy);
        if (!k) assert_true(loss->attr.linear_cross_entropy.softcap == 30);
        model_free(&m);
    }
}

/* A value that another instruction reads too stays in memory: its operations are not fused. */
static void fuse_leaves_shared_values(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4));
    struct levin_tensor *shared = levin_linear(g, x, levin_weight(g, "w1", 4, 4, 1), NULL, true);
    struct levin_tensor *alone = levin_linear(g, levin_gelu(g, shared), levin_weight(g, "w2", 4, 4, 1), NULL, true);
    model_build(&m, levin_add(g, shared, levin_gelu(g, alone)));
    expect(&m, " 0 forward  linear               x, w1 -> %2 (2, 4)\n"
               " 1 forward  gelu                 %2 -> %3 (2, 4)\n"
               " 2 forward  linear               %3, w2 -> %5 (2, 4)\n"
               " 3 forward  gelu                 %5 -> %6 (2, 4)\n"
               " 4 forward  add                  %2, %6 -> %7 (2, 4)\n");
    must(lvn_pass_fuse(m.program));
    expect(&m, " 0 forward  linear               x, w1 -> %2 (2, 4)\n"
               " 1 forward  gelu                 %2 -> %3 (2, 4)\n"
               " 2 forward  linear_gelu          %3, w2 -> %6 (2, 4), %5 (2, 4)\n"
               " 3 forward  add                  %2, %6 -> %7 (2, 4)\n");
    model_free(&m);
}

/* Elementwise operations become chains, whose values no other instruction reads: the MLPs of Llama and Gemma, where the
 * gate is either factor; both inputs; an operation alone. A value that something else reads, and what reads it as
 * another shape, stay. */
static void chains(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4)),
                        *up = lvn_input(g, "up", LVN_DESC(LVN_F32, 2, 4));
    struct levin_tensor *h = levin_mul(g, levin_silu(g, x), up);
    h = levin_mul(g, up, levin_gelu_tanh(g, levin_add(g, h, x)));
    struct levin_tensor *left = levin_tanh(g, h), *right = levin_relu(g, levin_add(g, h, x));
    h = levin_mul(g, left, right);
    h = levin_scale(g, levin_scale(g, h, 2), 3);
    h = levin_relu2(g, levin_reshape(g, levin_gelu(g, levin_add(g, h, x)), 1, (int64_t[]){8}));
    model_build(&m, levin_mul(g, h, h));
    must(lvn_pass_fuse_chains(m.program));
    expect(&m, " 0 forward  chain                x, up -> %3 (2, 4)\n"
               " 1 forward  add                  %3, x -> %4 (2, 4)\n"
               " 2 forward  chain                %4, up -> %6 (2, 4)\n"
               " 3 forward  add                  %6, x -> %8 (2, 4)\n"
               " 4 forward  chain                %8 -> %9 (2, 4)\n"
               " 5 forward  chain                %6, %9 -> %11 (2, 4)\n"
               " 6 forward  chain                %11 -> %12 (2, 4)\n"
               " 7 forward  add                  %12, x -> %13 (2, 4)\n"
               " 8 forward  chain                %13 -> %14 (2, 4)\n"
               " 9 forward  chain                %14 -> %15 (8)\n"
               "10 forward  chain                %15, %15 -> %16 (8)\n");
    model_free(&m);
}

/* Values between operations become bf16 where all operations that touch them allow it; parameters and losses do not. */
static void precision_bf16_mixed(void **state)
{
    (void)state;
    struct model m = classifier_new();
    must(lvn_pass_fuse(m.program));
    expect(&m, " 0 forward  linear_gelu          x, w1, b -> %4 (2, 8), %3 (2, 8)\n"
               " 1 forward  linear_cross_entropy %4, w2, labels:int32 -> %8:fp64 (1), %9 (2)\n");
    must(lvn_pass_mixed_precision(m.program, LVN_PRECISION_BF16_MIXED, NULL));
    expect(&m, " 0 forward  linear_gelu          x, w1, b -> %4:bf16 (2, 8), %3:bf16 (2, 8)\n"
               " 1 forward  linear_cross_entropy %4:bf16, w2, labels:int32 -> %8:fp64 (1), %9 (2)\n");
    model_free(&m);
}

/* Parameters become bf16 too; a bias, which linear_gelu accepts in fp32 only, is read through a copy. */
static void precision_bf16_true(void **state)
{
    (void)state;
    struct model m = classifier_new();
    must(lvn_pass_fuse(m.program));
    expect(&m, " 0 forward  linear_gelu          x, w1, b -> %4 (2, 8), %3 (2, 8)\n"
               " 1 forward  linear_cross_entropy %4, w2, labels:int32 -> %8:fp64 (1), %9 (2)\n");
    must(lvn_pass_mixed_precision(m.program, LVN_PRECISION_BF16_TRUE, NULL));
    expect(&m, " 0 forward  widen                b:bf16 -> %11 (8)\n"
               " 1 forward  linear_gelu          x, w1:bf16, %11 -> %4:bf16 (2, 8), %3:bf16 (2, 8)\n"
               " 2 forward  linear_cross_entropy %4:bf16, w2:bf16, labels:int32 -> %8:fp64 (1), %9 (2)\n");
    model_free(&m);
}

/* The square root of 1152, a factor of embeddings of this type, is 34 in bf16. Other factors stay as they are. */
static void precision_of_factors(void **state)
{
    (void)state;
    for (int rounded = 0; rounded < 2; rounded++) {
        struct model m = model_new();
        struct levin_tensor *ids = lvn_input(m.graph, "ids", LVN_DESC(LVN_I32, 1, 3));
        struct levin_tensor *x = levin_embedding(m.graph, ids, levin_table(m.graph, "wte", 11, 4, 1), NULL);
        model_build(&m, levin_scale(m.graph, levin_scale(m.graph, x, sqrt(1152)), sqrt(1152)));
        must(lvn_pass_fuse_chains(m.program));
        must(lvn_pass_mixed_precision(m.program, rounded ? LVN_PRECISION_BF16_TRUE : LVN_PRECISION_BF16_MIXED, NULL));
        assert_true(m.program->instrs[1].attr.chain.factor == (rounded ? 34 : sqrt(1152)));
        assert_true(m.program->instrs[2].attr.chain.factor == sqrt(1152));
        model_free(&m);
    }
}

/* As with bf16-mixed, in fp16. */
static void precision_16_mixed(void **state)
{
    (void)state;
    struct model m = classifier_new();
    must(lvn_pass_fuse(m.program));
    expect(&m, " 0 forward  linear_gelu          x, w1, b -> %4 (2, 8), %3 (2, 8)\n"
               " 1 forward  linear_cross_entropy %4, w2, labels:int32 -> %8:fp64 (1), %9 (2)\n");
    must(lvn_pass_mixed_precision(m.program, LVN_PRECISION_16_MIXED, NULL));
    expect(&m, " 0 forward  linear_gelu          x, w1, b -> %4:fp16 (2, 8), %3:fp16 (2, 8)\n"
               " 1 forward  linear_cross_entropy %4:fp16, w2, labels:int32 -> %8:fp64 (1), %9 (2)\n");
    model_free(&m);
}

/* One backward instruction for each forward one, from the last to the first. The input x gets no gradient. */
static void differentiate(void **state)
{
    (void)state;
    struct model m = classifier_new();
    expect(&m, " 0 forward  linear               x, w1, b -> %3 (2, 8)\n"
               " 1 forward  gelu                 %3 -> %4 (2, 8)\n"
               " 2 forward  linear               %4, w2 -> %6 (2, 3)\n"
               " 3 forward  cross_entropy        %6, labels:int32 -> %8:fp64 (1), %9 (2), %10 (2)\n");
    must(lvn_pass_differentiate(m.program));
    expect(&m, " 0 forward  linear               x, w1, b -> %3 (2, 8)\n"
               " 1 forward  gelu                 %3 -> %4 (2, 8)\n"
               " 2 forward  linear               %4, w2 -> %6 (2, 3)\n"
               " 3 forward  cross_entropy        %6, labels:int32 -> %8:fp64 (1), %9 (2), %10 (2)\n"
               " 4 backward cross_entropy        %6, labels:int32, %10 -> %11 (2, 3)\n"
               " 5 backward linear               %4, w2, %11 -> %12 (2, 8), gradient of w2 (8, 3)\n"
               " 6 backward gelu                 %3, %12 -> %14 (2, 8)\n"
               " 7 backward linear               x, w1, %14 -> gradient of w1 (4, 8), gradient of b (8)\n");
    model_free(&m);
}

/* A fused loss computes its outputs in backward as well: its forward instruction is removed. */
static void differentiate_drops_the_forward_of_a_fused_loss(void **state)
{
    (void)state;
    struct model m = classifier_new();
    must(lvn_pass_fuse(m.program));
    expect(&m, " 0 forward  linear_gelu          x, w1, b -> %4 (2, 8), %3 (2, 8)\n"
               " 1 forward  linear_cross_entropy %4, w2, labels:int32 -> %8:fp64 (1), %9 (2)\n");
    must(lvn_pass_differentiate(m.program));
    expect(&m, " 0 forward  linear_gelu          x, w1, b -> %4 (2, 8), %3 (2, 8)\n"
               " 1 backward linear_cross_entropy %4, w2, labels:int32"
               " -> %11 (2, 8), gradient of w2 (8, 3), %8:fp64 (1), %9 (2)\n"
               " 2 backward linear_gelu          x, w1, %11, %3 -> gradient of w1 (4, 8), gradient of b (8)\n");
    model_free(&m);
}

/* Two uses of w and of %2: later contributions to a gradient are added. The add passes its gradient %10 to both inputs,
 * without an instruction. */
static void differentiate_adds_contributions(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4));
    struct levin_tensor *labels = lvn_input(g, "labels", LVN_DESC(LVN_I32, 2));
    struct levin_tensor *w = levin_weight(g, "w", 4, 4, 1);
    struct levin_tensor *h = levin_linear(g, x, w, NULL, true);
    model_build(&m, levin_cross_entropy(g, levin_add(g, h, levin_gelu(g, levin_linear(g, h, w, NULL, true))), labels));
    expect(&m, " 0 forward  linear               x, w -> %2 (2, 4)\n"
               " 1 forward  linear               %2, w -> %3 (2, 4)\n"
               " 2 forward  gelu                 %3 -> %4 (2, 4)\n"
               " 3 forward  add                  %2, %4 -> %5 (2, 4)\n"
               " 4 forward  cross_entropy        %5, labels:int32 -> %7:fp64 (1), %8 (2), %9 (2)\n");
    must(lvn_pass_differentiate(m.program));
    expect(&m, " 0 forward  linear               x, w -> %2 (2, 4)\n"
               " 1 forward  linear               %2, w -> %3 (2, 4)\n"
               " 2 forward  gelu                 %3 -> %4 (2, 4)\n"
               " 3 forward  add                  %2, %4 -> %5 (2, 4)\n"
               " 4 forward  cross_entropy        %5, labels:int32 -> %7:fp64 (1), %8 (2), %9 (2)\n"
               " 5 backward cross_entropy        %5, labels:int32, %9 -> %10 (2, 4)\n"
               " 6 backward gelu                 %3, %10 -> %11 (2, 4)\n"
               " 7 backward linear               %2, w, %11 -> +%10 (2, 4), gradient of w (4, 4)\n"
               " 8 backward linear               x, w, %10 -> +gradient of w (4, 4)\n");
    model_free(&m);
}

/* The loss reads the first 3 columns of %2: the gradient of the other 5 is zero. */
static void differentiate_fills_what_no_view_covers(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4));
    struct levin_tensor *labels = lvn_input(g, "labels", LVN_DESC(LVN_I32, 2));
    struct levin_tensor *h = levin_linear(g, x, levin_weight(g, "w", 4, 8, 1), NULL, true);
    model_build(&m, levin_cross_entropy(g, levin_pack(g, levin_slice(g, h, 1, 0, 3)), labels));
    expect(&m, " 0 forward  linear               x, w -> %2 (2, 8)\n"
               " 1 forward  pack                 %2 -> %3 (2, 3)\n"
               " 2 forward  cross_entropy        %3, labels:int32 -> %5:fp64 (1), %6 (2), %7 (2)\n");
    must(lvn_pass_differentiate(m.program));
    expect(&m, " 0 forward  linear               x, w -> %2 (2, 8)\n"
               " 1 forward  pack                 %2 -> %3 (2, 3)\n"
               " 2 forward  cross_entropy        %3, labels:int32 -> %5:fp64 (1), %6 (2), %7 (2)\n"
               " 3 backward cross_entropy        %3, labels:int32, %7 -> %8 (2, 3)\n"
               " 4 forward  zeros                -> %9 (16)\n"
               " 5 backward pack                 %8 -> +%9 (2, 3)\n"
               " 6 backward linear               x, w, %9 -> gradient of w (4, 8)\n");
    model_free(&m);
}

/* The loss reads 4 rows of the parameter: where gradients are freed (zero2, fsdp), the others are written too. */
static void differentiate_writes_a_whole_parameter(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        struct model m = model_new();
        struct levin_graph *g = m.graph;
        struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4));
        struct levin_tensor *labels = lvn_input(g, "labels", LVN_DESC(LVN_I32, 2));
        struct levin_tensor *rows = levin_slice(g, levin_weight(g, "w", 6, 3, 1), 0, 1, 4);
        model_build(&m, levin_cross_entropy(g, levin_linear(g, x, rows, NULL, true), labels));
        m.program->writes_gradients = whole;
        must(lvn_pass_differentiate(m.program));
        expect(&m, whole ? " 0 forward  linear               x, w+3 -> %2 (2, 3)\n"
                           " 1 forward  cross_entropy        %2, labels:int32 -> %4:fp64 (1), %5 (2), %6 (2)\n"
                           " 2 backward cross_entropy        %2, labels:int32, %6 -> %7 (2, 3)\n"
                           " 3 forward  zeros                -> %9 (18)\n"
                           " 4 backward linear               x, w+3, %7 -> +%9+3 (4, 3)\n"
                           " 5 backward widen                %9 -> gradient of w (18)\n"
                         : " 0 forward  linear               x, w+3 -> %2 (2, 3)\n"
                           " 1 forward  cross_entropy        %2, labels:int32 -> %4:fp64 (1), %5 (2), %6 (2)\n"
                           " 2 backward cross_entropy        %2, labels:int32, %6 -> %7 (2, 3)\n"
                           " 3 backward linear               x, w+3, %7 -> gradient of w+3 (4, 3)\n");
        model_free(&m);
    }
}

/* Frozen parameters get no gradient, and nothing is differentiated below the first trainable one. */
static void differentiate_stops_at_frozen_parameters(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_tensor *loss = classifier_loss(m.graph);
    lvn_params_find(m.params, "w1")->trainable = false;
    lvn_params_find(m.params, "b")->trainable = false;
    model_build(&m, loss);
    expect(&m, " 0 forward  linear               x, w1, b -> %3 (2, 8)\n"
               " 1 forward  gelu                 %3 -> %4 (2, 8)\n"
               " 2 forward  linear               %4, w2 -> %6 (2, 3)\n"
               " 3 forward  cross_entropy        %6, labels:int32 -> %8:fp64 (1), %9 (2), %10 (2)\n");
    must(lvn_pass_differentiate(m.program));
    expect(&m, " 0 forward  linear               x, w1, b -> %3 (2, 8)\n"
               " 1 forward  gelu                 %3 -> %4 (2, 8)\n"
               " 2 forward  linear               %4, w2 -> %6 (2, 3)\n"
               " 3 forward  cross_entropy        %6, labels:int32 -> %8:fp64 (1), %9 (2), %10 (2)\n"
               " 4 backward cross_entropy        %6, labels:int32, %10 -> %11 (2, 3)\n"
               " 5 backward linear               %4, w2, %11 -> gradient of w2 (8, 3)\n");
    model_free(&m);
}

/* GELU's output %4 is freed after forward and restored from its input %3 before backward reads it. */
static void recompute(void **state)
{
    (void)state;
    struct model m = classifier_new();
    must(lvn_pass_fuse(m.program));
    must(lvn_pass_differentiate(m.program));
    expect(&m, " 0 forward  linear_gelu          x, w1, b -> %4 (2, 8), %3 (2, 8)\n"
               " 1 backward linear_cross_entropy %4, w2, labels:int32"
               " -> %11 (2, 8), gradient of w2 (8, 3), %8:fp64 (1), %9 (2)\n"
               " 2 backward linear_gelu          x, w1, %11, %3 -> gradient of w1 (4, 8), gradient of b (8)\n");
    must(lvn_pass_recompute(m.program, LVN_RECOMPUTE_CHEAP, NULL));
    expect(&m, " 0 forward  linear_gelu          x, w1, b -> %4 (2, 8), %3 (2, 8)\n"
               " 1 restore  linear_gelu          %3 -> %15 (2, 8)\n"
               " 2 backward linear_cross_entropy %15, w2, labels:int32"
               " -> %11 (2, 8), gradient of w2 (8, 3), %8:fp64 (1), %9 (2)\n"
               " 3 backward linear_gelu          x, w1, %11, %3 -> gradient of w1 (4, 8), gradient of b (8)\n");
    model_free(&m);
}

/* The inside of block 0, %2 and %3, is computed again before its backward; block 1, the last, is unchanged. */
static void blocks(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4));
    struct levin_tensor *labels = lvn_input(g, "labels", LVN_DESC(LVN_I32, 2));
    for (int i = 0; i < 2; i++) {
        levin_scope(g, "h.%d", i);
        levin_block(g);
        struct levin_tensor *h = levin_gelu(g, levin_linear(g, x, levin_weight(g, "up", 4, 8, 1), NULL, true));
        x = levin_linear(g, h, levin_weight(g, "down", 8, 4, 1), NULL, true);
    }
    levin_scope(g, "%s", "");
    levin_block_end(g);
    model_build(&m, levin_cross_entropy(g, x, labels));
    must(lvn_pass_differentiate(m.program));
    expect(&m, " 0 forward  linear               x, h.0.up -> %2 (2, 8)\n"
               " 1 forward  gelu                 %2 -> %3 (2, 8)\n"
               " 2 forward  linear               %3, h.0.down -> %5 (2, 4)\n"
               " 3 forward  linear               %5, h.1.up -> %7 (2, 8)\n"
               " 4 forward  gelu                 %7 -> %8 (2, 8)\n"
               " 5 forward  linear               %8, h.1.down -> %10 (2, 4)\n"
               " 6 forward  cross_entropy        %10, labels:int32 -> %12:fp64 (1), %13 (2), %14 (2)\n"
               " 7 backward cross_entropy        %10, labels:int32, %14 -> %15 (2, 4)\n"
               " 8 backward linear               %8, h.1.down, %15 -> %16 (2, 8), gradient of h.1.down (8, 4)\n"
               " 9 backward gelu                 %7, %16 -> %18 (2, 8)\n"
               "10 backward linear               %5, h.1.up, %18 -> %19 (2, 4), gradient of h.1.up (4, 8)\n"
               "11 backward linear               %3, h.0.down, %19 -> %21 (2, 8), gradient of h.0.down (8, 4)\n"
               "12 backward gelu                 %2, %21 -> %23 (2, 8)\n"
               "13 backward linear               x, h.0.up, %23 -> gradient of h.0.up (4, 8)\n");
    must(lvn_pass_blocks(m.program));
    expect(&m, " 0 forward  linear               x, h.0.up -> %2 (2, 8)\n"
               " 1 forward  gelu                 %2 -> %3 (2, 8)\n"
               " 2 forward  linear               %3, h.0.down -> %5 (2, 4)\n"
               " 3 forward  linear               %5, h.1.up -> %7 (2, 8)\n"
               " 4 forward  gelu                 %7 -> %8 (2, 8)\n"
               " 5 forward  linear               %8, h.1.down -> %10 (2, 4)\n"
               " 6 forward  cross_entropy        %10, labels:int32 -> %12:fp64 (1), %13 (2), %14 (2)\n"
               " 7 backward cross_entropy        %10, labels:int32, %14 -> %15 (2, 4)\n"
               " 8 backward linear               %8, h.1.down, %15 -> %16 (2, 8), gradient of h.1.down (8, 4)\n"
               " 9 backward gelu                 %7, %16 -> %18 (2, 8)\n"
               "10 backward linear               %5, h.1.up, %18 -> %19 (2, 4), gradient of h.1.up (4, 8)\n"
               "11 again    linear               x, h.0.up -> %25 (2, 8)\n"
               "12 again    gelu                 %25 -> %26 (2, 8)\n"
               "13 backward linear               %26, h.0.down, %19 -> %21 (2, 8), gradient of h.0.down (8, 4)\n"
               "14 backward gelu                 %25, %21 -> %23 (2, 8)\n"
               "15 backward linear               x, h.0.up, %23 -> gradient of h.0.up (4, 8)\n");
    model_free(&m);
}

/* Block 1 reads a sum and its layer norm: the sum is retained, and the norm restored from it, its mean and rstd. */
static void blocks_restore_a_norm(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4));
    struct levin_tensor *labels = lvn_input(g, "labels", LVN_DESC(LVN_I32, 2));
    struct levin_tensor *norm = x;
    for (int i = 0; i < 2; i++) {
        levin_scope(g, "h.%d", i);
        levin_block(g);
        x = levin_add(g, x, levin_linear(g, norm, levin_weight(g, "w", 4, 4, 1), NULL, true));
        norm = levin_layernorm(g, x, levin_vector(g, "gamma", 4, 1), levin_vector(g, "beta", 4, 0), 1e-5);
    }
    levin_scope(g, "%s", "");
    levin_block_end(g);
    model_build(&m, levin_cross_entropy(g, norm, labels));
    must(lvn_pass_fuse(m.program));
    must(lvn_pass_differentiate(m.program));
    expect(&m, " 0 forward  linear               x, h.0.w -> %2 (2, 4)\n"
               " 1 forward  residual_layernorm   x, %2, h.0.gamma, h.0.beta -> %3 (2, 4), %6 (2, 4), %7 (2), %8 (2)\n"
               " 2 forward  linear               %6, h.1.w -> %10 (2, 4)\n"
               " 3 forward  residual_layernorm   %3, %10, h.1.gamma, h.1.beta"
               " -> %11 (2, 4), %14 (2, 4), %15 (2), %16 (2)\n"
               " 4 forward  cross_entropy        %14, labels:int32 -> %18:fp64 (1), %19 (2), %20 (2)\n"
               " 5 backward cross_entropy        %14, labels:int32, %20 -> %21 (2, 4)\n"
               " 6 backward residual_layernorm   h.1.gamma, %11, %21, %15, %16"
               " -> %22 (2, 4), gradient of h.1.gamma (4), gradient of h.1.beta (4)\n"
               " 7 backward linear               %6, h.1.w, %22 -> %25 (2, 4), gradient of h.1.w (4, 4)\n"
               " 8 backward residual_layernorm   h.0.gamma, %3, %22, %25, %7, %8"
               " -> %27 (2, 4), gradient of h.0.gamma (4), gradient of h.0.beta (4)\n"
               " 9 backward linear               x, h.0.w, %27 -> gradient of h.0.w (4, 4)\n");
    must(lvn_pass_blocks(m.program));
    expect(&m, " 0 forward  linear               x, h.0.w -> %2 (2, 4)\n"
               " 1 forward  residual_layernorm   x, %2, h.0.gamma, h.0.beta -> %3 (2, 4), %6 (2, 4), %7 (2), %8 (2)\n"
               " 2 forward  linear               %6, h.1.w -> %10 (2, 4)\n"
               " 3 forward  residual_layernorm   %3, %10, h.1.gamma, h.1.beta"
               " -> %11 (2, 4), %14 (2, 4), %15 (2), %16 (2)\n"
               " 4 forward  cross_entropy        %14, labels:int32 -> %18:fp64 (1), %19 (2), %20 (2)\n"
               " 5 backward cross_entropy        %14, labels:int32, %20 -> %21 (2, 4)\n"
               " 6 backward residual_layernorm   h.1.gamma, %11, %21, %15, %16"
               " -> %22 (2, 4), gradient of h.1.gamma (4), gradient of h.1.beta (4)\n"
               " 7 restore  residual_layernorm   h.0.gamma, h.0.beta, %3, %7, %8 -> %31 (2, 4)\n"
               " 8 backward linear               %31, h.1.w, %22 -> %25 (2, 4), gradient of h.1.w (4, 4)\n"
               " 9 backward residual_layernorm   h.0.gamma, %3, %22, %25, %7, %8"
               " -> %27 (2, 4), gradient of h.0.gamma (4), gradient of h.0.beta (4)\n"
               "10 backward linear               x, h.0.w, %27 -> gradient of h.0.w (4, 4)\n");
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(build),
        cmocka_unit_test(prune),
        cmocka_unit_test(fuse),
        cmocka_unit_test(fuse_rmsnorm),
        cmocka_unit_test(fuse_soft_cap),
        cmocka_unit_test(fuse_leaves_shared_values),
        cmocka_unit_test(chains),
        cmocka_unit_test(precision_bf16_mixed),
        cmocka_unit_test(precision_bf16_true),
        cmocka_unit_test(precision_of_factors),
        cmocka_unit_test(precision_16_mixed),
        cmocka_unit_test(differentiate),
        cmocka_unit_test(differentiate_drops_the_forward_of_a_fused_loss),
        cmocka_unit_test(differentiate_adds_contributions),
        cmocka_unit_test(differentiate_fills_what_no_view_covers),
        cmocka_unit_test(differentiate_writes_a_whole_parameter),
        cmocka_unit_test(differentiate_stops_at_frozen_parameters),
        cmocka_unit_test(recompute),
        cmocka_unit_test(blocks),
        cmocka_unit_test(blocks_restore_a_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
