/* test_passes_step.c - covers: src/core/passes/gradient_accumulation.c src/core/passes/update.c src/core/passes/shard.c
 * src/core/passes/data_parallel.c src/core/passes/data_parallel_buckets.c src/core/passes/data_parallel_gradients.c
 * src/core/passes/data_parallel_update.c src/core/passes/data_parallel_matrices.c src/core/passes/loss_scaling.c
 *
 * Each pass that turns a micro-batch into a step, alone: the listing of a small program before it and after it. Passes
 * of a micro-batch are in test_passes.c, those of a finished program in test_passes_memory.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "pass_listing.h"
#include "passes/pass.h"

static const struct lvn_optimizer adamw = {.op = LVN_OP_adamw,
                                           .attr.adamw = {.beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8}};
static const struct lvn_optimizer sgd = {.op = LVN_OP_sgd, .attr.sgd.momentum = 0.9, .clip_norm = 1};

/* The listing of differentiated(). */
#define CLASSIFIER                                                                                                     \
    " 0 forward  linear_gelu          x, w1, b -> %4 (2, 8), %3 (2, 8)\n"                                              \
    " 1 backward linear_cross_entropy %4, w2, labels:int32"                                                            \
    " -> %11 (2, 8), gradient of w2 (8, 3), %8:fp64 (1), %9 (2)\n"                                                     \
    " 2 backward linear_gelu          x, w1, %11, %3 -> gradient of w1 (4, 8), gradient of b (8)\n"

/* The classifier, fused, with its backward instructions. */
static struct model differentiated(void)
{
    struct model m = classifier_new();
    must(lvn_pass_fuse(m.program));
    must(lvn_pass_differentiate(m.program));
    return m;
}

/* Without a tree there is one flat gradient, to which micro-batches add. */
static void accumulate(void **state)
{
    (void)state;
    struct model m = differentiated();
    expect(&m, CLASSIFIER);
    must(lvn_pass_gradient_accumulation(m.program, NULL));
    expect(&m, CLASSIFIER "gradients: 1 x 768 bytes\n");
    model_free(&m);
}

/* Micro-batches 0 to 4 of 8. Each writes a gradient of its own, and complete halves are summed: (0 + 1) + (2 + 3). The
 * sum with micro-batch 4 is made by the rank that has micro-batches 5 to 7. */
static void accumulate_as_a_tree(void **state)
{
    (void)state;
    struct model m = differentiated();
    expect(&m, CLASSIFIER);
    must(lvn_pass_gradient_accumulation(m.program, &(struct lvn_tree_leaves){.first = 0, .n = 5, .total = 8}));
    expect(&m, CLASSIFIER
           " 3 sum      accumulate           gradients[192:384] -> gradients[0:192] [after 1]\n"
           " 4 sum      accumulate           gradients[384:576] -> gradients[192:384] [after 3]\n"
           " 5 sum      accumulate           gradients[192:384] -> gradients[0:192] [after 3]\n"
           "gradients: 3 x 768 bytes; micro-batches write 0, 1, 1, 2, 1; sums left: [0:4] in 0, [4:5] in 1\n");
    model_free(&m);
}

/* The norm of all gradients, and the optimizer once for each group: matrices (w1, w2), which decay, and vectors (b). */
static void update_adamw(void **state)
{
    (void)state;
    struct model m = differentiated();
    must(lvn_pass_gradient_accumulation(m.program, NULL));
    expect(&m, CLASSIFIER "gradients: 1 x 768 bytes\n");
    must(lvn_pass_update(m.program, &adamw, false));
    expect(&m, CLASSIFIER " 3 update   grad_norm            gradients[0:192]\n"
                          " 4 update   adamw                gradients[0:128]"
                          " -> parameters[0:128], first moment[0:128], second moment[0:128]\n"
                          " 5 update   adamw                gradients[128:192]"
                          " -> parameters[128:192], first moment[128:192], second moment[128:192]\n"
                          "gradients: 1 x 768 bytes\n");
    model_free(&m);
}

/* SGD has one moment. */
static void update_sgd(void **state)
{
    (void)state;
    struct model m = differentiated();
    must(lvn_pass_gradient_accumulation(m.program, NULL));
    expect(&m, CLASSIFIER "gradients: 1 x 768 bytes\n");
    must(lvn_pass_update(m.program, &sgd, false));
    expect(&m, CLASSIFIER
           " 3 update   grad_norm            gradients[0:192]\n"
           " 4 update   sgd                  gradients[0:128] -> parameters[0:128], first moment[0:128]\n"
           " 5 update   sgd                  gradients[128:192] -> parameters[128:192], first moment[128:192]\n"
           "gradients: 1 x 768 bytes\n");
    model_free(&m);
}

#define MATRICES                                                                                                       \
    " 0 forward  linear               x, w1, b -> %3 (2, 6)\n"                                                         \
    " 1 forward  linear               %3, w2 -> %5 (2, 32)\n"                                                          \
    " 2 forward  linear               %5, head -> %7 (2, 3)\n"                                                         \
    " 3 forward  cross_entropy        %7, labels:int32 -> %9:fp64 (1), %10 (2), %11 (2)\n"

static const struct lvn_optimizer on_matrices = {.name = "muon",
                                                 .op = LVN_OP_sgd,
                                                 .matrices = {.used = true,
                                                              .direction = LVN_OP_muon_direction,
                                                              .direction_attr.muon_direction = {.momentum = 0.9},
                                                              .whole = LVN_OP_orthogonalize,
                                                              .whole_attr.orthogonalize = {.steps = 5},
                                                              .step = LVN_OP_muon_step,
                                                              .step_attr.muon_step = {.ratio = 1}}};

static struct model two_matrices(void)
{
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 4));
    struct levin_tensor *labels = lvn_input(g, "labels", LVN_DESC(LVN_I32, 2));
    levin_block(g);
    x = levin_linear(g, x, levin_weight(g, "w1", 4, 6, 1), levin_vector(g, "b", 6, 0), true);
    x = levin_linear(g, x, levin_weight(g, "w2", 6, 32, 1), NULL, true);
    levin_block_end(g);
    model_build(&m, levin_cross_entropy(g, levin_linear(g, x, levin_weight(g, "head", 32, 3, 1), NULL, true), labels));
    expect(&m, MATRICES);
    return m;
}

/* An optimizer on matrices: each matrix of a block by itself, also between others; all else by the other operation, the
 * head outside of blocks too. A model without such matrices is refused. */
static void update_matrices(void **state)
{
    (void)state;
    struct model m = two_matrices();
    must(lvn_pass_update(m.program, &on_matrices, false));
    expect(&m, MATRICES
           " 4 update   grad_norm            gradients[0:4416]\n"
           " 5 update   sgd                  gradients[0:128] -> parameters[0:128], first moment[0:128]\n"
           " 6 update   muon_direction       gradients[4096:4120] -> %16 (24), first moment[4096:4120]\n"
           " 7 update   orthogonalize        %16 -> %16 (4, 6)\n"
           " 8 update   muon_step            %16 -> parameters[4096:4120]\n"
           " 9 update   muon_direction       gradients[4160:4352] -> %20 (192), first moment[4160:4352]\n"
           "10 update   orthogonalize        %20 -> %20 (6, 32)\n"
           "11 update   muon_step            %20 -> parameters[4160:4352]\n"
           "12 update   sgd                  gradients[4352:4416] -> parameters[4352:4416], first moment[4352:4416]\n");
    model_free(&m);
    m = differentiated();
    assert_int_equal(lvn_pass_update(m.program, &on_matrices, false), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "optimizer.kind muon trains weight matrices of a model's blocks"));
    model_free(&m);
}

/* Side by side: matrices are multiplied one after the other, so that each of two threads can take one. Then no two of
 * their values have common memory. With three threads all work on each matrix, and the second uses the memory of the
 * first one's scratch. */
static void update_side_by_side(void **state)
{
    (void)state;
    for (int threads = 2; threads <= 3; threads++) {
        struct lvn_device *device = open_device("cpu", LVN_F32, threads, LVN_ISA_COUNT - 1);
        struct model m = two_matrices();
        must(lvn_pass_update(m.program, &on_matrices, true));
        expect(
            &m, MATRICES
            " 4 update   grad_norm            gradients[0:4416]\n"
            " 5 update   sgd                  gradients[0:128] -> parameters[0:128], first moment[0:128]\n"
            " 6 update   sgd                  gradients[4352:4416] -> parameters[4352:4416], first moment[4352:4416]\n"
            " 7 update   muon_direction       gradients[4096:4120] -> %19 (24), first moment[4096:4120]\n"
            " 8 update   muon_direction       gradients[4160:4352] -> %22 (192), first moment[4160:4352]\n"
            " 9 update   orthogonalize        %19 -> %19 (4, 6)\n"
            "10 update   orthogonalize        %22 -> %22 (6, 32)\n"
            "11 update   muon_step            %19 -> parameters[4096:4120]\n"
            "12 update   muon_step            %22 -> parameters[4160:4352]\n");
        must(lvn_pass_memory_planning(m.program, 0, device));
        const struct lvn_instr *first = &m.program->instrs[9], *second = first + 1;
        assert_int_equal(first->n_side_by_side, threads == 2 ? 2 : 0);
        assert_int_equal(second->n_side_by_side, 0);
        const struct lvn_value *values = m.program->values, *a = &values[first->scratch.value],
                               *b = &values[second->scratch.value];
        const bool apart = a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
        assert_int_equal(apart, threads == 2);
        for (int k = 0; k < 2 && threads == 2; k++) {
            const struct lvn_value *d = &values[k ? first->in[0].value : second->in[0].value], *s = k ? b : a;
            assert_true(d->offset + d->bytes <= s->offset || s->offset + s->bytes <= d->offset);
        }
        model_free(&m);
        device->backend->close(device);
    }
}

/* The listing of two_buckets(). */
#define TWO_BUCKETS                                                                                                    \
    " 0 forward  linear               x, w1 -> %2 (1, 256)\n"                                                          \
    " 1 backward linear_cross_entropy %2, w2, labels:int32"                                                            \
    " -> %9 (1, 256), gradient of w2 (256, 256), %6:fp64 (1), %7 (1)\n"                                                \
    " 2 backward linear               x, w1, %9 -> gradient of w1 (256, 256)\n"                                        \
    " 3 update   grad_norm            gradients[0:131072]\n"                                                           \
    " 4 update   sgd                  gradients[0:131072] -> parameters[0:131072], first moment[0:131072]\n"           \
    "gradients: 1 x 524288 bytes\n"

/* Two weights of 65536 elements, the smallest bucket there is; all passes before shard. */
static struct model two_buckets(void)
{
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 1, 256));
    struct levin_tensor *labels = lvn_input(g, "labels", LVN_DESC(LVN_I32, 1));
    struct levin_tensor *h = levin_linear(g, x, levin_weight(g, "w1", 256, 256, 1), NULL, true);
    model_build(&m, levin_cross_entropy(g, levin_linear(g, h, levin_weight(g, "w2", 256, 256, 1), NULL, true), labels));
    must(lvn_pass_fuse(m.program));
    must(lvn_pass_differentiate(m.program));
    must(lvn_pass_gradient_accumulation(m.program, NULL));
    must(lvn_pass_update(m.program, &sgd, false));
    return m;
}

/* 1.2 GB of gradients in parameters of 4 MiB: a bucket has 16 MiB, or 64 MiB where NCCL may transfer it. */
static void large_buckets(void **state)
{
    static const struct lvn_queue_ops queues;
    static const struct lvn_backend with_queues = {.name = "queues", .queues = &queues}, without = {.name = "none"};
    static const struct {
        const struct lvn_backend *backend;
        int buckets;
    } cases[] = {{&without, 75}, {&with_queues, 19}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct lvn_device device = {.backend = cases[k].backend};
        struct model m = model_new();
        struct levin_graph *g = m.graph;
        struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 1, 1024));
        for (int layer = 0; layer < 300; layer++) {
            char name[16];
            snprintf(name, sizeof name, "w%d", layer);
            x = levin_linear(g, x, levin_weight(g, name, 1024, 1024, 1), NULL, true);
        }
        model_build(&m, levin_cross_entropy(g, x, lvn_input(g, "labels", LVN_DESC(LVN_I32, 1))));
        must(lvn_pass_differentiate(m.program));
        must(lvn_pass_gradient_accumulation(m.program, NULL));
        must(lvn_pass_update(m.program, &sgd, false));
        must(lvn_pass_data_parallel(m.program, &(struct lvn_sharding){.rank = 1, .size = 2}, &device));
        int buckets = 0;
        for (int i = 0; i < m.program->n_instrs; i++) buckets += m.program->instrs[i].id == LVN_OP_all_reduce;
        assert_int_equal(buckets, cases[k].buckets);
        model_free(&m);
    }
}

/* An all-reduce of each bucket starts after its last gradient, so that the rest of backward overlaps with it. */
static void shard_ddp(void **state)
{
    (void)state;
    struct model m = two_buckets();
    expect(&m, TWO_BUCKETS);
    must(lvn_pass_data_parallel(m.program, &(struct lvn_sharding){.rank = 1, .size = 2}, NULL));
    expect(&m, " 0 forward  linear               x, w1 -> %2 (1, 256)\n"
               " 1 backward linear_cross_entropy %2, w2, labels:int32"
               " -> %9 (1, 256), gradient of w2 (256, 256), %6:fp64 (1), %7 (1)\n"
               " 2 ranks    all_reduce           gradients[65536:131072]"
               " -> gradients[65536:131072], %17:int32 (1) [last]\n"
               " 3 backward linear               x, w1, %9 -> gradient of w1 (256, 256)\n"
               " 4 ranks    all_reduce           gradients[0:65536] -> gradients[0:65536], %19:int32 (1) [last]\n"
               " 5 ranks    wait                 %17:int32 -> gradients[65536:131072]\n"
               " 6 ranks    wait                 %19:int32 -> gradients[0:65536]\n"
               " 7 update   grad_norm            gradients[0:131072]\n"
               " 8 update   sgd                  gradients[0:131072] -> parameters[0:131072], first moment[0:131072]\n"
               "gradients: 1 x 524288 bytes\n");
    model_free(&m);
}

/* Buckets are sent in bf16: a cast down before each all-reduce, and a cast up after it. */
static void shard_ddp_in_bf16(void **state)
{
    (void)state;
    struct model m = two_buckets();
    expect(&m, TWO_BUCKETS);
    must(lvn_pass_data_parallel(m.program, &(struct lvn_sharding){.rank = 1, .size = 2, .bf16 = true}, NULL));
    expect(&m, " 0 forward  linear               x, w1 -> %2 (1, 256)\n"
               " 1 backward linear_cross_entropy %2, w2, labels:int32"
               " -> %9 (1, 256), gradient of w2 (256, 256), %6:fp64 (1), %7 (1)\n"
               " 2 forward  narrow               gradients[65536:131072] -> %17:bf16 (65536) [last]\n"
               " 3 ranks    all_reduce           %17:bf16 -> %17:bf16 (65536), %18:int32 (1) [last]\n"
               " 4 backward linear               x, w1, %9 -> gradient of w1 (256, 256)\n"
               " 5 forward  narrow               gradients[0:65536] -> %20:bf16 (65536) [last]\n"
               " 6 ranks    all_reduce           %20:bf16 -> %20:bf16 (65536), %21:int32 (1) [last]\n"
               " 7 ranks    wait                 %18:int32 -> %17:bf16 (65536)\n"
               " 8 update   widen                %17:bf16 -> gradients[65536:131072]\n"
               " 9 ranks    wait                 %21:int32 -> %20:bf16 (65536)\n"
               "10 update   widen                %20:bf16 -> gradients[0:65536]\n"
               "11 update   grad_norm            gradients[0:131072]\n"
               "12 update   sgd                  gradients[0:131072] -> parameters[0:131072], first moment[0:131072]\n"
               "gradients: 1 x 524288 bytes\n");
    model_free(&m);
}

/* Rank 1 of 2 gets the sums of its half and updates that half; then all ranks gather the parameters. The norm is added
 * up from sums of squares of 4096 gradients each. Offsets of optimizer state are relative to the shard's start. */
static void shard_zero1(void **state)
{
    (void)state;
    struct model m = two_buckets();
    expect(&m, TWO_BUCKETS);
    must(lvn_pass_data_parallel(m.program, &(struct lvn_sharding){.rank = 1, .size = 2, .sharded = LVN_SHARDS_STATE},
                                NULL));
    expect(&m, " 0 forward  linear               x, w1 -> %2 (1, 256)\n"
               " 1 backward linear_cross_entropy %2, w2, labels:int32"
               " -> %9 (1, 256), gradient of w2 (256, 256), %6:fp64 (1), %7 (1)\n"
               " 2 ranks    reduce_scatter       gradients[65536:131072]"
               " -> gradients[65536:131072], %17:int32 (1) [last]\n"
               " 3 backward linear               x, w1, %9 -> gradient of w1 (256, 256)\n"
               " 4 ranks    reduce_scatter       gradients[0:65536] -> gradients[0:65536], %19:int32 (1) [last]\n"
               " 5 ranks    wait                 %17:int32 -> gradients[65536:131072]\n"
               " 6 ranks    wait                 %19:int32 -> gradients[0:65536]\n"
               " 7 update   grad_squares         gradients[65536:131072] -> %20:fp64 (32)\n"
               " 8 ranks    all_reduce           %20:fp64 -> %20:fp64 (32), %22:int32 (1)\n"
               " 9 ranks    wait                 %22:int32 -> %20:fp64 (32)\n"
               "10 update   grad_clip            %20:fp64\n"
               "11 update   sgd                  gradients[65536:131072]"
               " -> parameters[65536:131072], first moment[0:65536]\n"
               "12 ranks    all_gather           parameters[65536:131072] -> parameters[0:131072], %25:int32 (1)\n"
               "13 ranks    wait                 %25:int32 -> parameters[0:131072]\n"
               "gradients: 1 x 524288 bytes\n");
    model_free(&m);
}

#define BLOCKS_DEALT                                                                                                   \
    " 0 forward  linear               x, w -> %2 (1, 64)\n"                                                            \
    " 1 forward  linear               %2, v -> %4 (1, 32)\n"                                                           \
    " 2 forward  linear               %4, u -> %6 (1, 192)\n"                                                          \
    " 3 forward  cross_entropy        %6, labels:int32 -> %8:fp64 (1), %9 (1), %10 (1)\n"                              \
    " 4 backward cross_entropy        %6, labels:int32, %10 -> %11 (1, 192)\n"                                         \
    " 5 backward linear               %4, u, %11 -> %12 (1, 32), gradient of u (32, 192)\n"                            \
    " 6 ranks    reduce_scatter       gradients[8192:14336]"                                                           \
    " -> gradients[8192:14336], %28:int32 (1) [last]\n"                                                                \
    " 7 backward linear               %2, v, %12 -> %14 (1, 64), gradient of v (64, 32)\n"                             \
    " 8 ranks    reduce_scatter       gradients[4096:6144] -> gradients[4096:6144], %30:int32 (1) [last]\n"            \
    " 9 backward linear               x, w, %14 -> gradient of w (64, 64)\n"                                           \
    "10 ranks    reduce_scatter       gradients[0:4096] -> gradients[0:4096], %32:int32 (1) [last]\n"                  \
    "11 ranks    wait                 %28:int32 -> gradients[8192:14336]\n"                                            \
    "12 ranks    wait                 %30:int32 -> gradients[4096:6144]\n"                                             \
    "13 ranks    wait                 %32:int32 -> gradients[0:4096]\n"                                                \
    "14 update   grad_squares         -> %33:fp64 (1)\n"                                                               \
    "15 update   grad_squares         gradients[4096:6144] -> %33+1:fp64 (1)\n"                                        \
    "16 update   grad_squares         gradients[12288:14336] -> %33+2:fp64 (2)\n"                                      \
    "17 ranks    all_reduce           %33:fp64 -> %33:fp64 (4), %36:int32 (1)\n"                                       \
    "18 ranks    wait                 %36:int32 -> %33:fp64 (4)\n"                                                     \
    "19 update   grad_clip            %33:fp64\n"                                                                      \
    "20 update   sgd                  gradients[4096:6144]"                                                            \
    " -> parameters[4096:6144], first moment[0:2048]\n"                                                                \
    "21 update   sgd                  gradients[12288:14336]"                                                          \
    " -> parameters[12288:14336], first moment[4096:6144]\n"                                                           \
    "22 ranks    all_gather           -> parameters[0:4096], %38:int32 (1)\n"                                          \
    "23 ranks    all_gather           parameters[4096:6144] -> parameters[4096:6144], %41:int32 (1)\n"                 \
    "24 ranks    all_gather           parameters[12288:14336] -> parameters[8192:14336], %44:int32 (1)\n"              \
    "25 ranks    wait                 %38:int32 -> parameters[0:4096]\n"                                               \
    "26 ranks    wait                 %41:int32 -> parameters[4096:6144]\n"                                            \
    "27 ranks    wait                 %44:int32 -> parameters[8192:14336]\n"                                           \
    "gradients: 1 x 57344 bytes\n"

#define BLOCKS_DEALT_TREE                                                                                              \
    " 0 forward  linear               x, w -> %2 (1, 64)\n"                                                            \
    " 1 forward  linear               %2, v -> %4 (1, 32)\n"                                                           \
    " 2 forward  linear               %4, u -> %6 (1, 192)\n"                                                          \
    " 3 forward  cross_entropy        %6, labels:int32 -> %8:fp64 (1), %9 (1), %10 (1)\n"                              \
    " 4 backward cross_entropy        %6, labels:int32, %10 -> %11 (1, 192)\n"                                         \
    " 5 backward linear               %4, u, %11 -> %12 (1, 32), gradient of u (32, 192)\n"                            \
    " 6 backward linear               %2, v, %12 -> %14 (1, 64), gradient of v (64, 32)\n"                             \
    " 7 backward linear               x, w, %14 -> gradient of w (64, 64)\n"                                           \
    " 8 sum      accumulate           gradients[14336:28672] -> gradients[0:14336] [after 1]\n"                        \
    " 9 ranks    tree_reduce          gradients[0:18432] -> gradients[0:4096], %31:int32 (1)\n"                        \
    "10 ranks    tree_reduce          gradients[4096:20480] -> gradients[4096:6144], %34:int32 (1)\n"                  \
    "11 ranks    tree_reduce          gradients[8192:28672] -> gradients[8192:14336], %37:int32 (1)\n"                 \
    "12 ranks    wait                 %31:int32 -> gradients[0:4096]\n"                                                \
    "13 ranks    wait                 %34:int32 -> gradients[4096:6144]\n"                                             \
    "14 ranks    wait                 %37:int32 -> gradients[8192:14336]\n"                                            \
    "15 update   grad_squares         -> %38:fp64 (1)\n"                                                               \
    "16 update   grad_squares         gradients[4096:6144] -> %38+1:fp64 (1)\n"                                        \
    "17 update   grad_squares         gradients[12288:14336] -> %38+2:fp64 (2)\n"                                      \
    "18 ranks    all_reduce           %38:fp64 -> %38:fp64 (4), %41:int32 (1)\n"                                       \
    "19 ranks    wait                 %41:int32 -> %38:fp64 (4)\n"                                                     \
    "20 update   grad_clip            %38:fp64\n"                                                                      \
    "21 update   sgd                  gradients[4096:6144]"                                                            \
    " -> parameters[4096:6144], first moment[0:2048]\n"                                                                \
    "22 update   sgd                  gradients[12288:14336]"                                                          \
    " -> parameters[12288:14336], first moment[4096:6144]\n"                                                           \
    "23 ranks    all_gather           -> parameters[0:4096], %43:int32 (1)\n"                                          \
    "24 ranks    all_gather           parameters[4096:6144] -> parameters[4096:6144], %46:int32 (1)\n"                 \
    "25 ranks    all_gather           parameters[12288:14336] -> parameters[8192:14336], %49:int32 (1)\n"              \
    "26 ranks    wait                 %43:int32 -> parameters[0:4096]\n"                                               \
    "27 ranks    wait                 %46:int32 -> parameters[4096:6144]\n"                                            \
    "28 ranks    wait                 %49:int32 -> parameters[8192:14336]\n"                                           \
    "gradients: 2 x 57344 bytes; micro-batches write 0, 1; sums left: [0:2] in 0\n"

/* A map outside of blocks, and one in each of two blocks, of one, one and two pieces of 4096; with backward. */
static struct model two_blocks(void)
{
    struct model m = model_new();
    struct levin_graph *g = m.graph;
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 1, 64));
    x = levin_linear(g, x, levin_weight(g, "w", 64, 64, 1), NULL, true);
    levin_block(g);
    x = levin_linear(g, x, levin_weight(g, "v", 64, 32, 1), NULL, true);
    levin_block(g);
    x = levin_linear(g, x, levin_weight(g, "u", 32, 192, 1), NULL, true);
    levin_block_end(g);
    model_build(&m, levin_cross_entropy(g, x, lvn_input(g, "labels", LVN_DESC(LVN_I32, 1))));
    must(lvn_pass_differentiate(m.program));
    return m;
}

/* Every block is divided: no collective reaches over two of them. Rank 1 of 2 owns the second and the fourth as they
 * are dealt, and of the last block the latter piece.
 */
static void shard_blocks(void **state)
{
    (void)state;
    for (int tree = 0; tree < 2; tree++) {
        struct model m = two_blocks();
        must(lvn_pass_gradient_accumulation(m.program, tree ? &(struct lvn_tree_leaves){.n = 2, .total = 4} : NULL));
        must(lvn_pass_update(m.program, &sgd, false));
        must(lvn_pass_data_parallel(
            m.program, &(struct lvn_sharding){.rank = 1, .size = 2, .sharded = LVN_SHARDS_STATE, .tree = tree}, NULL));
        expect(&m, tree ? BLOCKS_DEALT_TREE : BLOCKS_DEALT);
        model_free(&m);
    }
}

/* Matrices in shards: rank 1 of 2 sets the directions of its part of each block; rank 0 computes the first block's
 * matrix, and rank 1 that of the second, while the steps of the first are on their way back. A matrix's owner alone has
 * the moments of its lines. */
static void shard_matrices(void **state)
{
    (void)state;
    struct lvn_optimizer with_lines = on_matrices;
    with_lines.matrices.lines = true;
    struct model m = two_blocks();
    must(lvn_pass_gradient_accumulation(m.program, NULL));
    must(lvn_pass_update(m.program, &with_lines, false));
    must(lvn_pass_data_parallel(
        m.program, &(struct lvn_sharding){.rank = 1, .size = 2, .sharded = LVN_SHARDS_STATE | LVN_SHARDS_GRADIENTS},
        NULL));
    m.program->instrs += 24, m.program->n_instrs -= 24; /* up to there as below */
    expect(&m, " 0 update   muon_direction       gradients[0:2048] -> %43 (2048), first moment[0:2048]\n"
               " 1 ranks    all_gather           %43 -> %43 (2048), %44:int32 (1)\n"
               " 2 update   muon_direction       gradients[4096:6144] -> %45+4096 (2048), first moment[4096:6144]\n"
               " 3 ranks    all_gather           %45+4096 -> %45 (6144), %46:int32 (1)\n"
               " 4 ranks    wait                 %44:int32 -> %43 (2048)\n"
               " 5 update   zeros                -> %43 (2048)\n"
               " 6 ranks    reduce_scatter       %43 -> %43 (2048), %47:int32 (1)\n"
               " 7 ranks    wait                 %46:int32 -> %45 (6144)\n"
               " 8 update   orthogonalize        %45 -> %45 (32, 192), moments of lines[64:256]\n"
               " 9 ranks    reduce_scatter       %45 -> %45 (6144), %48:int32 (1)\n"
               "10 ranks    wait                 %47:int32 -> %43 (2048)\n"
               "11 update   muon_step            %43 -> parameters[4096:6144]\n"
               "12 ranks    wait                 %48:int32 -> %45 (6144)\n"
               "13 update   muon_step            %45+4096 -> parameters[12288:14336]\n"
               "14 ranks    all_gather           -> parameters[0:4096], %50:int32 (1)\n"
               "15 ranks    all_gather           parameters[4096:6144] -> parameters[4096:6144], %53:int32 (1)\n"
               "16 ranks    all_gather           parameters[12288:14336] -> parameters[8192:14336], %56:int32 (1)\n"
               "17 ranks    wait                 %50:int32 -> parameters[0:4096]\n"
               "18 ranks    wait                 %53:int32 -> parameters[4096:6144]\n"
               "19 ranks    wait                 %56:int32 -> parameters[8192:14336]\n"
               "gradients: 1 x 24576 bytes\n");
    m.program->instrs -= 24, m.program->n_instrs += 24;
    model_free(&m);
}

/* zero2: the gradients of a micro-batch are a value of the arena for each block, of which rank 1 of 2 adds its shard to
 * its part of the sums, while backward is at the block before. */
static void shard_gradients(void **state)
{
    (void)state;
    struct model m = two_blocks();
    must(lvn_pass_gradient_accumulation(m.program, NULL));
    must(lvn_pass_update(m.program, &sgd, false));
    must(lvn_pass_data_parallel(
        m.program, &(struct lvn_sharding){.rank = 1, .size = 2, .sharded = LVN_SHARDS_STATE | LVN_SHARDS_GRADIENTS},
        NULL));
    expect(&m, " 0 forward  linear               x, w -> %2 (1, 64)\n"
               " 1 forward  linear               %2, v -> %4 (1, 32)\n"
               " 2 forward  linear               %4, u -> %6 (1, 192)\n"
               " 3 forward  cross_entropy        %6, labels:int32 -> %8:fp64 (1), %9 (1), %10 (1)\n"
               " 4 backward cross_entropy        %6, labels:int32, %10 -> %11 (1, 192)\n"
               " 5 backward linear               %4, u, %11 -> %12 (1, 32), %29 (32, 192)\n"
               " 6 ranks    reduce_scatter       %29 -> %29 (6144), %30:int32 (1)\n"
               " 7 backward linear               %2, v, %12 -> %14 (1, 64), %28 (64, 32)\n"
               " 8 ranks    wait                 %30:int32 -> %29 (6144)\n"
               " 9 forward  accumulate           %29+4096 -> gradients[4096:6144] [first]\n"
               "10 forward  accumulate           %29+4096 -> gradients[4096:6144] [later]\n"
               "11 ranks    reduce_scatter       %28 -> %28 (2048), %32:int32 (1)\n"
               "12 backward linear               x, w, %14 -> %27 (64, 64)\n"
               "13 ranks    wait                 %32:int32 -> %28 (2048)\n"
               "14 forward  accumulate           %28 -> gradients[0:2048] [first]\n"
               "15 forward  accumulate           %28 -> gradients[0:2048] [later]\n"
               "16 ranks    reduce_scatter       %27 -> %27 (4096), %34:int32 (1)\n"
               "17 ranks    wait                 %34:int32 -> %27 (4096)\n"
               "18 update   grad_squares         -> %35:fp64 (1)\n"
               "19 update   grad_squares         gradients[0:2048] -> %35+1:fp64 (1)\n"
               "20 update   grad_squares         gradients[4096:6144] -> %35+2:fp64 (2)\n"
               "21 ranks    all_reduce           %35:fp64 -> %35:fp64 (4), %38:int32 (1)\n"
               "22 ranks    wait                 %38:int32 -> %35:fp64 (4)\n"
               "23 update   grad_clip            %35:fp64\n"
               "24 update   sgd                  gradients[0:2048] -> parameters[4096:6144], first moment[0:2048]\n"
               "25 update   sgd                  gradients[4096:6144]"
               " -> parameters[12288:14336], first moment[4096:6144]\n"
               "26 ranks    all_gather           -> parameters[0:4096], %40:int32 (1)\n"
               "27 ranks    all_gather           parameters[4096:6144] -> parameters[4096:6144], %43:int32 (1)\n"
               "28 ranks    all_gather           parameters[12288:14336] -> parameters[8192:14336], %46:int32 (1)\n"
               "29 ranks    wait                 %40:int32 -> parameters[0:4096]\n"
               "30 ranks    wait                 %43:int32 -> parameters[4096:6144]\n"
               "31 ranks    wait                 %46:int32 -> parameters[8192:14336]\n"
               "gradients: 1 x 24576 bytes\n");
    model_free(&m);
}

/* With a tree one collective adds the sums that the ranks hold, after backward. */
static void shard_tree(void **state)
{
    (void)state;
    struct model m = differentiated();
    must(lvn_pass_gradient_accumulation(m.program, &(struct lvn_tree_leaves){.first = 0, .n = 2, .total = 4}));
    must(lvn_pass_update(m.program, &sgd, false));
    expect(&m, CLASSIFIER
           " 3 sum      accumulate           gradients[192:384] -> gradients[0:192] [after 1]\n"
           " 4 update   grad_norm            gradients[0:192]\n"
           " 5 update   sgd                  gradients[0:128] -> parameters[0:128], first moment[0:128]\n"
           " 6 update   sgd                  gradients[128:192] -> parameters[128:192], first moment[128:192]\n"
           "gradients: 2 x 768 bytes; micro-batches write 0, 1; sums left: [0:2] in 0\n");
    must(lvn_pass_data_parallel(m.program, &(struct lvn_sharding){.rank = 0, .size = 2, .tree = true}, NULL));
    expect(&m, CLASSIFIER
           " 3 sum      accumulate           gradients[192:384] -> gradients[0:192] [after 1]\n"
           " 4 ranks    tree_reduce          gradients[0:384] -> gradients[0:192], %26:int32 (1)\n"
           " 5 ranks    wait                 %26:int32 -> gradients[0:192]\n"
           " 6 update   grad_norm            gradients[0:192]\n"
           " 7 update   sgd                  gradients[0:128] -> parameters[0:128], first moment[0:128]\n"
           " 8 update   sgd                  gradients[128:192] -> parameters[128:192], first moment[128:192]\n"
           "gradients: 2 x 768 bytes; micro-batches write 0, 1; sums left: [0:2] in 0\n");
    model_free(&m);
}

/* The loss is scaled before each micro-batch; the norm is unscaled, and then clipped, before the optimizer. */
static void scale(void **state)
{
    (void)state;
    struct model m = classifier_new();
    must(lvn_pass_fuse(m.program));
    must(lvn_pass_mixed_precision(m.program, LVN_PRECISION_16_MIXED, NULL));
    must(lvn_pass_differentiate(m.program));
    must(lvn_pass_gradient_accumulation(m.program, NULL));
    must(lvn_pass_update(m.program, &sgd, false));
    expect(&m, " 0 forward  linear_gelu          x, w1, b -> %4:fp16 (2, 8), %3:fp16 (2, 8)\n"
               " 1 backward linear_cross_entropy %4:fp16, w2, labels:int32"
               " -> %11:fp16 (2, 8), gradient of w2 (8, 3), %8:fp64 (1), %9 (2)\n"
               " 2 backward linear_gelu          x, w1, %11:fp16, %3:fp16 -> gradient of w1 (4, 8), gradient of b (8)\n"
               " 3 update   grad_norm            gradients[0:192]\n"
               " 4 update   sgd                  gradients[0:128] -> parameters[0:128], first moment[0:128]\n"
               " 5 update   sgd                  gradients[128:192] -> parameters[128:192], first moment[128:192]\n"
               "gradients: 1 x 768 bytes\n");
    assert_true(m.program->instrs[3].attr.grad_norm.clip_norm == 1);
    must(lvn_pass_loss_scaling(m.program, &sgd));
    expect(&m, " 0 forward  scale_loss           scale of the loss:fp64\n"
               " 1 forward  linear_gelu          x, w1, b -> %4:fp16 (2, 8), %3:fp16 (2, 8)\n"
               " 2 backward linear_cross_entropy %4:fp16, w2, labels:int32"
               " -> %11:fp16 (2, 8), gradient of w2 (8, 3), %8:fp64 (1), %9 (2)\n"
               " 3 backward linear_gelu          x, w1, %11:fp16, %3:fp16 -> gradient of w1 (4, 8), gradient of b (8)\n"
               " 4 update   grad_norm            gradients[0:192]\n"
               " 5 update   unscale              -> scale of the loss:fp64 (3)\n"
               " 6 update   sgd                  gradients[0:128] -> parameters[0:128], first moment[0:128]\n"
               " 7 update   sgd                  gradients[128:192] -> parameters[128:192], first moment[128:192]\n"
               "gradients: 1 x 768 bytes\n");
    assert_true(m.program->instrs[4].attr.grad_norm.clip_norm == 0);
    assert_true(m.program->instrs[5].attr.unscale.clip_norm == 1);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accumulate),
        cmocka_unit_test(accumulate_as_a_tree),
        cmocka_unit_test(update_adamw),
        cmocka_unit_test(update_sgd),
        cmocka_unit_test(update_matrices),
        cmocka_unit_test(update_side_by_side),
        cmocka_unit_test(large_buckets),
        cmocka_unit_test(shard_ddp),
        cmocka_unit_test(shard_ddp_in_bf16),
        cmocka_unit_test(shard_zero1),
        cmocka_unit_test(shard_blocks),
        cmocka_unit_test(shard_gradients),
        cmocka_unit_test(shard_matrices),
        cmocka_unit_test(shard_tree),
        cmocka_unit_test(scale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
