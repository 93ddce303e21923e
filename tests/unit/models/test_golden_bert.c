/* test_golden_bert.c - covers: src/nets/models/bert.c src/nets/models/weight_files.c src/run/model_io/pretrained.c
 *
 * Models with a head against transformers: tests/golden/bert, written by tools/make_golden_bert.py, which says what is
 * held there.
 *
 * levin loads the directories, and must agree with its plain kernels in double and in float, and with the fast ones of
 * every instruction set, on the prediction, the loss and every gradient, relative to the tensor's norm.
 *
 *                                double   float   why
 *   loss                         1e-12    1e-6    transformers sums in another order
 *   prediction, gradients        1e-10    1e-5
 *   what five AdamW steps add    1e-9     1e-3    they divide by the root of squared gradients
 *
 * In bf16-mixed it may be as far off as PyTorch's autocast was, and as much again; updates four times as far: AdamW
 * makes whole steps of the smallest gradients, whose sign is then rounding's.
 *
 * Biases of keys have no gradient in theory, and both programs' rounding error in practice, of which AdamW makes steps.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bound_program.h"
#include "device_skip.h"
#include "engine/session.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "host/isa.h"
#include "model_io/model_config.h"
#include "model_io/pretrained.h"
#include "model_io/pretrained_private.h"
#include "models/weight_files.h"

struct setup {
    const char *name, *backend;
    enum lvn_dtype real;
    enum lvn_isa isa;
    int threads;
    double loss, max, updates;
    enum lvn_precision precision;
    double gradients;
};

static const char *const folders[] = {"classify", "classify3", "regress", "mlm", "roberta", "roberta-mlm", "gpt2"};

static double get(enum lvn_dtype dtype, const void *p, int64_t i)
{
    return dtype == LVN_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static const struct lvn_safetensor *find(const struct lvn_safetensors *f, const char *name)
{
    const struct lvn_safetensor *t = lvn_safetensors_find(f, name);
    if (!t) fail_msg("no reference '%s'", name);
    return t;
}

static void compare(const struct setup *w, const char *name, const void *got, const double *expected, int64_t n,
                    double max)
{
    double norm = 0.0, distance = 0.0;
    for (int64_t i = 0; i < n; i++) {
        norm += expected[i] * expected[i];
        distance += pow(get(w->real, got, i) - expected[i], 2.0);
    }
    double min = strstr(name, "key.bias") ? w->precision ? 1e-2 : 1e-6 : 0.0;
    if (!(sqrt(distance) <= fmax(max * sqrt(norm), min)))
        fail_msg("%s: %s is %.3g of its norm off (at most %g)", w->name, name, sqrt(distance / norm), max);
}

/* The weights of the directory, in the data type of the parameters. */
static void load(const struct lvn_pretrained *p, struct lvn_model_state *n)
{
    float *flat = calloc((size_t)n->params->flat_count, sizeof *flat);
    double *wide = calloc((size_t)n->params->flat_count, sizeof *wide);
    struct lvn_memory memory = {.host = flat};
    const struct lvn_model_state state = {
        .config = n->config, .params = n->params, .weights = LVN_F32, .memory = {[LVN_BUFFER_PARAM] = &memory}};
    must(lvn_pretrained_load(p, &state));
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *q = n->params->list[i];
        for (int64_t k = 0; k < q->count; k++) wide[k] = (double)flat[q->offset + k];
        const struct lvn_parameter_window w = lvn_parameters_at(n, LVN_PARAMETER_VALUES, q);
        must(lvn_parameter_write(&w, n->real == LVN_F64 ? (const void *)wide : flat + q->offset));
    }
    free(flat);
    free(wide);
}

/* Compare the reference's `kind`NAME of each parameter with `got`, which has the layout of the parameters. */
static void compare_each(const struct setup *w, const struct lvn_pretrained *p, const struct lvn_model_state *n,
                         const struct lvn_safetensors *f, const char *kind, const char *got, double max)
{
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *q = n->params->list[i];
        struct lvn_layout l;
        char name[LVN_FILE_NAME + 16];
        double *expected = calloc((size_t)q->count, sizeof *expected);
        must(lvn_file_layout(p->variant, &p->config, q, &l));
        snprintf(name, sizeof name, "%s%s", kind, l.name);
        const struct lvn_safetensor *t = find(f, name);
        assert_int_equal(lvn_desc_count(&t->desc), q->count);
        memcpy(expected, t->data, sizeof *expected * (size_t)q->count);
        if (lvn_layout_moves(&l)) lvn_layout_to_memory(&l, sizeof *expected, t->data, expected);
        const bool noise = *kind == 'u' && (strstr(name, "key.bias") || strstr(name, "c_attn.bias"));
        if (!noise) compare(w, name, got + q->offset * lvn_dtype_bytes(w->real), expected, q->count, max);
        free(expected);
    }
}

static void compare_gradients(const struct setup *w, const struct lvn_pretrained *p, const struct lvn_model_state *n,
                              const struct lvn_safetensors *f)
{
    char *grads = calloc(1, (size_t)n->bytes[LVN_BUFFER_GRAD]);
    must(lvn_memory_read(n->memory[LVN_BUFFER_GRAD], 0, grads, n->bytes[LVN_BUFFER_GRAD]));
    compare_each(w, p, n, f, "gradient.", grads, w->gradients);
    free(grads);
}

/* Five AdamW steps on the batch. */
static void compare_updates(const struct setup *w, const struct lvn_pretrained *p, struct lvn_session *session,
                            const struct lvn_safetensors *f, double labels)
{
    const struct lvn_model_state *n = session->model_state;
    const int64_t count = n->params->flat_count, each = lvn_dtype_bytes(w->real);
    char *start = calloc((size_t)count, (size_t)each), *end = calloc((size_t)count, (size_t)each);
    must(lvn_memory_read(n->memory[LVN_BUFFER_PARAM], 0, start, count * each));
    for (int step = 0; step < 5; step++) {
        session->step_args.step = step;
        session->step_args.lr = 1e-3;
        const double loss = lvn_session_run(session, 1) / labels,
                     expected = ((const double *)find(f, "steps.loss")->data)[step];
        if (!(fabs(loss - expected) <= w->loss))
            fail_msg("%s: loss of step %d is %.15g, expected %.15g", w->name, step, loss, expected);
    }
    must(lvn_memory_read(n->memory[LVN_BUFFER_PARAM], 0, end, count * each));
    for (int64_t i = 0; i < count; i++) {
        if (w->real == LVN_F64)
            ((double *)end)[i] -= ((double *)start)[i];
        else
            ((float *)end)[i] -= ((float *)start)[i];
    }
    compare_each(w, p, n, f, "update.", end, w->updates);
    free(start);
    free(end);
}

static void compare_prediction(const struct setup *w, struct lvn_session *session, const struct lvn_safetensors *f)
{
    const struct lvn_safetensor *expected = find(f, "prediction");
    const int32_t *length = find(f, "length")->data;
    const int64_t B = expected->desc.dim[0], all = lvn_desc_count(&expected->desc), row = all / B;
    char *got = malloc((size_t)(all * lvn_dtype_bytes(w->real)));
    assert_true(lvn_desc_same_shape(&session->outputs.prediction->desc, &expected->desc));
    memcpy(got, lvn_session_prediction(session), (size_t)(all * lvn_dtype_bytes(w->real)));
    for (int64_t b = 0; b < B && expected->desc.rank == 3; b++) {
        int64_t there = length[b] * expected->desc.dim[2] * lvn_dtype_bytes(w->real),
                bytes = row * lvn_dtype_bytes(w->real);
        memset(got + b * bytes + there, 0, (size_t)(bytes - there));
    }
    compare(w, "prediction", got, expected->data, all, w->max);
    free(got);
}

/* Tolerances: for rounding, or PyTorch's distances from its own double precision. */
static struct setup allow(struct setup w, const struct lvn_safetensors *f)
{
    const double *off = find(f, "bf16.off")->data;
    const bool wide = w.real == LVN_F64, low_precision = w.precision != LVN_PRECISION_TRUE;
    w.loss = low_precision ? 2 * off[0] : wide ? 1e-12 : 1e-6;
    w.max = low_precision ? 2 * off[1] : wide ? 1e-10 : 1e-5;
    if (!strcmp(w.backend, "opencl")) w.max *= 4; /* its exponentials err more */
    w.gradients = low_precision ? 2 * off[2] : w.max;
    w.updates = low_precision ? 4 * off[3] : wide ? 1e-9 : 1e-3;
    return w;
}

static void compare_folder(struct setup setup, const char *folder)
{
    const struct setup *w = &setup;
    char path[128];
    struct lvn_pretrained p;
    struct lvn_safetensors f;
    struct lvn_model_state *n;
    struct lvn_session *session, *train, *steps;
    const struct lvn_optimizer adamw = {
        .op = LVN_OP_adamw,
        .attr.adamw = {.update.weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8},
        .clip_norm = 1};
    snprintf(path, sizeof path, "tests/golden/bert/%s", folder);
    must(lvn_pretrained_open_on(&p, path, "best", NULL));
    snprintf(path, sizeof path, "tests/golden/bert/%s/reference.safetensors", folder);
    must(lvn_safetensors_open(&f, path));
    setup = allow(setup, &f);
    const struct lvn_task *task = lvn_task_find(p.config.head->task);
    const struct lvn_desc *d = &find(&f, "ids")->desc;
    const int64_t B = d->dim[0], T = d->dim[1];
    struct lvn_fields fields = {.field = {{.name = "ids", .dtype = LVN_I32, .rank = 1, .dim = {T}},
                                          {.name = "types", .dtype = LVN_I32, .rank = 1, .dim = {T}},
                                          {.name = "length", .dtype = LVN_I32},
                                          task->label},
                                .n = 4};
    const struct lvn_safetensor *label = find(&f, task->label.name);
    double numbers[16];
    fields.field[3].dim[0] = T;
    struct lvn_samples b = {.fields = fields, .rows = B, .n_valid = B};
    for (int k = 0; k < fields.n; k++) b.p[k] = (void *)(uintptr_t)find(&f, fields.field[k].name)->data;
    if (label->desc.dtype == LVN_F32 && w->real == LVN_F64) { /* a graph in double takes numbers in double */
        assert_true(B <= 16);
        for (int64_t i = 0; i < B; i++) numbers[i] = (double)((const float *)label->data)[i];
        fields.field[3].dtype = LVN_F64;
        b.fields = fields;
        b.p[3] = numbers;
    }
    lvn_isa_limit(w->isa);
    must(lvn_model_state_new(&n, &p.config,
                             &(struct lvn_model_state_options){.backend = lvn_backend_find(w->backend),
                                                               .real = w->real,
                                                               .precision = w->precision,
                                                               .threads = w->threads,
                                                               .decay = LVN_DECAY_MATRICES}));
    lvn_isa_limit(LVN_ISA_COUNT - 1);
    struct lvn_session_options o = {.fields = &fields, .B = B, .task = task, .prediction = true};
    must(lvn_session_new(&session, n, &o));
    o.train = true;
    o.prediction = false;
    must(lvn_session_new(&train, n, &o));
    o.optimizer = &adamw;
    must(lvn_session_new(&steps, n, &o));
    must(lvn_model_state_allocate(n));
    load(&p, n);
    must(lvn_session_feed(session, 0, &b));
    must(lvn_session_feed(train, 0, &b));
    must(lvn_session_feed(steps, 0, &b));
    double labels = (double)lvn_task_count(&session->outputs, &b), expected = *(const double *)find(&f, "loss")->data;
    session->step_args = train->step_args = steps->step_args =
        (struct lvn_step){.grad_scale = 1.0 / labels, .end_row = B};
    double loss = lvn_session_run(session, 1) / labels;
    if (!(fabs(loss - expected) <= w->loss))
        fail_msg("%s, %s: loss %.15g, expected %.15g", folder, w->name, loss, expected);
    compare_prediction(w, session, &f);
    lvn_session_run(train, 1);
    compare_gradients(w, &p, n, &f);
    compare_updates(w, &p, steps, &f, labels);
    lvn_model_state_free(n);
    lvn_safetensors_close(&f);
    lvn_pretrained_close(&p);
}

static void compare_all(struct setup w)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) compare_folder(w, folders[i]);
}

static void plain(void **state)
{
    (void)state;
    compare_all((struct setup){.name = "plain, double", .real = LVN_F64, .backend = "reference", .threads = 1});
    compare_all((struct setup){.name = "plain, float", .real = LVN_F32, .backend = "reference", .threads = 1});
}

static void fast(void **state)
{
    (void)state;
    for (enum lvn_isa isa = LVN_ISA_GENERIC; isa <= lvn_isa_best(); isa++)
        for (int threads = 1; threads <= 2; threads++)
            compare_all((struct setup){
                .name = lvn_isa_name(isa), .real = LVN_F32, .backend = "cpu", .isa = isa, .threads = threads});
}

static void bf16(void **state)
{
    (void)state;
    for (enum lvn_isa isa = LVN_ISA_GENERIC; isa <= lvn_isa_best(); isa++)
        compare_all((struct setup){.name = lvn_isa_name(isa),
                                   .real = LVN_F32,
                                   .backend = "cpu",
                                   .isa = isa,
                                   .threads = 2,
                                   .precision = LVN_PRECISION_BF16_MIXED});
}

/* On a device, if there is one. */
static void opencl(void **state)
{
    (void)state;
    need_device(lvn_backend_find("opencl"));
    compare_all((struct setup){.name = "opencl", .real = LVN_F32, .backend = "opencl", .threads = 1});
}

/* In older files weights and biases of norms are named gamma and beta. */
static void old_names(void **state)
{
    struct lvn_pretrained p;
    struct lvn_layout l = {0};
    (void)state;
    assert_true(lvn_file_legacy_name(lvn_model_find("bert"), "bert.embeddings.LayerNorm.weight", 0, l.name));
    assert_string_equal(l.name, "bert.embeddings.LayerNorm.gamma");
    assert_false(lvn_file_legacy_name(lvn_model_find("bert"), "classifier.weight", 0, l.name));
    must(lvn_pretrained_open_on(&p, "tests/golden/bert/classify", "best", NULL));
    for (int i = 0; i < p.weights.n; i++) { /* as if the file had them */
        char *name = (char *)(uintptr_t)p.weights.tensor[i].name, *norm = strstr(name, "LayerNorm.");
        if (norm) strcpy(norm, strstr(norm, "weight") ? "LayerNorm.gamma" : "LayerNorm.beta");
    }
    must(lvn_pretrained_check(&p));
    lvn_pretrained_close(&p);
}

/* Names of classes are copied: any number of them, of any length. */
static void names(void **state)
{
    struct lvn_pretrained p;
    (void)state;
    must(lvn_pretrained_open_on(&p, "tests/golden/bert/classify3", "best", NULL));
    assert_int_equal(p.config.classes, 3);
    const struct lvn_model_config c = p.config;
    lvn_pretrained_close(&p);
    char text[LVN_CLASS_NAME];
    assert_string_equal(lvn_class_name(&c, 0, text), "sad");
    assert_string_equal(lvn_class_name(&c, 1, text), "so so");
    assert_string_equal(lvn_class_name(&c, 2, text), "glad");
    json_t *root;
    must(lvn_json_read("tests/golden/bert/classify3/config.json", &root));
    json_t *labels = json_object();
    enum { CLASSES = 1000 };
    for (int i = 0; i < CLASSES; i++) {
        char key[24], name[400];
        snprintf(key, sizeof key, "%d", i);
        snprintf(name, sizeof name, "class\n%0*d", 1 + i % 300, i);
        json_object_set_new(labels, key, json_string(name));
    }
    json_object_set_new(root, "id2label", labels);
    struct lvn_model_config many, again;
    const struct lvn_model *variant;
    LVN_LOCAL_TEXT(written);
    must(lvn_config_read(&many, &variant, "config.json", root));
    must(lvn_config_write(&written, variant, &many, LVN_F32));
    json_decref(root);
    json_error_t error;
    must(lvn_json_load(written.p, written.n, 0, &root, &error));
    must(lvn_config_read(&again, &variant, "config.json", root));
    assert_int_equal(again.classes, CLASSES);
    for (int i = 0; i < CLASSES; i++) {
        char name[400];
        snprintf(name, sizeof name, "class\n%0*d", 1 + i % 300, i);
        assert_string_equal(lvn_class_name(&again, i, text), name);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "label2id"), name)), i);
    }
    json_object_del(json_object_get(root, "id2label"), "7");
    json_object_set_new(json_object_get(root, "id2label"), "1000", json_string("x"));
    assert_int_equal(lvn_config_read(&again, &variant, "config.json", root), LVN_FORMAT);
    assert_non_null(strstr(levin_error_text(), "no name for class 7"));
    lvn_error_clear();
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),  cmocka_unit_test(fast),  cmocka_unit_test(bf16),
        cmocka_unit_test(opencl), cmocka_unit_test(names), cmocka_unit_test(old_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
