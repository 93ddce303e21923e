/* gpt2.c - GPT-2 and the variants of two teaching programs, nanoGPT and minGPT.
 *
 *   gpt2     Hugging Face's: tied head, tanh GELU
 *   nanogpt  tied head, erf GELU, biases optional
 *   mingpt   untied head without bias, tanh GELU
 *
 * Pre-norm transformer: x += attention(ln_1(x)); x += mlp(ln_2(x)). Names and layouts are those of Hugging Face's
 * files, whose linear weights are stored (in, out); only the head is (out, in). Initial values: N(0, 0.02), projections
 * back into the residual stream N(0, 0.02 / sqrt(2 n_layer)).
 *
 * All three are saved in Hugging Face's format. This format has no models without biases: they are written with zero
 * biases and a note in the object `levin` of config.json, so that they load back exactly. Not supported: an MLP
 * whose width is not 4 n_embd.
 * (Radford et al.: "Language models are unsupervised multitask learners", 2019.) */

#include "models/transformer.h"

struct gpt2 {
    int64_t n_layer;
    int64_t n_head;
    int64_t n_embd;
    int64_t n_positions; /* rows of the position table; windows may be shorter */
    int64_t n_inner;     /* channels of the MLP; 0: 4 n_embd, the only width supported */
    int64_t vocab_size;
    int64_t activation; /* LVN_GELU_... */
    bool bias;          /* in linear layers and layer norms */
    bool tied;          /* the head shares the embedding's weights */
    double dropout_embedding;
    double dropout_residual;
    double dropout_attention;
    double eps; /* of layer norms */
};
_Static_assert(sizeof(struct gpt2) <= LVN_FIELDS_BYTES, "a configuration is a plain value");

/* x (B,T,C) -> (B,T,C) */
static struct levin_tensor *attention(struct levin_graph *g, const struct gpt2 *c, struct levin_tensor *x)
{
    int64_t C = c->n_embd, H = c->n_head, S = C / H;
    struct levin_tensor *qkv = LVN_LINEAR(g, "attn.c_attn", c->bias, x, 3 * C, LVN_WEIGHT_STD);
    struct levin_tensor *q = levin_heads(g, qkv, 0, H, S); /* (B,T,H,S) */
    struct levin_tensor *k = levin_kv_cache(g, "attn.k", levin_heads(g, qkv, C, H, S), 0);
    struct levin_tensor *v = levin_kv_cache(g, "attn.v", levin_heads(g, qkv, 2 * C, H, S), 0);
    const struct levin_attention_options how = {
        .size = sizeof how, .causal = true, .scale = 1.0 / sqrt((double)S), .dropout = c->dropout_attention};
    struct levin_tensor *y = levin_attention(g, q, k, v, &how);
    y = LVN_LINEAR(g, "attn.c_proj", c->bias, y, C, lvn_residual_std(c->n_layer));
    return levin_dropout(g, y, c->dropout_residual);
}

/* x (B,T,C) -> (B,T,C) */
static struct levin_tensor *mlp(struct levin_graph *g, const struct gpt2 *c, struct levin_tensor *x)
{
    int64_t C = c->n_embd;
    struct levin_tensor *h = LVN_LINEAR(g, "mlp.c_fc", c->bias, x, 4 * C, LVN_WEIGHT_STD);
    h = lvn_gelu_by(g, c->activation, h);
    h = LVN_LINEAR(g, "mlp.c_proj", c->bias, h, C, lvn_residual_std(c->n_layer));
    return levin_dropout(g, h, c->dropout_residual);
}

/* ids (B,T) -> logits (B,T,V); for classification ids (B,T), length (B) -> classes (B,K) */
static struct levin_tensor *build(struct levin_graph *g, const struct lvn_model_config *config,
                                  struct levin_tensor *const *inputs)
{
    const struct gpt2 *c = (const struct gpt2 *)(const void *)config->fields;
    int64_t C = c->n_embd, V = c->vocab_size, P = c->n_positions;
    levin_scope(g, "transformer");
    struct levin_tensor *wte = levin_table(g, "wte.weight", V, C, LVN_WEIGHT_STD);
    struct levin_tensor *wpe = levin_table(g, "wpe.weight", P, C, LVN_WEIGHT_STD);
    struct levin_tensor *x = levin_dropout(g, levin_embedding(g, inputs[0], wte, wpe), c->dropout_embedding);
    for (int64_t l = 0; l < c->n_layer; l++) {
        levin_scope(g, "transformer.h.%lld", (long long)l);
        levin_block(g);
        x = levin_add(g, x, attention(g, c, LVN_NORM(g, "ln_1", c->bias, x, c->eps)));
        x = levin_add(g, x, mlp(g, c, LVN_NORM(g, "ln_2", c->bias, x, c->eps)));
    }
    levin_block_end(g);
    levin_scope(g, "transformer");
    x = LVN_NORM(g, "ln_f", c->bias, x, c->eps);
    return lvn_decoder_head(g, config, inputs, x, c->tied ? wte : NULL, "lm_head", V);
}

static enum lvn_status check(const void *fields)
{
    const struct gpt2 *c = fields;
    LVN_TRY(lvn_check_heads(c->n_embd, c->n_head));
    LVN_CHECK(!c->n_inner || c->n_inner == 4 * c->n_embd, UNSUPPORTED,
              "n_inner is %" PRId64 "; only 4 x n_embd is supported", c->n_inner);
    return lvn_check_size(c->n_layer, c->n_embd, (double)c->vocab_size + (double)c->n_positions);
}

/* --- the keys --- */

enum { END_OF_TEXT = 50256 }; /* default of the library transformers, which warns if the vocabulary lacks the token */

static const struct lvn_key_word ties[] = {{NULL, 0, "an untied head"}, {NULL, 1, "a tied head"}, {NULL, 0, NULL}};
static const struct lvn_key_word biases[] = {{NULL, 0, "no biases"}, {NULL, 1, "biases"}, {NULL, 0, NULL}};

// clang-format off
#define N(field) LVN_KEY_INT_OF(struct gpt2, field)
#define X(field) LVN_KEY_REAL_OF(struct gpt2, field)
#define IS(field) LVN_KEY_BOOL_OF(struct gpt2, field)
#define SIZES(positions)                                                                                               \
    {N(n_layer), .json = "n_layer", .required = true, LVN_KEY_N_LAYER, .default_value = 6},                            \
    {N(n_head), .json = "n_head", .required = true, LVN_KEY_N_HEAD, .default_value = 6},                               \
    {N(n_embd), .json = "n_embd", .required = true, LVN_KEY_N_EMBD, .default_value = 192},                             \
    {N(n_positions), .json = positions, .required = true, LVN_KEY_BLOCK_SIZE},                                         \
    {N(vocab_size), .json = "vocab_size", .required = true, LVN_KEY_VOCAB_SIZE}
#define DROPOUT(field, key, rate)                                                                                      \
    {X(field), .json = key, LVN_KEY_DROPOUT, .default_value = rate}
#define BIAS LVN_KEY_BIAS, .words = biases
/* Constants of a variant for which its files have no key. */
#define ALWAYS_ACTIVATION(word)                                                                                        \
    {LVN_KEY_WORD_OF(struct gpt2, activation), .default_value = word, .words = lvn_gelu_words, .fixed = true}
#define ALWAYS_TIED(yes) {IS(tied), .default_value = yes, .words = ties, .fixed = true}
#define ALWAYS_EPS {X(eps), .default_value = 1e-5, .min = 1e-30, .max = 1, .fixed = true}

static const struct lvn_key gpt2_keys[] = {
    {LVN_KEY_NAME, .json = "architectures", .text = "GPT2LMHeadModel"},
    {LVN_KEY_TOKEN, .json = "bos_token_id", .default_value = END_OF_TEXT},
    {LVN_KEY_TOKEN, .json = "eos_token_id", .default_value = END_OF_TEXT},
    {LVN_KEY_WORD_OF(struct gpt2, activation), .json = "activation_function", .default_value = LVN_GELU_TANH,
     .words = lvn_gelu_words},
    {IS(tied), .json = "tie_word_embeddings", .default_value = true, .words = ties},
    DROPOUT(dropout_embedding, "embd_pdrop", 0.1),
    DROPOUT(dropout_residual, "resid_pdrop", 0.1),
    DROPOUT(dropout_attention, "attn_pdrop", 0.1),
    {X(eps), .json = "layer_norm_epsilon", .default_value = 1e-5, .min = 1e-30, .max = 1},
    SIZES("n_positions"),
    {LVN_KEY_DTYPE, .json = "dtype"},
    {IS(bias), .json = "levin.bias", .default_value = true, .fixed = true, BIAS},
    {N(n_inner), .json = "n_inner", .read_only = true, .max = INT32_MAX},
    {LVN_KEY_MUST, .json = "scale_attn_weights", .default_value = true},
    {LVN_KEY_MUST, .json = "scale_attn_by_inverse_layer_idx", .default_value = false},
    {.kind = LVN_KEY_END},
};

static const struct lvn_key nanogpt_keys[] = {
    SIZES("block_size"),
    {IS(bias), .json = "bias", .absent = true, BIAS},
    DROPOUT(dropout_residual, "dropout", 0),
    DROPOUT(dropout_embedding, "dropout", 0),
    DROPOUT(dropout_attention, "dropout", 0),
    ALWAYS_ACTIVATION(LVN_GELU_ERF),
    ALWAYS_TIED(true),
    ALWAYS_EPS,
    {.kind = LVN_KEY_END},
};

static const struct lvn_key mingpt_keys[] = {
    SIZES("block_size"),
    DROPOUT(dropout_embedding, "embd_pdrop", 0.1),
    DROPOUT(dropout_residual, "resid_pdrop", 0.1),
    DROPOUT(dropout_attention, "attn_pdrop", 0.1),
    {IS(bias), .default_value = true, .fixed = true, BIAS},
    ALWAYS_ACTIVATION(LVN_GELU_TANH),
    ALWAYS_TIED(false),
    ALWAYS_EPS,
    {.kind = LVN_KEY_END},
};
// clang-format on

/* --- the files --- */

/* Ignored: causal masks, and a tied head, which some files store twice. */
static const struct lvn_file gpt2_files[] = {
    {"*.attn.bias", NULL, LVN_FILE_IGNORED},
    {"*.attn.masked_bias", NULL, LVN_FILE_IGNORED},
    {"lm_head.weight", NULL, LVN_FILE_ROWS | LVN_FILE_IGNORED},
    {"lm_head.weight", "transformer.wte.weight", LVN_FILE_LEGACY}, /* tied, and stored once */
    {"*.ln_*.bias", "*.ln_*.weight", LVN_FILE_ZERO_FILL},
    {"*.c_*.bias", "*.c_*.weight", LVN_FILE_ZERO_FILL},
    {NULL, NULL, 0},
};

/* GGUF: linear weights (out, in). */
// clang-format off
static const struct lvn_file gguf_files[] = {
    {"token_embd.weight", "transformer.wte.weight", 0},
    {"position_embd.weight", "transformer.wpe.weight", LVN_FILE_ROWS},
    {"output_norm.*", "transformer.ln_f.*", 0},
    {"output.weight", "lm_head.weight", LVN_FILE_ROWS | LVN_FILE_IGNORED},
    {"blk.*.attn_norm.*", "transformer.h.*.ln_1.*", 0},
    {"blk.*.ffn_norm.*", "transformer.h.*.ln_2.*", 0},
    {"blk.*.attn_qkv.weight", "transformer.h.*.attn.c_attn.weight", LVN_FILE_TRANSPOSED},
    {"blk.*.attn_output.weight", "transformer.h.*.attn.c_proj.weight", LVN_FILE_TRANSPOSED},
    {"blk.*.ffn_up.weight", "transformer.h.*.mlp.c_fc.weight", LVN_FILE_TRANSPOSED},
    {"blk.*.ffn_down.weight", "transformer.h.*.mlp.c_proj.weight", LVN_FILE_TRANSPOSED},
    {"blk.*.attn_qkv.bias", "transformer.h.*.attn.c_attn.bias", 0},
    {"blk.*.attn_output.bias", "transformer.h.*.attn.c_proj.bias", 0},
    {"blk.*.ffn_up.bias", "transformer.h.*.mlp.c_fc.bias", 0},
    {"blk.*.ffn_down.bias", "transformer.h.*.mlp.c_proj.bias", 0},
    {NULL, NULL, 0},
};
static const struct lvn_gguf_key gguf_keys[] = {
    {"context_length", "n_positions", LVN_GGUF_PLAIN},
    {"embedding_length", "n_embd", LVN_GGUF_PLAIN},
    {"block_count", "n_layer", LVN_GGUF_PLAIN},
    {"feed_forward_length", "n_inner", LVN_GGUF_PLAIN},
    {"attention.head_count", "n_head", LVN_GGUF_PLAIN},
    {"attention.layer_norm_epsilon", "layer_norm_epsilon", LVN_GGUF_PLAIN},
    {NULL, NULL, LVN_GGUF_PLAIN},
};
// clang-format on
static enum lvn_status check_gguf(const void *fields)
{
    const struct gpt2 *c = fields;
    LVN_CHECK(c->activation == LVN_GELU_TANH, UNSUPPORTED, "it has %s, and llama.cpp computes the tanh GELU in a gpt2",
              lvn_gelu_words[c->activation].description);
    return LVN_OK;
}
static void derive_gguf(void *fields)
{
    struct gpt2 *c = fields;
    c->n_inner = 4 * c->n_embd;
}
static const struct lvn_gguf_family gguf_gpt2 = {"gpt2", gguf_keys, gguf_files, check_gguf, derive_gguf};

/* State dicts of nanoGPT and minGPT: linear weights (out, in), a tied head stored twice. */
static const struct lvn_file torch_files[] = {
    {"*.attn.bias", NULL, LVN_FILE_IGNORED},
    {"*.attn.masked_bias", NULL, LVN_FILE_IGNORED},
    {"lm_head.weight", "transformer.wte.weight", LVN_FILE_DUPLICATE},
    {"lm_head.weight", NULL, LVN_FILE_ROWS},
    {"*.c_*.weight", NULL, LVN_FILE_TRANSPOSED},
    {NULL, NULL, 0},
};

/* --- the sizes, with the names of minGPT's table --- */

static const struct lvn_size sizes[] = {
    {"openai-gpt", NULL, {12, 12, 768}},
    {"gpt2", "openai-community/gpt2", {12, 12, 768}},
    {"gpt2-medium", "openai-community/gpt2-medium", {24, 16, 1024}},
    {"gpt2-large", "openai-community/gpt2-large", {36, 20, 1280}},
    {"gpt2-xl", "openai-community/gpt2-xl", {48, 25, 1600}},
    {"gpt2-xxl", NULL, {96, 25, 1600}},
    {"gpt2-xxxl", NULL, {100, 30, 1920}},
    {"gpt2-4xl", NULL, {190, 30, 1920}},
    {"gopher-44m", NULL, {8, 16, 512}},
    {"gpt-mini", NULL, {6, 6, 192}},
    {"gpt-micro", NULL, {4, 4, 128}},
    {"gpt-nano", NULL, {3, 3, 48}},
    {NULL, NULL, {0}},
};
static const struct lvn_key_value published[] = {{"block_size", 1024}, {"vocab_size", 50257}, {NULL, 0}};
static const struct lvn_key_value tiny[] = {{"n_layer", 2},     {"n_head", 2},    {"n_embd", 32}, {"block_size", 32},
                                            {"vocab_size", 65}, {"dropout", 0.1}, {NULL, 0}};

/* --- the models --- */

static const struct lvn_head heads[] = {
    {"lm", LVN_LABEL_TOKEN, "GPT2LMHeadModel", NULL, "lm_head"},
    {"classify", LVN_LABEL_CLASS, "GPT2ForSequenceClassification", lvn_text_inputs, "score"},
    {"regress", LVN_LABEL_NUMBER, "GPT2ForSequenceClassification", lvn_text_inputs, "score"},
    {.task = NULL},
};

extern const struct lvn_model lvn_model_gpt2, lvn_model_nanogpt, lvn_model_mingpt;

#define SHARED                                                                                                         \
    .prefix = "transformer.", .saved_as = &lvn_model_gpt2, .sizes = sizes,                                             \
    .size_keys = {"n_layer", "n_head", "n_embd"}, .published = published, .tiny = tiny,                                \
    .linear_layers = "attn.c_attn, attn.c_proj, mlp.c_fc, mlp.c_proj", .lora_targets = "attn.c_attn",                  \
    .freeze_example = "[wte, wpe, h.0, 'h.*.mlp']", .generates = true, .check = check, .build = build, .heads = heads, \
    .inputs = lvn_language_inputs, .tasks = lvn_decoder_tasks

const struct lvn_model lvn_model_gpt2 = {
    .name = "gpt2", .help = "tied head, tanh GELU", .keys = gpt2_keys, .files = gpt2_files, .gguf = &gguf_gpt2, SHARED};
const struct lvn_model lvn_model_nanogpt = {.name = "nanogpt",
                                            .help = "tied head, erf GELU",
                                            .keys = nanogpt_keys,
                                            .files = torch_files,
                                            .checkpoint = "ckpt.pt",
                                            .program = "nanoGPT",
                                            SHARED};
const struct lvn_model lvn_model_mingpt = {
    .name = "mingpt", .help = "untied head, tanh GELU", .keys = mingpt_keys, .files = torch_files, SHARED};
