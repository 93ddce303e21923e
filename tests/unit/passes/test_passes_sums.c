/* test_passes_sums.c - covers: src/core/passes/shard_checksums.c
 *
 * The running sums of a small program with fsdp, by its listing: each update has one, each frozen shard one, and what
 * is gathered of each block two; and the program that sums what is in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "graph/names.h"
#include "pass_listing.h"
#include "passes/pass.h"
#include "passes/shard_checksums.h"

static const struct lvn_optimizer sgd = {.op = LVN_OP_sgd, .attr.sgd.momentum = 0.9};
static const struct lvn_sharding fsdp = {.rank = 1,
                                         .size = 2,
                                         .sharded = LVN_SHARDS_STATE | LVN_SHARDS_GRADIENTS | LVN_SHARDS_PARAMETERS,
                                         .sums_every = 100};

/* Two blocks, of which rank 1 of 2 owns one piece each; the second is frozen. */
static struct model frozen_head(void)
{
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 1, 64));
    levin_block(g);
    x = levin_linear(g, x, levin_weight(g, "u", 64, 128, 1), NULL, true);
    levin_block(g);
    x = levin_linear(g, x, levin_weight(g, "v", 128, 64, 1), NULL, true);
    levin_block_end(g);
    must(lvn_params_freeze(m.params, "model.freeze", "v"));
    model_build(&m, levin_cross_entropy(g, x, lvn_input(g, "labels", LVN_DESC(LVN_I32, 1))));
    return m;
}

static void sums(void **state)
{
    (void)state;
    struct model m = frozen_head();
    struct lvn_operand in_memory;
    must(lvn_pass_differentiate(m.program));
    must(lvn_pass_gradient_accumulation(m.program, NULL));
    must(lvn_pass_update(m.program, &sgd, false));
    must(lvn_pass_data_parallel(m.program, &fsdp, NULL));
    must(lvn_pass_shard_checksums(m.program, &fsdp));
    expect(&m, " 0 forward  accumulate           parameters[0:4096] -> %16+4096 (4096)\n"
               " 1 forward  bits_sum             %16+4096 -> sums[8:9]:int32\n"
               " 2 ranks    all_gather           %16+4096 -> %16 (8192), %18:int32 (1)\n"
               " 3 forward  accumulate           parameters[4096:8192] -> %19+4096 (4096)\n"
               " 4 forward  bits_sum             %19+4096 -> sums[9:10]:int32\n"
               " 5 ranks    all_gather           %19+4096 -> %19 (8192), %21:int32 (1)\n"
               " 6 ranks    wait                 %18:int32 -> %16 (8192)\n"
               " 7 forward  bits_sum             %16 -> sums[4:5]:int32\n"
               " 8 forward  linear               x, %16 -> %2 (1, 128)\n"
               " 9 ranks    wait                 %21:int32 -> %19 (8192)\n"
               "10 forward  bits_sum             %19 -> sums[5:6]:int32\n"
               "11 forward  linear               %2, %19 -> %4 (1, 64)\n"
               "12 forward  cross_entropy        %4, labels:int32 -> %6:fp64 (1), %7 (1), %8 (1)\n"
               "13 backward cross_entropy        %4, labels:int32, %8 -> %9 (1, 64)\n"
               "14 forward  accumulate           parameters[0:4096] -> %22+4096 (4096)\n"
               "15 forward  bits_sum             %22+4096 -> sums[8:9]:int32\n"
               "16 ranks    all_gather           %22+4096 -> %22 (8192), %24:int32 (1)\n"
               "17 backward linear               %2, %19, %9 -> %10 (1, 128)\n"
               "18 ranks    wait                 %24:int32 -> %22 (8192)\n"
               "19 forward  bits_sum             %22 -> sums[4:5]:int32\n"
               "20 backward linear               x, %22, %10 -> %25 (64, 128)\n"
               "21 ranks    reduce_scatter       %25 -> %25 (8192), %26:int32 (1)\n"
               "22 ranks    wait                 %26:int32 -> %25 (8192)\n"
               "23 forward  accumulate           %25+4096 -> gradients[0:4096] [first]\n"
               "24 forward  accumulate           %25+4096 -> gradients[0:4096] [later]\n"
               "25 update   grad_squares         gradients[0:4096] -> %28:fp64 (2)\n"
               "26 ranks    all_reduce           %28:fp64 -> %28:fp64 (2), %30:int32 (1)\n"
               "27 ranks    wait                 %30:int32 -> %28:fp64 (2)\n"
               "28 update   grad_clip            %28:fp64\n"
               "29 update   sgd                  gradients[0:4096] -> parameters[0:4096], first moment[0:4096], "
               "sums[0:1]:int32\n"
               "gradients: 1 x 16384 bytes\n");
    struct lvn_program *training = m.program;
    struct lvn_device *reference = open_device("reference", LVN_F32, 1, LVN_ISA_COUNT - 1);
    struct levin_graph *empty = lvn_graph_new(m.params, LVN_F32);
    must(lvn_program_new_shard_checksums(&m.program, empty, training, &fsdp, reference, &in_memory));
    expect(&m, " 0 forward  zeros                -> %0@0:int32 (3)\n"
               " 1 forward  bits_sum             parameters[0:4096] -> %0@0:int32 (1)\n"
               " 2 forward  bits_sum             first moment[0:4096] -> %0@0:int32 (1)\n"
               " 3 forward  bits_sum             parameters[4096:8192] -> %0@0+1:int32 (1)\n"
               "arena: 64 bytes, unplanned 64\n");
    lvn_program_free(m.program);
    lvn_graph_free(empty);
    m.program = training;
    reference->backend->close(reference);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
