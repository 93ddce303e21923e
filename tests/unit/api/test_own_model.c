/* test_own_model.c - covers: src/app/api/api_own_model.c include/levin.h
 *
 * Models that a program writes with the operations of levin.h: a Llama is model.kind=llama. */
#include "io_test.h"

#include <math.h>

#include "levin.h"

enum { LAYERS = 2, HEADS = 4, KEY_HEADS = 2, CHANNELS = 32, HEAD = CHANNELS / HEADS, INNER = 48 };
static const double STD = 0.02; /* of initial weights */

static struct levin_tensor *project(struct levin_graph *g, const char *name, struct levin_tensor *x, int64_t in,
                                    int64_t out, double std)
{
    return levin_linear(g, x, levin_weight(g, name, in, out, std), NULL, true);
}

static struct levin_tensor *norm(struct levin_graph *g, const char *name, struct levin_tensor *x)
{
    return levin_rmsnorm(g, x, levin_vector(g, name, CHANNELS, 1.0), 1e-5, 0);
}

static struct levin_tensor *attention(struct levin_graph *g, struct levin_tensor *x, struct levin_tensor *angles)
{
    struct levin_tensor *q = project(g, "self_attn.q_proj.weight", x, CHANNELS, HEADS * HEAD, STD);
    struct levin_tensor *k = project(g, "self_attn.k_proj.weight", x, CHANNELS, KEY_HEADS * HEAD, STD);
    struct levin_tensor *v = project(g, "self_attn.v_proj.weight", x, CHANNELS, KEY_HEADS * HEAD, STD);
    q = levin_rotary(g, levin_heads(g, q, 0, HEADS, HEAD), angles);
    k = levin_kv_cache(g, "k", levin_rotary(g, levin_heads(g, k, 0, KEY_HEADS, HEAD), angles), 0);
    v = levin_kv_cache(g, "v", levin_heads(g, v, 0, KEY_HEADS, HEAD), 0);
    const struct levin_attention_options how = {.size = sizeof how, .causal = true, .scale = 1 / sqrt(HEAD)};
    struct levin_tensor *y = levin_attention(g, q, k, v, &how);
    return project(g, "self_attn.o_proj.weight", y, CHANNELS, CHANNELS, STD / sqrt(2.0 * LAYERS));
}

static struct levin_tensor *llama(struct levin_graph *g, const struct levin_sizes *n, struct levin_tensor *ids,
                                  void *context)
{
    (void)context;
    levin_scope(g, "model");
    struct levin_tensor *x =
        levin_embedding(g, ids, levin_table(g, "embed_tokens.weight", n->vocab_size, CHANNELS, STD), NULL);
    struct levin_tensor *angles = levin_rotary_angles(g, ids, HEAD, 1e4);
    for (int l = 0; l < LAYERS; l++) {
        levin_scope(g, "model.layers.%d", l);
        levin_block(g);
        x = levin_add(g, x, attention(g, norm(g, "input_layernorm.weight", x), angles));
        struct levin_tensor *h = norm(g, "post_attention_layernorm.weight", x);
        struct levin_tensor *gate = project(g, "mlp.gate_proj.weight", h, CHANNELS, INNER, STD);
        h = levin_mul(g, levin_silu(g, gate), project(g, "mlp.up_proj.weight", h, CHANNELS, INNER, STD));
        x = levin_add(g, x, project(g, "mlp.down_proj.weight", h, INNER, CHANNELS, STD / sqrt(2.0 * LAYERS)));
    }
    levin_block_end(g);
    levin_scope(g, "model");
    x = norm(g, "norm.weight", x);
    levin_scope(g, "lm_head");
    return levin_linear(g, x, levin_weight(g, "weight", n->vocab_size, CHANNELS, STD), NULL, false);
}

/* Each token by itself: half of its channels, bounded, add to all of them. */
static struct levin_tensor *tokens(struct levin_graph *g, const struct levin_sizes *n, struct levin_tensor *ids,
                                   void *context)
{
    (void)context;
    struct levin_tensor *table = levin_table(g, "wte", n->vocab_size, CHANNELS, 0.1);
    struct levin_tensor *x = levin_embedding(g, ids, table, NULL);
    struct levin_tensor *half = levin_tanh(g, levin_pack(g, levin_slice(g, x, 2, 0, CHANNELS / 2)));
    half = levin_scale(g, levin_relu(g, half), 0.5);
    return levin_linear(g, levin_add(g, x, project(g, "mix", half, CHANNELS / 2, CHANNELS, 0.1)), table, NULL, false);
}

static struct levin_settings *settings(const char *name, const char *const (*more)[2])
{
    const char *keys[][2] = {{"name", name},
                             {"run_dir", test_path(name)},
                             {"data.path", test_path("verse.txt")},
                             {"model.n_layer", "2"},
                             {"model.n_head", "4"},
                             {"model.n_embd", "32"},
                             {"model.block_size", "16"},
                             {"trainer.batch_size", "4"},
                             {"trainer.max_steps", "20"},
                             {"checkpoint.every_n_steps", "0"},
                             {"optimizer.lr", "1e-2"}};
    struct levin_settings *s = levin_settings_new();
    assert_non_null(s);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (levin_settings_put(s, keys[i][0], keys[i][1])) fail_msg("%s", levin_error_text());
    for (; more && (*more)[0]; more++)
        if (levin_settings_put(s, (*more)[0], (*more)[1])) fail_msg("%s", levin_error_text());
    return s;
}

static int put_verse(void **state)
{
    static const char verse[] = "the owl and the pussycat went to sea in a beautiful pea-green boat\n";
    char text[60 * sizeof verse] = "";
    for (int i = 0; i < 60; i++) memcpy(text + (size_t)i * (sizeof verse - 1), verse, sizeof verse);
    if (test_dir_make(state)) return -1;
    test_put("verse.txt", text, (int64_t)strlen(text));
    return 0;
}

/* Train to the end; the losses of the first and the last step, and a continuation of "the ", for the caller to free. */
static char *train(struct levin_settings *s, const struct levin_own_model *m, double loss[2])
{
    struct levin_run *r;
    char *text;
    bool over = false;
    if (levin_run_open(&r, s, m, LEVIN_OPEN_NEW)) fail_msg("%s", levin_error_text());
    while (!over) {
        if (levin_run_step(r, &over)) fail_msg("step %lld: %s", (long long)levin_run_steps(r), levin_error_text());
        loss[levin_run_steps(r) > 1] = levin_run_value(r, "loss");
    }
    if (levin_run_generate(r, "the ", &text)) fail_msg("%s", levin_error_text());
    char longer[256], *none;
    memset(longer, 't', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    if (!m) /* a Llama's context is bounded */
        ASSERT_FAILS(ARG, "the prompt has 255 tokens, and the model's context has",
                     (enum lvn_status)levin_run_generate(r, longer, &none));
    assert_int_equal(levin_run_close(r), 0);
    levin_settings_free(s);
    return text;
}

static void a_llama_is_the_llama(void **state)
{
    (void)state;
    static const char *const sizes[][2] = {
        {"model.kind", "llama"}, {"model.n_kv_head", "2"}, {"model.intermediate_size", "48"}, {NULL, NULL}};
    const struct levin_own_model own = {.size = sizeof own, .name = "own", .logits = llama};
    double expected[2], found[2];
    char *a = train(settings("kind", sizes), NULL, expected), *b = train(settings("own", NULL), &own, found);
    assert_float_equal(found[0], expected[0], 0);
    assert_float_equal(found[1], expected[1], 0);
    assert_true(strlen(b) > strlen(a));
    b[strlen(a)] = 0; /* a Llama ends at its context length; a custom model continues from the last positions */
    assert_string_equal(b, a);
    levin_free(a);
    levin_free(b);
}

static void the_other_operations_train(void **state)
{
    (void)state;
    static const char *const longer[][2] = {{"trainer.max_steps", "150"}, {NULL, NULL}};
    const struct levin_own_model own = {.size = sizeof own, .name = "own", .logits = tokens};
    double loss[2];
    levin_free(train(settings("tokens", longer), &own, loss));
    assert_true(loss[1] < 0.6 * loss[0]); /* 1.6 of 3.1; the least that a token alone can tell is 1.14 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_llama_is_the_llama),
        cmocka_unit_test(the_other_operations_train),
    };
    return cmocka_run_group_tests(tests, put_verse, test_dir_drop);
}
