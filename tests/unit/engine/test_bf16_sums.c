/* test_bf16_sums.c - covers: src/run/engine/model_state.c src/run/engine/session.c
 *
 * Gradients of bf16-true over many micro-batches: they lose no more than one piece does, summed one after the other
 * and as a tree; and who sums in fp32 does not depend on what ranks may differ in. What a device's free memory is
 * compared with. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bf16.h"
#include "base/random.h"
#include "data/dataset.h"
#include "engine/ranks.h"
#include "engine/session.h"
#include "initial_values.h"
#include "models/keys.h"

enum { ROWS = 2048, T = 4, V = 11 };

struct world {
    struct lvn_model_state *network;
    struct lvn_session *runner;
};

static void must(enum lvn_status status)
{
    if (status != LVN_OK) fail_msg("%s\n%s", levin_error_text(), levin_error_trace());
}

static void set_up(struct world *w, enum lvn_precision precision, const struct lvn_session_options *how,
                   const struct lvn_sharding *sharding)
{
    static const struct lvn_key_value sizes[] = {{"n_layer", 1},    {"n_head", 2},     {"n_embd", 8},
                                                 {"block_size", T}, {"vocab_size", V}, {NULL, 0}};
    static struct lvn_fields fields;
    struct lvn_model_config c;
    fields = lvn_stream_fields(T, V);
    lvn_model_config_init(&c, lvn_model_find("gpt2"));
    must(lvn_model_put_all(&c, sizes));
    struct lvn_model_state_options o = {.real = LVN_F32, .precision = precision, .threads = 1};
    struct lvn_session_options runner = *how;
    runner.fields = &fields;
    runner.task = lvn_task_find("lm");
    runner.train = true;
    must(lvn_model_state_new(&w->network, &c, &o));
    if (sharding) lvn_model_state_share(w->network, sharding, NULL);
    must(lvn_session_new(&w->runner, w->network, &runner));
}

/* The gradient of the same ROWS rows in n_micro_batches micro-batches, for weights that bf16 represents exactly. */
static double *gradient(enum lvn_precision precision, int64_t n_micro_batches, bool deterministic)
{
    struct world w;
    struct lvn_session_options how = {
        .B = ROWS / n_micro_batches, .n_micro_batches = n_micro_batches, .deterministic = deterministic};
    set_up(&w, precision, &how, NULL);
    must(lvn_model_state_allocate(w.network));
    const struct lvn_params *p = w.network->params;
    float *values = calloc((size_t)p->flat_count, sizeof *values);
    initial_values(p, 1, values);
    uint16_t *half = calloc((size_t)p->flat_count, sizeof *half);
    for (int64_t i = 0; i < p->flat_count; i++) half[i] = lvn_bf16_make(values[i]), values[i] = lvn_bf16_get(half[i]);
    const bool in_bf16 = w.network->weights == LVN_BF16;
    must(lvn_memory_write(w.network->memory[LVN_BUFFER_PARAM], 0, in_bf16 ? (void *)half : values,
                          w.network->bytes[LVN_BUFFER_PARAM]));
    struct lvn_fields fields = lvn_stream_fields(T, V);
    struct lvn_samples b;
    must(lvn_samples_init(&b, &fields, ROWS));
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < ROWS * T; i++)
            ((int32_t *)b.p[k])[i] = (int32_t)lvn_random_below(1, (uint64_t)k, (uint64_t)i, k ? 3 : V);
    must(lvn_session_feed(w.runner, 0, &b));
    lvn_samples_release(&b);
    w.runner->step_args = (struct lvn_step){.seed = 1, .grad_scale = 1.0 / (ROWS * T), .training = 1};
    lvn_session_run(w.runner, n_micro_batches);
    double *g = calloc((size_t)p->trainable_count + 1, sizeof *g);
    const void *found = w.network->memory[LVN_BUFFER_GRAD]->host;
    for (int64_t i = 0; i < p->trainable_count; i++)
        g[i + 1] = w.network->gradients == LVN_BF16 ? (double)lvn_bf16_get(((const uint16_t *)found)[i])
                                                    : (double)((const float *)found)[i];
    g[0] = (double)p->trainable_count;
    free(values), free(half);
    lvn_model_state_free(w.network);
    return g;
}

/* |a - b| / |b| */
static double distance(const double *a, const double *b)
{
    double difference = 0, size = 0;
    for (int64_t i = 1; i <= (int64_t)b[0]; i++) difference += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
    return sqrt(difference / size);
}

static void test_many_pieces_lose_no_more_than_one(void **state)
{
    (void)state;
    double *exact = gradient(LVN_PRECISION_TRUE, 1, false), *one = gradient(LVN_PRECISION_BF16_TRUE, 1, false);
    const double limit = 2 * distance(one, exact);
    assert_true(limit > 1e-4 && limit < 0.05);
    static const int64_t pieces[] = {64, 128, ROWS};
    for (int deterministic = 0; deterministic < 2; deterministic++)
        for (int k = 0; k < 3; k++) {
            double *many = gradient(LVN_PRECISION_BF16_TRUE, pieces[k], deterministic);
            print_message("%d pieces, tree %d: %.2g; one: %.2g\n", (int)pieces[k], deterministic, distance(many, exact),
                          limit / 2);
            if (pieces[k] > 64) assert_true(distance(many, exact) <= limit);
            free(many);
        }
    free(exact), free(one);
}

/* Type and size of what is planned for one rank of several. */
static void expect(enum lvn_dtype expected, int size, int rank, int64_t each, int64_t B, bool deterministic)
{
    struct world w;
    const struct lvn_sharding sharding = {.rank = rank, .size = size, .tree = deterministic};
    struct lvn_session_options how = {.B = B,
                                      .n_micro_batches = each,
                                      .deterministic = deterministic,
                                      .first_leaf = rank * each,
                                      .n_leaves = size * each};
    set_up(&w, LVN_PRECISION_BF16_TRUE, &how, &sharding);
    assert_int_equal(w.network->gradients, expected);
    const struct lvn_program *p = w.runner->program;
    assert_int_equal(w.network->bytes[LVN_BUFFER_GRAD],
                     p->n_grad_buffers * w.network->params->trainable_count * lvn_dtype_bytes(expected));
    assert_int_equal(w.network->weights, LVN_BF16);
    lvn_model_state_free(w.network);
}

static void test_ranks_decide_alike(void **state)
{
    (void)state;
    expect(LVN_BF16, 1, 0, 64, 1, false);
    expect(LVN_F32, 1, 0, 65, 1, false);
    for (int rank = 0; rank < 2; rank++) { /* each has its own sum; the tree's bits are those of one rank */
        expect(LVN_BF16, 2, rank, 64, 1, false);
        expect(LVN_F32, 2, rank, 64, 1, true);
        expect(LVN_BF16, 2, rank, 32, 1, true);
        expect(LVN_F32, 2, rank, 65, 1, false);
    }
    expect(LVN_F32, 1, 0, 33, 600 / T, false); /* each of two chunks */
    expect(LVN_BF16, 1, 0, 33, 500 / T, false);
}

/* What a plan may use of a device with this much free memory before anything was allocated: the same before and after
 * allocation, and an equal part for each rank of the device. */
static void test_free_memory_of_a_device(void **state)
{
    const struct lvn_session_options how = {.B = 1, .n_micro_batches = 1};
    struct lvn_ranks ranks = {.device_sharers = 2};
    struct world w;
    (void)state;
    set_up(&w, LVN_PRECISION_TRUE, &how, NULL);
    must(lvn_model_state_allocate(w.network));
    int64_t *free_bytes = &w.network->device->memory_bytes;
    const int64_t needed = lvn_model_state_bytes(w.network);
    *free_bytes = needed;
    assert_true(lvn_model_state_fits(w.network));
    *free_bytes = needed - 1;
    assert_false(lvn_model_state_fits(w.network));
    w.network->ranks = &ranks;
    *free_bytes = 2 * needed;
    assert_true(lvn_model_state_fits(w.network));
    *free_bytes = 2 * needed - 1;
    assert_false(lvn_model_state_fits(w.network));
    *free_bytes = 0;
    lvn_model_state_free(w.network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_free_memory_of_a_device),
                                       cmocka_unit_test(test_many_pieces_lose_no_more_than_one),
                                       cmocka_unit_test(test_ranks_decide_alike)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
