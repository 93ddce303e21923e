/* test_packed.c - covers: src/nets/models/model.c src/nets/tasks/task.c src/core/ops/positions.h
 *
 * Rows of several documents train every decoder as the documents one by one do: the sum of losses and the gradients of
 * all parameters are equal, with the plain kernels in double to 1e-12 and with the fast ones in fp32 to 1e-5 of each
 * tensor's norm. Key biases are left out where softmax does not see them (see test_golden.c): their gradient is
 * rounding error. */
#include "golden_folder.h"

#include <math.h>

#include "base/random.h"
#include "bound_program.h"
#include "passes/program.h"

enum { T = 32, B = 4, TOKENS = B * T, MOST_LENGTHS = 64 };

/* Documents of the rows; the rest of a row is padding. The third row is one document, the last only padding. */
static const int documents[B][8] = {{5, 1, 9, 2, 11, 3}, {16, 15}, {T}, {0}};

struct setup {
    const char *backend;
    enum lvn_dtype real;
    enum lvn_isa isa;
    int threads;
    double tolerance;
};

/* Losses and gradients of rows of `length` tokens. */
struct rig {
    struct lvn_params *params;
    struct levin_graph *graph;
    struct lvn_task_graph model;
    struct lvn_program *program;
    struct bound_program b;
    struct lvn_step step;
};

static double get(enum lvn_dtype dtype, const void *p, int64_t i)
{
    return dtype == LVN_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static void set_weights(struct rig *r, enum lvn_dtype real)
{
    float *values = calloc((size_t)r->params->flat_count, sizeof *values);
    for (int i = 0; i < r->params->n; i++) {
        const struct lvn_param *p = r->params->list[i];
        lvn_random_normal(3, lvn_name_hash(p->name), 0.3f, 0, p->count, values + p->offset);
        for (int64_t k = 0; k < p->count && p->kind == LVN_VECTOR; k++) values[p->offset + k] += 1.0f;
    }
    for (int64_t i = 0; i < r->params->flat_count; i++)
        if (real == LVN_F64)
            ((double *)r->b.params)[i] = (double)values[i];
        else
            ((float *)r->b.params)[i] = values[i];
    free(values);
}

static void rig_open(struct rig *r, const struct lvn_model_config *c, const struct setup *s, int64_t length,
                     int64_t rows, bool packed, const int32_t *ids, const int32_t *labels)
{
    struct lvn_fields fields = lvn_pack_fields(length, lvn_model_value(c, LVN_ROLE_VOCABULARY));
    if (!packed) fields.n = 2;
    *r = (struct rig){.params = lvn_params_new()};
    r->graph = lvn_graph_new(r->params, s->real);
    check(lvn_task_build(&r->model, r->graph, c, lvn_task_find("lm"), &fields, rows));
    check(lvn_params_layout(r->params, LVN_DECAY_ALL));
    struct lvn_device *device = open_device(s->backend, s->real, s->threads, s->isa);
    struct lvn_plan_options plan = {.n_sums = 1, .train = true, .fuse = true, .device = device};
    struct levin_tensor *outputs[] = {r->model.loss, r->model.losses};
    check(lvn_program_new(&r->program, r->graph, outputs, 2, &plan));
    bound_program_open(&r->b, device, r->program, 1, rows, ids, labels, rows * length * 4, &r->step);
    r->step = (struct lvn_step){.grad_scale = 1.0, .training = 1};
    set_weights(r, s->real);
}

static void rig_close(struct rig *r)
{
    bound_program_close(&r->b);
    lvn_program_free(r->program);
    lvn_graph_free(r->graph);
    lvn_params_free(r->params);
}

struct batch {
    int32_t ids[TOKENS], labels[TOKENS], segments[TOKENS];
};

static void fill(struct batch *b, int64_t vocabulary)
{
    for (int r = 0; r < B; r++) {
        int at = 0;
        for (const int *n = documents[r]; *n; at += *n++)
            for (int t = 0; t < *n; t++) {
                b->ids[r * T + at + t] = (int32_t)lvn_random_below(9, (uint64_t)r, (uint64_t)(at + t), vocabulary);
                b->segments[r * T + at + t] = at;
            }
        for (; at < T; at++) b->ids[r * T + at] = 0, b->segments[r * T + at] = at;
        for (int t = 0; t < T; t++) {
            const bool next = t + 1 < T && b->segments[r * T + t] == b->segments[r * T + t + 1];
            b->labels[r * T + t] = next ? b->ids[r * T + t + 1] : -1;
        }
    }
}

/* Add the loss and gradients of each document alone. */
static double one_by_one(const struct lvn_model_config *c, const struct setup *s, const struct batch *batch,
                         double *gradients)
{
    double loss = 0;
    for (int row = 0; row < B; row++) {
        int at = row * T;
        for (const int *n = documents[row]; *n; at += *n++) {
            struct rig r;
            rig_open(&r, c, s, *n, 1, false, batch->ids + at, batch->labels + at);
            bound_program_run(&r.b, 1, 0);
            loss += bound_program_sum(&r.b, 0, 0);
            for (int64_t i = 0; i < r.params->flat_count; i++) gradients[i] += get(s->real, r.b.grads, i);
            rig_close(&r);
        }
    }
    return loss;
}

static bool is_key_bias(const struct lvn_param *p, int64_t i)
{
    return (strstr(p->name, "c_attn.bias") || strstr(p->name, "query_key_value.bias")) && i >= p->count / 3 &&
           i < p->count / 3 * 2;
}

static void compare(const struct lvn_model *model, const struct setup *s)
{
    static struct batch batch;
    struct lvn_model_config c;
    struct rig r;
    lvn_model_config_init(&c, model);
    check(lvn_model_put_all(&c, model->tiny));
    if (lvn_model_put(&c, "dropout", 0) != LVN_OK) lvn_error_clear(); /* some families have none */
    fill(&batch, lvn_model_value(&c, LVN_ROLE_VOCABULARY));
    rig_open(&r, &c, s, T, B, true, batch.ids, batch.labels);
    r.b.input[2] = batch.segments;
    bound_program_run(&r.b, 1, 0);
    double *expected = calloc((size_t)r.params->flat_count, sizeof *expected);
    const double loss = one_by_one(&c, s, &batch, expected), packed = bound_program_sum(&r.b, 0, 0);
    if (!(fabs(packed - loss) <= s->tolerance * loss))
        fail_msg("%s on %s: loss %.15g, one by one %.15g", model->name, s->backend, packed, loss);
    for (int i = 0; i < r.params->n; i++) {
        const struct lvn_param *p = r.params->list[i];
        double norm = 0, distance = 0;
        for (int64_t k = 0; k < p->count; k++) {
            if (is_key_bias(p, k)) continue;
            const double x = get(s->real, r.b.grads, p->offset + k), y = expected[p->offset + k];
            norm += y * y;
            distance += (x - y) * (x - y);
        }
        if (!(sqrt(distance) <= s->tolerance * sqrt(norm)))
            fail_msg("%s on %s: the gradient of %s is %.3g of its norm off", model->name, s->backend, p->name,
                     sqrt(distance / norm));
    }
    free(expected);
    rig_close(&r);
}

static void compare_all(const struct setup *s)
{
    int decoders = 0;
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        if (!(*m)->generates) continue;
        compare(*m, s);
        decoders++;
    }
    assert_true(decoders >= 8);
}

static void in_double(void **state)
{
    (void)state;
    compare_all(&(struct setup){"reference", LVN_F64, LVN_ISA_COUNT - 1, 1, 1e-12});
}

static void in_float(void **state)
{
    (void)state;
    for (int isa = 0; isa <= (int)lvn_isa_best(); isa++)
        compare_all(&(struct setup){"cpu", LVN_F32, (enum lvn_isa)isa, 2, 1e-5});
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_double), cmocka_unit_test(in_float)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
