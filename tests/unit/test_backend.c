/* test_backend.c - one small training program on every backend: those that compute agree with the reference, the trace
 * tells the launches that the others make, and what a backend lacks is refused when the program is planned. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "data/dataset.h"
#include "initial_values.h"
#include "models/keys.h"
#include "train/network.h"

enum { B = 2, MICRO = 3, T = 7, V = 11, STEPS = 3, MOST = 4096 };

struct launch {
    enum lvn_op_id op;
    enum lvn_phase phase;
    int64_t micro_batch;
    bool update;
};

struct fixture {
    struct lvn_network *network;
    struct lvn_runner *runner;
    struct launch launches[MOST]; /* of the last run */
    int n;
};

static void must(enum lvn_status status)
{
    if (status != LVN_OK) fail_msg("%s\n%s", lvn_error_text(), lvn_error_trace());
}

static enum lvn_status set_up(struct fixture *f, const char *backend, enum lvn_precision precision, bool deterministic)
{
    static const struct lvn_key_value sizes[] = {{"n_layer", 2},    {"n_head", 2},    {"n_embd", 12}, {"block_size", T},
                                                 {"vocab_size", V}, {"dropout", 0.1}, {NULL, 0}};
    static const struct lvn_optimizer optimizer = {.kind = LVN_SGD, .momentum = 0.9, .clip_norm = 1};
    static struct lvn_fields fields;
    struct lvn_model_config c;
    fields = lvn_stream_fields(T, V);
    *f = (struct fixture){0};
    lvn_model_config_init(&c, lvn_model_find("nanogpt"));
    must(lvn_model_put_all(&c, sizes));
    struct lvn_network_options o = {
        .backend = lvn_backend_find(backend), .real = LVN_F32, .precision = precision, .threads = 2};
    struct lvn_runner_options runner = {.fields = &fields,
                                        .B = B,
                                        .n_micro = MICRO,
                                        .task = lvn_task_find("lm"),
                                        .train = true,
                                        .deterministic = deterministic,
                                        .optimizer = &optimizer};
    LVN_TRY(lvn_network_new(&f->network, &c, &o));
    return lvn_runner_new(&f->runner, f->network, &runner);
}

static void note(void *context, const struct lvn_walk *at)
{
    struct fixture *f = context;
    assert_true(f->n < MOST);
    f->launches[f->n++] =
        (struct launch){at->instr->id, at->instr->phase, at->micro_batch, at->instr->when == LVN_AFTER_BACKWARD};
}

/* Values and batches that depend on nothing but their numbers, whoever computes with them. */
static void fill(struct fixture *f, float *values)
{
    struct lvn_fields fields = lvn_stream_fields(T, V);
    struct lvn_samples b;
    initial_values(f->network->params, 1, values);
    must(lvn_memory_write(f->network->memory[LVN_BUFFER_PARAM], 0, values, f->network->bytes[LVN_BUFFER_PARAM]));
    must(lvn_samples_init(&b, &fields, B * MICRO));
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < B * MICRO * T; i++)
            ((int32_t *)b.p[k])[i] = (int32_t)lvn_random_below(1, (uint64_t)k, (uint64_t)i, V);
    must(lvn_runner_feed(f->runner, 0, &b));
    lvn_samples_release(&b);
}

struct outcome {
    double loss[STEPS], norm[STEPS];
    float *start, *end;
    int64_t n;
};

static void train(struct fixture *f, struct outcome *o)
{
    const struct lvn_execution how = {.n_micro_batches = MICRO, .context = f, .launched = note};
    o->n = f->network->params->flat_count;
    o->start = malloc(sizeof(float) * (size_t)o->n);
    o->end = malloc(sizeof(float) * (size_t)o->n);
    must(lvn_network_allocate(f->network));
    fill(f, o->start);
    for (int s = 0; s < STEPS; s++) {
        f->n = 0;
        f->runner->step = (struct lvn_step){
            .seed = 1, .step = s, .lr = 0.1, .grad_scale = 1.0 / (B * MICRO * T), .first_row = 5, .training = 1};
        must(lvn_runner_run_as(f->runner, &how));
        assert_int_equal(f->runner->step.first_row, 5);
        o->loss[s] = lvn_tree_sum(f->runner->micro_losses, MICRO) * f->runner->step.grad_scale;
        o->norm[s] = f->runner->result.grad_norm;
    }
    must(lvn_memory_read(f->network->memory[LVN_BUFFER_PARAM], 0, o->end, f->network->bytes[LVN_BUFFER_PARAM]));
}

static void outcome_free(struct outcome *o)
{
    free(o->start);
    free(o->end);
}

/* Relative to how far the parameters moved. */
static double distance(const struct outcome *a, const struct outcome *b)
{
    double moved = 0, apart = 0;
    for (int64_t i = 0; i < a->n; i++) {
        moved += pow((double)b->end[i] - b->start[i], 2);
        apart += pow((double)a->end[i] - b->end[i], 2);
    }
    assert_true(moved > 0);
    return sqrt(apart / moved);
}

static void all_agree_with_the_reference(void **state)
{
    (void)state;
    for (int tree = 0; tree < 2; tree++) {
        static struct fixture f, one;
        struct outcome want, got;
        must(set_up(&f, "reference", LVN_PRECISION_TRUE, tree));
        train(&f, &want);
        assert_null(f.network->memory[LVN_BUFFER_PARAM]->host); /* the seam is what is tested */
        assert_true(want.loss[STEPS - 1] < want.loss[0]);
        for (int i = 0; lvn_backend_at(i); i++) {
            const char *name = lvn_backend_at(i)->name;
            if (!lvn_backend_at(i)->computes || !strcmp(name, "reference")) continue;
            if (set_up(&one, name, LVN_PRECISION_TRUE, tree) == LVN_UNSUPPORTED) {
                print_message("%s left out: %s\n", name, lvn_error_text());
                lvn_error_clear();
                lvn_network_free(one.network);
                continue;
            }
            train(&one, &got);
            for (int s = 0; s < STEPS; s++)
                if (!(fabs(got.loss[s] - want.loss[s]) < 1e-5) || !(fabs(got.norm[s] / want.norm[s] - 1) < 1e-4))
                    fail_msg("%s, step %d: loss %.9g, norm %.9g; reference: %.9g, %.9g", name, s, got.loss[s],
                             got.norm[s], want.loss[s], want.norm[s]);
            if (!(distance(&got, &want) < 1e-4)) fail_msg("%s is %g of the way off", name, distance(&got, &want));
            lvn_network_free(one.network);
            outcome_free(&got);
        }
        lvn_network_free(f.network);
        outcome_free(&want);
    }
}

static void the_trace_tells_the_launches(void **state)
{
    (void)state;
    for (int tree = 0; tree < 2; tree++) {
        static struct fixture f, t;
        struct outcome o;
        struct lvn_bound *bound;
        const struct lvn_binding nothing = {0};
        const struct lvn_execution how = {.n_micro_batches = MICRO, .context = &t, .launched = note};
        must(set_up(&f, "reference", LVN_PRECISION_TRUE, tree));
        train(&f, &o);
        must(set_up(&t, "trace", LVN_PRECISION_TRUE, tree));
        const struct lvn_backend *trace = t.network->device->backend;
        must(trace->bind(&bound, t.runner->program, &nothing));
        must(trace->run(bound, &how));
        trace->unbind(bound);
        assert_int_equal(t.n, f.n);
        int sums = 0;
        for (int i = 0; i < t.n; i++) {
            assert_int_equal(t.launches[i].op, f.launches[i].op);
            assert_int_equal(t.launches[i].phase, f.launches[i].phase);
            assert_int_equal(t.launches[i].micro_batch, f.launches[i].micro_batch);
            sums += t.launches[i].op == LVN_OP_accumulate;
        }
        assert_int_equal(sums, tree ? MICRO - 1 : 0);
        assert_int_equal(t.launches[t.n - 1].op, LVN_OP_sgd);
        assert_true(t.launches[t.n - 1].update && !t.launches[0].update);
        assert_int_equal(lvn_network_allocate(t.network), LVN_UNSUPPORTED);
        assert_non_null(strstr(lvn_error_text(), "trace computes nothing"));
        lvn_error_clear();
        lvn_network_free(t.network);
        lvn_network_free(f.network);
        outcome_free(&o);
    }
}

static void what_a_backend_lacks_is_said_by_the_plan(void **state)
{
    (void)state;
    static struct fixture f;
    struct lvn_device *d;
    assert_int_equal(set_up(&f, "reference", LVN_PRECISION_BF16_MIXED, false), LVN_UNSUPPORTED);
    if (!strstr(lvn_error_text(), "reference has no kernel for '") || !strstr(lvn_error_text(), "32-true"))
        fail_msg("%s", lvn_error_text());
    lvn_network_free(f.network);
    assert_int_equal(lvn_backend_find("cpu")->open(&d, &(struct lvn_device_options){.real = LVN_F64, .threads = 1}),
                     LVN_UNSUPPORTED);
    assert_non_null(strstr(lvn_error_text(), "fp64"));
    assert_null(lvn_backend_find("abacus"));
    lvn_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_agree_with_the_reference),
        cmocka_unit_test(the_trace_tells_the_launches),
        cmocka_unit_test(what_a_backend_lacks_is_said_by_the_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
