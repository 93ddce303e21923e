/* test_views.c - covers: src/core/passes/differentiate.c
 *
 * Gradients through slices and broadcasting additions, in double, against finite differences: views that overlap, that
 * leave elements uncovered, that cover the whole tensor or a part; one tensor as several inputs of an operation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "data/dataset.h"
#include "engine/session.h"
#include "initial_values.h"
#include "levin.h"
#include "models/keys.h"

enum { B = 2, T = 3, C = 12, V = 4 };

static struct levin_tensor *matrix(struct levin_graph *g, const char *name, int64_t in, int64_t out)
{
    return lvn_param(g, name, LVN_WEIGHT, LVN_NORMAL(0.5), LVN_DESC(LVN_F32, in, out));
}

static struct levin_tensor *through(struct levin_graph *g, const char *name, struct levin_tensor *x)
{
    return x ? levin_linear(g, x, matrix(g, name, x->desc.dim[2], V), NULL, true) : NULL;
}

/* h (B,T,C), made by an operation whose backward reads all of its gradient */
static struct levin_tensor *hidden(struct levin_graph *g, struct levin_tensor *const *in)
{
    return levin_gelu(g, levin_linear(g, levin_embedding(g, in[0], matrix(g, "table", V, 5), NULL),
                                      matrix(g, "up", 5, C), NULL, true));
}

/* Two slices that overlap, both without the first two channels; a bias and a table of positions. */
static struct levin_tensor *overlapping(struct levin_graph *g, const struct lvn_model_config *c,
                                        struct levin_tensor *const *in)
{
    struct levin_tensor *h = hidden(g, in), *bias, *positions;
    (void)c;
    struct levin_tensor *y = levin_add(g, through(g, "a", levin_pack(g, levin_slice(g, h, 2, 2, 6))),
                                       through(g, "b", levin_pack(g, levin_slice(g, h, 2, 5, 7))));
    bias = lvn_param(g, "bias", LVN_VECTOR, LVN_CONSTANT(0.1), LVN_DESC(LVN_F32, V));
    positions = matrix(g, "positions", T, V);
    return levin_add(g, positions, levin_add(g, y, bias));
}

/* The whole tensor, and the first token of each sample; one of these tokens is added to every position. */
static struct levin_tensor *first_token(struct levin_graph *g, const struct lvn_model_config *c,
                                        struct levin_tensor *const *in)
{
    struct levin_tensor *h = hidden(g, in);
    (void)c;
    struct levin_tensor *first = through(g, "first", levin_pack(g, levin_slice(g, h, 1, 0, 1)));
    struct levin_tensor *y = through(g, "all", h),
                        *of_one = levin_pack(g, levin_slice(g, first, 0, 0, 1)); /* (1,1,V) */
    return levin_add(g, y, levin_reshape(g, of_one, 1, (int64_t[]){V}));
}

/* Disjoint slices along two dimensions: half of the first token's channels, and the last two tokens. */
static struct levin_tensor *disjoint(struct levin_graph *g, const struct lvn_model_config *c,
                                     struct levin_tensor *const *in)
{
    struct levin_tensor *h = hidden(g, in);
    (void)c;
    struct levin_tensor *half = levin_pack(g, levin_slice(g, levin_slice(g, h, 1, 0, 1), 2, 0, C / 2));
    struct levin_tensor *rest = levin_pack(g, levin_slice(g, h, 1, 1, T - 1));
    struct levin_tensor *y = through(g, "half", half), *z = through(g, "rest", rest); /* (B,1,V), (B,2,V) */
    struct levin_tensor *sum =
        levin_add(g, levin_pack(g, levin_slice(g, z, 1, 0, 1)), levin_pack(g, levin_slice(g, z, 1, 1, 1)));
    sum = levin_add(g, sum, y);
    return levin_add(g, levin_embedding(g, in[0], matrix(g, "out", V, V), NULL),
                     levin_reshape(g, levin_pack(g, levin_slice(g, sum, 0, 0, 1)), 1, (int64_t[]){V}));
}

/* Tokens mix as in an MLP-Mixer: the channels are rows of a transposed view; halves of channels are exchanged, and each
 * channel is scaled by a gain and by a mean over tokens. */
static struct levin_tensor *mixed(struct levin_graph *g, const struct lvn_model_config *c,
                                  struct levin_tensor *const *in)
{
    struct levin_tensor *h = hidden(g, in);
    (void)c;
    struct levin_tensor *columns = levin_softmax(g, levin_pack(g, levin_transpose(g, h, 2, 1))); /* (B,C,T) */
    struct levin_tensor *y = levin_mul(g, h, levin_pack(g, levin_transpose(g, columns, 1, 2)));  /* (B,T,C) */
    y = levin_concat(g, levin_pack(g, levin_slice(g, y, 2, C / 2, C - C / 2)),
                     levin_pack(g, levin_slice(g, y, 2, 0, C / 2)), 2);
    struct levin_tensor *gain = lvn_param(g, "gain", LVN_VECTOR, LVN_CONSTANT(0.7), LVN_DESC(LVN_F32, C));
    struct levin_tensor *mean = levin_mean(g, levin_mean(g, y, 0), 0); /* (C) */
    return through(g, "out", levin_mul(g, gain, levin_mul(g, mean, y)));
}

/* One tensor as several inputs of an operation: the gradients of these inputs are one gradient. */
static struct levin_tensor *repeated(struct levin_graph *g, const struct lvn_model_config *c,
                                     struct levin_tensor *const *in)
{
    struct levin_tensor *h = hidden(g, in);
    (void)c;
    struct levin_tensor *square = through(g, "square", levin_mul(g, h, h));
    h = levin_gelu(g, h);
    struct levin_tensor *cube = through(g, "cube", levin_mul(g, levin_mul(g, h, h), h));
    struct levin_tensor *u = levin_tanh(g, h);
    struct levin_tensor *sides = through(g, "sides", levin_mul(g, levin_mul(g, levin_silu(g, h), u), u));
    return levin_add(g, levin_add(g, square, cube),
                     levin_add(g, sides, through(g, "gated", levin_mul(g, h, levin_silu(g, h)))));
}

/* Queries that are the keys, and values that overlap them. */
static struct levin_tensor *shared_heads(struct levin_graph *g, const struct lvn_model_config *c,
                                         struct levin_tensor *const *in)
{
    struct levin_tensor *h = hidden(g, in), *q = levin_heads(g, h, 0, 2, 3);
    (void)c;
    const struct levin_attention_options how = {.size = sizeof how, .scale = 0.7, .causal = true};
    struct levin_tensor *same = levin_attention(g, q, q, q, &how);
    struct levin_tensor *overlap =
        levin_attention(g, levin_heads(g, h, 6, 2, 3), levin_heads(g, h, 6, 2, 3), levin_heads(g, h, 3, 2, 3), &how);
    return levin_add(g, through(g, "same", same), through(g, "overlap", overlap));
}

/* A sum of x and u, whose gradient both have, and then a part of x elsewhere. */
static struct levin_tensor *part_of_a_summand(struct levin_graph *g, const struct lvn_model_config *c,
                                              struct levin_tensor *const *in)
{
    struct levin_tensor *h = hidden(g, in);
    (void)c;
    struct levin_tensor *x = levin_gelu(g, levin_linear(g, h, matrix(g, "x", C, V), NULL, true));
    struct levin_tensor *u = levin_gelu(g, levin_linear(g, x, matrix(g, "u", V, V), NULL, true));
    struct levin_tensor *f = through(g, "part", levin_pack(g, levin_slice(g, x, 2, 1, 2)));
    return levin_add(g, levin_add(g, x, u), f);
}

/* Many single rows of a table, in any order and apart; and a gelu of a part of a linear layer. */
static struct levin_tensor *many_parts(struct levin_graph *g, const struct lvn_model_config *c,
                                       struct levin_tensor *const *in)
{
    enum { ROWS = 12 };
    struct levin_tensor *rows = matrix(g, "rows", ROWS, V), *sum = NULL;
    (void)c;
    for (int i = 0; i < ROWS; i++) {
        struct levin_tensor *row = levin_reshape(g, levin_slice(g, rows, 0, i * 5 % ROWS, 1), 1, (int64_t[]){V});
        sum = sum ? levin_add(g, sum, levin_gelu(g, row)) : levin_gelu(g, row);
    }
    struct levin_tensor *wide = levin_linear(g, hidden(g, in), matrix(g, "wide", C, V), NULL, true);
    struct levin_tensor *part = levin_gelu(g, levin_slice(g, wide, 0, 0, 1)); /* (1,T,V) */
    return levin_add(g, through(g, "all", hidden(g, in)),
                     levin_mul(g, levin_reshape(g, part, 2, (int64_t[]){T, V}), sum));
}

static const struct lvn_key no_keys[] = {{.kind = LVN_KEY_END}};
static const struct lvn_field reads[] = {{.name = "ids", .dtype = LVN_I32, .rank = 1, .dim = {T}}, {.name = NULL}};

/* The mean loss with these weights; the memory of this backend is not visible to the host. */
static double run(struct lvn_session *session, const double *weights)
{
    const struct lvn_model_state *n = session->model_state;
    if (lvn_memory_write(n->memory[LVN_BUFFER_PARAM], 0, weights, n->bytes[LVN_BUFFER_PARAM]) != LVN_OK)
        fail_msg("%s", levin_error_text());
    session->step_args = (struct lvn_step){.grad_scale = 1.0 / (B * T), .training = 1};
    return lvn_session_run(session, 1) / (B * T);
}

static void check(struct levin_tensor *(*build)(struct levin_graph *g, const struct lvn_model_config *c,
                                                struct levin_tensor *const *in),
                  bool fills)
{
    const struct lvn_model model = {
        .name = "views", .keys = no_keys, .inputs = reads, .tasks = lvn_language_tasks, .build = build};
    struct lvn_model_config c = {.model = &model};
    struct lvn_fields fields = lvn_stream_fields(T, V);
    int32_t ids[B * T] = {0, 1, 2, 3, 1, 0}, labels[B * T] = {3, 1, 0, 2, 2, 1};
    struct lvn_samples b = {.fields = fields, .rows = B, .n_valid = B, .p = {ids, labels}};
    struct lvn_model_state *n;
    struct lvn_session *session = NULL;
    struct lvn_session_options o = {.fields = &fields, .B = B, .task = lvn_task_find("lm"), .train = true};
    if (lvn_model_state_new(&n, &c,
                            &(struct lvn_model_state_options){
                                .backend = lvn_backend_find("reference"), .real = LVN_F64, .threads = 1}) != LVN_OK ||
        lvn_session_new(&session, n, &o) != LVN_OK || lvn_model_state_allocate(n) != LVN_OK)
        fail_msg("%s\n%s", levin_error_text(), levin_error_trace());
    bool filled = false;
    for (int i = 0; i < session->program->n_instrs; i++) filled |= session->program->instrs[i].id == LVN_OP_zeros;
    assert_int_equal(filled, fills);
    assert_int_equal(lvn_session_feed(session, 0, &b), LVN_OK);
    size_t count = (size_t)n->params->flat_count;
    float *initial = calloc(count, sizeof *initial);
    double *p = calloc(count, sizeof *p), *grad = calloc(count, sizeof *grad);
    initial_values(n->params, 7, initial);
    for (size_t i = 0; i < count; i++) p[i] = (double)initial[i];
    run(session, p);
    assert_int_equal(lvn_memory_read(n->memory[LVN_BUFFER_GRAD], 0, grad, (int64_t)(count * sizeof *grad)), LVN_OK);
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *q = n->params->list[i];
        for (int64_t j = q->offset; j < q->offset + q->count; j++) {
            double old = p[j], h = 1e-5;
            p[j] = old + h;
            double up = run(session, p);
            p[j] = old - h;
            double down = run(session, p);
            p[j] = old;
            double expected = (up - down) / (2 * h);
            if (!(fabs(expected - grad[j]) <= 1e-8 + 1e-6 * fabs(expected)))
                fail_msg("%s[%lld]: gradient %.10g, finite difference %.10g", q->name, (long long)(j - q->offset),
                         grad[j], expected);
        }
    }
    free(initial);
    free(p);
    free(grad);
    lvn_model_state_free(n);
}

static void views_that_overlap(void **state)
{
    (void)state;
    check(overlapping, true);
}

static void all_and_a_part(void **state)
{
    (void)state;
    check(first_token, true);
}

static void slices_with_uncovered_channels(void **state)
{
    (void)state;
    check(disjoint, true);
}

static void transposed_views(void **state)
{
    (void)state;
    check(mixed, false);
}

static void inputs_that_are_one_tensor(void **state)
{
    (void)state;
    check(repeated, false);
    check(shared_heads, true);
}

static void summand_and_its_part(void **state)
{
    (void)state;
    check(part_of_a_summand, true);
}

static void parts_of_parameters(void **state)
{
    (void)state;
    check(many_parts, true);
}

/* One sentence for shapes that do not fit. */
static void bad_shapes(void **state)
{
    (void)state;
    static const char *const sentences[] = {
        "transpose of 'x': shape (2, 3) has no dimensions 0 and 2",
        "concat: first input 'x' has shape (2, 3), second input 'y' has (3); they may differ only in "
        "dimension 0, from 0 on",
        "concat: first input 'x' has shape (2, 3), second input 'x' has (2, 3); they may differ only "
        "in dimension 2, from 0 on",
        "mean: input 'x' of shape (2, 3) has no dimension 2; the first one is 0",
        "mul: first input 'x' has shape (2, 3), second input 'z' has (2); they must be equal",
        "reshape of 'x' to 6 dimensions; a tensor has 1 to 4",
        "attention: dropout of queries with shape (1, 2, 2, 4) in a micro-batch of 2 samples: with dropout the first "
        "dimension must be the samples",
        "slice of 'x': 1 elements from 9223372036854775807 along dimension 0 exceed shape (2, 3)",
        "heads of 'h': 4611686018427387904 heads of 4 channels from channel 0 exceed shape (1, 2, 8)",
        "reshape of 'x': shape (2, 3) cannot be viewed as (-1, 4)",
        "reshape of 'x': shape (2, 3) cannot be viewed as (-1, -1)",
        "reshape of 'x': shape (2, 3) cannot be viewed as (4611686018427387904, 4)",
    };
    for (int i = 0; i < 12; i++) {
        struct lvn_params *params = lvn_params_new();
        struct levin_graph *g = lvn_graph_new(params, LVN_F32);
        struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 3));
        struct levin_tensor *y = lvn_input(g, "y", LVN_DESC(LVN_F32, 3)), *z = lvn_input(g, "z", LVN_DESC(LVN_F32, 2));
        struct levin_tensor *h = lvn_input(g, "h", LVN_DESC(LVN_F32, 1, 2, 8)), *q = levin_heads(g, h, 0, 2, 4);
        const struct levin_attention_options how = {.size = sizeof how, .scale = 1, .dropout = 0.1};
        struct levin_tensor *bad = i == 0    ? levin_transpose(g, x, 0, 2)
                                   : i == 1  ? levin_concat(g, x, y, 0)
                                   : i == 2  ? levin_concat(g, x, x, 2)
                                   : i == 3  ? levin_mean(g, x, 2)
                                   : i == 4  ? levin_mul(g, x, z)
                                   : i == 5  ? levin_reshape(g, x, 6, (int64_t[]){1, 1, 1, 1, 2, 3})
                                   : i == 6  ? levin_attention(g, q, q, q, &how)
                                   : i == 7  ? levin_slice(g, x, 0, INT64_MAX, 1)
                                   : i == 8  ? levin_heads(g, h, 0, (int64_t)1 << 62, 4)
                                   : i == 9  ? levin_reshape(g, x, 2, (int64_t[]){-1, 4})
                                   : i == 10 ? levin_reshape(g, x, 2, (int64_t[]){-1, -1})
                                             : levin_reshape(g, x, 2, (int64_t[]){(int64_t)1 << 62, 4});
        assert_null(bad);
        assert_int_equal(lvn_graph_status(g), LVN_SHAPE);
        assert_string_equal(levin_error_text(), sentences[i]);
        lvn_graph_free(g);
        lvn_params_free(params);
    }
}

static void bad_slices(void **state)
{
    (void)state;
    struct lvn_params *params = lvn_params_new();
    struct levin_graph *g = lvn_graph_new(params, LVN_F32);
    struct levin_tensor *x = lvn_input(g, "x", LVN_DESC(LVN_F32, 2, 3));
    assert_null(levin_slice(g, x, 1, 2, 2));
    assert_int_equal(lvn_graph_status(g), LVN_SHAPE);
    assert_string_equal(levin_error_text(), "slice of 'x': 2 elements from 2 along dimension 1 exceed shape (2, 3)");
    lvn_graph_free(g);
    lvn_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_that_overlap),
        cmocka_unit_test(all_and_a_part),
        cmocka_unit_test(slices_with_uncovered_channels),
        cmocka_unit_test(transposed_views),
        cmocka_unit_test(inputs_that_are_one_tensor),
        cmocka_unit_test(summand_and_its_part),
        cmocka_unit_test(parts_of_parameters),
        cmocka_unit_test(bad_shapes),
        cmocka_unit_test(bad_slices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
