/* test_golden.c - covers: src/nets/models/gpt2.c src/nets/models/neox.c src/nets/models/llama.c
 * src/run/model_io/pretrained.c
 *
 * label: computes
 * Whole models against PyTorch: tests/golden, written by tools/make_golden.py and make_golden_decoders.py.
 *
 * Each folder is a tiny model in one dialect with tokens, and what PyTorch computed from them in double: losses,
 * logits, gradients of the mean loss, and what five AdamW steps change. levin must agree, with its plain kernels in
 * double and in float, and with the fast ones of every instruction set.
 *
 *               double   float   why
 *   losses      1e-10    1e-5    PyTorch's own fp32 is 1e-7 off; room for other orders of sums
 *   logits      1e-6     1e-4    of the tensor's norm; stored in fp32 (6e-8); PyTorch's own fp32 is 3e-7 off
 *   gradients   1e-6     1e-4    of the tensor's norm; stored in fp32; PyTorch's own fp32 is 8e-7 off
 *   updates     1e-6     1e-3    of the update's norm: Adam divides by the gradient's size, so entries with a gradient
 *                                near rounding error move at random; PyTorch's own fp32 is 2e-4 off
 *
 * In bf16 it may be as far off as PyTorch's own bf16 was, the worst tensor of each kind, and as much again: both round
 * the same values, in other places. bf16-mixed is held against autocast, bf16-true against a model that is bf16 itself.
 * But not its updates, of which PyTorch loses some whole (1.0 of their norm), as it rounds weights to the nearest:
 * levin's may be off as autocast's are, and by what rounding at random makes of so many steps besides.
 *
 * Left out of gradients and updates are key biases (the middle third of c_attn.bias and query_key_value.bias): softmax
 * does not see them, their gradient is zero in theory, and rounding error in both programs. Where all channels are
 * turned by rotary positions (k_proj.bias) it does. */
#include "golden_folder.h"

#include <math.h>
#include <stdlib.h>

#include "base/bf16.h"
#include "bound_program.h"
#include "device_skip.h"
#include "passes/program.h"

/* A backend and a precision. */
struct setup {
    const char *name;
    enum lvn_dtype real;
    const char *backend;
    enum lvn_isa isa;
    int threads;
    enum lvn_precision precision;
    double losses, token_losses, logits, gradients, updates; /* tolerances */
};

/* The data type of parameters and gradients. */
static enum lvn_dtype weights_of(const struct setup *w)
{
    return w->precision == LVN_PRECISION_BF16_TRUE ? LVN_BF16 : w->real;
}

/* A program over the golden model, with its memory. */
struct rig {
    struct lvn_params *params;
    struct levin_graph *graph;
    struct lvn_task_graph model;
    struct lvn_program *program;
    struct bound_program b;
    struct lvn_step step;
    struct lvn_samples samples; /* ids, labels */
};

/* --- numbers --------------------------------------------------------------------------------------------------- */

static double get(enum lvn_dtype dtype, const void *p, int64_t i)
{
    if (dtype == LVN_BF16) return (double)lvn_bf16_get(((const uint16_t *)p)[i]);
    return dtype == LVN_F64 ? ((const double *)p)[i] : (double)((const float *)p)[i];
}

static bool is_key_bias(const struct lvn_param *q, int64_t i)
{
    bool of_all = strstr(q->name, "c_attn.bias") || strstr(q->name, "query_key_value.bias");
    return of_all && i >= q->count / 3 && i < q->count / 3 * 2;
}

/* From one bf16 number to the next: 2^-7 of the power of two below x. */
static double bf16_step(double x)
{
    int exponent;
    frexp(x, &exponent);
    return x == 0.0 ? 0.0 : ldexp(1.0, exponent - 8);
}

/* The distance of a flat buffer's parameters from PyTorch's values, each relative to its norm. `start`: what to take
 * off first, or NULL. Weights that were rounded at random may be off by half as much again as the standard deviation
 * that this has at most: half a step, each time. */
static void compare_params(const struct golden *g, const struct setup *w, const struct lvn_params *params,
                           const char *prefix, const void *flat, const void *start, double tolerance)
{
    for (int n = 0; n < params->n; n++) {
        const struct lvn_param *q = params->list[n];
        float *all = reference_of(g, prefix, q);
        double norm = 0.0, distance = 0.0, noise = 0.0;
        for (int64_t i = 0; i < q->count; i++) {
            if (is_key_bias(q, i)) continue;
            double expected = (double)all[i], got = get(weights_of(w), flat, q->offset + i);
            if (start && weights_of(w) == LVN_BF16) noise += (double)g->steps * pow(bf16_step(got) / 2.0, 2.0);
            if (start) got -= get(weights_of(w), start, q->offset + i);
            norm += expected * expected;
            distance += (got - expected) * (got - expected);
        }
        free(all);
        double relative = sqrt(distance / norm), max = tolerance + 1.5 * sqrt(noise / norm);
        if (!(relative <= max))
            fail_msg("%s, %s: %s%s is %.3g of its norm off (at most %g)", g->name, w->name, prefix, q->name, relative,
                     max);
    }
}

/* --- a rig ----------------------------------------------------------------------------------------------------- */

static void load_weights(const struct golden *g, const struct setup *w, struct rig *r)
{
    float *values = calloc((size_t)r->params->flat_count, sizeof *values);
    struct lvn_memory memory = {.host = values};
    const struct lvn_model_state state = {
        .config = g->model.config, .params = r->params, .weights = LVN_F32, .memory = {[LVN_BUFFER_PARAM] = &memory}};
    check(lvn_pretrained_load(&g->model, &state));
    for (int64_t i = 0; i < r->params->flat_count; i++) {
        if (w->real == LVN_F64)
            ((double *)r->b.params)[i] = (double)values[i];
        else if (weights_of(w) == LVN_BF16)
            ((uint16_t *)r->b.params)[i] = lvn_bf16_make(values[i]);
        else
            ((float *)r->b.params)[i] = values[i];
    }
    free(values);
}

static enum lvn_decay decay_rule(const struct golden *g)
{
    const char *rule = json_string_value(json_object_get(g->meta, "decay"));
    return strcmp(rule, "linear") == 0     ? LVN_DECAY_LINEAR
           : strcmp(rule, "matrices") == 0 ? LVN_DECAY_MATRICES
                                           : LVN_DECAY_ALL;
}

/* with_logits: a forward program that gives logits; else one that trains. */
static void rig_open(struct rig *r, const struct golden *g, const struct setup *w, int64_t B, bool with_logits,
                     const struct lvn_optimizer *optimizer)
{
    *r = (struct rig){.params = lvn_params_new()};
    r->graph = lvn_graph_new(r->params, w->real);
    struct lvn_fields fields = g->data->fields;
    check(lvn_task_build(&r->model, r->graph, &g->config, lvn_task_find("lm"), &fields, B));
    check(lvn_params_layout(r->params, decay_rule(g)));
    struct lvn_device *device = open_device(w->backend, w->real, w->threads, w->isa);
    struct lvn_plan_options plan = {.n_sums = 1,
                                    .train = !with_logits,
                                    .fuse = true,
                                    .precision = w->precision,
                                    .optimizer = optimizer,
                                    .device = device};
    struct levin_tensor *outputs[] = {r->model.loss, r->model.losses, r->model.prediction};
    check(lvn_program_new(&r->program, r->graph, outputs, with_logits ? 3 : 2, &plan));
    check(lvn_samples_init(&r->samples, &fields, B));
    bound_program_open(&r->b, device, r->program, 1, B, r->samples.p[0], r->samples.p[1],
                       B * lvn_field_bytes(&fields.field[0]), &r->step);
    r->step = (struct lvn_step){.grad_scale = 1.0 / (double)(B * g->T), .training = !with_logits};
    load_weights(g, w, r);
}

static void rig_close(struct rig *r)
{
    bound_program_close(&r->b);
    lvn_samples_release(&r->samples);
    lvn_program_free(r->program);
    lvn_graph_free(r->graph);
    lvn_params_free(r->params);
}

/* Run one batch; returns its mean loss. */
static double run(struct rig *r)
{
    bound_program_run(&r->b, 1, 0);
    return bound_program_sum(&r->b, 0, 0) * r->step.grad_scale;
}

/* --- comparisons ----------------------------------------------------------------------------------------------- */

static void compare_forward(const struct golden *g, const struct setup *w)
{
    struct rig r;
    rig_open(&r, g, w, g->windows, true, NULL);
    struct lvn_loader loader;
    check(lvn_loader_init(&loader, g->data, LVN_SPLIT_TRAIN, LVN_SAMPLING_SEQUENTIAL, g->windows, 0));
    check(lvn_loader_eval_batch(&loader, 0, 0, 0, &r.samples, &(int64_t){0}));
    double loss = run(&r);
    if (!(fabs(loss - number(g->meta, "loss")) <= w->losses))
        fail_msg("%s, %s: loss %.12g, PyTorch says %.12g", g->name, w->name, loss, number(g->meta, "loss"));
    void *losses = bound_program_output(&r.b, r.model.losses);
    const struct lvn_safetensor *expected = reference(g, "", "token_losses");
    for (int64_t i = 0; i < g->windows * g->T; i++) {
        double x = get(w->real, losses, i), y = value_of(expected, i);
        if (!(fabs(x - y) <= w->token_losses * fmax(1.0, y)))
            fail_msg("%s, %s: loss of token %d is %.10g, PyTorch says %.10g", g->name, w->name, (int)i, x, y);
    }
    void *logits = bound_program_output(&r.b, r.model.prediction);
    int64_t V = g->V;
    double norm = 0.0, distance = 0.0;
    expected = reference(g, "", "logits");
    for (int64_t i = 0; i < lvn_desc_count(&expected->desc); i++) {
        norm += value_of(expected, i) * value_of(expected, i);
        distance += pow(get(w->real, logits, i) - value_of(expected, i), 2.0);
    }
    assert_true(sqrt(distance / norm) <= w->logits);
    expected = reference(g, "", "last_logits");
    for (int64_t i = 0; i < g->windows * 8; i++) {
        double x = get(w->real, logits, ((i / 8 + 1) * g->T - 1) * V + i % 8);
        assert_true(fabs(x - value_of(expected, i)) <= w->logits * sqrt(norm));
    }
    free(losses);
    free(logits);
    rig_close(&r);
}

static void compare_gradients(const struct golden *g, const struct setup *w)
{
    struct rig r;
    rig_open(&r, g, w, g->windows, false, NULL);
    struct lvn_loader loader;
    check(lvn_loader_init(&loader, g->data, LVN_SPLIT_TRAIN, LVN_SAMPLING_SEQUENTIAL, g->windows, 0));
    check(lvn_loader_batch(&loader, 0, 0, &r.samples));
    double loss = run(&r);
    assert_true(fabs(loss - number(g->meta, "loss")) <= w->losses);
    compare_params(g, w, r.params, "gradient.", r.b.grads, NULL, w->gradients);
    rig_close(&r);
}

static void compare_updates(const struct golden *g, const struct setup *w)
{
    const json_t *betas = json_object_get(g->meta, "betas");
    struct lvn_optimizer o = {.op = LVN_OP_adamw,
                              .attr.adamw = {.update.weight_decay = number(g->meta, "weight_decay"),
                                             .beta1 = json_number_value(json_array_get(betas, 0)),
                                             .beta2 = json_number_value(json_array_get(betas, 1)),
                                             .eps = number(g->meta, "eps")},
                              .clip_norm = number(g->meta, "gradient_clip_val")};
    struct rig r;
    rig_open(&r, g, w, g->batch, false, &o);
    struct lvn_loader loader;
    check(lvn_loader_init(&loader, g->data, LVN_SPLIT_TRAIN, LVN_SAMPLING_SEQUENTIAL, g->batch, 0));
    int64_t bytes = r.b.flat_bytes;
    void *start = test_malloc((size_t)bytes);
    memcpy(start, r.b.params, (size_t)bytes);
    for (int64_t step = 0; step < g->steps; step++) {
        r.step.step = step;
        r.step.lr = number(g->meta, "lr");
        check(lvn_loader_batch(&loader, step, 0, &r.samples));
        double loss = run(&r);
        double expected = json_number_value(json_array_get(json_object_get(g->meta, "step_losses"), (size_t)step));
        double norm = json_number_value(json_array_get(json_object_get(g->meta, "step_grad_norms"), (size_t)step));
        if (!(fabs(loss - expected) <= w->losses))
            fail_msg("%s, %s: loss of step %d is %.10g, PyTorch says %.10g", g->name, w->name, (int)step, loss,
                     expected);
        if (!(fabs(r.b.result->grad_norm - norm) <= w->gradients * norm))
            fail_msg("%s, %s: gradient norm of step %d is %.10g, PyTorch says %.10g", g->name, w->name, (int)step,
                     r.b.result->grad_norm, norm);
    }
    compare_params(g, w, r.params, "update.", r.b.params, start, w->updates);
    test_free(start);
    rig_close(&r);
}

/* Tolerances for bf16: PyTorch's own distances. */
static void allow_bf16(struct setup *w, const struct golden *g)
{
    const json_t *off = json_object_get(g->meta, w->precision == LVN_PRECISION_BF16_TRUE ? "bf16_true" : "bf16");
    w->losses = 2 * number(off, "losses");
    w->token_losses = 2 * number(off, "token_losses");
    w->logits = 2 * number(off, "logits");
    w->gradients = 2 * number(off, "gradients");
    w->updates = 2 * number(json_object_get(g->meta, "bf16"), "updates");
}

static void compare(struct setup w)
{
    bool wide = w.real == LVN_F64;
    w.losses = w.token_losses = wide ? 1e-10 : 1e-5;
    w.logits = w.gradients = wide ? 1e-6 : 1e-4;
    w.updates = wide ? 1e-6 : 1e-3;
    for (int i = 0; i < N_DIALECTS; i++) {
        struct golden g;
        golden_open(&g, dialects[i].name);
        if (w.precision != LVN_PRECISION_TRUE) allow_bf16(&w, &g);
        compare_forward(&g, &w);
        compare_gradients(&g, &w);
        compare_updates(&g, &w);
        golden_close(&g);
    }
}

static void plain_double(void **state)
{
    (void)state;
    compare((struct setup){.name = "plain, double", .real = LVN_F64, .backend = "reference", .threads = 1});
}

static void plain_float(void **state)
{
    (void)state;
    compare((struct setup){.name = "plain, float", .real = LVN_F32, .backend = "reference", .threads = 1});
}

static void fast(void **state)
{
    (void)state;
    for (enum lvn_isa isa = LVN_ISA_GENERIC; isa <= lvn_isa_best(); isa++)
        for (int threads = 1; threads <= 3; threads++)
            compare((struct setup){
                .name = lvn_isa_name(isa), .real = LVN_F32, .backend = "cpu", .isa = isa, .threads = threads});
}

static void bf16(void **state)
{
    (void)state;
    for (enum lvn_isa isa = LVN_ISA_GENERIC; isa <= lvn_isa_best(); isa++)
        for (int precision = LVN_PRECISION_BF16_MIXED; precision <= LVN_PRECISION_BF16_TRUE; precision++)
            compare((struct setup){.name = lvn_isa_name(isa),
                                   .real = LVN_F32,
                                   .backend = "cpu",
                                   .isa = isa,
                                   .threads = 2,
                                   .precision = (enum lvn_precision)precision});
}

/* On a device, if there is one. */
static void opencl(void **state)
{
    (void)state;
    need_device(lvn_backend_find("opencl"));
    compare((struct setup){.name = "opencl", .real = LVN_F32, .backend = "opencl", .threads = 1});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_double), cmocka_unit_test(plain_float), cmocka_unit_test(fast),
        cmocka_unit_test(bf16),         cmocka_unit_test(opencl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
