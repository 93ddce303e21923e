/* test_tasks.c - covers: src/nets/tasks/task.c src/nets/metrics/metric.c
 * src/run/train/validation.c
 *
 * Fields, tasks and metrics on a test data set of two fields and a tiny classifier: what does not fit is refused by
 * name; loss and confusion matrix are the same for every split into micro-batches and over ranks, and are what the
 * predictions say; training over micro-batches and two ranks learns it. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/work.h"
#include "comm_threads.h"
#include "engine/parameters.h"
#include "graph/regression_sums.h"
#include "models/keys.h"
#include "settings/settings.h"
#include "train/validation.h"

/* --- the data: three kinds of points in six dimensions --- */

enum { FEATURES = 6, CLASSES = 3, N_TRAIN = 64, N_VAL = 37 };

static void spot_fields(const struct lvn_data_options *o, struct lvn_fields *out)
{
    (void)o;
    *out =
        (struct lvn_fields){.field = {{.name = "features", .dtype = LVN_F32, .rank = 1, .dim = {FEATURES}},
                                      {.name = "label", .dtype = LVN_I32, .below = CLASSES, .label = LVN_LABEL_CLASS}},
                            .n = 2};
}

static enum lvn_status spot(const struct lvn_dataset *d, enum lvn_split_id split, int64_t i, struct lvn_draw draw,
                            void *const *out)
{
    float *x = out[0];
    int32_t *label = out[1];
    uint64_t at = (uint64_t)(i + (split == LVN_SPLIT_VAL ? N_TRAIN : 0));
    (void)d;
    (void)draw;
    *label = (int32_t)lvn_random_below(1, 1, at, CLASSES);
    for (int k = 0; k < FEATURES; k++)
        x[k] = lvn_uniform(lvn_philox(2, (uint32_t)at, 0, (uint32_t)k, 0).v[0]) - 0.5F +
               (k % CLASSES == *label ? 0.4F : 0.0F);
    return LVN_OK;
}

static const struct lvn_dataset_kind spots = {.name = "spots", .fields = spot_fields, .sample = spot};

static struct lvn_dataset open_spots(void)
{
    struct lvn_dataset d = {.kind = &spots};
    spot_fields(NULL, &d.fields);
    d.split[LVN_SPLIT_TRAIN].n_samples = N_TRAIN;
    d.split[LVN_SPLIT_VAL].n_samples = N_VAL;
    return d;
}

/* --- the model: features (B,6) -> (B,3) --- */

static struct levin_tensor *build(struct levin_graph *g, const struct lvn_model_config *c,
                                  struct levin_tensor *const *in)
{
    (void)c;
    struct levin_tensor *up = lvn_param(g, "up", LVN_WEIGHT, LVN_NORMAL(0.5), LVN_DESC(LVN_F32, FEATURES, 8));
    struct levin_tensor *down = lvn_param(g, "down", LVN_WEIGHT, LVN_NORMAL(0.5), LVN_DESC(LVN_F32, 8, CLASSES));
    return levin_linear(g, levin_gelu(g, levin_linear(g, in[0], up, NULL, true)), down, NULL, true);
}

static const struct lvn_key no_keys[] = {{.kind = LVN_KEY_END}};
static const struct lvn_field reads_features[] = {{.name = "features", .dtype = LVN_F32, .rank = 1, .dim = {FEATURES}},
                                                  {.name = NULL}};
static const char *const classifies[] = {"classify", NULL};
static const struct lvn_model tiny = {
    .name = "tiny", .keys = no_keys, .inputs = reads_features, .tasks = classifies, .build = build};

/* --- which task a model and data have --- */

static const struct lvn_task *chosen;

static enum lvn_status choose(const char *task, const struct lvn_model *m, const struct lvn_fields *f)
{
    struct lvn_model_config c = {.model = m};
    LVN_TRY(lvn_task_choose(&chosen, task, &c, f));
    return lvn_task_check(chosen, m, f, "data.kind=spots has");
}

static void assert_refused(const char *task, const struct lvn_model *m, const struct lvn_fields *f,
                           const char *sentence)
{
    assert_int_equal(choose(task, m, f), LVN_ARG);
    assert_string_equal(levin_error_text(), sentence);
}

static void fits_by_name(void **state)
{
    (void)state;
    struct lvn_fields f, other;
    spot_fields(NULL, &f);
    assert_int_equal(choose("auto", &tiny, &f), LVN_OK);
    assert_string_equal(chosen->name, "classify");
    assert_refused("lm", &tiny, &f,
                   "task.kind is 'lm', and the model 'tiny' learns classify: leave task.kind out or use another model");
    assert_refused("guess", &tiny, &f, "task.kind is 'guess'; levin knows lm, classify, mlm, reconstruct, regress");
    assert_refused("auto", lvn_model_find("mingpt"), &f,
                   "the model 'mingpt' reads the field 'ids' (any) of int32, but data.kind=spots has only "
                   "'features' (6) of fp32, 'label' of int32: use another model or other data");
    other = f;
    other.field[0].dtype = LVN_U8;
    assert_refused("auto", &tiny, &other,
                   "the model 'tiny' reads the field 'features' (6) of fp32, but data.kind=spots has 'features' (6) of "
                   "uint8: use another model or other data");
    other = f;
    other.field[0].dim[0] = 7;
    assert_refused("auto", &tiny, &other,
                   "the model 'tiny' reads the field 'features' (6) of fp32, but data.kind=spots has 'features' (7) of "
                   "fp32: use another model or other data");
    other = f;
    other.n = 1;
    assert_refused("auto", &tiny, &other,
                   "task.kind=classify learns from the field 'label' of int32, but data.kind=spots has only "
                   "'features' (6) of fp32: use another model or other data");
}

static void too_many_classes(void **state)
{
    (void)state;
    struct lvn_fields f;
    struct lvn_model_config c = {.model = &tiny};
    struct lvn_params *params = lvn_params_new();
    struct levin_graph *g = lvn_graph_new(params, LVN_F32);
    struct lvn_task_graph t;
    spot_fields(NULL, &f);
    f.field[1].below = 4;
    assert_int_equal(lvn_task_build(&t, g, &c, lvn_task_find("classify"), &f, 2), LVN_ARG);
    assert_string_equal(
        levin_error_text(),
        "the data have 4 classes in 'label', and the model 'tiny' supports 3: use another model or other data");
    lvn_graph_free(g);
    lvn_params_free(params);
}

/* --- ranks --- */

enum { STEPS = 60, BATCH = 16, COUNTS = CLASSES * CLASSES };

/* Results of a run: the same on all ranks. */
struct outcome {
    double first_loss, loss, accuracy, train_accuracy, counts[COUNTS];
    uint16_t failed;
};

struct scene {
    struct threads_world world;
    const char *micro; /* trainer.micro_batch_size */
};

struct actor {
    struct scene *scene;
    int rank;
    struct outcome outcome;
    char error[400];
};

static enum lvn_status make_settings(struct levin_settings *s, const struct actor *a)
{
    const enum lvn_source by = LVN_SOURCE_PROGRAM;
    LVN_TRY(lvn_settings_set(s, "trainer.batch_size", "16", by));
    LVN_TRY(lvn_settings_set(s, "trainer.micro_batch_size", a->scene->micro, by));
    LVN_TRY(lvn_settings_set(s, "trainer.deterministic", "true", by));
    LVN_TRY(lvn_settings_set(s, "trainer.threads", "1", by));
    LVN_TRY(lvn_settings_set(s, "optimizer.lr", "3e-2", by));
    s->values.ranks = a->scene->world.size;
    return lvn_settings_finish(s, LVN_USES_TRAINER);
}

/* The shares that this rank computes, summed over ranks. */
static enum lvn_status train(struct lvn_train_programs *programs, struct lvn_ranks *r, const struct lvn_loader *loader,
                             struct outcome *out)
{
    struct lvn_samples b;
    LVN_TRY(lvn_samples_init(&b, &programs->fields, programs->rows));
    enum lvn_status status = LVN_OK;
    for (int step = 0; step < STEPS && status == LVN_OK; step++) {
        double x[1 + COUNTS] = {0};
        status = lvn_loader_batch(loader, step, programs->first_row, &b);
        if (status == LVN_OK) status = lvn_session_feed(programs->step_session, 0, &b);
        double labels = (double)lvn_task_count(&programs->step_session->outputs, &b);
        if (status == LVN_OK) status = lvn_ranks_sum(r, &labels, 1);
        if (status == LVN_OK)
            status = lvn_train_programs_step(programs, step, programs->values->optimizer.lr, (int64_t)labels);
        x[0] = lvn_tree_sum(programs->step_session->micro_losses, programs->accumulation) / labels;
        memcpy(x + 1, programs->step_session->counts, sizeof(double) * COUNTS);
        if (status == LVN_OK) status = lvn_ranks_sum(r, x, 1 + COUNTS);
        if (step == 0) out->first_loss = x[0];
        out->train_accuracy =
            lvn_task_metric(&programs->step_session->outputs, 0, (struct lvn_metric_sums){.labels = 1}, x + 1);
    }
    lvn_samples_release(&b);
    return status;
}

static enum lvn_status run(struct actor *a, struct lvn_ranks *r, struct levin_settings *s,
                           struct lvn_train_programs *programs, struct lvn_validation *v)
{
    struct lvn_dataset d = open_spots();
    struct lvn_loader loader;
    struct lvn_model_config c = {.model = &tiny};
    struct lvn_train_programs_options o = {
        .ranks = r, .fields = &d.fields, .task = lvn_task_find("classify"), .validate = true};
    LVN_TRY(make_settings(s, a));
    LVN_TRY(lvn_loader_init(&loader, &d, LVN_SPLIT_TRAIN, LVN_SAMPLING_PERMUTATION, BATCH, 5));
    LVN_TRY(lvn_validation_open(v, s, &loader, &d));
    LVN_TRY(lvn_train_programs_plan(programs, &s->values, &c, &o));
    LVN_TRY(lvn_model_state_allocate(programs->model_state));
    LVN_TRY(lvn_parameters_init_values(programs->model_state, 3, false));
    LVN_TRY(lvn_validation_allocate(v, programs));
    LVN_TRY(train(programs, r, &loader, &a->outcome));
    LVN_TRY(lvn_validation_run(v, programs, &a->outcome.loss));
    a->outcome.accuracy = v->value[0];
    memcpy(a->outcome.counts, v->sums + v->n_sums - COUNTS, sizeof a->outcome.counts);
    return LVN_OK;
}

static void *act(void *argument)
{
    struct actor *a = argument;
    struct scene *s = a->scene;
    struct lvn_comm *comm = NULL;
    struct lvn_ranks *ranks = NULL;
    struct levin_settings settings = {0};
    struct lvn_train_programs programs = {0};
    struct lvn_validation v = {0};
    struct lvn_identity who = {.launcher = "test", .title = "a test", .rank = a->rank, .size = s->world.size};
    struct lvn_comm_options o = {.rank = a->rank, .size = s->world.size};
    enum lvn_status status = s->world.size > 1
                                 ? lvn_engine_open(&comm, &o, &threads_transport, &s->world.ranks[a->rank])
                                 : lvn_comm_open(&comm, &o);
    if (status == LVN_OK) status = lvn_settings_init(&settings);
    if (status == LVN_OK) status = lvn_ranks_over(&ranks, &who, comm, NULL);
    if (status == LVN_OK) status = run(a, ranks, &settings, &programs, &v);
    a->outcome.failed = status != LVN_OK;
    snprintf(a->error, sizeof a->error, "%s", status == LVN_OK ? "" : levin_error_text());
    lvn_validation_release(&v);
    lvn_train_programs_release(&programs);
    lvn_settings_release(&settings);
    lvn_ranks_close(ranks);
    lvn_comm_close(comm);
    return NULL;
}

static struct outcome play(int size, const char *micro)
{
    struct scene s = {.micro = micro};
    struct actor actors[THREADS_MAX] = {0};
    pthread_t threads[THREADS_MAX];
    world_init(&s.world, size);
    for (int i = 0; i < size; i++) {
        actors[i] = (struct actor){.scene = &s, .rank = i};
        assert_int_equal(pthread_create(&threads[i], NULL, act, &actors[i]), 0);
    }
    for (int i = 0; i < size; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < size; i++) {
        if (actors[i].outcome.failed) fail_msg("rank %d: %s", i, actors[i].error);
        assert_memory_equal(&actors[i].outcome, &actors[0].outcome, sizeof actors[0].outcome);
    }
    world_release(&s.world);
    return actors[0].outcome;
}

/* One rank and two, few micro-batches and many: the weights have equal bits where the micro-batches are the same, and
 * counts are equal wherever weights are; what is left over of the last validation batch (37 = 16 + 16 + 5) counts
 * nothing. */
static void ranks_and_micro_batches(void **state)
{
    (void)state;
    struct outcome one = play(1, "4"), two = play(2, "4"), fine = play(1, "1"), four = play(4, "1");
    assert_memory_equal(&one, &two, sizeof one);
    assert_memory_equal(&fine, &four, sizeof fine);
    double all = 0.0, right = 0.0;
    for (int i = 0; i < COUNTS; i++) {
        all += one.counts[i];
        right += i / CLASSES == i % CLASSES ? one.counts[i] : 0.0;
    }
    assert_true(all == N_VAL);
    assert_true(one.accuracy == right / all);
    assert_true(fabs(one.loss - fine.loss) < 1e-4);
    assert_true(one.loss < 0.5 * one.first_loss && one.accuracy > 0.8 && one.train_accuracy > 0.8);
}

/* --- counts agree with the predictions --- */

static void counts_of_predictions(void **state)
{
    (void)state;
    enum { B = 10 };
    struct lvn_dataset d = open_spots();
    struct lvn_model_config c = {.model = &tiny};
    struct lvn_model_state *n;
    struct lvn_session *session;
    struct lvn_samples b;
    struct lvn_loader l;
    int64_t number;
    double expected[COUNTS] = {0}, loss = 0.0;
    struct lvn_session_options o = {.fields = &d.fields, .B = B, .task = lvn_task_find("classify"), .prediction = true};
    assert_int_equal(lvn_model_state_new(&n, &c, &(struct lvn_model_state_options){.real = LVN_F32, .threads = 2}),
                     LVN_OK);
    assert_int_equal(lvn_session_new(&session, n, &o), LVN_OK);
    assert_int_equal(lvn_model_state_allocate(n), LVN_OK);
    assert_int_equal(lvn_parameters_init_values(n, 1, false), LVN_OK);
    assert_int_equal(lvn_samples_init(&b, &d.fields, B), LVN_OK);
    assert_int_equal(lvn_loader_init(&l, &d, LVN_SPLIT_VAL, LVN_SAMPLING_SEQUENTIAL, B, 1), LVN_OK);
    assert_int_equal(lvn_loader_eval_batch(&l, 0, 3, 0, &b, &number), LVN_OK);
    assert_int_equal(b.n_valid, N_VAL - 3 * B);
    assert_int_equal(number, 3 * B);
    assert_int_equal(lvn_task_count(&session->outputs, &b), b.n_valid);
    assert_int_equal(lvn_session_feed(session, 0, &b), LVN_OK);
    session->step_args = (struct lvn_step){.grad_scale = 1.0};
    double got = lvn_session_run(session, 1);
    const float *y = lvn_session_prediction(session);
    for (int64_t i = 0; i < b.n_valid; i++, y += CLASSES) {
        int32_t label = ((const int32_t *)b.p[1])[i], best = 0;
        double sum = 0.0;
        for (int k = 0; k < CLASSES; k++) sum += exp((double)y[k]), best = y[k] > y[best] ? k : best;
        loss += log(sum) - (double)y[label];
        expected[label * CLASSES + best]++;
    }
    assert_memory_equal(session->counts, expected, sizeof expected);
    assert_true(fabs(got - loss) < 1e-5 * loss);
    lvn_samples_release(&b);
    lvn_model_state_free(n);
}

/* --- reconstruction: rows that fill the batch count nothing --- */

static struct levin_tensor *mirror(struct levin_graph *g, const struct lvn_model_config *c,
                                   struct levin_tensor *const *in)
{
    (void)c;
    struct levin_tensor *w = lvn_param(g, "w", LVN_WEIGHT, LVN_NORMAL(0.5), LVN_DESC(LVN_F32, FEATURES, FEATURES));
    return levin_linear(g, in[0], w, NULL, true);
}

static struct levin_tensor *itself(struct levin_graph *g, const struct lvn_model_config *c,
                                   struct levin_tensor *const *in)
{
    (void)g;
    (void)c;
    return in[0];
}

static void reconstruction(void **state)
{
    (void)state;
    enum { B = 10, THERE = 7 };
    static const char *const learns[] = {"reconstruct", NULL};
    const struct lvn_model model = {.name = "mirror",
                                    .keys = no_keys,
                                    .inputs = reads_features,
                                    .tasks = learns,
                                    .build = mirror,
                                    .target = itself};
    struct lvn_dataset d = open_spots();
    struct lvn_model_config c = {.model = &model};
    struct lvn_model_state *n;
    struct lvn_session *session;
    struct lvn_samples b;
    double expected = 0.0, gradient[FEATURES * FEATURES] = {0};
    assert_int_equal(choose("auto", &model, &d.fields), LVN_OK);
    struct lvn_session_options o = {.fields = &d.fields, .B = B, .task = chosen, .prediction = true, .train = true};
    assert_int_equal(lvn_model_state_new(&n, &c, &(struct lvn_model_state_options){.real = LVN_F32, .threads = 2}),
                     LVN_OK);
    assert_int_equal(lvn_session_new(&session, n, &o), LVN_OK);
    assert_int_equal(lvn_model_state_allocate(n), LVN_OK);
    const int64_t work = lvn_work_count();
    assert_int_equal(lvn_parameters_init_values(n, 1, false), LVN_OK);
    assert_int_equal(lvn_work_count() - work, FEATURES * FEATURES); /* a run of a large model is not stuck meanwhile */
    assert_int_equal(lvn_samples_init(&b, &d.fields, B), LVN_OK);
    for (int64_t i = 0; i < B; i++) /* what fills up is not even zero here */
        assert_int_equal(spot(&d, LVN_SPLIT_TRAIN, i, (struct lvn_draw){0},
                              (void *[]){lvn_samples_at(&b, 0, i), lvn_samples_at(&b, 1, i)}),
                         LVN_OK);
    b.n_valid = THERE;
    assert_int_equal(lvn_task_count(&session->outputs, &b), THERE * FEATURES);
    assert_int_equal(lvn_session_feed(session, 0, &b), LVN_OK);
    session->step_args = (struct lvn_step){.grad_scale = 0.5, .first_row = 100, .end_row = 100 + THERE};
    double got = lvn_session_run(session, 1);
    const float *y = lvn_session_prediction(session), *x = b.p[0];
    float slope[FEATURES * FEATURES];
    assert_int_equal(lvn_memory_read(n->memory[LVN_BUFFER_GRAD], 0, slope, sizeof slope), LVN_OK);
    for (int64_t i = 0; i < THERE; i++)
        for (int k = 0; k < FEATURES; k++) {
            double off = (double)y[i * FEATURES + k] - (double)x[i * FEATURES + k];
            expected += off * off;
            for (int j = 0; j < FEATURES; j++) gradient[j * FEATURES + k] += (double)x[i * FEATURES + j] * off;
        }
    assert_true(fabs(got - expected) < 1e-5 * expected);
    for (int i = 0; i < FEATURES * FEATURES; i++) assert_true(fabs((double)slope[i] - gradient[i]) < 1e-5);
    assert_true(lvn_task_metric(&session->outputs, 0, (struct lvn_metric_sums){.loss = got, .labels = THERE * FEATURES},
                                session->counts) == got / (THERE * FEATURES));
    lvn_samples_release(&b);
    lvn_model_state_free(n);
}

/* --- metrics of numbers --- */

static void count(double *limb, double x)
{
    for (int k = LVN_LIMBS - 1; k >= 0; k--) {
        const double unit = ldexp(1, LVN_LIMB_LOWEST + k * LVN_LIMB_BITS), digit = trunc(x / unit);
        limb[k] += digit;
        x -= digit * unit;
    }
}

/* Predictions mean + p_step((17 i mod 13) - 6) + the label's distance; labels mean + t_step((37 i mod 101) - 50). */
static void of_numbers(double mean, double t_step, double p_step, double *r2, double *pearson)
{
    enum { SAMPLES = 367 };
    double counts[LVN_REGRESSION_SUMS_SIZE] = {SAMPLES};
    const struct lvn_metric_sums s = {.labels = SAMPLES, .counts = counts};
    for (int i = 0; i < SAMPLES; i++) {
        const double t = mean + t_step * (i * 37 % 101 - 50), p = t + p_step * (i * 17 % 13 - 6);
        const double x[LVN_SUM_COUNT] = {t, t * t, p, p * p, p * t, fabs(p - t)};
        for (int k = 0; k < LVN_SUM_COUNT; k++) count(counts + 1 + k * LVN_LIMBS, x[k]);
    }
    for (const struct lvn_metric *m = lvn_metrics; m->name; m++) {
        if (!strcmp(m->name, "r2")) *r2 = m->value(&s);
        if (!strcmp(m->name, "pearson")) *pearson = m->value(&s);
    }
}

static void equal_numbers(void **state)
{
    (void)state;
    static const double means[] = {0, 1, (double)0.1F, -(double)3.3F, 1e6, 3e-20, 1e15};
    double r2, pearson;
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) {
        of_numbers(means[i], 0, 0.25, &r2, &pearson); /* labels */
        assert_true(isnan(r2) && isnan(pearson));
        of_numbers(means[i], 0, 0, &r2, &pearson); /* and predictions */
        assert_true(isnan(r2) && isnan(pearson));
    }
    of_numbers(1e6, 0.0625, 0.25, &r2, &pearson); /* the values by exact fractions */
    assert_true(fabs(r2 - 0.7376014674665543) < 1e-6);
    assert_true(fabs(pearson - 0.8920234443628419) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_by_name),   cmocka_unit_test(too_many_classes), cmocka_unit_test(counts_of_predictions),
        cmocka_unit_test(reconstruction), cmocka_unit_test(equal_numbers),    cmocka_unit_test(ranks_and_micro_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
