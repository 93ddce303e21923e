/* test_passes_gather.c - covers: src/core/passes/data_parallel_parameters.c src/core/passes/round_parameters.c
 *
 * fsdp, by the listing of a small program: every parameter is gathered before its first use, one block ahead, and once
 * more for backward; the last block and the head, tied or not, once; the update is of this rank's shards. In mixed
 * precision those that all readers round are gathered in bf16, between others in fp32. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "backend/backend.h"
#include "pass_listing.h"
#include "passes/pass.h"

static const struct lvn_optimizer sgd = {.op = LVN_OP_sgd, .attr.sgd.momentum = 0.9};
static const struct lvn_sharding fsdp = {
    .rank = 1, .size = 2, .sharded = LVN_SHARDS_STATE | LVN_SHARDS_GRADIENTS | LVN_SHARDS_PARAMETERS};

/* An embedding outside of blocks that is the head too, and two blocks, of which rank 1 of 2 owns one piece each. */
static struct model tied_blocks(void)
{
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 1, 64)), *w = levin_weight(g, "w", 64, 64, 1);
    x = levin_linear(g, x, w, NULL, true);
    levin_block(g);
    x = levin_linear(g, x, levin_weight(g, "u", 64, 128, 1), NULL, true);
    levin_block(g);
    x = levin_linear(g, x, levin_weight(g, "v", 128, 64, 1), NULL, true);
    levin_block_end(g);
    x = levin_linear(g, x, w, NULL, true);
    model_build(&m, levin_cross_entropy(g, x, lvn_input(g, "labels", LVN_DESC(LVN_I32, 1))));
    return m;
}

static void gather_forward(void **state)
{
    (void)state;
    struct model m = tied_blocks();
    must(lvn_pass_data_parallel(m.program, &fsdp, NULL));
    expect(&m, " 0 ranks    all_gather           -> %12 (4096), %13:int32 (1)\n"
               " 1 forward  accumulate           parameters[0:4096] -> %14+4096 (4096)\n"
               " 2 ranks    all_gather           %14+4096 -> %14 (8192), %16:int32 (1)\n"
               " 3 ranks    wait                 %13:int32 -> %12 (4096)\n"
               " 4 forward  linear               x, %12 -> %2 (1, 64)\n"
               " 5 forward  accumulate           parameters[4096:8192] -> %17+4096 (4096)\n"
               " 6 ranks    all_gather           %17+4096 -> %17 (8192), %19:int32 (1)\n"
               " 7 ranks    wait                 %16:int32 -> %14 (8192)\n"
               " 8 forward  linear               %2, %14 -> %4 (1, 128)\n"
               " 9 ranks    wait                 %19:int32 -> %17 (8192)\n"
               "10 forward  linear               %4, %17 -> %6 (1, 64)\n"
               "11 forward  linear               %6, %12 -> %7 (1, 64)\n"
               "12 forward  cross_entropy        %7, labels:int32 -> %9:fp64 (1), %10 (1), %11 (1)\n");
    model_free(&m);
}

static void gather_step(void **state)
{
    (void)state;
    struct model m = tied_blocks();
    must(lvn_pass_differentiate(m.program));
    must(lvn_pass_gradient_accumulation(m.program, NULL));
    must(lvn_pass_update(m.program, &sgd, false));
    must(lvn_pass_data_parallel(m.program, &fsdp, NULL));
    expect(&m,
           " 0 ranks    all_gather           -> %29 (4096), %30:int32 (1)\n"
           " 1 forward  accumulate           parameters[0:4096] -> %31+4096 (4096)\n"
           " 2 ranks    all_gather           %31+4096 -> %31 (8192), %33:int32 (1)\n"
           " 3 ranks    wait                 %30:int32 -> %29 (4096)\n"
           " 4 forward  linear               x, %29 -> %2 (1, 64)\n"
           " 5 forward  accumulate           parameters[4096:8192] -> %34+4096 (4096)\n"
           " 6 ranks    all_gather           %34+4096 -> %34 (8192), %36:int32 (1)\n"
           " 7 ranks    wait                 %33:int32 -> %31 (8192)\n"
           " 8 forward  linear               %2, %31 -> %4 (1, 128)\n"
           " 9 ranks    wait                 %36:int32 -> %34 (8192)\n"
           "10 forward  linear               %4, %34 -> %6 (1, 64)\n"
           "11 forward  linear               %6, %29 -> %7 (1, 64)\n"
           "12 forward  cross_entropy        %7, labels:int32 -> %9:fp64 (1), %10 (1), %11 (1)\n"
           "13 backward cross_entropy        %7, labels:int32, %11 -> %12 (1, 64)\n"
           "14 backward linear               %6, %29, %12 -> %13 (1, 64), %40 (64, 64)\n"
           "15 forward  accumulate           parameters[0:4096] -> %37+4096 (4096)\n"
           "16 ranks    all_gather           %37+4096 -> %37 (8192), %39:int32 (1)\n"
           "17 backward linear               %4, %34, %13 -> %15 (1, 128), %42 (128, 64)\n"
           "18 ranks    reduce_scatter       %42 -> %42 (8192), %43:int32 (1)\n"
           "19 ranks    wait                 %39:int32 -> %37 (8192)\n"
           "20 backward linear               %2, %37, %15 -> %17 (1, 64), %41 (64, 128)\n"
           "21 ranks    wait                 %43:int32 -> %42 (8192)\n"
           "22 forward  accumulate           %42+4096 -> gradients[4096:8192] [first]\n"
           "23 forward  accumulate           %42+4096 -> gradients[4096:8192] [later]\n"
           "24 ranks    reduce_scatter       %41 -> %41 (8192), %45:int32 (1)\n"
           "25 backward linear               x, %29, %17 -> +%40 (64, 64)\n"
           "26 ranks    wait                 %45:int32 -> %41 (8192)\n"
           "27 forward  accumulate           %41+4096 -> gradients[0:4096] [first]\n"
           "28 forward  accumulate           %41+4096 -> gradients[0:4096] [later]\n"
           "29 ranks    reduce_scatter       %40 -> %40 (4096), %47:int32 (1)\n"
           "30 ranks    wait                 %47:int32 -> %40 (4096)\n"
           "31 update   grad_squares         -> %48:fp64 (1)\n"
           "32 update   grad_squares         gradients[0:4096] -> %48+1:fp64 (2)\n"
           "33 update   grad_squares         gradients[4096:8192] -> %48+3:fp64 (2)\n"
           "34 ranks    all_reduce           %48:fp64 -> %48:fp64 (5), %51:int32 (1)\n"
           "35 ranks    wait                 %51:int32 -> %48:fp64 (5)\n"
           "36 update   grad_clip            %48:fp64\n"
           "37 update   sgd                  gradients[0:4096] -> parameters[0:4096], first moment[0:4096]\n"
           "38 update   sgd                  gradients[4096:8192] -> parameters[4096:8192], first moment[4096:8192]\n"
           "gradients: 1 x 32768 bytes\n");
    model_free(&m);
}

/* A head that is not tied is gathered, and its gradient reduced, apart from the embedding; and once, with the last
 * block's. The first block is gathered twice. */
static void gather_untied(void **state)
{
    (void)state;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *ids = lvn_input(g, "ids", LVN_DESC(LVN_I32, 1, 1));
    struct levin_tensor *x = levin_embedding(g, ids, levin_table(g, "w", 128, 64, 1), NULL);
    levin_block(g);
    x = levin_linear(g, x, levin_weight(g, "u", 64, 128, 1), NULL, true);
    levin_block(g);
    x = levin_linear(g, x, levin_weight(g, "v", 128, 64, 1), NULL, true);
    levin_block_end(g);
    x = levin_linear(g, x, levin_weight(g, "h", 64, 128, 1), NULL, true);
    model_build(&m, levin_cross_entropy(g, x, lvn_input(g, "labels", LVN_DESC(LVN_I32, 1, 1))));
    must(lvn_pass_differentiate(m.program));
    must(lvn_pass_gradient_accumulation(m.program, NULL));
    must(lvn_pass_data_parallel(m.program, &fsdp, NULL));
    expect(&m, " 0 forward  accumulate           parameters[0:4096] -> %21+4096 (4096)\n"
               " 1 ranks    all_gather           %21+4096 -> %21 (8192), %23:int32 (1)\n"
               " 2 forward  accumulate           parameters[8192:12288] -> %24+4096 (4096)\n"
               " 3 ranks    all_gather           %24+4096 -> %24 (8192), %26:int32 (1)\n"
               " 4 ranks    wait                 %23:int32 -> %21 (8192)\n"
               " 5 forward  embedding            ids:int32, %21 -> %2 (1, 1, 64)\n"
               " 6 forward  accumulate           parameters[12288:16384] -> %27+4096 (4096)\n"
               " 7 ranks    all_gather           %27+4096 -> %27 (8192), %29:int32 (1)\n"
               " 8 ranks    wait                 %26:int32 -> %24 (8192)\n"
               " 9 forward  linear               %2, %24 -> %4 (1, 1, 128)\n"
               "10 forward  accumulate           parameters[4096:8192] -> %30+4096 (4096)\n"
               "11 ranks    all_gather           %30+4096 -> %30 (8192), %32:int32 (1)\n"
               "12 ranks    wait                 %29:int32 -> %27 (8192)\n"
               "13 forward  linear               %4, %27 -> %6 (1, 1, 64)\n"
               "14 ranks    wait                 %32:int32 -> %30 (8192)\n"
               "15 forward  linear               %6, %30 -> %8 (1, 1, 128)\n"
               "16 forward  cross_entropy        %8, labels:int32 -> %10:fp64 (1), %11 (1), %12 (1)\n"
               "17 backward cross_entropy        %8, labels:int32, %12 -> %13 (1, 1, 128)\n"
               "18 backward linear               %6, %30, %13 -> %14 (1, 1, 64), %37 (64, 128)\n"
               "19 ranks    reduce_scatter       %37 -> %37 (8192), %40:int32 (1)\n"
               "20 forward  accumulate           parameters[8192:12288] -> %33+4096 (4096)\n"
               "21 ranks    all_gather           %33+4096 -> %33 (8192), %35:int32 (1)\n"
               "22 backward linear               %4, %27, %14 -> %16 (1, 1, 128), %39 (128, 64)\n"
               "23 ranks    wait                 %40:int32 -> %37 (8192)\n"
               "24 forward  accumulate           %37+4096 -> gradients[4096:8192] [first]\n"
               "25 forward  accumulate           %37+4096 -> gradients[4096:8192] [later]\n"
               "26 ranks    reduce_scatter       %39 -> %39 (8192), %42:int32 (1)\n"
               "27 ranks    wait                 %35:int32 -> %33 (8192)\n"
               "28 backward linear               %2, %33, %16 -> %18 (1, 1, 64), %38 (64, 128)\n"
               "29 ranks    wait                 %42:int32 -> %39 (8192)\n"
               "30 forward  accumulate           %39+4096 -> gradients[12288:16384] [first]\n"
               "31 forward  accumulate           %39+4096 -> gradients[12288:16384] [later]\n"
               "32 ranks    reduce_scatter       %38 -> %38 (8192), %44:int32 (1)\n"
               "33 backward embedding            ids:int32, %18 -> %36 (128, 64)\n"
               "34 ranks    wait                 %44:int32 -> %38 (8192)\n"
               "35 forward  accumulate           %38+4096 -> gradients[8192:12288] [first]\n"
               "36 forward  accumulate           %38+4096 -> gradients[8192:12288] [later]\n"
               "37 ranks    reduce_scatter       %36 -> %36 (8192), %46:int32 (1)\n"
               "38 ranks    wait                 %46:int32 -> %36 (8192)\n"
               "39 forward  accumulate           %36+4096 -> gradients[0:4096] [first]\n"
               "40 forward  accumulate           %36+4096 -> gradients[0:4096] [later]\n"
               "gradients: 1 x 65536 bytes\n");
    model_free(&m);
}

/* A device whose products round their weight, unless that is transposed. */
static enum lvn_status choose(const struct lvn_device *d, struct lvn_instr *i, int64_t *scratch)
{
    (void)d;
    *scratch = 0;
    i->rounds = i->id == LVN_OP_linear && i->attr.linear.in_out ? LVN_READS_IN(1) : 0;
    return LVN_OK;
}

/* The weight outside of blocks has a reader that takes it as it is; rank 1 owns half of the first block's matrix, and
 * its bias. */
static void gather_rounded(void **state)
{
    (void)state;
    static const struct lvn_backend backend = {.choose = choose};
    struct lvn_device device = {.backend = &backend};
    struct lvn_sharding s = fsdp;
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 1, 64)), *w = levin_weight(g, "w", 64, 64, 1);
    x = levin_linear(g, x, w, NULL, true);
    levin_block(g);
    struct levin_tensor *u = levin_weight(g, "u", 64, 128, 1);
    x = levin_linear(g, x, u, levin_vector(g, "b", 128, 0), true);
    levin_block(g);
    x = levin_linear(g, x, levin_weight(g, "v", 128, 64, 1), NULL, true);
    levin_block_end(g);
    x = levin_linear(g, x, w, NULL, false);
    model_build(&m, levin_cross_entropy(g, x, lvn_input(g, "labels", LVN_DESC(LVN_I32, 1))));
    m.program->weights = LVN_F32;
    s.round = true;
    must(lvn_pass_data_parallel(m.program, &s, &device));
    must(lvn_pass_verify(m.program));
    expect(&m, " 0 ranks    all_gather           -> %13 (4096), %14:int32 (1)\n"
               " 1 forward  accumulate           parameters[0:4096] -> %15+4096:bf16 (4096)\n"
               " 2 forward  accumulate           parameters[4096:4224] -> %15+4096 (128)\n"
               " 3 ranks    all_gather           %15+8192:uint8 -> %15:uint8 (16896), %18:int32 (1)\n"
               " 4 ranks    wait                 %14:int32 -> %13 (4096)\n"
               " 5 forward  linear               x, %13 -> %2 (1, 64)\n"
               " 6 forward  accumulate           parameters[8192:12288] -> %19+4096:bf16 (4096)\n"
               " 7 ranks    all_gather           %19+8192:uint8 -> %19:uint8 (16384), %21:int32 (1)\n"
               " 8 ranks    wait                 %18:int32 -> %15:uint8 (16896)\n"
               " 9 forward  linear               %2, %15:bf16, %15+4096 -> %5 (1, 128)\n"
               "10 ranks    wait                 %21:int32 -> %19:uint8 (16384)\n"
               "11 forward  linear               %5, %19:bf16 -> %7 (1, 64)\n"
               "12 forward  linear               %7, %13 -> %8 (1, 64)\n"
               "13 forward  cross_entropy        %8, labels:int32 -> %10:fp64 (1), %11 (1), %12 (1)\n");
    model_free(&m);
}

/* Parameters that are near to each other are copied together, once per step, to bf16; a reader that takes a parameter
 * as it is, and the update, do not read the copy. On a host nothing changes. */
static void round_once(void **state)
{
    (void)state;
    static const struct lvn_backend backend = {.choose = choose};
    struct lvn_device device = {.backend = &backend};
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 1, 64)), *w = levin_weight(g, "w", 64, 64, 1);
    x = levin_linear(g, x, w, NULL, true);
    x = levin_linear(g, x, levin_weight(g, "u", 64, 2048, 1), levin_vector(g, "b", 2048, 0), true);
    x = levin_linear(g, x, levin_weight(g, "plain", 64, 2048, 1), NULL, false);
    x = levin_linear(g, x, levin_weight(g, "v", 64, 128, 1), NULL, true);
    model_build(&m, levin_cross_entropy(g, x, lvn_input(g, "labels", LVN_DESC(LVN_I32, 1))));
    m.program->weights = LVN_F32;
    must(lvn_pass_differentiate(m.program));
    must(lvn_pass_gradient_accumulation(m.program, NULL));
    must(lvn_pass_update(m.program, &sgd, false));
    const int n = m.program->n_instrs;
    must(lvn_pass_round_parameters(m.program, &device));
    assert_int_equal(m.program->n_instrs, n);
    device.memory_bytes = 1;
    must(lvn_pass_round_parameters(m.program, &device));
    must(lvn_pass_verify(m.program));
    expect(&m, " 0 forward  accumulate           parameters[0:135168] -> %31:bf16 (135168) [first]\n"
               " 1 forward  accumulate           parameters[266240:274432] -> %33:bf16 (8192) [first]\n"
               " 2 forward  linear               x, %31:bf16 -> %2 (1, 64)\n"
               " 3 forward  linear               %2, %31+4096:bf16, b -> %5 (1, 2048)\n"
               " 4 forward  linear               %5, plain -> %7 (1, 64)\n"
               " 5 forward  linear               %7, %33:bf16 -> %9 (1, 128)\n"
               " 6 forward  cross_entropy        %9, labels:int32 -> %11:fp64 (1), %12 (1), %13 (1)\n"
               " 7 backward cross_entropy        %9, labels:int32, %13 -> %14 (1, 128)\n"
               " 8 backward linear               %7, %33:bf16, %14 -> %15 (1, 64), gradient of v (64, 128)\n"
               " 9 backward linear               %5, plain, %15 -> %17 (1, 2048), gradient of plain (64, 2048)\n"
               "10 backward linear               %2, %31+4096:bf16, %17 -> %19 (1, 64), gradient of u (64, 2048), "
               "gradient of b (2048)\n"
               "11 backward linear               x, %31:bf16, %19 -> gradient of w (64, 64)\n"
               "12 update   grad_norm            gradients[0:276480]\n"
               "13 update   sgd                  gradients[0:274432] -> parameters[0:274432], first moment[0:274432]\n"
               "14 update   sgd                  gradients[274432:276480] -> parameters[274432:276480], first "
               "moment[274432:276480]\n"
               "gradients: 1 x 1105920 bytes\n");
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gather_forward), cmocka_unit_test(gather_step),
                                       cmocka_unit_test(gather_untied), cmocka_unit_test(gather_rounded),
                                       cmocka_unit_test(round_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
