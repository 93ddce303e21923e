/* gpt2.c - GPT-2 and its two teaching variants.
 *
 *   gpt2     Hugging Face's: tied head, tanh GELU
 *   nanogpt  tied head, erf GELU, biases optional
 *   mingpt   head of its own without bias, tanh GELU
 *
 * Pre-norm transformer: x += attention(ln_1(x)); x += mlp(ln_2(x)). Names and layouts are those of Hugging Face's
 * files, whose linear weights are stored (in, out); only the head is (out, in). Initial values: N(0, 0.02), projections
 * back into the residual stream N(0, 0.02 / sqrt(2 n_layer)).
 * (Radford et al.: "Language models are unsupervised multitask learners", 2019.) */
#include <math.h>

#include "models/model.h"

static struct lvn_tensor *vector(struct lvn_graph *g, const char *name, int64_t n, double value)
{
    return lvn_param(g, name, LVN_VECTOR, LVN_CONSTANT(value), LVN_DESC(LVN_F32, n));
}

/* x (B,T,C) -> (B,T,N) */
static struct lvn_tensor *linear(struct lvn_graph *g, const struct lvn_model_config *c, const char *weight,
                                 const char *bias, struct lvn_tensor *x, int64_t N, double std)
{
    int64_t C = x ? x->desc.dim[2] : 1;
    struct lvn_tensor *w = lvn_param(g, weight, LVN_WEIGHT, LVN_NORMAL(std), LVN_DESC(LVN_F32, C, N));
    struct lvn_tensor *b = c->bias ? vector(g, bias, N, 0.0) : NULL;
    return lvn_linear(g, x, w, b, true);
}

static struct lvn_tensor *layernorm(struct lvn_graph *g, const struct lvn_model_config *c, const char *weight,
                                    const char *bias, struct lvn_tensor *x)
{
    struct lvn_tensor *gamma = vector(g, weight, c->n_embd, 1.0);
    return lvn_layernorm(g, x, gamma, c->bias ? vector(g, bias, c->n_embd, 0.0) : NULL, c->eps);
}

static struct lvn_tensor *dropout(struct lvn_graph *g, struct lvn_tensor *x, double p)
{
    return p > 0.0 ? lvn_dropout(g, x, p) : x;
}

/* x (B,T,C) -> (B,T,C) */
static struct lvn_tensor *attention(struct lvn_graph *g, const struct lvn_model_config *c, struct lvn_tensor *x)
{
    int64_t C = c->n_embd, H = c->n_head, S = C / H;
    struct lvn_tensor *qkv = linear(g, c, "attn.c_attn.weight", "attn.c_attn.bias", x, 3 * C, 0.02);
    struct lvn_tensor *q = lvn_heads(g, qkv, 0, H, S); /* (B,T,H,S) */
    struct lvn_tensor *k = lvn_kv_cache(g, "attn.k", lvn_heads(g, qkv, C, H, S));
    struct lvn_tensor *v = lvn_kv_cache(g, "attn.v", lvn_heads(g, qkv, 2 * C, H, S));
    struct lvn_tensor *y = lvn_attention(g, q, k, v, NULL, true, 1.0 / sqrt((double)S), c->dropout_attention);
    y = linear(g, c, "attn.c_proj.weight", "attn.c_proj.bias", y, C, 0.02 / sqrt(2.0 * (double)c->n_layer));
    return dropout(g, y, c->dropout_residual);
}

/* x (B,T,C) -> (B,T,C) */
static struct lvn_tensor *mlp(struct lvn_graph *g, const struct lvn_model_config *c, struct lvn_tensor *x)
{
    int64_t C = c->n_embd;
    struct lvn_tensor *h = linear(g, c, "mlp.c_fc.weight", "mlp.c_fc.bias", x, 4 * C, 0.02);
    h = c->gelu_tanh ? lvn_gelu_tanh(g, h) : lvn_gelu(g, h);
    h = linear(g, c, "mlp.c_proj.weight", "mlp.c_proj.bias", h, C, 0.02 / sqrt(2.0 * (double)c->n_layer));
    return dropout(g, h, c->dropout_residual);
}

/* ids (B,T) -> logits (B,T,V) */
static struct lvn_tensor *logits(struct lvn_graph *g, const struct lvn_model_config *c, struct lvn_tensor *ids)
{
    int64_t C = c->n_embd, V = c->vocab_size, P = c->n_positions;
    lvn_scope(g, "transformer");
    struct lvn_tensor *wte = lvn_param(g, "wte.weight", LVN_EMBEDDING, LVN_NORMAL(0.02), LVN_DESC(LVN_F32, V, C));
    struct lvn_tensor *wpe = lvn_param(g, "wpe.weight", LVN_EMBEDDING, LVN_NORMAL(0.02), LVN_DESC(LVN_F32, P, C));
    struct lvn_tensor *x = dropout(g, lvn_embedding(g, ids, wte, wpe), c->dropout_embedding);
    for (int64_t l = 0; l < c->n_layer; l++) {
        lvn_scope(g, "transformer.h.%lld", (long long)l);
        x = lvn_add(g, x, attention(g, c, layernorm(g, c, "ln_1.weight", "ln_1.bias", x)));
        x = lvn_add(g, x, mlp(g, c, layernorm(g, c, "ln_2.weight", "ln_2.bias", x)));
    }
    lvn_scope(g, "transformer");
    x = layernorm(g, c, "ln_f.weight", "ln_f.bias", x);
    lvn_scope(g, "lm_head");
    struct lvn_tensor *head =
        c->tied ? wte : lvn_param(g, "weight", LVN_WEIGHT, LVN_NORMAL(0.02), LVN_DESC(LVN_F32, V, C));
    return lvn_linear(g, x, head, NULL, false);
}

static void gpt2_defaults(struct lvn_model_config *c)
{
    c->bias = c->tied = c->gelu_tanh = true;
    c->dropout_embedding = c->dropout_residual = c->dropout_attention = 0.1;
    c->eps = 1e-5;
}

static void nanogpt_defaults(struct lvn_model_config *c)
{
    gpt2_defaults(c);
    c->bias = c->gelu_tanh = false;
    c->dropout_embedding = c->dropout_residual = c->dropout_attention = 0.0;
}

static void mingpt_defaults(struct lvn_model_config *c)
{
    gpt2_defaults(c);
    c->tied = false;
}

extern const struct lvn_model lvn_model_gpt2, lvn_model_nanogpt, lvn_model_mingpt;
const struct lvn_model lvn_model_gpt2 = {.name = "gpt2", .defaults = gpt2_defaults, .logits = logits};
const struct lvn_model lvn_model_nanogpt = {.name = "nanogpt", .defaults = nanogpt_defaults, .logits = logits};
const struct lvn_model lvn_model_mingpt = {.name = "mingpt", .defaults = mingpt_defaults, .logits = logits};
