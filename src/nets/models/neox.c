/* neox.c - GPT-NeoX, the architecture of Pythia.
 *
 * Pre-norm transformer, rotary positions on a part of each head, biases everywhere, an untied head. Attention and MLP
 * read the same residual stream (parallel): x += attention(norm_1(x)) + mlp(norm_2(x)), or one after the other, like
 * GPT-2's. Names and layouts in files are Hugging Face's: linear weights (out, in), with q, k and v head by head; in
 * memory weights are (in, out), with all q, all k, all v. Initial values: N(0, 0.02), projections back into the
 * residual stream N(0, 0.02 / sqrt(2 n_layer)).
 * (Black et al.: "GPT-NeoX-20B", 2022; Biderman et al.: "Pythia", 2023.) */

#include "models/rope.h"
#include "models/transformer.h"

struct neox {
    int64_t n_layer;
    int64_t n_head;
    int64_t n_embd;
    int64_t n_positions;
    int64_t n_inner; /* channels of the MLP; 0: 4 n_embd */
    int64_t vocab_size;
    int64_t activation; /* LVN_GELU_... */
    int64_t bos;        /* token that begins a text; levin only copies it; -1: none */
    bool bias;          /* of attention */
    bool tied;          /* the head shares the embedding's weights */
    bool parallel;      /* attention and MLP read the same residual stream */
    double dropout;
    double dropout_attention;
    double eps;          /* of layer norms */
    double rotary_share; /* of a head's channels */
    struct lvn_rope rope;
};
_Static_assert(sizeof(struct neox) <= LVN_FIELDS_BYTES, "a configuration is a plain value");

static int64_t rotary_dims(const struct neox *c)
{
    return (int64_t)((double)(c->n_embd / c->n_head) * c->rotary_share);
}

/* x (B,T,C), angles (T,dims) -> (B,T,C) */
static struct levin_tensor *attention(struct levin_graph *g, const struct neox *c, struct levin_tensor *x,
                                      struct levin_tensor *angles)
{
    int64_t C = c->n_embd, H = c->n_head, S = C / H;
    struct levin_tensor *qkv = LVN_LINEAR(g, "attention.query_key_value", c->bias, x, 3 * C, LVN_WEIGHT_STD);
    struct levin_tensor *q = levin_rotary(g, levin_heads(g, qkv, 0, H, S), angles); /* (B,T,H,S) */
    struct levin_tensor *k = levin_kv_cache(g, "attention.k", levin_rotary(g, levin_heads(g, qkv, C, H, S), angles), 0);
    struct levin_tensor *v = levin_kv_cache(g, "attention.v", levin_heads(g, qkv, 2 * C, H, S), 0);
    const struct levin_attention_options how = {
        .size = sizeof how, .causal = true, .scale = 1.0 / sqrt((double)S), .dropout = c->dropout_attention};
    struct levin_tensor *y = levin_attention(g, q, k, v, &how);
    y = LVN_LINEAR(g, "attention.dense", c->bias, y, C, lvn_residual_std(c->n_layer));
    return levin_dropout(g, y, c->dropout);
}

/* x (B,T,C) -> (B,T,C) */
static struct levin_tensor *mlp(struct levin_graph *g, const struct neox *c, struct levin_tensor *x)
{
    struct levin_tensor *h = LVN_LINEAR(g, "mlp.dense_h_to_4h", true, x, c->n_inner, LVN_WEIGHT_STD);
    h = lvn_gelu_by(g, c->activation, h);
    h = LVN_LINEAR(g, "mlp.dense_4h_to_h", true, h, c->n_embd, lvn_residual_std(c->n_layer));
    return levin_dropout(g, h, c->dropout);
}

/* ids (B,T) -> logits (B,T,V) */
static struct levin_tensor *build(struct levin_graph *g, const struct lvn_model_config *config,
                                  struct levin_tensor *const *inputs)
{
    const struct neox *c = (const struct neox *)(const void *)config->fields;
    int64_t C = c->n_embd, V = c->vocab_size;
    levin_scope(g, "gpt_neox");
    struct levin_tensor *wte = levin_table(g, "embed_in.weight", V, C, LVN_WEIGHT_STD);
    struct levin_tensor *angles = lvn_rope_table(g, &c->rope, inputs[0], rotary_dims(c), c->n_positions);
    struct levin_tensor *x = levin_dropout(g, levin_embedding(g, inputs[0], wte, NULL), c->dropout);
    for (int64_t l = 0; l < c->n_layer; l++) {
        levin_scope(g, "gpt_neox.layers.%lld", (long long)l);
        levin_block(g);
        struct levin_tensor *y = attention(g, c, LVN_NORM(g, "input_layernorm", true, x, c->eps), angles);
        struct levin_tensor *h = c->parallel ? x : levin_add(g, x, y);
        struct levin_tensor *z = mlp(g, c, LVN_NORM(g, "post_attention_layernorm", true, h, c->eps));
        x = c->parallel ? levin_add(g, levin_add(g, x, y), z) : levin_add(g, h, z);
    }
    levin_block_end(g);
    levin_scope(g, "gpt_neox");
    x = LVN_NORM(g, "final_layer_norm", true, x, c->eps);
    return lvn_decoder_head(g, config, inputs, x, c->tied ? wte : NULL, "embed_out", V);
}

static void resolve_defaults(void *fields)
{
    struct neox *c = fields;
    if (!c->n_inner) c->n_inner = 4 * c->n_embd;
}

static enum lvn_status check(const void *fields)
{
    const struct neox *c = fields;
    LVN_TRY(lvn_check_heads(c->n_embd, c->n_head));
    LVN_TRY(lvn_check_size(c->n_layer, c->n_embd, 2.0 * (double)c->vocab_size));
    return lvn_rope_check(&c->rope, rotary_dims(c));
}

/* --- the keys --- */

// clang-format off
#define N(field) LVN_KEY_INT_OF(struct neox, field)
#define X(field) LVN_KEY_REAL_OF(struct neox, field)
#define IS(field) LVN_KEY_BOOL_OF(struct neox, field)
#define ROTARY_SHARE .default_value = 0.25, .min = 0, .max = 1
static const struct lvn_key keys[] = {
    {LVN_KEY_NAME, .json = "architectures", .text = "GPTNeoXForCausalLM"},
    {N(bos), .json = "bos_token_id", .default_value = -1, .min = -1, .max = INT32_MAX, .null = true},
    {LVN_KEY_TOKEN, .json = "eos_token_id", .default_value = 0},
    {LVN_KEY_WORD_OF(struct neox, activation), .json = "hidden_act", .default_value = LVN_GELU_ERF,
     .words = lvn_gelu_words},
    {N(n_layer), .json = "num_hidden_layers", .required = true, LVN_KEY_N_LAYER, .default_value = 6},
    {N(n_head), .json = "num_attention_heads", .required = true, LVN_KEY_N_HEAD, .default_value = 6},
    {N(n_embd), .json = "hidden_size", .required = true, LVN_KEY_N_EMBD, .default_value = 192},
    {N(n_inner), .json = "intermediate_size", LVN_KEY_INTERMEDIATE_SIZE},
    {N(n_positions), .json = "max_position_embeddings", LVN_KEY_BLOCK_SIZE, .absent = 2048},
    {N(vocab_size), .json = "vocab_size", .required = true, LVN_KEY_VOCAB_SIZE},
    {IS(bias), .json = "attention_bias", .default_value = true, LVN_KEY_BIAS},
    {IS(tied), .json = "tie_word_embeddings", .default_value = false, LVN_KEY_TIED},
    {IS(parallel), .json = "use_parallel_residual", .default_value = true, .recipe = "parallel_residual",
     .help = "attention and MLP both read the input of the block, instead of MLP reading attention's output"},
    {X(dropout), .json = "hidden_dropout", LVN_KEY_DROPOUT, .default_value = 0},
    {X(dropout_attention), .json = "attention_dropout", LVN_KEY_DROPOUT, .default_value = 0},
    {X(eps), .json = "layer_norm_eps", .default_value = 1e-5, LVN_KEY_NORM_EPS},
    {X(rotary_share), .json = "rotary_pct", .recipe = "rotary_pct", ROTARY_SHARE,
     .help = "fraction of each head's dimension that rotary embeddings rotate"},
    {X(rotary_share), .json = "rope_parameters.partial_rotary_factor", .read_only = true, ROTARY_SHARE},
    {X(rotary_share), .json = "rope_scaling.partial_rotary_factor", .read_only = true, ROTARY_SHARE},
    LVN_ROPE_THETA(struct neox, "rotary_emb_base"),
    LVN_ROPE_KEYS(struct neox),
    {LVN_KEY_DTYPE, .json = "dtype"},
    {.kind = LVN_KEY_END},
};
// clang-format on

/* --- the files --- */

/* Ignored: causal masks, frequencies, and a tied head, which some files store twice. */
static const struct lvn_file files[] = {
    {"*.attention.bias", NULL, LVN_FILE_IGNORED},
    {"*.attention.masked_bias", NULL, LVN_FILE_IGNORED},
    {"*.rotary_emb.inv_freq", NULL, LVN_FILE_IGNORED},
    {"*.query_key_value.weight", NULL, LVN_FILE_TRANSPOSED | LVN_FILE_INTERLEAVED},
    {"*.query_key_value.bias", NULL, LVN_FILE_INTERLEAVED},
    {"*.dense*.weight", NULL, LVN_FILE_TRANSPOSED},
    {"embed_out.weight", NULL, LVN_FILE_ROWS | LVN_FILE_IGNORED},
    {"embed_out.weight", "gpt_neox.embed_in.weight", LVN_FILE_LEGACY}, /* tied, and stored once */
    {NULL, NULL, 0},
};

// clang-format off
static const struct lvn_file gguf_files[] = {
    {"token_embd.weight", "gpt_neox.embed_in.weight", 0},
    {"output_norm.*", "gpt_neox.final_layer_norm.*", 0},
    {"output.weight", "embed_out.weight", LVN_FILE_ROWS | LVN_FILE_IGNORED},
    {"blk.*.attn_norm.*", "gpt_neox.layers.*.input_layernorm.*", 0},
    {"blk.*.ffn_norm.*", "gpt_neox.layers.*.post_attention_layernorm.*", 0},
    {"blk.*.attn_qkv.weight", "gpt_neox.layers.*.attention.query_key_value.weight", LVN_FILE_TRANSPOSED},
    {"blk.*.attn_output.weight", "gpt_neox.layers.*.attention.dense.weight", LVN_FILE_TRANSPOSED},
    {"blk.*.ffn_up.weight", "gpt_neox.layers.*.mlp.dense_h_to_4h.weight", LVN_FILE_TRANSPOSED},
    {"blk.*.ffn_down.weight", "gpt_neox.layers.*.mlp.dense_4h_to_h.weight", LVN_FILE_TRANSPOSED},
    {"blk.*.attn_qkv.bias", "gpt_neox.layers.*.attention.query_key_value.bias", 0},
    {"blk.*.attn_output.bias", "gpt_neox.layers.*.attention.dense.bias", 0},
    {"blk.*.ffn_up.bias", "gpt_neox.layers.*.mlp.dense_h_to_4h.bias", 0},
    {"blk.*.ffn_down.bias", "gpt_neox.layers.*.mlp.dense_4h_to_h.bias", 0},
    {NULL, NULL, 0},
};
static const struct lvn_gguf_key gguf_keys[] = {
    {"context_length", "max_position_embeddings", LVN_GGUF_PLAIN},
    {"embedding_length", "hidden_size", LVN_GGUF_PLAIN},
    {"block_count", "num_hidden_layers", LVN_GGUF_PLAIN},
    {"feed_forward_length", "intermediate_size", LVN_GGUF_PLAIN},
    {"attention.head_count", "num_attention_heads", LVN_GGUF_PLAIN},
    {"attention.layer_norm_epsilon", "layer_norm_eps", LVN_GGUF_PLAIN},
    {"use_parallel_residual", "use_parallel_residual", LVN_GGUF_PLAIN},
    {"rope.dimension_count", "rotary_pct", LVN_GGUF_PER_HEAD},
    {"rope.freq_base", "rotary_emb_base", LVN_GGUF_PLAIN},
    {"blk.0.attn_qkv.bias", "attention_bias", LVN_GGUF_TENSOR},
    {NULL, NULL, LVN_GGUF_PLAIN},
};
// clang-format on
static const struct lvn_gguf_family gguf_neox = {"gptneox", gguf_keys, gguf_files, NULL, NULL};

/* --- the sizes --- */

#define PYTHIA(size, L, H, C, V)                                                                                       \
    {                                                                                                                  \
        "pythia-" size, "EleutherAI/pythia-" size,                                                                     \
        {                                                                                                              \
            L, H, C, 2048, V                                                                                           \
        }                                                                                                              \
    }
static const struct lvn_size sizes[] = {
    PYTHIA("70m", 6, 8, 512, 50304),
    PYTHIA("160m", 12, 12, 768, 50304),
    PYTHIA("410m", 24, 16, 1024, 50304),
    PYTHIA("1b", 16, 8, 2048, 50304),
    PYTHIA("1.4b", 24, 16, 2048, 50304),
    PYTHIA("2.8b", 32, 32, 2560, 50304),
    PYTHIA("6.9b", 32, 32, 4096, 50432),
    PYTHIA("12b", 36, 40, 5120, 50688),
    {"transformer-100b", NULL, {55, 96, 12288, 2048, 50304}},
    {"transformer-175b", NULL, {96, 96, 12288, 2048, 50304}},
    {NULL, NULL, {0}},
};
static const struct lvn_key_value tiny[] = {{"n_layer", 2},      {"n_head", 2},      {"n_embd", 32},
                                            {"block_size", 32},  {"vocab_size", 65}, {"dropout", 0.1},
                                            {"rotary_pct", 0.5}, {NULL, 0}};

/* --- the model --- */

static const struct lvn_head heads[] = {
    {"lm", LVN_LABEL_TOKEN, "GPTNeoXForCausalLM", NULL, "embed_out"},
    {"classify", LVN_LABEL_CLASS, "GPTNeoXForSequenceClassification", lvn_text_inputs, "score"},
    {"regress", LVN_LABEL_NUMBER, "GPTNeoXForSequenceClassification", lvn_text_inputs, "score"},
    {.task = NULL},
};

extern const struct lvn_model lvn_model_neox;
const struct lvn_model lvn_model_neox = {
    .name = "neox",
    .type = "gpt_neox",
    .help = "GPT-NeoX and Pythia: rotary embeddings, attention and MLP in parallel",
    .keys = keys,
    .gguf = &gguf_neox,
    .files = files,
    .prefix = "gpt_neox.",
    .sizes = sizes,
    .size_keys = {"n_layer", "n_head", "n_embd", "block_size", "vocab_size"},
    .published_tokens = 50277,
    .tiny = tiny,
    .linear_layers = "attention.query_key_value, attention.dense, mlp.dense_h_to_4h, mlp.dense_4h_to_h",
    .lora_targets = "attention.query_key_value",
    .freeze_example = "[embed_in, layers.0, 'layers.*.mlp']",
    .generates = true,
    .bounded = true,
    .resolve_defaults = resolve_defaults,
    .check = check,
    .rope = offsetof(struct neox, rope),
    .build = build,
    .heads = heads,
    .inputs = lvn_language_inputs,
    .tasks = lvn_decoder_tasks,
};
