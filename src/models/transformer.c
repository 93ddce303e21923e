/* transformer.c - see transformer.h. */
#include "models/transformer.h"

#include <inttypes.h>
#include <math.h>

const struct lvn_key_word lvn_gelu_words[] = {
    {"gelu", LVN_GELU_ERF, "the erf GELU"},
    {"gelu_new", LVN_GELU_TANH, "the tanh GELU"},
    {"gelu_fast", LVN_GELU_TANH, "the tanh GELU"},
    {"gelu_pytorch_tanh", LVN_GELU_TANH, "the tanh GELU"},
    {NULL, 0, NULL},
};

struct lvn_tensor *lvn_gelu_by(struct lvn_graph *g, int64_t which, struct lvn_tensor *x)
{
    return which == LVN_GELU_TANH ? lvn_gelu_tanh(g, x) : lvn_gelu(g, x);
}

static int64_t channels(const struct lvn_tensor *x)
{
    return x ? x->desc.dim[x->desc.rank - 1] : 1;
}

struct lvn_tensor *lvn_projection(struct lvn_graph *g, const char *weight, const char *bias, struct lvn_tensor *x,
                                  int64_t N, double std)
{
    struct lvn_tensor *w = lvn_weight(g, weight, channels(x), N, std);
    return lvn_linear(g, x, w, bias ? lvn_vector(g, bias, N, 0.0) : NULL, true);
}

struct lvn_tensor *lvn_norm(struct lvn_graph *g, const char *weight, const char *bias, struct lvn_tensor *x, double eps)
{
    struct lvn_tensor *gamma = lvn_vector(g, weight, channels(x), 1.0);
    return lvn_layernorm(g, x, gamma, bias ? lvn_vector(g, bias, channels(x), 0.0) : NULL, eps);
}

double lvn_residual_std(int64_t n_layer)
{
    return LVN_WEIGHT_STD / sqrt(2.0 * (double)n_layer);
}

struct lvn_tensor *lvn_decoder_head(struct lvn_graph *g, const struct lvn_model_config *c,
                                    struct lvn_tensor *const *inputs, struct lvn_tensor *x, struct lvn_tensor *tied,
                                    const char *lm, int64_t V)
{
    const bool classes = lvn_model_predicts_samples(c);
    const int64_t N = classes ? c->classes : V;
    lvn_scope(g, "%s", classes ? "score" : lm);
    struct lvn_tensor *w = tied;
    if (classes || !tied) w = lvn_weight(g, "weight", N, channels(x), LVN_WEIGHT_STD);
    return lvn_linear(g, classes ? lvn_last_token(g, x, inputs[1]) : x, w, NULL, false);
}

enum lvn_status lvn_check_heads(int64_t n_embd, int64_t n_head)
{
    const int64_t below = n_embd / n_head * n_head;
    LVN_CHECK(n_embd % n_head == 0, ARG,
              "model.n_embd (%" PRId64 ") is not a multiple of model.n_head (%" PRId64
              "), but each head gets an equal share; take %" PRId64 " or another multiple",
              n_embd, n_head, below ? below : n_head);
    return LVN_OK;
}

enum lvn_status lvn_check_size(int64_t n_layer, int64_t n_embd, double rows)
{
    const double C = (double)n_embd, values = 12.0 * (double)n_layer * C * C + rows * C;
    LVN_CHECK(values < 1e14, ARG,
              "the model would have about %.2g values (model.n_layer %" PRId64 ", model.n_embd %" PRId64
              "), more than any machine holds; take smaller sizes",
              values, n_layer, n_embd);
    return LVN_OK;
}
