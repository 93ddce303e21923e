/* test_backend.c - covers: src/core/passes/launch_order.c src/core/backend/backend.c
 *
 * label: slow
 * One small training program on every backend: those that compute agree with the reference, the trace backend
 * reports the launches that the others make, asynchronous copies during a step change nothing, and what a backend
 * lacks is refused when the program is planned. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "data/dataset.h"
#include "device_skip.h"
#include "engine/session.h"
#include "initial_values.h"
#include "models/keys.h"

enum { B = 2, MICRO = 5, T = 7, V = 11, STEPS = 3, MAX = 4096 };

struct launch {
    enum lvn_op_id op;
    enum lvn_phase phase;
    int64_t micro_batch;
    bool update;
};

struct fixture {
    struct lvn_model_state *network;
    struct lvn_session *runner;
    struct launch launches[MAX]; /* of the last run */
    int n;
};

static void must(enum lvn_status status)
{
    if (status != LVN_OK) fail_msg("%s\n%s", levin_error_text(), levin_error_trace());
}

static enum lvn_status set_up(struct fixture *f, const char *backend, enum lvn_precision precision, bool deterministic)
{
    static const struct lvn_key_value sizes[] = {{"n_layer", 2},    {"n_head", 2},    {"n_embd", 12}, {"block_size", T},
                                                 {"vocab_size", V}, {"dropout", 0.1}, {NULL, 0}};
    static const struct lvn_optimizer optimizer = {.op = LVN_OP_sgd, .attr.sgd.momentum = 0.9, .clip_norm = 1};
    static struct lvn_fields fields;
    struct lvn_model_config c;
    fields = lvn_stream_fields(T, V);
    *f = (struct fixture){0};
    lvn_model_config_init(&c, lvn_model_find("nanogpt"));
    must(lvn_model_put_all(&c, sizes));
    struct lvn_model_state_options o = {
        .backend = lvn_backend_find(backend), .real = LVN_F32, .precision = precision, .threads = 2};
    struct lvn_session_options runner = {.fields = &fields,
                                         .B = B,
                                         .n_micro_batches = MICRO,
                                         .task = lvn_task_find("lm"),
                                         .train = true,
                                         .deterministic = deterministic,
                                         .optimizer = &optimizer};
    LVN_TRY(lvn_model_state_new(&f->network, &c, &o));
    return lvn_session_new(&f->runner, f->network, &runner);
}

static void note(void *context, const struct lvn_launch_order *at)
{
    struct fixture *f = context;
    assert_true(f->n < MAX);
    f->launches[f->n++] =
        (struct launch){at->instr->id, at->instr->phase, at->micro_batch, at->instr->when == LVN_AFTER_BACKWARD};
}

/* Values and batches that depend on their indices alone, on every backend. */
static void feed(struct fixture *f, int batch)
{
    struct lvn_fields fields = lvn_stream_fields(T, V);
    struct lvn_samples b;
    must(lvn_samples_init(&b, &fields, B * MICRO));
    for (int k = 0; k < 2; k++)
        for (int64_t i = 0; i < B * MICRO * T; i++)
            ((int32_t *)b.p[k])[i] = (int32_t)lvn_random_below(1 + (uint64_t)batch, (uint64_t)k, (uint64_t)i, V);
    must(lvn_session_feed(f->runner, 0, &b));
    lvn_samples_release(&b); /* its memory is the caller's again */
}

static void fill(struct fixture *f, float *values)
{
    initial_values(f->network->params, 1, values);
    must(lvn_memory_write(f->network->memory[LVN_BUFFER_PARAM], 0, values, f->network->bytes[LVN_BUFFER_PARAM]));
    feed(f, 0);
}

static struct lvn_step step_at(int s)
{
    return (struct lvn_step){
        .seed = 1, .step = s, .lr = 0.1, .grad_scale = 1.0 / (B * MICRO * T), .first_row = 5, .training = 1};
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
    must(lvn_model_state_allocate(f->network));
    fill(f, o->start);
    for (int s = 0; s < STEPS; s++) {
        f->n = 0;
        f->runner->step_args = step_at(s);
        must(lvn_session_run_as(f->runner, &how));
        assert_int_equal(f->runner->step_args.first_row, 5);
        o->loss[s] = lvn_tree_sum(f->runner->micro_losses, MICRO) * f->runner->step_args.grad_scale;
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
    double moved = 0, deviation = 0;
    for (int64_t i = 0; i < a->n; i++) {
        moved += pow((double)b->end[i] - b->start[i], 2);
        deviation += pow((double)a->end[i] - b->end[i], 2);
    }
    assert_true(moved > 0);
    return sqrt(deviation / moved);
}

static void all_agree_with_the_reference(void **state)
{
    (void)state;
    for (int tree = 0; tree < 2; tree++) {
        static struct fixture f, one;
        struct outcome expected, got;
        must(set_up(&f, "reference", LVN_PRECISION_TRUE, tree));
        train(&f, &expected);
        assert_null(f.network->memory[LVN_BUFFER_PARAM]->host); /* the seam is what is tested */
        assert_true(expected.loss[STEPS - 1] < expected.loss[0]);
        for (int i = 0; lvn_backend_at(i); i++) {
            const char *name = lvn_backend_at(i)->name;
            if (!lvn_backend_at(i)->computes || !strcmp(name, "reference")) continue;
            if (device_is_for_late(lvn_backend_at(i))) continue;
            if (set_up(&one, name, LVN_PRECISION_TRUE, tree) == LVN_UNSUPPORTED) {
                if (device_is_required()) fail_msg("%s does not open: %s", name, levin_error_text());
                print_message("%s left out: %s\n", name, levin_error_text());
                lvn_error_clear();
                lvn_model_state_free(one.network);
                continue;
            }
            train(&one, &got);
            for (int s = 0; s < STEPS; s++)
                if (!(fabs(got.loss[s] - expected.loss[s]) < 1e-5) ||
                    !(fabs(got.norm[s] / expected.norm[s] - 1) < 1e-4))
                    fail_msg("%s, step %d: loss %.9g, norm %.9g; reference: %.9g, %.9g", name, s, got.loss[s],
                             got.norm[s], expected.loss[s], expected.norm[s]);
            if (!(distance(&got, &expected) < 1e-4))
                fail_msg("%s is %g of the way off", name, distance(&got, &expected));
            lvn_model_state_free(one.network);
            outcome_free(&got);
        }
        lvn_model_state_free(f.network);
        outcome_free(&expected);
    }
}

/* Runs as users have them, with 5, 4 and 3 micro-batches, have the bits of the same launches one by one. */
static void captured_runs_have_the_bits_of_launches(void **state)
{
    static struct fixture f[2];
    float *end[2];
    double losses[2][STEPS][MICRO], norm[2][STEPS];
    const struct lvn_backend *b = lvn_backend_find("cuda");
    if (!lvn_backend_devices(b)) {
        assert_false(device_is_required());
        skip();
    }
    (void)state;
    for (int tree = 0; tree < 2; tree++) {
        for (int captured = 0; captured < 2; captured++) {
            must(set_up(&f[captured], "cuda", LVN_PRECISION_TRUE, tree));
            struct lvn_model_state *network = f[captured].network;
            must(lvn_model_state_allocate(network));
            end[captured] = malloc((size_t)network->bytes[LVN_BUFFER_PARAM]);
            fill(&f[captured], end[captured]);
            for (int s = 0; s < STEPS; s++) {
                struct lvn_execution how = {.n_micro_batches = tree ? MICRO : MICRO - s, .context = &f[captured]};
                if (!captured) how.launched = note;
                f[captured].n = 0;
                f[captured].runner->step_args = step_at(s);
                must(lvn_session_run_as(f[captured].runner, &how));
                memcpy(losses[captured][s], f[captured].runner->micro_losses, sizeof losses[0][0]);
                norm[captured][s] = f[captured].runner->result.grad_norm;
            }
            must(
                lvn_memory_read(network->memory[LVN_BUFFER_PARAM], 0, end[captured], network->bytes[LVN_BUFFER_PARAM]));
        }
        assert_memory_equal(end[0], end[1], (size_t)f[0].network->bytes[LVN_BUFFER_PARAM]);
        assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
        assert_memory_equal(norm[0], norm[1], sizeof norm[0]);
        for (int k = 0; k < 2; k++) free(end[k]), lvn_model_state_free(f[k].network);
    }
}

static void the_trace_reports_the_launches(void **state)
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
        assert_int_equal(lvn_model_state_allocate(t.network), LVN_UNSUPPORTED);
        assert_non_null(strstr(levin_error_text(), "trace computes nothing"));
        lvn_error_clear();
        lvn_model_state_free(t.network);
        lvn_model_state_free(f.network);
        outcome_free(&o);
    }
}

static void what_a_backend_lacks_is_said_by_the_plan(void **state)
{
    (void)state;
    static struct fixture f;
    struct lvn_device *d;
    assert_int_equal(set_up(&f, "reference", LVN_PRECISION_BF16_MIXED, false), LVN_UNSUPPORTED);
    if (!strstr(levin_error_text(), "reference has no kernel for '") || !strstr(levin_error_text(), "32-true"))
        fail_msg("%s", levin_error_text());
    lvn_model_state_free(f.network);
    assert_int_equal(lvn_backend_find("cpu")->open(&d, &(struct lvn_device_options){.real = LVN_F64, .threads = 1}),
                     LVN_UNSUPPORTED);
    assert_non_null(strstr(levin_error_text(), "fp64"));
    assert_null(lvn_backend_find("abacus"));
    lvn_error_clear();
}

/* --- asynchronously, during a step --- */

struct snapshot_reads {
    struct fixture *f;
    float *kept; /* [STEPS] of all parameters: as they were before each step */
    int step;
};

/* Before the update of a step: a checkpoint of the step before is read. */
static void read_snapshot(void *context)
{
    struct snapshot_reads *b = context;
    const struct lvn_memory *m = b->f->network->memory[LVN_BUFFER_PARAM];
    must(lvn_memory_read_snapshot(m, 0, (char *)b->kept + b->step * m->bytes, m->bytes));
}

/* Without waiting for a step: the next batch is written while it runs, and the state at its start is read then. */
static void train_with_snapshots(struct fixture *f, struct snapshot_reads *b)
{
    const struct lvn_backend *backend = f->network->device->backend;
    const struct lvn_execution how = {.n_micro_batches = MICRO, .context = b, .before_update = read_snapshot};
    float *values = malloc((size_t)f->network->bytes[LVN_BUFFER_PARAM]);
    must(lvn_model_state_allocate(f->network));
    *b = (struct snapshot_reads){.f = f, .kept = calloc(STEPS, (size_t)f->network->bytes[LVN_BUFFER_PARAM])};
    fill(f, values);
    free(values);
    for (b->step = 0; b->step < STEPS; b->step++) {
        f->runner->step_args = step_at(b->step);
        must(lvn_device_snapshot(f->network->device));
        must(backend->run(f->runner->bound, &how));
        feed(f, b->step + 1);
    }
    must(lvn_device_wait(f->network->device));
}

/* The same synchronously. */
static void train_without_snapshots(struct fixture *f, const struct snapshot_reads *got, const char *name)
{
    const int64_t bytes = f->network->bytes[LVN_BUFFER_PARAM];
    float *values = malloc((size_t)bytes);
    must(lvn_model_state_allocate(f->network));
    fill(f, values);
    for (int s = 0; s < STEPS; s++) {
        feed(f, s);
        must(lvn_device_wait(f->network->device));
        must(lvn_memory_read(f->network->memory[LVN_BUFFER_PARAM], 0, values, bytes));
        if (memcmp(values, (char *)got->kept + s * bytes, (size_t)bytes) != 0)
            fail_msg("%s: what was read beside step %d is not what it began with", name, s);
        f->runner->step_args = step_at(s);
        must(lvn_session_run_as(f->runner, &(struct lvn_execution){.n_micro_batches = MICRO}));
    }
    free(values);
}

static void work_during_a_step_changes_nothing(void **state)
{
    (void)state;
    for (int i = 0; lvn_backend_at(i); i++) {
        static struct fixture f;
        struct snapshot_reads b;
        const char *name = lvn_backend_at(i)->name;
        if (!lvn_backend_at(i)->computes) continue;
        if (set_up(&f, name, LVN_PRECISION_TRUE, false) == LVN_UNSUPPORTED) {
            lvn_error_clear(); /* all_agree_with_the_reference() says why */
            lvn_model_state_free(f.network);
            continue;
        }
        train_with_snapshots(&f, &b);
        lvn_model_state_free(f.network);
        must(set_up(&f, name, LVN_PRECISION_TRUE, false));
        train_without_snapshots(&f, &b, name);
        lvn_model_state_free(f.network);
        free(b.kept);
    }
}

/* --- 16-mixed --- */

static void run_once(struct fixture *f, int64_t step)
{
    f->runner->step_args = (struct lvn_step){
        .seed = 1, .step = step, .lr = 0.1, .grad_scale = 1.0 / (B * MICRO * T), .first_row = 5, .training = 1};
    must(lvn_session_run_as(f->runner, &(struct lvn_execution){.n_micro_batches = MICRO}));
}

static void expect_scaling(const struct fixture *f, double scale, double finite_steps, double skipped)
{
    struct lvn_scaling there;
    const struct lvn_scaling reported = f->runner->result.scaling;
    must(lvn_model_state_scaling(f->network, &there));
    assert_memory_equal(&there, &reported, sizeof there);
    if (there.scale != scale || there.finite_steps != finite_steps || there.skipped != skipped)
        fail_msg("scale %g, %g finite steps, %g skipped; expected %g, %g, %g", there.scale, there.finite_steps,
                 there.skipped, scale, finite_steps, skipped);
}

/* Parameters and moments, in memory that the caller frees. */
static char *all_of(const struct fixture *f, int64_t *bytes)
{
    struct lvn_memory *const *m = f->network->memory;
    const int64_t params = m[LVN_BUFFER_PARAM]->bytes, moments = m[LVN_BUFFER_STATE0]->bytes;
    char *all = malloc((size_t)(*bytes = params + moments));
    must(lvn_memory_read(m[LVN_BUFFER_PARAM], 0, all, params));
    must(lvn_memory_read(m[LVN_BUFFER_STATE0], 0, all + params, moments));
    return all;
}

/* A gradient that overflows changes nothing but the scale; good ones let it grow. */
static void scales_as_it_should(struct fixture *f)
{
    int64_t bytes;
    expect_scaling(f, LVN_SCALING_START, STEPS, 0);
    char *before = all_of(f, &bytes);
    must(lvn_model_state_set_scaling(f->network, &(struct lvn_scaling){.scale = 0x1p60, .finite_steps = 7}));
    run_once(f, STEPS);
    assert_false(isfinite(f->runner->result.grad_norm));
    assert_true(f->runner->result.clip_scale == 0);
    assert_true(isfinite(f->runner->micro_losses[0]));
    expect_scaling(f, 0x1p59, 0, 1);
    char *after = all_of(f, &bytes);
    assert_memory_equal(before, after, (size_t)bytes);
    must(lvn_model_state_set_scaling(f->network,
                                     &(struct lvn_scaling){.scale = 1024, .finite_steps = 1998, .skipped = 1}));
    run_once(f, STEPS + 1);
    expect_scaling(f, 1024, 1999, 1);
    run_once(f, STEPS + 2);
    expect_scaling(f, 2048, 0, 1);
    char *last = all_of(f, &bytes);
    assert_memory_not_equal(after, last, (size_t)bytes);
    free(before);
    free(after);
    free(last);
}

static void fp16_trains_with_a_scaled_loss(void **state)
{
    (void)state;
    static struct fixture f, one;
    struct outcome expected, got;
    must(set_up(&f, "reference", LVN_PRECISION_TRUE, false));
    train(&f, &expected);
    for (int i = 0; lvn_backend_at(i); i++) {
        const struct lvn_backend *b = lvn_backend_at(i);
        if (!b->computes) continue;
        enum lvn_status status = set_up(&one, b->name, LVN_PRECISION_16_MIXED, i % 2);
        if (!b->fp16) {
            assert_int_equal(status, LVN_ARG);
            assert_non_null(strstr(levin_error_text(), "bf16-mixed"));
            assert_non_null(strstr(levin_error_text(), "32-true"));
        } else if (status != LVN_OK) {
            print_message("%s left out: %s\n", b->name, levin_error_text());
        }
        lvn_error_clear();
        if (status == LVN_OK) {
            train(&one, &got);
            for (int s = 0; s < STEPS; s++)
                if (!(fabs(got.loss[s] - expected.loss[s]) < 2e-3) ||
                    !(fabs(got.norm[s] / expected.norm[s] - 1) < 1e-2))
                    fail_msg("%s, step %d: loss %.9g, norm %.9g; reference: %.9g, %.9g", b->name, s, got.loss[s],
                             got.norm[s], expected.loss[s], expected.norm[s]);
            if (!(distance(&got, &expected) < 2e-2))
                fail_msg("%s is %g of the way off", b->name, distance(&got, &expected));
            scales_as_it_should(&one);
            outcome_free(&got);
        }
        lvn_model_state_free(one.network);
    }
    lvn_model_state_free(f.network);
    outcome_free(&expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_agree_with_the_reference),
        cmocka_unit_test(captured_runs_have_the_bits_of_launches),
        cmocka_unit_test(the_trace_reports_the_launches),
        cmocka_unit_test(work_during_a_step_changes_nothing),
        cmocka_unit_test(what_a_backend_lacks_is_said_by_the_plan),
        cmocka_unit_test(fp16_trains_with_a_scaled_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
