/* test_freeze.c - frozen parameters and adapters: names, programs without their gradients, and gradients of adapters
 * against finite differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/names.h"
#include "models/lora.h"
#include "train/network.h"

static void check(enum lvn_status status)
{
    if (status != LVN_OK) fail_msg("%s", lvn_error_text());
}

static void names(void **state)
{
    (void)state;
    static const struct {
        const char *list, *name;
        bool fits;
    } cases[] = {
        {"wte", "transformer.wte.weight", true},
        {"transformer.wte.weight", "transformer.wte.weight", true},
        {"wt", "transformer.wte.weight", false},
        {"te", "transformer.wte.weight", false},
        {"wte.weight", "transformer.wte.weight", true},
        {"h.1", "transformer.h.1.ln_1.weight", true},
        {"h.1", "transformer.h.11.ln_1.weight", false},
        {"h.1*", "transformer.h.11.ln_1.weight", true},
        {"h.?", "transformer.h.1.ln_1.weight", true},
        {"h.?", "transformer.h.11.ln_1.weight", false},
        {"h.*.mlp", "transformer.h.11.mlp.c_fc.bias", true},
        {"h.*.mlp", "transformer.h.11.attn.c_proj.bias", false},
        {"*.bias", "transformer.h.11.attn.c_proj.bias", true},
        {"*.bias", "transformer.h.11.attn.c_proj.weight", false},
        {"bias", "transformer.h.11.attn.c_proj.bias", true},
        {"wpe, ln_f", "transformer.ln_f.bias", true},
        {"wpe ln_f", "transformer.wpe.weight", true},
        {" ,wpe,, ", "transformer.wpe.weight", true},
        {"*", "lm_head.weight", true},
        {"**", "lm_head.weight", true},
        {"", "lm_head.weight", false},
        {"lm_head", "lm_head.weight", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (lvn_names_match(cases[i].list, cases[i].name) != cases[i].fits)
            fail_msg("'%s' on %s", cases[i].list, cases[i].name);
}

enum { B = 2, T = 5 };

struct fixture {
    struct lvn_network *network;
    struct lvn_task *task;
};

static enum lvn_status set_up(struct fixture *f, enum lvn_dtype real, const char *freeze, struct lvn_lora lora,
                              bool tied)
{
    struct lvn_model_config c = {.model = lvn_model_find(tied ? "gpt2" : "mingpt"), .eps = 1e-5};
    c.model->defaults(&c);
    c.n_layer = 2, c.n_head = 2, c.n_embd = 6, c.n_positions = 7, c.vocab_size = 11;
    c.lora = lora;
    static const struct lvn_optimizer optimizer = {.kind = LVN_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    struct lvn_network_options o = {.real = real, .threads = 1, .freeze = freeze};
    struct lvn_task_options task = {
        .B = B, .T = T, .with_loss = true, .train = true, .optimizer = real == LVN_F32 ? &optimizer : NULL};
    *f = (struct fixture){NULL, NULL};
    LVN_TRY(lvn_network_new(&f->network, &c, &o));
    LVN_TRY(lvn_task_new(&f->task, f->network, &task));
    return lvn_network_allocate(f->network);
}

static void fill(struct fixture *f)
{
    for (int i = 0; i < B * T; i++) {
        f->task->ids[i] = i * 7 % 11;
        f->task->labels[i] = (i * 5 + 3) % 11;
    }
}

/* What the program writes: a gradient for each trained parameter and for no other. */
static void check_program(const struct fixture *f)
{
    const struct lvn_program *p = f->task->program;
    const struct lvn_params *params = f->network->params;
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *q = params->list[i];
        bool written = false;
        for (int n = 0; n < p->n_instrs; n++)
            for (int k = 0; k < LVN_MAX_IN; k++) {
                int v = p->instrs[n].din[k].value;
                written |= v >= 0 && p->values[v].buffer == LVN_BUFFER_GRAD && p->values[v].param == q;
            }
        if (written != q->trainable) fail_msg("%s: trained %d, gradient %d", q->name, q->trainable, written);
        if (q->trainable != (q->offset < params->trainable_count)) fail_msg("%s lies in the wrong part", q->name);
    }
    assert_int_equal(f->network->bytes[LVN_BUFFER_STATE0], params->trainable_count * 4);
    assert_int_equal(f->network->bytes[LVN_BUFFER_STATE1], params->trainable_count * 4);
    assert_int_equal(f->network->bytes[LVN_BUFFER_GRAD], params->trainable_count * 4);
}

static void run_steps(struct fixture *f)
{
    const struct lvn_params *params = f->network->params;
    float *values = lvn_network_values(f->network);
    lvn_params_init_values(params, 1, values);
    float *before = malloc(sizeof *before * (size_t)params->flat_count);
    memcpy(before, values, sizeof *before * (size_t)params->flat_count);
    for (int step = 0; step < 3; step++) {
        f->task->step =
            (struct lvn_step){.seed = 1, .step = step, .lr = 1e-2, .grad_scale = 1.0 / (B * T), .training = 1};
        fill(f);
        lvn_task_run(f->task, 1);
    }
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *q = params->list[i];
        bool same = memcmp(before + q->offset, values + q->offset, sizeof *before * (size_t)q->count) == 0;
        if (same == q->trainable) fail_msg("%s: trained %d, changed %d", q->name, q->trainable, !same);
    }
    free(before);
}

static void frozen(void **state)
{
    (void)state;
    static const char *const lists[] = {"",  "wte",    "wpe",     "ln_f",      "h.0",  "wte, wpe, h.0",
                                        "h", "*.bias", "h.*.mlp", "wte,wpe,h", "attn", "c_attn.weight"};
    struct fixture f;
    double all = 0.0;
    for (int tied = 0; tied < 2; tied++)
        for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
            check(set_up(&f, LVN_F32, lists[i], (struct lvn_lora){0}, tied));
            double flops = lvn_program_flops(f.task->program);
            if (i == 0) all = flops;
            /* computing nothing for them is the point: below the first trained block there is no backward at all */
            if (i >= 4 && strcmp(lists[i], "*.bias") != 0) assert_true(flops < all);
            check_program(&f);
            run_steps(&f);
            lvn_network_free(f.network);
        }
    if (set_up(&f, LVN_F32, "wte, wqe", (struct lvn_lora){0}, true) != LVN_ARG ||
        !strstr(lvn_error_text(), "model.freeze: 'wqe' is the name of no parameter") ||
        !strstr(lvn_error_text(), "did you mean 'w"))
        fail_msg("%s", lvn_error_text());
    assert_null(f.network);
    if (set_up(&f, LVN_F32, "*", (struct lvn_lora){0}, true) != LVN_ARG ||
        !strstr(lvn_error_text(), "nothing is left to train"))
        fail_msg("%s", lvn_error_text());
}

static void adapters(void **state)
{
    (void)state;
    static const char *const targets[] = {"c_attn", "attn", "mlp.c_fc", "c_attn, c_fc, c_proj", "h.1.attn"};
    static const int wanted[] = {2, 4, 2, 8, 2};
    struct fixture f;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        check(set_up(&f, LVN_F32, NULL, (struct lvn_lora){.rank = 2, .alpha = 3, .targets = targets[i]}, i % 2));
        int pairs = 0;
        for (int k = 0; k < f.network->params->n; k++) {
            struct lvn_lora_pair pair;
            const struct lvn_param *q = f.network->params->list[k];
            assert_int_equal(q->trainable, q->adapter);
            pairs += lvn_lora_find(f.network->params, q, &pair);
        }
        if (pairs != wanted[i]) fail_msg("%s: %d adapters", targets[i], pairs);
        check_program(&f);
        run_steps(&f); /* B leaves zero, so A moves too from the second step on */
        lvn_network_free(f.network);
    }
    if (set_up(&f, LVN_F32, NULL, (struct lvn_lora){.rank = 2, .alpha = 3, .targets = "wte"}, true) != LVN_ARG ||
        !strstr(lvn_error_text(), "lora.targets: 'wte' names no linear map of a block"))
        fail_msg("%s", lvn_error_text());
}

static double loss_of(struct fixture *f)
{
    f->task->step = (struct lvn_step){.seed = 1, .grad_scale = 1.0, .training = 0};
    fill(f);
    return lvn_task_run(f->task, 1);
}

/* In double, all values of all adapters; and what merging gives is the same model. */
static void gradients(void **state)
{
    (void)state;
    struct fixture f, merged;
    struct lvn_lora lora = {.rank = 2, .alpha = 3, .targets = "c_attn, c_fc, c_proj"};
    check(set_up(&f, LVN_F64, NULL, lora, true));
    const struct lvn_params *params = f.network->params;
    double *values = f.network->buffer[LVN_BUFFER_PARAM];
    float *plain = malloc(sizeof *plain * (size_t)params->flat_count);
    lvn_params_init_values(params, 1, plain);
    for (int64_t i = 0; i < params->flat_count; i++) values[i] = plain[i];
    for (int64_t i = 0; i < params->trainable_count; i++)
        values[i] = plain[i] = 0.3f * (float)sin(1.0 + 2.0 * (double)i);
    double loss = loss_of(&f);
    double *gradient = malloc(sizeof *gradient * (size_t)params->trainable_count);
    memcpy(gradient, f.network->buffer[LVN_BUFFER_GRAD], sizeof *gradient * (size_t)params->trainable_count);
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *q = params->list[i];
        for (int64_t k = q->offset; q->trainable && k < q->offset + q->count; k++) {
            double x = values[k], h = 1e-5;
            values[k] = x + h;
            double up = loss_of(&f);
            values[k] = x - h;
            double down = loss_of(&f);
            values[k] = x;
            double want = (up - down) / (2 * h);
            if (fabs(want - gradient[k]) > 1e-6 * fmax(1.0, fabs(want)))
                fail_msg("%s at %d: %g, wanted %g", q->name, (int)(k - q->offset), gradient[k], want);
        }
    }
    check(set_up(&merged, LVN_F64, NULL, (struct lvn_lora){0}, true));
    double *to = merged.network->buffer[LVN_BUFFER_PARAM];
    for (int i = 0; i < merged.network->params->n; i++) {
        const struct lvn_param *q = merged.network->params->list[i], *p = lvn_params_find(params, q->name);
        struct lvn_lora_pair pair;
        float *room = malloc(sizeof *room * (size_t)q->count);
        memcpy(room, plain + p->offset, sizeof *room * (size_t)q->count);
        if (lvn_lora_find(params, p, &pair))
            lvn_lora_merge(&lora, p, plain + pair.a->offset, plain + pair.b->offset, room);
        for (int64_t k = 0; k < q->count; k++) to[q->offset + k] = room[k];
        free(room);
    }
    double same = loss_of(&merged);
    if (fabs(same - loss) > 1e-5 * loss) fail_msg("merged %.9g, with adapters %.9g", same, loss);
    lvn_network_free(f.network);
    lvn_network_free(merged.network);
    free(plain);
    free(gradient);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(frozen), cmocka_unit_test(adapters),
                                       cmocka_unit_test(gradients)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
