/* test_program.c - covers: src/core/passes/program.c src/core/passes/differentiate.c src/core/passes/fuse.c
 * src/core/passes/recompute.c src/core/passes/blocks.c
 *
 * The passes on whole models: gradients against finite differences in double, fused against not, recompute on and off,
 * micro-batches against one batch, poisoned arenas. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bf16.h"
#include "base/random.h"
#include "base/threads.h"
#include "bound_program.h"
#include "data/dataset.h"
#include "initial_values.h"
#include "models/keys.h"
#include "passes/program.h"
#include "tasks/task.h"

enum { V = 11, C = 12, T = 7, MAX_B = 8 };

/* All memory that a run needs, in the model's real type. */
struct rig {
    struct lvn_params *params;
    struct levin_graph *graph;
    struct lvn_task_graph model;
    struct lvn_program *program;
    struct bound_program b;
    struct lvn_step step;
    int32_t ids[MAX_B * T], labels[MAX_B * T];
    enum lvn_dtype weights; /* of parameters and gradients */
};

struct rig_options {
    const char *kind;
    enum lvn_dtype real;
    int64_t B, micro; /* samples of the batch and of a micro-batch */
    bool fuse, deterministic;
    enum lvn_precision precision;
    enum lvn_recompute recompute;
    int layers; /* 0: 2 */
    double dropout;
    int threads;
    const char *backend;
    enum lvn_isa isa;
};

static void fill_batch(struct rig *r, int64_t B)
{
    for (int64_t i = 0; i < B * T; i++) {
        r->ids[i] = (int32_t)lvn_random_below(3, 1, (uint64_t)i, V);
        r->labels[i] = (int32_t)lvn_random_below(3, 2, (uint64_t)i, V);
        if (i % 5 == 2 || i < T - 1) r->labels[i] = -1; /* unequal numbers of valid labels */
    }
    int64_t valid = 0;
    for (int64_t i = 0; i < B * T; i++) valid += r->labels[i] >= 0;
    r->step = (struct lvn_step){.seed = 5, .step = 3, .grad_scale = 1.0 / (double)valid, .training = 1};
}

static enum lvn_dtype weights_of(const struct rig_options *o)
{
    return o->precision == LVN_PRECISION_BF16_TRUE ? LVN_BF16 : o->real;
}

static void fill_params(struct rig *r)
{
    float *values = calloc((size_t)r->params->flat_count, sizeof *values);
    initial_values(r->params, 42, values);
    for (int i = 0; i < r->params->n; i++) /* constants would hide errors; weights large enough to matter */
        lvn_random_normal(9, r->params->list[i]->hash, 0.3f, 0, r->params->list[i]->count,
                          values + r->params->list[i]->offset);
    for (int64_t i = 0; i < r->params->flat_count; i++) {
        uint16_t half = lvn_bf16_make(values[i]); /* all types hold these numbers */
        if (r->weights == LVN_F64)
            ((double *)r->b.params)[i] = (double)lvn_bf16_get(half);
        else if (r->weights == LVN_BF16)
            ((uint16_t *)r->b.params)[i] = half;
        else
            ((float *)r->b.params)[i] = lvn_bf16_get(half);
    }
    free(values);
}

static struct rig *rig_new(const struct rig_options *o)
{
    struct rig *r = calloc(1, sizeof *r);
    struct lvn_model_config c;
    const struct lvn_key_value sizes[] = {{"n_layer", o->layers ? o->layers : 2},
                                          {"n_head", 3},
                                          {"n_embd", C},
                                          {"block_size", T + 2},
                                          {"vocab_size", V},
                                          {"dropout", o->dropout},
                                          {NULL, 0}};
    lvn_model_config_init(&c, lvn_model_find(o->kind));
    assert_int_equal(lvn_model_put_all(&c, sizes), LVN_OK);
    r->params = lvn_params_new();
    r->graph = lvn_graph_new(r->params, o->real);
    struct lvn_fields fields = lvn_stream_fields(T, V);
    if (lvn_task_build(&r->model, r->graph, &c, lvn_task_find("lm"), &fields, o->micro) != LVN_OK)
        fail_msg("%s", levin_error_text());
    assert_int_equal(lvn_params_layout(r->params, LVN_DECAY_MATRICES), LVN_OK);
    int64_t n = o->B / o->micro;
    const struct lvn_tree_leaves tree = {0, n, n};
    struct lvn_device *device = open_device(o->backend, o->real, o->threads, o->isa);
    struct lvn_plan_options plan = {.n_sums = 1,
                                    .train = true,
                                    .fuse = o->fuse,
                                    .precision = o->precision,
                                    .recompute = o->recompute,
                                    .tree = o->deterministic ? &tree : NULL,
                                    .device = device};
    struct levin_tensor *outputs[] = {r->model.loss, r->model.losses};
    if (lvn_program_new(&r->program, r->graph, outputs, 2, &plan) != LVN_OK)
        fail_msg("%s\n%s", levin_error_text(), levin_error_trace());
    r->weights = weights_of(o);
    int64_t bytes = o->B * T * (int64_t)sizeof *r->ids;
    bound_program_open(&r->b, device, r->program, n, o->micro, r->ids, r->labels, bytes, &r->step);
    fill_params(r);
    fill_batch(r, o->B);
    return r;
}

static void rig_free(struct rig *r)
{
    bound_program_close(&r->b);
    lvn_program_free(r->program);
    lvn_graph_free(r->graph);
    lvn_params_free(r->params);
    free(r);
}

/* Mean loss of the batch; the gradients are then in slot 0. */
static double run(struct rig *r, int64_t n_micro_batches)
{
    double sum = 0;
    bound_program_run(&r->b, n_micro_batches, 0);
    for (int64_t m = 0; m < n_micro_batches; m++) sum += bound_program_sum(&r->b, m, 0);
    return sum * r->step.grad_scale;
}

/* The gradients of micro-batch m of one sample, computed alone. */
static void run_alone(struct rig *r, int64_t m)
{
    r->step.first_row = m;
    bound_program_run(&r->b, 1, m * T * (int64_t)sizeof *r->ids);
}

static void gradients_are_right(void **state)
{
    (void)state;
    const char *kinds[] = {"gpt2", "nanogpt", "mingpt"};
    for (int k = 0; k < 6; k++) {
        struct rig_options o = {.kind = kinds[k % 3],
                                .real = LVN_F64,
                                .B = 2,
                                .micro = 2,
                                .fuse = k < 3,
                                .threads = 1,
                                .dropout = k == 4 ? 0.2 : 0.0,
                                .backend = "reference"};
        struct rig *r = rig_new(&o);
        run(r, 1);
        double *grad = malloc((size_t)r->b.flat_bytes), *p = r->b.params;
        memcpy(grad, r->b.grads, (size_t)r->b.flat_bytes);
        for (int i = 0; i < r->params->n; i++) {
            const struct lvn_param *q = r->params->list[i];
            for (int64_t j = 0; j < q->count; j += 1 + q->count / 7) {
                double *x = &p[q->offset + j], old = *x, h = 1e-5;
                *x = old + h;
                double up = run(r, 1);
                *x = old - h;
                double down = run(r, 1);
                *x = old;
                double expected = (up - down) / (2 * h), got = grad[q->offset + j];
                if (!(fabs(expected - got) <= 1e-7 + 1e-6 * fabs(expected)))
                    fail_msg("%s %s[%lld]: gradient %.10g, finite difference %.10g", o.kind, q->name, (long long)j, got,
                             expected);
            }
        }
        free(grad);
        rig_free(r);
    }
}

/* Element j of the flat gradient of a program in fp32 or bf16. */
static double gradient(const struct rig *r, int64_t j)
{
    const void *p = r->b.grads;
    return r->weights == LVN_BF16 ? (double)lvn_bf16_get(((const uint16_t *)p)[j]) : (double)((const float *)p)[j];
}

/* Largest difference of two gradients relative to the norm of each parameter's. */
static double difference(const struct rig *a, const struct rig *b)
{
    double worst = 0.0;
    for (int i = 0; i < a->params->n; i++) {
        const struct lvn_param *q = a->params->list[i];
        double norm = 0.0, diff = 0.0;
        for (int64_t j = q->offset; j < q->offset + q->count; j++) {
            double x = gradient(a, j), y = gradient(b, j);
            norm += x * x;
            diff += (x - y) * (x - y);
        }
        double relative = sqrt(diff) / (sqrt(norm) + 1e-3);
        worst = !(relative <= worst) ? relative : worst; /* NaN is the worst */
    }
    return worst;
}

static struct rig_options fast(const char *kind)
{
    return (struct rig_options){.kind = kind,
                                .real = LVN_F32,
                                .B = 8,
                                .micro = 8,
                                .fuse = true,
                                .threads = 2,
                                .backend = "cpu",
                                .isa = lvn_isa_best()};
}

static void check_variants(enum lvn_precision precision, double losses, double gradients)
{
    struct rig_options o = fast("mingpt");
    o.dropout = 0.1;
    o.precision = precision;
    o.recompute = LVN_RECOMPUTE_NONE;
    o.layers = 3;
    struct rig *whole = rig_new(&o);
    double loss = run(whole, 1);
    struct {
        const char *what;
        struct rig_options o;
        bool same_bits;
    } variant[] = {{"not fused", o, false},
                   {"micro-batches of 2", o, false},
                   {"micro-batches of 1, summed as a tree", o, false},
                   {"recompute", o, true},
                   {"one thread", o, true},
                   {"eight threads", o, true},
                   {"the reference", o, false},
                   {"blocks", o, true}};
    variant[0].o.fuse = false;
    variant[1].o.micro = 2;
    variant[2].o.micro = 1;
    variant[2].o.deterministic = true;
    variant[3].o.recompute = LVN_RECOMPUTE_CHEAP;
    variant[4].o.threads = 1;
    variant[5].o.threads = 8;
    variant[6].o.backend = "reference";
    variant[6].o.precision = LVN_PRECISION_TRUE; /* these backends have no other type */
    variant[7].o.recompute = LVN_RECOMPUTE_BLOCKS;
    for (size_t i = 0; i < sizeof variant / sizeof variant[0]; i++) {
        struct rig *r = rig_new(&variant[i].o);
        double l = run(r, variant[i].o.B / variant[i].o.micro), d = difference(whole, r);
        if (!(fabs(l - loss) < losses) || !(d < gradients))
            fail_msg("%s: loss %.9g against %.9g, gradients differ by %g", variant[i].what, l, loss, d);
        if (variant[i].same_bits && (l != loss || d != 0.0))
            fail_msg("%s: not the same bits (loss %.17g and %.17g, gradients %g)", variant[i].what, l, loss, d);
        rig_free(r);
    }
    rig_free(whole);
}

static void variants_agree(void **state)
{
    (void)state;
    check_variants(LVN_PRECISION_TRUE, 1e-6, 1e-5);
}

/* bf16 has 8 significant bits: each rounding is off by up to 2^-9, and a gradient depends on some tens of roundings. */
static void variants_agree_in_bf16(void **state)
{
    (void)state;
    check_variants(LVN_PRECISION_BF16_MIXED, 1e-2, 4e-2);
    check_variants(LVN_PRECISION_BF16_TRUE, 1e-2, 5e-2);
}

/* Forward repeated in backward: the same bits as without, fused and not, on both backends, for each micro-batch. */
static void blocks_run_again(void **state)
{
    (void)state;
    const struct {
        const char *kind, *backend;
        bool fuse, deterministic;
        int64_t micro;
        enum lvn_precision precision;
    } of[] = {{"gpt2", "cpu", true, false, 8, LVN_PRECISION_TRUE},
              {"nanogpt", "cpu", false, false, 4, LVN_PRECISION_TRUE},
              {"gpt2", "reference", true, false, 8, LVN_PRECISION_TRUE},
              {"mingpt", "cpu", true, true, 1, LVN_PRECISION_TRUE},
              {"gpt2", "cpu", false, false, 2, LVN_PRECISION_BF16_MIXED},
              {"nanogpt", "cpu", true, true, 2, LVN_PRECISION_BF16_TRUE}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        struct rig_options o = fast(of[i].kind);
        o.layers = 4, o.dropout = 0.2, o.micro = of[i].micro, o.fuse = of[i].fuse;
        o.backend = of[i].backend, o.deterministic = of[i].deterministic, o.precision = of[i].precision;
        struct rig *rig[3];
        double loss[3];
        for (int k = 0; k < 3; k++) {
            static const enum lvn_recompute how[] = {LVN_RECOMPUTE_NONE, LVN_RECOMPUTE_CHEAP, LVN_RECOMPUTE_BLOCKS};
            o.recompute = how[k];
            rig[k] = rig_new(&o);
            loss[k] = run(rig[k], o.B / o.micro);
            if (loss[k] != loss[0] || memcmp(rig[k]->b.grads, rig[0]->b.grads, (size_t)rig[k]->b.flat_bytes) != 0)
                fail_msg("%zu, %s: not the same bits", i, k == 1 ? "cheap" : "blocks");
        }
        int again = 0; /* the forward of all blocks but the last */
        for (int n = 0; n < rig[2]->program->n_instrs; n++)
            if (rig[2]->program->instrs[n].recomputed) again |= 1 << rig[2]->program->instrs[n].block;
        assert_int_equal(again, 7);
        for (int k = 0; k < 3; k++) rig_free(rig[k]);
    }
}

/* Each further block takes the memory of its input: one sum, and a mean and a factor for each row. */
static void blocks_take_their_inputs(void **state)
{
    (void)state;
    struct rig_options o = fast("gpt2");
    int64_t bytes[3], all[3], input = o.micro * T * C * 4, rows = o.micro * T * 4;
    for (int k = 0; k < 3; k++) {
        o.layers = 8 + 8 * k;
        for (int blocks = 0; blocks < 2; blocks++) {
            o.recompute = blocks ? LVN_RECOMPUTE_BLOCKS : LVN_RECOMPUTE_NONE;
            struct rig *r = rig_new(&o);
            *(blocks ? &bytes[k] : &all[k]) = r->program->arena_bytes;
            rig_free(r);
        }
    }
    int64_t one = (bytes[2] - bytes[1]) / 8;
    if (one < input || one > input + 2 * rows + 3 * 64) fail_msg("a block more takes %lld bytes", (long long)one);
    assert_true(bytes[2] - bytes[1] < (all[2] - all[1]) / 8);
    assert_true(bytes[2] < all[2] / 4);
}

/* The tree over micro-batches is the specified one: split at the largest power of two below n. */
static void tree_of_sums(void **state)
{
    (void)state;
    const int64_t slots[][2] = {{1, 1}, {2, 2}, {3, 2}, {4, 3}, {7, 3}, {8, 4}};
    struct rig_options o = fast("nanogpt");
    o.micro = 1, o.deterministic = true;
    for (size_t i = 0; i < sizeof slots / sizeof slots[0]; i++) {
        o.B = slots[i][0];
        struct rig *planned = rig_new(&o);
        assert_int_equal(planned->program->n_grad_buffers, slots[i][1]);
        rig_free(planned);
    }
    o.B = 7;
    struct rig *r = rig_new(&o);
    run(r, 7);
    const float *sum = r->b.grads;
    float *single[7], *expected = malloc((size_t)r->b.flat_bytes);
    struct rig *one = rig_new(&o); /* the same micro-batches, each alone */
    for (int m = 0; m < 7; m++) {
        run_alone(one, m);
        single[m] = malloc((size_t)one->b.flat_bytes);
        memcpy(single[m], one->b.grads, (size_t)one->b.flat_bytes);
    }
    for (int64_t i = 0; i < r->params->flat_count; i++) {
        float left = (single[0][i] + single[1][i]) + (single[2][i] + single[3][i]);
        expected[i] = left + ((single[4][i] + single[5][i]) + single[6][i]);
    }
    assert_memory_equal(sum, expected, (size_t)r->b.flat_bytes);
    for (int m = 0; m < 7; m++) free(single[m]);
    free(expected);
    rig_free(one);
    rig_free(r);
}

static float rounded_sum(float a, float b)
{
    return lvn_bf16_get(lvn_bf16_make(a + b));
}

/* In bf16 every node of the tree is rounded; the gradient of a single micro-batch has the same bits as in the sum. */
static void tree_of_sums_in_bf16(void **state)
{
    (void)state;
    struct rig_options o = fast("nanogpt");
    o.B = 3, o.micro = 1, o.deterministic = true, o.precision = LVN_PRECISION_BF16_TRUE;
    struct rig *r = rig_new(&o), *one = rig_new(&o);
    int64_t n = r->params->flat_count, differs = 0;
    assert_int_equal(r->b.flat_bytes, n * 2);
    run(r, 3);
    float *single[3];
    for (int m = 0; m < 3; m++) {
        run_alone(one, m);
        single[m] = malloc((size_t)n * sizeof *single[m]);
        for (int64_t i = 0; i < n; i++) single[m][i] = (float)gradient(one, i);
    }
    for (int64_t i = 0; i < n; i++) {
        float expected = rounded_sum(rounded_sum(single[0][i], single[1][i]), single[2][i]);
        assert_true((float)gradient(r, i) == expected);
        differs += lvn_bf16_get(lvn_bf16_make(single[0][i] + single[1][i] + single[2][i])) != expected;
    }
    assert_true(differs > 0); /* or the test would not detect where it is rounded */
    for (int m = 0; m < 3; m++) free(single[m]);
    rig_free(one);
    rig_free(r);
}

static void memory_is_planned(void **state)
{
    (void)state;
    struct rig_options o = fast("gpt2");
    struct rig *r = rig_new(&o);
    assert_true(r->program->arena_bytes > 0);
    assert_true(r->program->arena_bytes < r->program->unplaced_bytes * 3 / 4);
    o.recompute = LVN_RECOMPUTE_CHEAP;
    struct rig *less = rig_new(&o);
    assert_true(less->program->arena_bytes < r->program->arena_bytes);
    rig_free(less);
    rig_free(r);
    /* bf16, on kernels that compute as in fp32: others need scratch that outweighs so small a model */
    o.isa = lvn_isa_best() < LVN_ISA_AVX512 ? lvn_isa_best() : LVN_ISA_AVX512;
    o.recompute = LVN_RECOMPUTE_NONE;
    r = rig_new(&o);
    o.precision = LVN_PRECISION_BF16_MIXED;
    struct rig *half = rig_new(&o);
    assert_true(half->program->arena_bytes < r->program->arena_bytes);
    rig_free(half);
    rig_free(r);
}

/* --- offsets --- */

static const struct lvn_value *sorted_values; /* of the comparison */

/* The larger first, and of one size the earlier. */
static int larger_first(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    const struct lvn_value *m = &sorted_values[x], *n = &sorted_values[y];
    if (m->bytes != n->bytes) return m->bytes > n->bytes ? -1 : 1;
    return m->first != n->first ? m->first - n->first : x - y;
}

/* The lowest offset for list[n] given those before it that live at the same time: the definition, tried upwards. */
static int64_t lowest_offset(const struct lvn_value *values, const int *list, int n)
{
    const struct lvn_value *v = &values[list[n]];
    int64_t offset = 0;
    for (int i = 0; i < n; i++) {
        const struct lvn_value *w = &values[list[i]];
        const int64_t end = w->offset + (w->bytes + 63) / 64 * 64;
        if (w->first > v->last || w->last < v->first) continue;
        if (w->offset >= offset + (v->bytes + 63) / 64 * 64 || end <= offset) continue;
        offset = end;
        i = -1; /* from the start: an earlier value may be there */
    }
    return offset;
}

static void offsets_are_the_lowest(void **state)
{
    (void)state;
    for (int recompute = LVN_RECOMPUTE_NONE; recompute <= LVN_RECOMPUTE_BLOCKS; recompute++) {
        struct rig_options o = fast("gpt2");
        o.layers = 80;
        o.recompute = (enum lvn_recompute)recompute;
        struct rig *r = rig_new(&o);
        const struct lvn_program *p = r->program;
        int *list = malloc(sizeof *list * (size_t)p->n_values), n = 0;
        for (int v = 0; v < p->n_values; v++)
            if (p->values[v].buffer == LVN_BUFFER_ARENA && p->values[v].first >= 0 && !p->values[v].in_place)
                list[n++] = v;
        sorted_values = p->values;
        qsort(list, (size_t)n, sizeof *list, larger_first);
        assert_true(n > 1000);
        for (int i = 0; i < n; i++) assert_int_equal(p->values[list[i]].offset, lowest_offset(p->values, list, i));
        free(list);
        rig_free(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_right),    cmocka_unit_test(variants_agree),
        cmocka_unit_test(variants_agree_in_bf16), cmocka_unit_test(tree_of_sums),
        cmocka_unit_test(tree_of_sums_in_bf16),   cmocka_unit_test(memory_is_planned),
        cmocka_unit_test(blocks_run_again),       cmocka_unit_test(blocks_take_their_inputs),
        cmocka_unit_test(offsets_are_the_lowest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
