/* llama.c - Llama and models of the same architecture.
 *
 *   llama    Llama 2 and 3: biases optional
 *   mistral  no biases
 *   qwen2    Qwen 2 and 2.5: q, k and v have biases
 *   qwen3    q and k of each head are normalized
 *
 * Pre-norm transformer without absolute positions: x += attention(norm(x)); x += down(silu(gate(norm x)) * up(norm x)),
 * with RMS norms, rotary positions on whole heads, and fewer heads of keys and values than of queries (Ainslie et al.:
 * "GQA", 2023). Names and layouts in files are Hugging Face's, linear weights (out, in); in memory they are (in, out).
 * Each variant is saved in its own format. Initial values: N(0, 0.02), projections back into the residual stream
 * N(0, 0.02 / sqrt(2 n_layer)).
 *
 * A layer with a window (sliding_window) attends to the last positions only: every layer of a Mistral; in Qwen, if
 * use_sliding_window is set, the layers after the first max_window_layers, or those that layer_types names.
 * (Touvron et al.: "Llama 2", 2023; Jiang et al.: "Mistral 7B", 2023; Qwen team: "Qwen3 technical report", 2025.) */

#include "models/rope.h"
#include "models/transformer.h"

struct llama {
    int64_t n_layer;
    int64_t n_head;
    int64_t n_embd;
    int64_t n_kv_head; /* 0: n_head */
    int64_t head_size; /* 0: n_embd / n_head */
    int64_t n_positions;
    int64_t n_inner; /* channels of the MLP; 0: 8/3 n_embd, rounded up to a multiple of 256 */
    int64_t vocab_size;
    int64_t activation;  /* SiLU alone */
    int64_t bos;         /* token that begins a text; levin only copies it; -1: none */
    int64_t window;      /* positions that a layer with a window attends to; LVN_NO_WINDOW: all */
    int64_t new_window;  /* a recipe's model.sliding_window, which sets `windowed`; LVN_NO_WINDOW: none */
    int64_t full_layers; /* the number of first layers without a window; NO_WINDOWS: a llama, ALL_WINDOWS: a mistral */
    const char *layers;  /* layer_types, 'f' or 's' (sliding) for each layer; NULL: windows after full_layers */
    bool windowed;       /* `window` is in use */
    bool bias_in;        /* of q, k and v */
    bool bias_out;       /* of attention's projection back */
    bool bias_mlp;
    bool head_norms; /* q and k of each head are normalized */
    bool tied;       /* the head shares the embedding's weights */
    double dropout_attention;
    double eps; /* of RMS norms */
    struct lvn_rope rope;
};
enum { NO_WINDOWS = -1, ALL_WINDOWS = -2 };
_Static_assert(sizeof(struct llama) <= LVN_FIELDS_BYTES, "a configuration is a plain value");

static struct levin_tensor *norm(struct levin_graph *g, const struct llama *c, const char *name, struct levin_tensor *x)
{
    return levin_rmsnorm(g, x, levin_vector(g, name, x ? x->desc.dim[x->desc.rank - 1] : 1, 1.0), c->eps, 0);
}

static struct levin_tensor *head_norm(struct levin_graph *g, const void *c, const char *name, struct levin_tensor *x)
{
    return norm(g, c, name, x);
}

/* The number of last positions that layer l attends to; 0: all. */
static int64_t window_of(const struct llama *c, int64_t l)
{
    const bool slides = c->layers ? c->layers[l] == 's' : c->windowed && c->window > 0 && l >= c->full_layers;
    return slides && c->window < c->n_positions ? c->window : 0;
}

/* x (B,T,C), angles (T,S) -> (B,T,C) */
static struct levin_tensor *attention(struct levin_graph *g, const struct llama *c, int64_t l, struct levin_tensor *x,
                                      struct levin_tensor *angles)
{
    const struct lvn_attention a = {.n_head = c->n_head,
                                    .n_kv_head = c->n_kv_head,
                                    .head_size = c->head_size,
                                    .n_embd = c->n_embd,
                                    .n_layer = c->n_layer,
                                    .window = window_of(c, l),
                                    .scale = 1.0 / sqrt((double)c->head_size),
                                    .dropout = c->dropout_attention,
                                    .bias_in = c->bias_in,
                                    .bias_out = c->bias_out,
                                    .norm = c->head_norms ? head_norm : NULL,
                                    .config = c};
    return lvn_self_attention(g, &a, x, angles);
}

/* ids (B,T) -> logits (B,T,V) */
static struct levin_tensor *build(struct levin_graph *g, const struct lvn_model_config *config,
                                  struct levin_tensor *const *inputs)
{
    const struct llama *c = (const struct llama *)(const void *)config->fields;
    int64_t C = c->n_embd, V = c->vocab_size;
    levin_scope(g, "model");
    struct levin_tensor *wte = levin_table(g, "embed_tokens.weight", V, C, LVN_WEIGHT_STD);
    struct levin_tensor *angles = lvn_rope_table(g, &c->rope, inputs[0], c->head_size, c->n_positions);
    struct levin_tensor *x = levin_embedding(g, inputs[0], wte, NULL);
    for (int64_t l = 0; l < c->n_layer; l++) {
        levin_scope(g, "model.layers.%lld", (long long)l);
        levin_block(g);
        x = levin_add(g, x, attention(g, c, l, norm(g, c, "input_layernorm.weight", x), angles));
        struct levin_tensor *h = norm(g, c, "post_attention_layernorm.weight", x);
        x = levin_add(g, x, lvn_gated_mlp(g, h, c->n_inner, c->bias_mlp, lvn_residual_std(c->n_layer), levin_silu));
    }
    levin_block_end(g);
    levin_scope(g, "model");
    x = norm(g, c, "norm.weight", x);
    return lvn_decoder_head(g, config, inputs, x, c->tied ? wte : NULL, "lm_head", V);
}

static void resolve_defaults(void *fields)
{
    struct llama *c = fields;
    if (!c->n_kv_head) c->n_kv_head = c->n_head;
    c->windowed = c->windowed || c->new_window > 0;
    c->new_window = LVN_NO_WINDOW;
    if (!c->head_size && c->n_embd % c->n_head == 0) c->head_size = c->n_embd / c->n_head; /* else refused by check() */
    if (!c->n_inner) c->n_inner = (8 * c->n_embd / 3 + 255) / 256 * 256;
}

static enum lvn_status check(const void *fields)
{
    const struct llama *c = fields;
    LVN_TRY(lvn_check_grouped_heads(c->n_embd, c->n_head, c->n_kv_head, c->head_size));
    LVN_TRY(lvn_check_size(c->n_layer, c->n_embd, 2.0 * (double)c->vocab_size));
    LVN_CHECK(c->full_layers != NO_WINDOWS || c->window < 0 || c->window >= c->n_positions, UNSUPPORTED,
              "sliding_window is %" PRId64 ", shorter than the %" PRId64
              " positions of the model, which is a llama: other programs ignore this window in training and use it to "
              "generate text; remove it, or make the model a mistral (model_type)",
              c->window, c->n_positions);
    LVN_CHECK(c->full_layers != ALL_WINDOWS || !c->layers || !strchr(c->layers, 'f') || c->window < 0 ||
                  c->window >= c->n_positions,
              UNSUPPORTED,
              "layer_types has full_attention, but every layer of a mistral has the window (sliding_window %" PRId64
              "): leave one of them out",
              c->window);
    LVN_TRY(lvn_check_windows(c->windowed ? c->window : LVN_NO_WINDOW, c->layers, c->n_layer));
    return lvn_rope_check(&c->rope, c->head_size);
}

/* --- the keys --- */

static const struct lvn_key_word biases[] = {{NULL, 0, "no biases"}, {NULL, 1, "biases"}, {NULL, 0, NULL}};
static const struct lvn_key_word activations[] = {{"silu", 0, "SiLU"}, {"swish", 0, "SiLU"}, {NULL, 0, NULL}};

// clang-format off
#define N(field) LVN_KEY_INT_OF(struct llama, field)
#define X(field) LVN_KEY_REAL_OF(struct llama, field)
#define IS(field) LVN_KEY_BOOL_OF(struct llama, field)
/* Keys of all variants. positions, kv_heads and head_dim are transformers' defaults for a config.json without these
 * members. kv_heads 0: the number of attention heads. head_dim 0: hidden_size / num_attention_heads. */
#define SHARED_KEYS(class_name, positions, kv_heads, head_dim)                                                         \
    {LVN_KEY_NAME, .json = "architectures", .text = class_name},                                                       \
    {N(bos), .json = "bos_token_id", .default_value = -1, .min = -1, .max = INT32_MAX, .null = true},                  \
    {LVN_KEY_TOKEN, .json = "eos_token_id", .default_value = 2},                                                       \
    {LVN_KEY_WORD_OF(struct llama, activation), .json = "hidden_act", .words = activations},                           \
    {N(n_layer), .json = "num_hidden_layers", .required = true, LVN_KEY_N_LAYER, .default_value = 6},                  \
    {N(n_head), .json = "num_attention_heads", .required = true, LVN_KEY_N_HEAD, .default_value = 6},                  \
    {N(n_kv_head), .json = "num_key_value_heads", LVN_KEY_N_KV_HEAD, .absent = kv_heads},                              \
    {N(n_embd), .json = "hidden_size", .required = true, LVN_KEY_N_EMBD, .default_value = 192},                        \
    {N(n_inner), .json = "intermediate_size", LVN_KEY_INTERMEDIATE_SIZE},                                              \
    {N(n_positions), .json = "max_position_embeddings", LVN_KEY_BLOCK_SIZE, .absent = positions},                      \
    {N(vocab_size), .json = "vocab_size", .required = true, LVN_KEY_VOCAB_SIZE},                                       \
    {IS(tied), .json = "tie_word_embeddings", .default_value = false, LVN_KEY_TIED},                                   \
    {X(dropout_attention), .json = "attention_dropout", LVN_KEY_DROPOUT, .default_value = 0},                          \
    {N(head_size), .json = "head_dim", LVN_KEY_HEAD_DIM, .absent = head_dim, .role = LVN_ROLE_HEAD_SIZE},              \
    {X(eps), .json = "rms_norm_eps", .default_value = 1e-5, LVN_KEY_NORM_EPS, .absent = 1e-6},                         \
    LVN_ROPE_THETA(struct llama, "rope_theta"),                                                                        \
    LVN_ROPE_KEYS(struct llama),                                                                                       \
    {LVN_KEY_LIST_OF(struct llama, layers), .json = "layer_types", .words = lvn_layer_words, .read_only = true},       \
    {LVN_KEY_DTYPE, .json = "dtype"}
#define BIAS .default_value = false, LVN_KEY_BIAS, .words = biases
/* Constants of a variant for which its files have no key. */
#define ALWAYS(field, yes) {IS(field), .default_value = yes, .fixed = true}
#define WINDOW LVN_KEY_WINDOW(struct llama, window, 4096)
/* Windows of Qwen, which use_sliding_window enables. */
#define QWEN_WINDOW                                                                                                    \
    WINDOW, {N(new_window), .recipe = "sliding_window", .default_value = LVN_NO_WINDOW, .min = LVN_NO_WINDOW,          \
             .max = INT32_MAX, .help = LVN_WINDOW_HELP},                                                               \
    {N(full_layers), .json = "max_window_layers", .recipe = "max_window_layers", .default_value = 0, .absent = 28,     \
     .min = 0, .max = INT32_MAX, .help = "number of first layers without a window, with model.sliding_window"},        \
    {IS(windowed), .json = "use_sliding_window", .default_value = false}
#define NO_NEW_WINDOW                                                                                                  \
    {N(new_window), .default_value = LVN_NO_WINDOW, .min = LVN_NO_WINDOW, .max = INT32_MAX, .fixed = true}

static const struct lvn_key llama_keys[] = {
    SHARED_KEYS("LlamaForCausalLM", 2048, 0, 0),
    {N(window), .json = "sliding_window", .default_value = LVN_NO_WINDOW, .min = LVN_NO_WINDOW, .max = INT32_MAX,
     .null = true, .read_only = true},
    NO_NEW_WINDOW,
    {N(full_layers), .default_value = NO_WINDOWS, .min = NO_WINDOWS, .max = NO_WINDOWS, .fixed = true},
    {IS(bias_in), .json = "attention_bias", BIAS},
    {IS(bias_out), .json = "attention_bias", BIAS},
    {IS(bias_mlp), .json = "mlp_bias", BIAS},
    ALWAYS(head_norms, false),
    ALWAYS(windowed, true),
    {.kind = LVN_KEY_END},
};
static const struct lvn_key mistral_keys[] = {
    SHARED_KEYS("MistralForCausalLM", 131072, 8, 0),
    WINDOW,
    NO_NEW_WINDOW,
    {N(full_layers), .default_value = ALL_WINDOWS, .min = ALL_WINDOWS, .max = ALL_WINDOWS, .fixed = true},
    ALWAYS(windowed, true),
    {IS(bias_in), .fixed = true, BIAS},
    {IS(bias_out), .fixed = true, BIAS},
    {IS(bias_mlp), .fixed = true, BIAS},
    ALWAYS(head_norms, false),
    {.kind = LVN_KEY_END},
};
static const struct lvn_key qwen2_keys[] = {
    SHARED_KEYS("Qwen2ForCausalLM", 32768, 32, 0),
    QWEN_WINDOW,
    ALWAYS(bias_in, true),
    {IS(bias_out), .fixed = true, BIAS},
    {IS(bias_mlp), .fixed = true, BIAS},
    ALWAYS(head_norms, false),
    {.kind = LVN_KEY_END},
};
static const struct lvn_key qwen3_keys[] = {
    SHARED_KEYS("Qwen3ForCausalLM", 32768, 32, 128),
    QWEN_WINDOW,
    {IS(bias_in), .json = "attention_bias", BIAS},
    {IS(bias_out), .json = "attention_bias", BIAS},
    {IS(bias_mlp), .fixed = true, .default_value = false},
    ALWAYS(head_norms, true),
    {.kind = LVN_KEY_END},
};
// clang-format on

/* --- the files --- */

/* Ignored: frequencies, and a tied head, which some files store twice. */
static const struct lvn_file files[] = {
    {"*.rotary_emb.inv_freq", NULL, LVN_FILE_IGNORED},
    {"*_proj.weight", NULL, LVN_FILE_TRANSPOSED},
    {"lm_head.weight", NULL, LVN_FILE_ROWS | LVN_FILE_IGNORED},
    {"lm_head.weight", "model.embed_tokens.weight", LVN_FILE_LEGACY}, /* tied, and stored once */
    {NULL, NULL, 0},
};

/* In llama.cpp's files of the architecture llama, a head's rows of q and k are in the order of its rotation. */
// clang-format off
static const struct lvn_file gguf_files[] = {
    LVN_GGUF_LLAMA_FILES(0, 0),
    {"blk.*.ffn_norm.weight", "model.layers.*.post_attention_layernorm.weight", 0},
    {NULL, NULL, 0},
};
static const struct lvn_file gguf_paired_files[] = {
    LVN_GGUF_LLAMA_FILES(LVN_FILE_PAIRED, 0),
    {"blk.*.ffn_norm.weight", "model.layers.*.post_attention_layernorm.weight", 0},
    {NULL, NULL, 0},
};
static const struct lvn_gguf_key gguf_keys[] = {
    LVN_GGUF_LLAMA_KEYS,
    {"blk.0.attn_q.bias", "attention_bias", LVN_GGUF_TENSOR},
    {"blk.0.ffn_gate.bias", "mlp_bias", LVN_GGUF_TENSOR},
    {NULL, NULL, LVN_GGUF_PLAIN},
};
// clang-format on

/* llama.cpp does not read the windows of these architectures. */
static enum lvn_status check_gguf(const void *fields)
{
    const struct llama *c = fields;
    for (int64_t l = 0; l < c->n_layer; l++)
        LVN_CHECK(!window_of(c, l), UNSUPPORTED,
                  "layer %" PRId64 " attends to the last %" PRId64
                  " positions alone (sliding_window), which llama.cpp does not do for this architecture: cut the "
                  "positions to the window with --block-size=%" PRId64,
                  l, c->window, c->window);
    return LVN_OK;
}

#define GGUF(architecture, files)                                                                                      \
    {                                                                                                                  \
        architecture, gguf_keys, files, check_gguf, NULL                                                               \
    }
static const struct lvn_gguf_family gguf_llama = GGUF("llama", gguf_paired_files),
                                    gguf_qwen2 = GGUF("qwen2", gguf_files), gguf_qwen3 = GGUF("qwen3", gguf_files);

/* --- the sizes; rope_scaling of published ones comes with their config.json --- */

static const struct lvn_size sizes[] = {
    {"llama-124m", NULL, {12, 12, 12, 768, 2048, 1024, 50304, 10000, true}},
    {"tinyllama-1.1b", "TinyLlama/TinyLlama_v1.1", {22, 32, 4, 2048, 5632, 2048, 32000, 10000, false}},
    {"smollm2-135m-instruct", "HuggingFaceTB/SmolLM2-135M-Instruct", {30, 9, 3, 576, 1536, 8192, 49152, 100000, true}},
    {"llama-3.2-1b", "meta-llama/Llama-3.2-1B", {16, 32, 8, 2048, 8192, 131072, 128256, 500000, true}},
    {"llama-3.2-1b-instruct",
     "meta-llama/Llama-3.2-1B-Instruct",
     {16, 32, 8, 2048, 8192, 131072, 128256, 500000, true}},
    {"llama-2-7b", "meta-llama/Llama-2-7b-hf", {32, 32, 32, 4096, 11008, 4096, 32000, 10000, false}},
    {"llama-3-8b", "meta-llama/Meta-Llama-3-8B", {32, 32, 8, 4096, 14336, 8192, 128256, 500000, false}},
    {"llama-3.1-8b", "meta-llama/Llama-3.1-8B", {32, 32, 8, 4096, 14336, 131072, 128256, 500000, false}},
    {"llama-3.1-8b-instruct",
     "meta-llama/Llama-3.1-8B-Instruct",
     {32, 32, 8, 4096, 14336, 131072, 128256, 500000, false}},
    {NULL, NULL, {0}},
};
static const struct lvn_size qwen3_sizes[] = {
    {"qwen3-0.6b", "Qwen/Qwen3-0.6B", {28, 16, 8, 1024, 3072, 40960, 151936, 1000000, true, 128}},
    {"qwen3-1.7b", "Qwen/Qwen3-1.7B", {28, 16, 8, 2048, 6144, 40960, 151936, 1000000, true, 128}},
    {"qwen3-4b", "Qwen/Qwen3-4B", {36, 32, 8, 2560, 9728, 40960, 151936, 1000000, true, 128}},
    {"qwen3-8b", "Qwen/Qwen3-8B", {36, 32, 8, 4096, 12288, 40960, 151936, 1000000, false, 128}},
    {NULL, NULL, {0}},
};
static const struct lvn_key_value qwen3_published[] = {{"norm_eps", 1e-6}, {NULL, 0}};
#define SIZE_KEYS                                                                                                      \
    "n_layer", "n_head", "n_kv_head", "n_embd", "intermediate_size", "block_size", "vocab_size", "rope_theta", "tied"
// clang-format off
#define TINY(...)                                                                                                      \
    {{"n_layer", 2}, {"n_head", 4}, {"n_embd", 32}, {"n_kv_head", 2}, {"block_size", 32}, {"intermediate_size", 48},   \
     {"vocab_size", 65}, {"dropout", 0.1}, __VA_ARGS__}
static const struct lvn_key_value tiny[] = TINY({NULL, 0}), tiny_windows[] = TINY({"sliding_window", 8}, {NULL, 0});

/* --- the models --- */

// clang-format on
static const struct lvn_head llama_heads[] = LVN_DECODER_HEADS("Llama", "Llama");
static const struct lvn_head mistral_heads[] = LVN_DECODER_HEADS("Mistral", "Mistral");
static const struct lvn_head qwen2_heads[] = LVN_DECODER_HEADS("Qwen2", "Qwen2");
static const struct lvn_head qwen3_heads[] = LVN_DECODER_HEADS("Qwen3", "Qwen3");

extern const struct lvn_model lvn_model_llama, lvn_model_mistral, lvn_model_qwen2, lvn_model_qwen3;

#define SHARED                                                                                                         \
    LVN_DECODER_DEFAULTS, .files = files, .resolve_defaults = resolve_defaults, .check = check,                        \
                          .rope = offsetof(struct llama, rope), .build = build

const struct lvn_model lvn_model_llama = {
    .name = "llama",
    .help = "Llama 2 and 3: RMSNorm, SwiGLU, rotary embeddings",
    .keys = llama_keys,
    .gguf = &gguf_llama,
    .sizes = sizes,
    .size_keys = {SIZE_KEYS},
    .heads = llama_heads,
    .tiny = tiny,
    SHARED,
};
const struct lvn_model lvn_model_mistral = {.name = "mistral",
                                            .help = "as llama, without biases; every layer may have a window",
                                            .keys = mistral_keys,
                                            .gguf = &gguf_llama,
                                            .heads = mistral_heads,
                                            .tiny = tiny_windows,
                                            SHARED};
const struct lvn_model lvn_model_qwen2 = {.name = "qwen2",
                                          .help = "Qwen 2 and 2.5: as llama, with biases of q, k and v",
                                          .keys = qwen2_keys,
                                          .gguf = &gguf_qwen2,
                                          .heads = qwen2_heads,
                                          .tiny = tiny_windows,
                                          SHARED};
const struct lvn_model lvn_model_qwen3 = {.name = "qwen3",
                                          .help = "as llama, with RMSNorm of q and k",
                                          .keys = qwen3_keys,
                                          .gguf = &gguf_qwen3,
                                          .sizes = qwen3_sizes,
                                          .size_keys = {SIZE_KEYS, "head_dim"},
                                          .published = qwen3_published,
                                          .published_tokens = 151669,
                                          .heads = qwen3_heads,
                                          .tiny = tiny_windows,
                                          SHARED};
