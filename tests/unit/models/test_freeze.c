/* test_freeze.c - covers: src/nets/models/lora.c src/nets/models/keys.c src/nets/models/model.c
 *
 * Frozen parameters and adapters: names, programs without their gradients, and gradients of adapters against finite
 * differences. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "engine/session.h"
#include "graph/names.h"
#include "initial_values.h"
#include "models/keys.h"
#include "models/lora.h"

static void check(enum lvn_status status)
{
    if (status != LVN_OK) fail_msg("%s", levin_error_text());
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
        {"h.*.c_*.w*", "transformer.h.11.attn.c_proj.weight", true},
        {"h.*.c_*.w*x", "transformer.h.11.attn.c_proj.weight", false},
        {"t*r.h.?.*n", "transformer.h.1.attn.c_proj.weight", true},
        {"*c_?roj", "transformer.h.1.attn.c_proj.weight", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (lvn_names_match(cases[i].list, cases[i].name) != cases[i].fits)
            fail_msg("'%s' on %s", cases[i].list, cases[i].name);
}

/* Patterns and lists of any length. */
static void long_names(void **state)
{
    (void)state;
    static char list[40000], name[10000], pattern[10000];
    int used = 0;
    for (int i = 0; i < 2000; i++) used += sprintf(list + used, "%sh.%d", i ? ", " : "", i);
    assert_true(lvn_names_match(list, "transformer.h.1999.ln_1.bias"));
    assert_false(lvn_names_match(list, "transformer.h.2000.ln_1.bias"));
    for (int n = 60; n < 300; n++) { /* they differ in the last letter only */
        memset(name, 'a', (size_t)n);
        strcpy(name + n, "x.weight");
        memset(pattern, 'a', (size_t)n);
        strcpy(pattern + n, "x");
        assert_true(lvn_names_match(pattern, name));
        pattern[n] = 'y';
        assert_false(lvn_names_match(pattern, name));
        pattern[n] = '\0';
        assert_false(lvn_names_match(pattern, name));
    }
    for (int i = 0; i < 200; i++) memcpy(pattern + 2 * i, "*a", 2); /* with naive backtracking this would never end */
    strcpy(pattern + 400, "b");
    memset(name, 'a', 5000);
    name[5000] = '\0';
    assert_false(lvn_names_match(pattern, name));
    strcpy(name + 5000, "b");
    assert_true(lvn_names_match(pattern, name));
}

/* Names that are too long are refused while the graph is built: truncated, two names could become equal. */
static enum lvn_status declare(int scope, int length)
{
    struct lvn_params *p = lvn_params_new();
    struct levin_graph *g = lvn_graph_new(p, LVN_F32);
    char name[1000];
    memset(name, 'x', sizeof name);
    name[length] = '\0';
    levin_scope(g, "%.*s", scope, name);
    lvn_param(g, name, LVN_WEIGHT, LVN_NORMAL(1), LVN_DESC(LVN_F32, 2, 2));
    enum lvn_status status = lvn_graph_status(g);
    lvn_graph_free(g);
    lvn_params_free(p);
    return status;
}

static void names_that_do_not_fit(void **state)
{
    (void)state;
    assert_int_equal(declare(127, 127), LVN_OK);
    assert_int_equal(declare(0, LVN_NAME_TEXT - 1), LVN_OK);
    assert_int_equal(declare(128, 128), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "the scope 'xxx"));
    assert_int_equal(declare(0, LVN_NAME_TEXT), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "the parameter name 'xxx"));
}

enum { B = 2, T = 5 };

struct fixture {
    struct lvn_model_state *network;
    struct lvn_session *runner;
};

static enum lvn_status set_up(struct fixture *f, enum lvn_dtype real, const char *freeze, struct lvn_lora lora,
                              bool tied)
{
    static const struct lvn_key_value sizes[] = {{"n_layer", 2},    {"n_head", 2},      {"n_embd", 6},
                                                 {"block_size", 7}, {"vocab_size", 11}, {NULL, 0}};
    struct lvn_model_config c;
    lvn_model_config_init(&c, lvn_model_find(tied ? "gpt2" : "mingpt"));
    LVN_TRY(lvn_model_put_all(&c, sizes));
    c.lora = lora;
    static const struct lvn_optimizer optimizer = {.op = LVN_OP_adamw,
                                                   .attr.adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8}};
    struct lvn_model_state_options o = {.backend = lvn_backend_find(real == LVN_F64 ? "reference" : "cpu"),
                                        .real = real,
                                        .threads = 1,
                                        .freeze = freeze};
    static struct lvn_fields fields;
    fields = lvn_stream_fields(T, 11);
    struct lvn_session_options runner = {.fields = &fields,
                                         .B = B,
                                         .task = lvn_task_find("lm"),
                                         .train = true,
                                         .optimizer = real == LVN_F32 ? &optimizer : NULL};
    *f = (struct fixture){NULL, NULL};
    LVN_TRY(lvn_model_state_new(&f->network, &c, &o));
    LVN_TRY(lvn_session_new(&f->runner, f->network, &runner));
    return lvn_model_state_allocate(f->network);
}

static void fill(struct fixture *f)
{
    int32_t ids[B * T], labels[B * T];
    struct lvn_samples b = {.fields = lvn_stream_fields(T, 11), .rows = B, .n_valid = B, .p = {ids, labels}};
    for (int i = 0; i < B * T; i++) {
        ids[i] = i * 7 % 11;
        labels[i] = (i * 5 + 3) % 11;
    }
    check(lvn_session_feed(f->runner, 0, &b));
}

/* The program writes a gradient for each trained parameter and for no other. */
static void check_program(const struct fixture *f)
{
    const struct lvn_program *p = f->runner->program;
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
        if (q->trainable != (q->offset < params->trainable_count)) fail_msg("%s is in the wrong part", q->name);
    }
    assert_int_equal(f->network->bytes[LVN_BUFFER_STATE0], params->trainable_count * 4);
    assert_int_equal(f->network->bytes[LVN_BUFFER_STATE1], params->trainable_count * 4);
    assert_int_equal(f->network->bytes[LVN_BUFFER_GRAD], params->trainable_count * 4);
}

static void run_steps(struct fixture *f)
{
    const struct lvn_params *params = f->network->params;
    float *values = f->network->memory[LVN_BUFFER_PARAM]->host;
    initial_values(params, 1, values);
    float *before = malloc(sizeof *before * (size_t)params->flat_count);
    memcpy(before, values, sizeof *before * (size_t)params->flat_count);
    for (int step = 0; step < 3; step++) {
        f->runner->step_args =
            (struct lvn_step){.seed = 1, .step = step, .lr = 1e-2, .grad_scale = 1.0 / (B * T), .training = 1};
        fill(f);
        lvn_session_run(f->runner, 1);
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
            double flops = lvn_program_flops(f.runner->program, 1);
            if (i == 0) all = flops;
            /* computing nothing for them is the point: below the first trained block there is no backward at all */
            if (i >= 4 && strcmp(lists[i], "*.bias") != 0) assert_true(flops < all);
            check_program(&f);
            run_steps(&f);
            lvn_model_state_free(f.network);
        }
    if (set_up(&f, LVN_F32, "wte, wqe", (struct lvn_lora){0}, true) != LVN_ARG ||
        !strstr(levin_error_text(), "model.freeze: 'wqe' matches no parameter") ||
        !strstr(levin_error_text(), "did you mean 'w"))
        fail_msg("%s", levin_error_text());
    assert_null(f.network);
    if (set_up(&f, LVN_F32, "*", (struct lvn_lora){0}, true) != LVN_ARG ||
        !strstr(levin_error_text(), "so none is left to train"))
        fail_msg("%s", levin_error_text());
}

static void adapters(void **state)
{
    (void)state;
    static const char *const targets[] = {"c_attn",          "attn",    "mlp.c_fc", "c_attn, c_fc, c_proj",
                                          "c_attn, lm_head", "h.1.attn"};
    static const int wanted[] = {2, 4, 2, 8, 3, 2}; /* every second model is tied */
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
        lvn_model_state_free(f.network);
    }
    if (set_up(&f, LVN_F32, NULL, (struct lvn_lora){.rank = 2, .alpha = 3, .targets = "wte"}, true) != LVN_ARG ||
        !strstr(levin_error_text(), "lora.targets: 'wte' names no linear layer"))
        fail_msg("%s", levin_error_text());
    /* each pattern must match, even if the others do */
    static const char *const wrong[] = {"c_attn, wte", "nothing, c_attn", "c_attn, h.0.ln_1", "h.2.attn, mlp",
                                        "c_attn, lm_head"}; /* the last one only if it is tied */
    static const char *const named[] = {"'wte'", "'nothing'", "'h.0.ln_1'", "'h.2.attn'", "'lm_head'"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int tied = i == 4; tied < 2; tied++)
            if (set_up(&f, LVN_F32, NULL, (struct lvn_lora){.rank = 2, .alpha = 3, .targets = wrong[i]}, tied) !=
                    LVN_ARG ||
                !strstr(levin_error_text(), named[i]))
                fail_msg("%s: %s", wrong[i], levin_error_text());
    assert_int_equal(
        set_up(&f, LVN_F32, NULL, (struct lvn_lora){.rank = 2, .alpha = 3, .targets = "c_attn, c_fk"}, true), LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "lora.targets: 'c_fk' names no linear layer"));
    assert_non_null(strstr(levin_error_text(), "did you mean 'c_fc'?"));
    assert_int_equal(set_up(&f, LVN_F32, NULL, (struct lvn_lora){.rank = 2, .alpha = 3, .targets = "all"}, true),
                     LVN_ARG);
    assert_non_null(strstr(levin_error_text(), "did you mean 'all-linear'?"));
    assert_int_equal(set_up(&f, LVN_F32, NULL, (struct lvn_lora){.rank = 2, .alpha = 3, .targets = ""}, true), LVN_ARG);
}

static double loss_of(struct fixture *f, const double *values, bool training)
{
    check(lvn_memory_write(f->network->memory[LVN_BUFFER_PARAM], 0, values, f->network->bytes[LVN_BUFFER_PARAM]));
    f->runner->step_args = (struct lvn_step){.seed = 1, .grad_scale = 1.0, .training = training};
    fill(f);
    return lvn_session_run(f->runner, 1);
}

/* All values of all adapters in double precision, with the masks of dropout if there is any; without dropout the loss
 * differs, and the merged model has it. Returns that loss. */
static double check_gradients(struct lvn_lora lora)
{
    struct fixture f, merged;
    const bool drops = lora.dropout > 0, tied = !strstr(lora.targets, "lm_head");
    check(set_up(&f, LVN_F64, NULL, lora, tied));
    const struct lvn_params *params = f.network->params;
    double *values = malloc(sizeof *values * (size_t)params->flat_count);
    float *plain = malloc(sizeof *plain * (size_t)params->flat_count);
    initial_values(params, 1, plain);
    for (int64_t i = 0; i < params->flat_count; i++) values[i] = plain[i];
    for (int64_t i = 0; i < params->trainable_count; i++)
        values[i] = plain[i] = 0.3f * (float)sin(1.0 + 2.0 * (double)i);
    const double loss = loss_of(&f, values, false), training = loss_of(&f, values, drops);
    assert_true((training != loss) == drops);
    double *gradient = malloc(sizeof *gradient * (size_t)params->trainable_count);
    check(lvn_memory_read(f.network->memory[LVN_BUFFER_GRAD], 0, gradient,
                          (int64_t)sizeof *gradient * params->trainable_count));
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *q = params->list[i];
        for (int64_t k = q->offset; q->trainable && k < q->offset + q->count; k++) {
            double x = values[k], h = 1e-6;
            values[k] = x + h;
            double up = loss_of(&f, values, drops);
            values[k] = x - h;
            double down = loss_of(&f, values, drops);
            values[k] = x;
            double want = (up - down) / (2 * h);
            if (fabs(want - gradient[k]) > 1e-6 * fmax(1.0, fabs(want)))
                fail_msg("%s at %d: %g, expected %g", q->name, (int)(k - q->offset), gradient[k], want);
        }
    }
    check(set_up(&merged, LVN_F64, NULL, (struct lvn_lora){0}, tied));
    double *to = calloc((size_t)merged.network->params->flat_count, sizeof *to);
    for (int i = 0; i < merged.network->params->n; i++) {
        const struct lvn_param *q = merged.network->params->list[i], *p = lvn_params_find(params, q->name);
        struct lvn_lora_pair pair;
        float *scratch = malloc(sizeof *scratch * (size_t)q->count);
        memcpy(scratch, plain + p->offset, sizeof *scratch * (size_t)q->count);
        if (lvn_lora_find(params, p, &pair) && pair.rows)
            lvn_lora_put_rows(&lora, p->desc.dim[1], plain + pair.rows->offset, scratch);
        if (lvn_lora_find(params, p, &pair) && pair.a) {
            const bool in_out = lvn_lora_in_out(p, &pair);
            lvn_lora_merge(&lora, p, plain + (in_out ? pair.a : pair.b)->offset,
                           plain + (in_out ? pair.b : pair.a)->offset, scratch);
        }
        for (int64_t k = 0; k < q->count; k++) to[q->offset + k] = scratch[k];
        free(scratch);
    }
    double same = loss_of(&merged, to, false);
    if (fabs(same - loss) > 1e-5 * loss) fail_msg("merged %.9g, with adapters %.9g", same, loss);
    lvn_model_state_free(f.network);
    lvn_model_state_free(merged.network);
    free(plain);
    free(gradient);
    free(values);
    free(to);
    return loss;
}

static void gradients(void **state)
{
    (void)state;
    const struct lvn_lora lora = {.rank = 2, .alpha = 3, .targets = "c_attn, c_fc, c_proj"};
    struct lvn_lora other = lora, larger = lora;
    const double loss = check_gradients(lora);
    other.dropout = 0.25;
    assert_true(check_gradients(other) == loss);
    other.targets = "c_attn, lm_head";
    check_gradients(other);
    other.rank = 11; /* the head's outputs */
    check_gradients(other);
    other = lora;
    other.rslora = true; /* 3 / sqrt(2) is the scale of alpha 3 sqrt(2) */
    larger.alpha = 3 * sqrt(2);
    const double scaled = check_gradients(other);
    assert_true(scaled != loss && fabs(check_gradients(larger) - scaled) < 1e-12);
    /* trained rows of the tied embedding: alone, in ranges, the first and the last; all of them */
    static const int32_t tokens[] = {0, 3, 4, 5, 8, 10}, all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    for (int n = 1; n <= 11; n += n == 6 ? 5 : 1) {
        other = lora;
        other.tokens = n < 11 ? tokens : all;
        other.n_tokens = n;
        check_gradients(other);
    }
}

/* The block of a parameter, by its name. */
static int wanted_block(const struct lvn_param *q, bool tied)
{
    const bool head = strstr(q->name, "lm_head") || strstr(q->name, "ln_f");
    return strstr(q->name, ".h.0.")   ? 0
           : strstr(q->name, ".h.1.") ? 1
           : head && !tied            ? LVN_BLOCK_HEAD
                                      : LVN_BLOCK_OUTSIDE;
}

/* Elements of the trained parameters before this one, by block, decay and declaration; the head is outside of blocks.
 */
static int64_t wanted_number(const struct lvn_params *p, const struct lvn_param *q)
{
    int64_t number = 0;
    const int block = q->block < 0 ? -1 : q->block;
    for (int i = 0; i < p->n; i++) {
        const struct lvn_param *r = p->list[i];
        const int its_block = r->block < 0 ? -1 : r->block;
        const bool before = its_block != block     ? its_block < block
                            : r->decay != q->decay ? r->decay
                                                   : r->number < q->number;
        if (r->trainable && before) number += (r->count + LVN_PARAM_ALIGN - 1) / LVN_PARAM_ALIGN * LVN_PARAM_ALIGN;
    }
    return number;
}

/* [trained, frozen][block][decay], blocks at multiples of 4096 and otherwise without gaps, the head as a block of its
 * own if it is not tied; a group is a range of a block's neighbors with the same update. */
static void layout(void **state)
{
    (void)state;
    const struct lvn_lora none = {0};
    for (int tied = 0; tied < 2; tied++) {
        struct fixture f;
        check(set_up(&f, LVN_F32, "wpe, h.0.mlp", none, tied));
        const struct lvn_params *p = f.network->params;
        int64_t offset = 0;
        int group = 0;
        for (int i = 0; i < p->n; i++) {
            const struct lvn_param *q = p->flat[i], *before = i ? p->flat[i - 1] : q;
            assert_int_equal(q->block, wanted_block(q, tied));
            if (q->block != before->block || q->trainable != before->trainable) offset = (offset + 4095) / 4096 * 4096;
            assert_int_equal(q->offset, offset);
            const int64_t begin = offset;
            offset += (q->count + LVN_PARAM_ALIGN - 1) / LVN_PARAM_ALIGN * LVN_PARAM_ALIGN;
            assert_true(before->trainable >= q->trainable);
            bool same_part = before->trainable == q->trainable;
            assert_true(!same_part || before->block <= q->block);
            assert_true(!same_part || before->block < q->block || before->decay >= q->decay);
            if (!q->trainable) continue;
            const struct lvn_param_group *g = &p->groups[group];
            if (q->offset >= g->offset + g->count) group++, g++;
            assert_true(group < p->n_groups && q->offset >= g->offset && offset <= g->offset + g->count);
            assert_true(q->decay == g->decay && q->block == g->block);
            assert_true(group == 0 || g->decay != g[-1].decay || g->block != g[-1].block);
            assert_int_equal(g->number + begin - g->offset, wanted_number(p, q));
            assert_true(offset <= p->trainable_count);
        }
        assert_int_equal(group, p->n_groups - 1);
        assert_int_equal(p->groups[group].offset + p->groups[group].count, p->trainable_count);
        assert_int_equal(offset, p->flat_count);
        lvn_model_state_free(f.network);
    }
}

/* Every gradient is in one bucket, and no reduction starts before the gradients of its bucket are written. */
static void buckets(void **state)
{
    (void)state;
    const struct lvn_lora none = {0};
    const struct lvn_sharding two = {.rank = 1, .size = 2};
    struct fixture f;
    check(set_up(&f, LVN_F32, "", none, true));
    struct lvn_session_options o = f.runner->options;
    lvn_model_state_share(f.network, &two, NULL);
    check(lvn_session_new(&f.runner, f.network, &o));
    const struct lvn_program *p = f.runner->program;
    int64_t covered = 0;
    int started = 0, waited = 0;
    const struct lvn_value *bucket[64];
    for (int n = 0; n < p->n_instrs; n++) {
        const struct lvn_instr *i = &p->instrs[n];
        for (int k = 0; k < LVN_MAX_IN; k++) {
            const struct lvn_value *v = i->din[k].value < 0 ? NULL : &p->values[i->din[k].value];
            for (int b = 0; v && v->buffer == LVN_BUFFER_GRAD && b < started; b++) {
                const int64_t from = bucket[b]->offset, to = from + bucket[b]->bytes;
                assert_true(v->offset + v->bytes <= from || v->offset >= to);
            }
        }
        if (i->id == LVN_OP_all_reduce) {
            assert_int_equal(i->handle, started);
            assert_true(started < 64 && i->in[0].value == i->out[0].value);
            bucket[started++] = &p->values[i->in[0].value];
            covered += lvn_desc_count(&i->in[0].desc);
        }
        if (i->id == LVN_OP_wait) {
            assert_int_equal(i->handle, waited);
            assert_ptr_equal(&p->values[i->out[0].value], bucket[waited++]);
        }
    }
    assert_int_equal(started, p->n_handles);
    assert_int_equal(waited, p->n_handles);
    assert_int_equal(covered, f.network->params->trainable_count); /* with the gaps between blocks */
    lvn_model_state_free(f.network);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),  cmocka_unit_test(long_names), cmocka_unit_test(names_that_do_not_fit),
        cmocka_unit_test(frozen), cmocka_unit_test(adapters),   cmocka_unit_test(gradients),
        cmocka_unit_test(layout), cmocka_unit_test(buckets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
