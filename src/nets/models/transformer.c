/* transformer.c - see transformer.h. */
#include "models/transformer.h"

const struct lvn_key_word lvn_gelu_words[] = {
    {"gelu", LVN_GELU_ERF, "the erf GELU"},
    {"gelu_new", LVN_GELU_TANH, "the tanh GELU"},
    {"gelu_fast", LVN_GELU_TANH, "the tanh GELU"},
    {"gelu_pytorch_tanh", LVN_GELU_TANH, "the tanh GELU"},
    {NULL, 0, NULL},
};

struct levin_tensor *lvn_gelu_by(struct levin_graph *g, int64_t which, struct levin_tensor *x)
{
    return which == LVN_GELU_TANH ? levin_gelu_tanh(g, x) : levin_gelu(g, x);
}

static int64_t channels(const struct levin_tensor *x)
{
    return x ? x->desc.dim[x->desc.rank - 1] : 1;
}

struct levin_tensor *lvn_projection(struct levin_graph *g, const char *weight, const char *bias, struct levin_tensor *x,
                                    int64_t N, double std)
{
    struct levin_tensor *w = levin_weight(g, weight, channels(x), N, std);
    return levin_linear(g, x, w, bias ? levin_vector(g, bias, N, 0.0) : NULL, true);
}

struct levin_tensor *lvn_norm(struct levin_graph *g, const char *weight, const char *bias, struct levin_tensor *x,
                              double eps)
{
    struct levin_tensor *gamma = levin_vector(g, weight, channels(x), 1.0);
    return levin_layernorm(g, x, gamma, bias ? levin_vector(g, bias, channels(x), 0.0) : NULL, eps);
}

struct levin_tensor *lvn_softcap(struct levin_graph *g, struct levin_tensor *x, double cap)
{
    return levin_scale(g, levin_tanh(g, levin_scale(g, x, 1 / cap)), cap);
}

double lvn_residual_std(int64_t n_layer)
{
    return LVN_WEIGHT_STD / sqrt(2.0 * (double)n_layer);
}

struct levin_tensor *lvn_selected(struct levin_graph *g, struct levin_tensor *x)
{
    if (!g->selected || !x) return x;
    const int64_t rows[] = {lvn_desc_rows(&x->desc), channels(x)};
    return levin_embedding(g, g->selected, levin_reshape(g, x, 2, rows), NULL);
}

struct levin_tensor *lvn_decoder_head(struct levin_graph *g, const struct lvn_model_config *c,
                                      struct levin_tensor *const *inputs, struct levin_tensor *x,
                                      struct levin_tensor *tied, const char *lm, int64_t V)
{
    const bool classes = lvn_model_predicts_samples(c);
    const int64_t N = classes ? c->classes : V;
    levin_scope(g, "%s", classes ? "score" : lm);
    struct levin_tensor *w = tied;
    if (classes || !tied) w = levin_weight(g, "weight", N, channels(x), LVN_WEIGHT_STD);
    if (classes) x = levin_last_token(g, x, inputs[1]);
    return levin_linear(g, lvn_selected(g, x), w, NULL, false);
}

/* --- sliding windows --- */

const struct lvn_key_word lvn_layer_words[] = {
    {"full_attention", 0, "attention over all positions"},
    {"sliding_attention", 1, "attention over a window"},
    {NULL, 0, NULL},
};

enum lvn_status lvn_check_windows(int64_t window, const char *layers, int64_t n_layer)
{
    LVN_CHECK(window != 0, ARG,
              "model.sliding_window is 0, but a layer attends to at least 1 position: set more, or -1 (null in "
              "config.json) for attention over all positions");
    if (!layers) return LVN_OK;
    LVN_CHECK((int64_t)strlen(layers) == n_layer, ARG,
              "layer_types has %zu entries, and the model has %" PRId64 " layers: give one for each layer",
              strlen(layers), n_layer);
    LVN_CHECK(!strchr(layers, 's') || window > 0, ARG,
              "layer_types has sliding_attention, and the model has no window (sliding_window): give it one, or make "
              "them full_attention");
    return LVN_OK;
}

static struct levin_tensor *heads_of(struct levin_graph *g, const struct lvn_attention *a, struct levin_tensor *x,
                                     int64_t H, const char *norm, struct levin_tensor *angles)
{
    struct levin_tensor *heads = levin_heads(g, x, 0, H, a->head_size);
    return levin_rotary(g, a->norm ? a->norm(g, a->config, norm, heads) : heads, angles);
}

struct levin_tensor *lvn_self_attention(struct levin_graph *g, const struct lvn_attention *a, struct levin_tensor *x,
                                        struct levin_tensor *angles)
{
    const int64_t H = a->n_head, K = a->n_kv_head, S = a->head_size;
    const bool bias = a->bias_in;
    struct levin_tensor *q = LVN_LINEAR(g, "self_attn.q_proj", bias, x, H * S, LVN_WEIGHT_STD);
    struct levin_tensor *k = LVN_LINEAR(g, "self_attn.k_proj", bias, x, K * S, LVN_WEIGHT_STD);
    struct levin_tensor *v = LVN_LINEAR(g, "self_attn.v_proj", bias, x, K * S, LVN_WEIGHT_STD);
    q = heads_of(g, a, q, H, "self_attn.q_norm.weight", angles); /* (B,T,H,S) */
    k = levin_kv_cache(g, "self_attn.k", heads_of(g, a, k, K, "self_attn.k_norm.weight", angles), a->window);
    v = levin_kv_cache(g, "self_attn.v", levin_heads(g, v, 0, K, S), a->window);
    const struct levin_attention_options how = {.size = sizeof how,
                                                .causal = true,
                                                .scale = a->scale,
                                                .softcap = a->softcap,
                                                .window = a->window,
                                                .dropout = a->dropout};
    struct levin_tensor *y = levin_attention(g, q, k, v, &how);
    return LVN_LINEAR(g, "self_attn.o_proj", a->bias_out, y, a->n_embd, lvn_residual_std(a->n_layer));
}

struct levin_tensor *lvn_gated_mlp(struct levin_graph *g, struct levin_tensor *x, int64_t N, bool bias, double std,
                                   struct levin_tensor *(*act)(struct levin_graph *g, struct levin_tensor *x))
{
    struct levin_tensor *gate = LVN_LINEAR(g, "mlp.gate_proj", bias, x, N, LVN_WEIGHT_STD);
    struct levin_tensor *up = LVN_LINEAR(g, "mlp.up_proj", bias, x, N, LVN_WEIGHT_STD);
    return LVN_LINEAR(g, "mlp.down_proj", bias, levin_mul(g, act(g, gate), up), channels(x), std);
}

enum lvn_status lvn_check_heads(int64_t n_embd, int64_t n_head)
{
    const int64_t below = n_embd / n_head * n_head;
    LVN_CHECK(n_embd % n_head == 0, ARG,
              "model.n_embd (%" PRId64 ") is not a multiple of model.n_head (%" PRId64
              "), but each head gets an equal share; use %" PRId64 " or another multiple",
              n_embd, n_head, below ? below : n_head);
    return LVN_OK;
}

enum lvn_status lvn_check_grouped_heads(int64_t n_embd, int64_t n_head, int64_t n_kv_head, int64_t head_size)
{
    LVN_CHECK(
        head_size, ARG,
        "model.n_embd (%" PRId64 ") is not a multiple of model.n_head (%" PRId64
        "), and model.head_dim (head_dim in a config.json) does not set the number of channels of a head; set it, "
        "or use %" PRId64 " or another multiple",
        n_embd, n_head, n_embd > n_head ? n_embd / n_head * n_head : n_head);
    LVN_CHECK(n_head % n_kv_head == 0, ARG,
              "model.n_head (%" PRId64 ") is not a multiple of model.n_kv_head (%" PRId64
              "), but each KV head must be shared by the same number of query heads; choose a divisor of the first",
              n_head, n_kv_head);
    return LVN_OK;
}

enum lvn_status lvn_check_size(int64_t n_layer, int64_t n_embd, double rows)
{
    const double C = (double)n_embd, values = 12.0 * (double)n_layer * C * C + rows * C;
    LVN_CHECK(values < 1e14, ARG,
              "the model would have about %.2g values (model.n_layer %" PRId64 ", model.n_embd %" PRId64
              "), more than any machine can store; use smaller sizes",
              values, n_layer, n_embd);
    return LVN_OK;
}
