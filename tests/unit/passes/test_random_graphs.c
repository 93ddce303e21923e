/* test_random_graphs.c - covers: src/core/passes/differentiate.c src/core/passes/fuse_chains.c src/core/passes/fuse.c
 *
 * Networks of random operations, whose tensors are used several times, whole and in parts: gradients in double against
 * finite differences, and loss and gradients of the CPU's kernels in fp32 (with recomputation and without, and with one
 * sample per micro-batch) and bf16-mixed against those in double. LEVIN_SEEDS=N checks N networks. */
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

enum { B = 2, C = 12, V = 8, MAX_TENSORS = 24, PROBES = 24 };

/* --- the network --- */

static uint64_t seed;
static int T;            /* as few queries as when decoding, or one block of attention, or more */
static bool mixes_batch; /* a sample's values depend on other samples */

struct network {
    struct levin_graph *g;
    struct levin_tensor *ids, *x[MAX_TENSORS]; /* each (B,T,C) */
    int n;
    uint64_t random;
    int n_params;
};

/* One of 0 to n - 1. No call has two arguments that draw, because C leaves their order open. */
static int any(struct network *w, int n)
{
    w->random = w->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (int)((w->random >> 33) % (uint64_t)n);
}

/* One of the tensors so far; late ones are as frequent as all others. */
static struct levin_tensor *pick(struct network *w)
{
    return w->x[any(w, 2) ? w->n - 1 : any(w, w->n)];
}

/* One whose values are small: products of products and large scores of attention exceed what fp32 can hold. */
static struct levin_tensor *pick_small(struct network *w)
{
    return levin_rmsnorm(w->g, pick(w), NULL, 1e-2, 0);
}

static const char *name(struct network *w)
{
    static char text[32];
    snprintf(text, sizeof text, "p%02d", w->n_params++);
    return text;
}

static struct levin_tensor *linear(struct network *w, struct levin_tensor *x, int64_t out)
{
    const int64_t in = x->desc.dim[x->desc.rank - 1];
    struct levin_tensor *bias = any(w, 2) ? levin_vector(w->g, name(w), out, 0.1) : NULL;
    const bool in_out = any(w, 2);
    return levin_linear(w->g, x,
                        in_out ? levin_weight(w->g, name(w), in, out, 0.4) : levin_table(w->g, name(w), out, in, 0.4),
                        bias, in_out);
}

/* The same elements in rows of n. */
static struct levin_tensor *rows_of(struct network *w, struct levin_tensor *x, int64_t n)
{
    return levin_reshape(w->g, x, 2, (const int64_t[]){-1, n});
}

static struct levin_tensor *reshape(struct network *w, struct levin_tensor *x, int64_t n)
{
    return levin_reshape(w->g, x, 3, (const int64_t[]){-1, T, n});
}

/* Dropout or a linear layer, of x or its elements in other rows. */
static struct levin_tensor *reshaped(struct network *w, struct levin_tensor *x)
{
    static const int widths[] = {C, C / 2, C / 3};
    const int n = widths[any(w, 3)];
    if (any(w, 3)) x = rows_of(w, x, n);
    x = any(w, 3) ? levin_dropout(w->g, x, 0.3) : linear(w, x, x->desc.dim[x->desc.rank - 1]);
    return any(w, 3) ? reshape(w, x, C) : levin_scale(w->g, reshape(w, x, C), 0.9);
}

/* A parameter of which operations use all, rows, and the same row twice, in any order. */
static struct levin_tensor *of_table(struct network *w, struct levin_tensor *x)
{
    struct levin_tensor *all = levin_table(w->g, "shared", C, C, 0.4), *row[2];
    const int first = any(w, C), count = 1 + any(w, C - first);
    for (int i = 0; i < 2; i++)
        row[i] = levin_reshape(w->g, levin_slice(w->g, all, 0, any(w, 3), 1), 1, (const int64_t[]){C});
    switch (any(w, 5)) {
    case 0:
        return levin_linear(w->g, x, all, NULL, false);
    case 1:
        return linear(w, levin_linear(w->g, x, levin_slice(w->g, all, 0, first, count), NULL, false), C);
    case 2:
        return levin_mul(w->g, x, row[0]);
    case 3:
        return levin_mul(w->g, x, levin_mul(w->g, row[0], row[1]));
    default:
        return levin_linear(w->g, x, levin_add(w->g, all, any(w, 2) ? all : levin_gelu(w->g, all)), NULL, true);
    }
}

/* Channels of a tensor, from which a linear layer makes C ones. */
static struct levin_tensor *part(struct network *w)
{
    const int count = 2 + any(w, C - 2), first = any(w, C - count + 1);
    struct levin_tensor *x = levin_pack(w->g, levin_slice(w->g, pick(w), 2, first, count));
    return any(w, 3) ? linear(w, x, C) : linear(w, levin_pack(w->g, levin_slice(w->g, x, 2, 0, 2)), C);
}

static struct levin_tensor *heads(struct network *w, struct levin_tensor *x, int n, struct levin_tensor *angles)
{
    enum { S = 4 };
    struct levin_tensor *h = levin_heads(w->g, x, any(w, C - n * S + 1), n, S);
    return angles ? levin_rotary(w->g, h, angles) : h;
}

static struct levin_tensor *attention(struct network *w)
{
    struct levin_tensor *x = pick_small(w), *y = any(w, 2) ? x : pick_small(w), *z = any(w, 2) ? y : pick(w);
    struct levin_tensor *angles = any(w, 2) ? levin_rotary_angles(w->g, w->ids, 4, 1e4) : NULL;
    const int kv = 1 + any(w, 2);
    struct levin_attention_options how = {.size = sizeof how, .scale = 0.5, .causal = any(w, 3) != 0};
    how.softcap = any(w, 3) ? 0 : 2;
    how.dropout = any(w, 3) ? 0 : 0.2;
    struct levin_tensor *q = heads(w, x, 2, angles), *k = heads(w, y, kv, angles), *v = heads(w, z, kv, NULL);
    if (kv == 2 && !any(w, 3)) k = q;
    if (!any(w, 4)) v = k;
    return linear(w, levin_attention(w->g, q, k, v, &how), C);
}

static struct levin_tensor *elementwise(struct network *w, struct levin_tensor *x)
{
    switch (any(w, 8)) {
    case 0:
        return levin_gelu(w->g, x);
    case 1:
        return levin_gelu_tanh(w->g, x);
    case 2:
        return levin_silu(w->g, x);
    case 3:
        return levin_tanh(w->g, x);
    case 4:
        return levin_relu(w->g, x);
    case 5:
        return levin_relu2(w->g, levin_rmsnorm(w->g, x, NULL, 1e-2, 0));
    case 6:
        return levin_softmax(w->g, x);
    default:
        return levin_scale(w->g, x, -0.7);
    }
}

static struct levin_tensor *operation(struct network *w)
{
    struct levin_graph *g = w->g;
    struct levin_tensor *x = pick(w), *gamma = any(w, 2) ? levin_vector(g, name(w), C, 0.9) : NULL;
    switch (any(w, 20)) {
    case 18:
    case 19:
        return of_table(w, x);
    case 16: {
        struct levin_tensor *sum = levin_add(g, pick(w), reshaped(w, x));
        return any(w, 2) ? levin_rmsnorm(g, sum, gamma, 1e-3, 0)
                         : levin_layernorm(g, sum, levin_vector(g, name(w), C, 1.1), gamma, 1e-3);
    }
    case 17:
        return reshaped(w, x);
    case 0:
    case 1:
        return linear(w, x, C);
    case 2:
    case 3:
        return elementwise(w, x);
    case 4:
        return levin_add(g, x, pick(w));
    case 5: {
        struct levin_tensor *small = pick_small(w);
        return levin_mul(g, small, any(w, 2) ? small : x);
    }
    case 6:
        return levin_mul(g, elementwise(w, pick_small(w)), x);
    case 7:
        return levin_rmsnorm(g, x, gamma, 1e-3, any(w, 2));
    case 8:
        return levin_layernorm(g, x, levin_vector(g, name(w), C, 1.1), gamma, 1e-3);
    case 9:
        return part(w);
    case 10:
        return attention(w);
    case 11: {
        const int count = 1 + any(w, C - 1), first = any(w, count + 1);
        return levin_concat(g, levin_pack(g, levin_slice(g, x, 2, 0, count)),
                            levin_pack(g, levin_slice(g, pick(w), 2, first, C - count)), 2);
    }
    case 12:
        mixes_batch = true;
        return levin_mul(g, levin_mean(g, levin_mean(g, pick_small(w), 0), 0), x);
    case 13: {
        struct levin_tensor *a = any(w, 2) ? levin_vector(g, name(w), 1, 0.8) : NULL, *z = pick(w);
        return levin_weighted_sum(g, x, z, a, levin_vector(g, name(w), 1, 0.6), 1.5);
    }
    case 14: {
        struct levin_tensor *gate = linear(w, pick(w), 2);
        return levin_gated_add(g, x, pick(w), gate, NULL, 2);
    }
    default:
        return any(w, 2)
                   ? levin_add(g, x, levin_table(g, name(w), T, C, 0.3))
                   : levin_pack(g,
                                levin_transpose(g, levin_softmax(g, levin_pack(g, levin_transpose(g, x, 1, 2))), 1, 2));
    }
}

static struct levin_tensor *build(struct levin_graph *g, const struct lvn_model_config *c,
                                  struct levin_tensor *const *in)
{
    struct network w = {.g = g, .ids = in[0], .random = seed * 0x9e3779b97f4a7c15ULL + 1};
    (void)c;
    mixes_batch = false;
    w.x[w.n++] = levin_embedding(g, in[0], levin_table(g, "table", V, C, 1), NULL);
    const int operations = 3 + any(&w, 12), blocks = any(&w, 3);
    for (int i = 0; i < operations; i++) {
        if (blocks && i % 4 == 0) levin_block(g);
        struct levin_tensor *y = operation(&w);
        if (!y) return NULL;
        w.x[w.n++] = y;
    }
    levin_block_end(g);
    struct levin_tensor *y = levin_rmsnorm(g, levin_add(g, w.x[w.n - 1], pick(&w)), NULL, 1e-2, 0);
    switch (any(&w, 4)) {
    case 0: /* two rows for each label */
        y = levin_reshape(g, y, 3, (const int64_t[]){y->desc.dim[0], 2 * T, C / 2});
        return reshape(&w, levin_linear(g, y, levin_weight(g, "out", C / 2, V / 2, 0.5), NULL, true), V);
    case 1:
        return reshape(&w, levin_linear(g, rows_of(&w, y, C), levin_weight(g, "out", C, V, 0.5), NULL, true), V);
    default:
        return levin_linear(g, y, levin_weight(g, "out", C, V, 0.5), NULL, true);
    }
}

/* --- running it --- */

static const struct lvn_key no_keys[] = {{.kind = LVN_KEY_END}};
static struct lvn_field reads[] = {{.name = "ids", .dtype = LVN_I32, .rank = 1}, {.name = NULL}};
static const struct lvn_model model = {
    .name = "random", .keys = no_keys, .inputs = reads, .tasks = lvn_language_tasks, .build = build};

struct rig {
    struct lvn_fields fields;
    struct lvn_model_config config;
    struct lvn_model_state *state;
    struct lvn_session *session;
    enum lvn_dtype real;
    int64_t count;
};

static void open_rig(struct rig *r, const char *backend, enum lvn_dtype real, enum lvn_precision precision,
                     enum lvn_recompute recompute, bool train, int micro_batches)
{
    int32_t *ids = calloc((size_t)(B * T), sizeof *ids), *labels = calloc((size_t)(B * T), sizeof *labels);
    struct network random = {.random = seed};
    for (int i = 0; i < B * T; i++) ids[i] = any(&random, V), labels[i] = any(&random, V);
    reads[0].dim[0] = T;
    *r = (struct rig){.fields = lvn_stream_fields(T, V), .config = {.model = &model}, .real = real};
    struct lvn_samples b = {.fields = r->fields, .rows = B, .n_valid = B, .p = {ids, labels}};
    const struct lvn_session_options o = {.fields = &r->fields,
                                          .B = B / micro_batches,
                                          .n_micro_batches = micro_batches,
                                          .task = lvn_task_find("lm"),
                                          .train = train,
                                          .deterministic = micro_batches > 1 && seed % 2,
                                          .recompute = recompute};
    const struct lvn_model_state_options how = {
        .backend = lvn_backend_find(backend), .real = real, .precision = precision, .threads = 2};
    if (lvn_model_state_new(&r->state, &r->config, &how) != LVN_OK ||
        lvn_session_new(&r->session, r->state, &o) != LVN_OK || lvn_model_state_allocate(r->state) != LVN_OK)
        fail_msg("seed %d: %s\n%s", (int)seed, levin_error_text(), levin_error_trace());
    assert_int_equal(lvn_session_feed(r->session, 0, &b), LVN_OK);
    r->count = r->state->params->flat_count;
    free(ids);
    free(labels);
}

static void close_rig(struct rig *r)
{
    lvn_model_state_free(r->state);
}

/* Values of fp32 or fp64 in the memory of a backend, from and to double. */
static void transfer(struct rig *r, enum lvn_buffer buffer, double *x, bool write)
{
    float *narrow = calloc((size_t)r->count, sizeof *narrow);
    const int64_t bytes = r->count * lvn_dtype_bytes(r->real);
    void *p = r->real == LVN_F64 ? (void *)x : narrow;
    for (int64_t i = 0; write && i < r->count; i++) narrow[i] = (float)x[i];
    assert_int_equal(write ? lvn_memory_write(r->state->memory[buffer], 0, p, bytes)
                           : lvn_memory_read(r->state->memory[buffer], 0, p, bytes),
                     LVN_OK);
    for (int64_t i = 0; !write && p == narrow && i < r->count; i++) x[i] = (double)narrow[i];
    free(narrow);
}

/* training: with dropout */
static double loss_of(struct rig *r, double *weights, bool training)
{
    transfer(r, LVN_BUFFER_PARAM, weights, true);
    r->session->step_args = (struct lvn_step){.grad_scale = 1.0 / (B * T), .training = training};
    return lvn_session_run(r->session, B / r->session->options.B) / (B * T);
}

static double norm_of(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (x[i] - (y ? y[i] : 0)) * (x[i] - (y ? y[i] : 0));
    return sqrt(sum);
}

/* Loss and gradients of the CPU's kernels, or only the loss of a program without backward; a single gradient may pass
 * or stop at the kink of a relu. */
static void check_kernels(enum lvn_precision precision, enum lvn_recompute recompute, bool train, int micro_batches,
                          double *weights, double loss, const double *expected)
{
    const double bound = precision == LVN_PRECISION_TRUE ? 1 : 100;
    struct rig r;
    open_rig(&r, "cpu", LVN_F32, precision, recompute, train, micro_batches);
    double *gradients = calloc((size_t)r.count, sizeof *gradients);
    const double got = loss_of(&r, weights, train);
    if (train) transfer(&r, LVN_BUFFER_GRAD, gradients, false);
    const double error = train ? norm_of(gradients, expected, r.count) / (norm_of(expected, NULL, r.count) + 1e-6) : 0;
    if (!(fabs(got - loss) <= bound * 1e-4 * fabs(loss)) || !(error <= fmin(bound * 2e-2, 0.5)))
        fail_msg(
            "seed %d, precision %d, recompute %d, train %d, %d micro-batches: loss %.9g instead of %.9g, gradients "
            "differ by %.3g of their norm",
            (int)seed, (int)precision, (int)recompute, train, micro_batches, got, loss, error);
    free(gradients);
    close_rig(&r);
}

/* Is the gradient of weight j the finite difference over 2 h? A smaller h is for those that cross the kink of a relu.
 */
static bool agrees(struct rig *r, double *weights, int64_t j, double gradient, double h, double norm)
{
    const double old = weights[j];
    weights[j] = old + h;
    const double up = loss_of(r, weights, true);
    weights[j] = old - h;
    const double down = loss_of(r, weights, true);
    weights[j] = old;
    return fabs((up - down) / (2 * h) - gradient) <= 1e-6 * (1 + norm);
}

static void check_network(void)
{
    struct rig r;
    open_rig(&r, "reference", LVN_F64, LVN_PRECISION_TRUE, LVN_RECOMPUTE_NONE, true, 1);
    float *initial = calloc((size_t)r.count, sizeof *initial);
    double *weights = calloc((size_t)r.count, sizeof *weights), *gradients = calloc((size_t)r.count, sizeof *gradients);
    initial_values(r.state->params, (int)seed + 1, initial);
    for (int64_t i = 0; i < r.count; i++) weights[i] = (double)initial[i];
    const double evaluated = loss_of(&r, weights, false), loss = loss_of(&r, weights, true);
    transfer(&r, LVN_BUFFER_GRAD, gradients, false);
    const double norm = norm_of(gradients, NULL, r.count);
    struct network random = {.random = seed};
    for (int i = 0; i < PROBES; i++) {
        const struct lvn_param *q = r.state->params->list[i % r.state->params->n];
        const int64_t j = q->offset + any(&random, (int)q->count);
        if (!agrees(&r, weights, j, gradients[j], 1e-5, norm) && !agrees(&r, weights, j, gradients[j], 1e-7, norm))
            fail_msg("seed %d, weight %d: gradient %.10g differs from the finite difference", (int)seed, (int)j,
                     gradients[j]);
    }
    check_kernels(LVN_PRECISION_TRUE, LVN_RECOMPUTE_CHEAP, true, 1, weights, loss, gradients);
    check_kernels(LVN_PRECISION_TRUE, LVN_RECOMPUTE_BLOCKS, true, 1, weights, loss, gradients);
    check_kernels(LVN_PRECISION_TRUE, LVN_RECOMPUTE_NONE, false, 1, weights, evaluated, gradients);
    check_kernels(LVN_PRECISION_BF16_MIXED, LVN_RECOMPUTE_NONE, true, 1, weights, loss, gradients);
    check_kernels(LVN_PRECISION_BF16_MIXED, LVN_RECOMPUTE_NONE, false, 1, weights, evaluated, gradients);
    if (!mixes_batch) check_kernels(LVN_PRECISION_TRUE, LVN_RECOMPUTE_NONE, true, B, weights, loss, gradients);
    free(initial);
    free(weights);
    free(gradients);
    close_rig(&r);
}

static void random_networks(void **state)
{
    const char *seeds = getenv("LEVIN_SEEDS");
    const uint64_t n = seeds ? strtoull(seeds, NULL, 10) : 300;
    (void)state;
    for (seed = 0; seed < n; seed++) {
        T = (int[]){5, 19, 70}[seed % 3];
        check_network();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_networks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
