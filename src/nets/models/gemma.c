/* gemma.c - Gemma 2 and the text models of Gemma 3.
 *
 *   gemma2   every second layer has a window; soft caps of attention scores and logits
 *   gemma3   five of six layers have a window, and rotary positions with another base and without scaling; q and k of
 *            each head are normalized. levin loads the text model of a multimodal one (Gemma 3 4B to 27B)
 *
 * The differences from llama: norms before and after each sublayer, x += norm(attention(norm(x))); 1 is added to the
 * weights of norms; embeddings are multiplied by sqrt(n_embd); the tanh GELU gates the MLP; the head is tied. Names and
 * layouts in files are Hugging Face's. (Gemma team: "Gemma 2", 2024; "Gemma 3 technical report", 2025.) */

#include "models/rope.h"
#include "models/transformer.h"

struct gemma {
    int64_t n_layer;
    int64_t n_head;
    int64_t n_embd;
    int64_t n_kv_head; /* 0: n_head */
    int64_t head_size; /* 0: n_embd / n_head */
    int64_t n_positions;
    int64_t n_inner; /* channels of the MLP; 0: 4 n_embd */
    int64_t vocab_size;
    int64_t activation;    /* GELU by tanh alone */
    int64_t bos;           /* token that begins a text; levin only copies it; -1: none */
    int64_t window;        /* positions that a layer with a window attends to; LVN_NO_WINDOW: n_positions */
    int64_t pattern;       /* layers `pattern` - 1, 2 `pattern` - 1, ... have no window */
    int64_t local_scaling; /* scaling of rotary positions in layers with a window: none */
    const char *layers;    /* layer_types, 'f' or 's' (sliding) for each layer; NULL: by `pattern` */
    int64_t query_scalar;  /* scores are divided by its square root; 0: head_size */
    bool head_norms;       /* q and k of each head are normalized; layers with a window have theta_local */
    bool tied;             /* the head shares the embedding's weights */
    double cap_scores;     /* soft cap of attention scores; HUGE_VAL: none */
    double cap_logits;     /* soft cap of logits; HUGE_VAL: none */
    double theta_local;
    double dropout_attention;
    double eps; /* of RMS norms */
    struct lvn_rope rope;
};
_Static_assert(sizeof(struct gemma) <= LVN_FIELDS_BYTES, "a configuration is a plain value");

static struct levin_tensor *norm(struct levin_graph *g, const void *config, const char *name, struct levin_tensor *x)
{
    const struct gemma *c = config;
    return levin_rmsnorm(g, x, levin_vector(g, name, x ? x->desc.dim[x->desc.rank - 1] : 1, 0.0), c->eps, 1);
}

/* Does layer l have a window? */
static bool slides(const struct gemma *c, int64_t l)
{
    return c->layers ? c->layers[l] == 's' : (l + 1) % c->pattern != 0;
}

static double cap_of(double cap)
{
    return cap < HUGE_VAL ? cap : 0;
}

/* x (B,T,C), angles (T,S) -> (B,T,C) */
static struct levin_tensor *block(struct levin_graph *g, const struct gemma *c, int64_t l, struct levin_tensor *x,
                                  struct levin_tensor *angles)
{
    const struct lvn_attention a = {.n_head = c->n_head,
                                    .n_kv_head = c->n_kv_head,
                                    .head_size = c->head_size,
                                    .n_embd = c->n_embd,
                                    .n_layer = c->n_layer,
                                    .window = slides(c, l) && c->window < c->n_positions ? c->window : 0,
                                    .scale = 1.0 / sqrt((double)c->query_scalar),
                                    .softcap = cap_of(c->cap_scores),
                                    .dropout = c->dropout_attention,
                                    .norm = c->head_norms ? norm : NULL,
                                    .config = c};
    struct levin_tensor *h = lvn_self_attention(g, &a, norm(g, c, "input_layernorm.weight", x), angles);
    x = levin_add(g, x, norm(g, c, "post_attention_layernorm.weight", h));
    h = norm(g, c, "pre_feedforward_layernorm.weight", x);
    h = lvn_gated_mlp(g, h, c->n_inner, false, lvn_residual_std(c->n_layer), levin_gelu_tanh);
    return levin_add(g, x, norm(g, c, "post_feedforward_layernorm.weight", h));
}

/* ids (B,T) -> logits (B,T,V) */
static struct levin_tensor *build(struct levin_graph *g, const struct lvn_model_config *config,
                                  struct levin_tensor *const *inputs)
{
    const struct gemma *c = (const struct gemma *)(const void *)config->fields;
    const int64_t C = c->n_embd, V = c->vocab_size, S = c->head_size;
    const struct lvn_rope plain = {.theta = c->theta_local};
    levin_scope(g, "model");
    struct levin_tensor *wte = levin_table(g, "embed_tokens.weight", V, C, LVN_WEIGHT_STD);
    struct levin_tensor *angles = lvn_rope_table(g, &c->rope, inputs[0], S, c->n_positions), *local = angles;
    if (c->head_norms) local = lvn_rope_table(g, &plain, inputs[0], S, c->n_positions);
    struct levin_tensor *x = levin_scale(g, levin_embedding(g, inputs[0], wte, NULL), sqrt((double)C));
    for (int64_t l = 0; l < c->n_layer; l++) {
        levin_scope(g, "model.layers.%lld", (long long)l);
        levin_block(g);
        x = block(g, c, l, x, slides(c, l) ? local : angles);
    }
    levin_block_end(g);
    levin_scope(g, "model");
    x = norm(g, c, "norm.weight", x);
    x = lvn_decoder_head(g, config, inputs, x, c->tied ? wte : NULL, "lm_head", V);
    const double cap = lvn_model_predicts_samples(config) ? 0 : cap_of(c->cap_logits);
    return cap > 0 ? lvn_softcap(g, x, cap) : x;
}

static void resolve_defaults(void *fields)
{
    struct gemma *c = fields;
    if (!c->n_kv_head) c->n_kv_head = c->n_head;
    if (!c->head_size && c->n_embd % c->n_head == 0) c->head_size = c->n_embd / c->n_head; /* else refused by check() */
    if (!c->n_inner) c->n_inner = 4 * c->n_embd;
    if (!c->query_scalar) c->query_scalar = c->head_size;
    if (c->window < 0) c->window = c->n_positions; /* config.json must name a window */
}

static enum lvn_status check(const void *fields)
{
    const struct gemma *c = fields;
    LVN_TRY(lvn_check_grouped_heads(c->n_embd, c->n_head, c->n_kv_head, c->head_size));
    LVN_TRY(lvn_check_size(c->n_layer, c->n_embd, 2.0 * (double)c->vocab_size));
    LVN_TRY(lvn_check_windows(c->window, c->layers, c->n_layer));
    LVN_CHECK(!c->head_norms || !cap_of(c->cap_scores), UNSUPPORTED,
              "attn_logit_softcapping is %g, which other programs ignore in a gemma3: make it null", c->cap_scores);
    return lvn_rope_check(&c->rope, c->head_size);
}

/* --- the keys --- */

static const struct lvn_key_word activations[] = {
    {"gelu_pytorch_tanh", 0, "the tanh GELU"}, {"gelu_new", 0, "the tanh GELU"}, {NULL, 0, NULL}};
static const struct lvn_key_word unscaled[] = {{"default", 0, "unscaled rotary positions"}, {NULL, 0, NULL}};
/* Of gemma3, which has no keys for the parameters of other kinds. */
static const struct lvn_key_word scalings[] = {{"default", LVN_ROTARY_PLAIN, "unscaled rotary positions"},
                                               {"linear", LVN_ROTARY_LINEAR, "linear scaling of rotary positions"},
                                               {NULL, 0, NULL}};

// clang-format off
#define N(field) LVN_KEY_INT_OF(struct gemma, field)
#define X(field) LVN_KEY_REAL_OF(struct gemma, field)
#define IS(field) LVN_KEY_BOOL_OF(struct gemma, field)
/* Keys of both variants. A key that config.json lacks has the default of the library transformers (`absent`). */
#define SHARED_KEYS(class_name, heads, kv_heads, inner, positions, vocabulary, window_)                                \
    {LVN_KEY_NAME, .json = "architectures", .text = class_name},                                                       \
    {N(bos), .json = "bos_token_id", .default_value = -1, .absent = 2, .min = -1, .max = INT32_MAX, .null = true},     \
    {LVN_KEY_TOKEN, .json = "eos_token_id", .default_value = 1},                                                       \
    {LVN_KEY_WORD_OF(struct gemma, activation), .json = "hidden_activation", .words = activations},                    \
    {N(n_layer), .json = "num_hidden_layers", LVN_KEY_N_LAYER, .default_value = 6, .absent = 26},                      \
    {N(n_head), .json = "num_attention_heads", LVN_KEY_N_HEAD, .default_value = 6, .absent = heads},                   \
    {N(n_kv_head), .json = "num_key_value_heads", LVN_KEY_N_KV_HEAD, .absent = kv_heads},                              \
    {N(n_embd), .json = "hidden_size", LVN_KEY_N_EMBD, .default_value = 192, .absent = 2304},                          \
    {N(n_inner), .json = "intermediate_size", LVN_KEY_INTERMEDIATE_SIZE, .absent = inner},                             \
    {N(n_positions), .json = "max_position_embeddings", LVN_KEY_BLOCK_SIZE, .absent = positions},                      \
    {N(vocab_size), .json = "vocab_size", LVN_KEY_VOCAB_SIZE, .absent = vocabulary},                                   \
    {IS(tied), .json = "tie_word_embeddings", .default_value = true, LVN_KEY_TIED},                                    \
    {X(dropout_attention), .json = "attention_dropout", LVN_KEY_DROPOUT, .default_value = 0},                          \
    {N(head_size), .json = "head_dim", LVN_KEY_HEAD_DIM, .absent = 256},                                               \
    {N(query_scalar), .json = "query_pre_attn_scalar", .default_value = 0, .absent = 256, .min = 0, .max = 65536},     \
    {X(eps), .json = "rms_norm_eps", .default_value = 1e-6, LVN_KEY_NORM_EPS},                                         \
    LVN_KEY_WINDOW(struct gemma, window, window_),                                                                     \
    {LVN_KEY_LIST_OF(struct gemma, layers), .json = "layer_types", .words = lvn_layer_words, .read_only = true},       \
    {LVN_KEY_MUST, .json = "attention_bias", .default_value = 0},                                                      \
    {LVN_KEY_MUST, .json = "use_bidirectional_attention", .default_value = 0},                                         \
    {LVN_KEY_DTYPE, .json = "dtype"}
#define CAP(field, key, ...)                                                                                           \
    {X(field), .json = key, .null_value = HUGE_VAL, .min = 1e-6, .max = HUGE_VAL, __VA_ARGS__}

static const struct lvn_key gemma2_keys[] = {
    SHARED_KEYS("Gemma2ForCausalLM", 8, 4, 9216, 8192, 256000, 4096),
    CAP(cap_scores, "attn_logit_softcapping", .default_value = 50),
    CAP(cap_logits, "final_logit_softcapping", .default_value = 30),
    LVN_ROPE_THETA(struct gemma, "rope_theta"),
    LVN_ROPE_KEYS(struct gemma),
    {N(pattern), .default_value = 2, .min = 2, .max = 2, .fixed = true},
    {X(theta_local), .default_value = 0, .fixed = true},
    {IS(head_norms), .default_value = false, .fixed = true},
    {.kind = LVN_KEY_END},
};
static const struct lvn_key gemma3_keys[] = {
    SHARED_KEYS("Gemma3ForCausalLM", 8, 4, 9216, 131072, 262208, 4096),
    CAP(cap_scores, "attn_logit_softcapping", .default_value = HUGE_VAL),
    CAP(cap_logits, "final_logit_softcapping", .default_value = HUGE_VAL),
    {X(rope.theta), .json = "rope_theta", .recipe = "rope_theta", .default_value = 1e6, .min = 1, .max = 1e12,
     .help = "base of the frequencies of rotary embeddings"},
    {X(theta_local), .json = "rope_local_base_freq", .default_value = 1e4, .min = 1, .max = 1e12},
    {LVN_KEY_WORD_OF(struct gemma, rope.scaling), .json = "rope_scaling.type", .words = scalings,
     .read_only = true},
    {LVN_KEY_WORD_OF(struct gemma, rope.scaling), .json = "rope_scaling.rope_type", .words = scalings,
     .omit_default = true},
    {X(rope.factor), .json = "rope_scaling.factor", .default_value = 0, .min = 0, .max = 1e9, .omit_default = true},
    {LVN_KEY_WORD_OF(struct gemma, rope.scaling), .json = "rope_parameters.full_attention.rope_type",
     .words = scalings, .read_only = true},
    {X(rope.theta), .json = "rope_parameters.full_attention.rope_theta", .default_value = 1e6, .min = 1, .max = 1e12,
     .read_only = true},
    {X(rope.factor), .json = "rope_parameters.full_attention.factor", .default_value = 0, .min = 0, .max = 1e9,
     .read_only = true},
    {X(theta_local), .json = "rope_parameters.sliding_attention.rope_theta", .default_value = 1e4, .min = 1,
     .max = 1e12, .read_only = true},
    {LVN_KEY_WORD_OF(struct gemma, local_scaling), .json = "rope_parameters.sliding_attention.rope_type",
     .words = unscaled, .read_only = true},
    {LVN_KEY_WORD_OF(struct gemma, local_scaling), .json = "rope_parameters.rope_type", .words = unscaled,
     .read_only = true},
    {LVN_KEY_MUST, .json = "rope_parameters.rope_theta", .default_value = 1e6},
    {N(pattern), .json = "sliding_window_pattern", .default_value = 6, .min = 1, .max = 100000},
    {IS(head_norms), .default_value = true, .fixed = true},
    {.kind = LVN_KEY_END},
};

/* --- the files --- */

/* Ignored: a tied head, which some files store twice. Names of a multimodal model have one of two prefixes. */
static const struct lvn_file files[] = {
    {"vision_tower.*", NULL, LVN_FILE_OTHER_PART},
    {"multi_modal_projector.*", NULL, LVN_FILE_OTHER_PART},
    {"model.vision_tower.*", NULL, LVN_FILE_OTHER_PART},
    {"model.multi_modal_projector.*", NULL, LVN_FILE_OTHER_PART},
    {"language_model.model.*", "model.*", LVN_FILE_LEGACY},
    {"model.language_model.*", "model.*", LVN_FILE_LEGACY},
    {"language_model.lm_head.weight", NULL, LVN_FILE_ROWS | LVN_FILE_IGNORED},
    {"*_proj.weight", NULL, LVN_FILE_TRANSPOSED},
    {"lm_head.weight", NULL, LVN_FILE_ROWS | LVN_FILE_IGNORED},
    {"lm_head.weight", "model.embed_tokens.weight", LVN_FILE_LEGACY}, /* tied, and stored once */
    {NULL, NULL, 0},
};

static const struct lvn_file gguf_files[] = {
    LVN_GGUF_LLAMA_FILES(0, LVN_FILE_PLUS_ONE),
    {"blk.*.post_attention_norm.weight", "model.layers.*.post_attention_layernorm.weight", LVN_FILE_PLUS_ONE},
    {"blk.*.ffn_norm.weight", "model.layers.*.pre_feedforward_layernorm.weight", LVN_FILE_PLUS_ONE},
    {"blk.*.post_ffw_norm.weight", "model.layers.*.post_feedforward_layernorm.weight", LVN_FILE_PLUS_ONE},
    {NULL, NULL, 0},
};
static const struct lvn_gguf_key gguf_keys[] = {
    LVN_GGUF_LLAMA_KEYS,
    {"attention.sliding_window", "sliding_window", LVN_GGUF_PLAIN},
    {"attn_logit_softcapping", "attn_logit_softcapping", LVN_GGUF_PLAIN},
    {"final_logit_softcapping", "final_logit_softcapping", LVN_GGUF_PLAIN},
    {"rope.freq_base_swa", "rope_local_base_freq", LVN_GGUF_PLAIN},
    {"attention.sliding_window_pattern", "layer_types", LVN_GGUF_LAYERS},
    {NULL, NULL, LVN_GGUF_PLAIN},
};
// clang-format on

/* llama.cpp scales scores by 1 / sqrt(head size), except in the models with 27 billion parameters, which it recognizes
 * by their number of layers: there by 1 / sqrt(n_embd / n_head). */
static void derive_gguf(void *fields)
{
    struct gemma *c = fields;
    const bool largest = c->n_layer == (c->head_norms ? 62 : 46);
    c->query_scalar = largest ? c->n_embd / c->n_head : 0;
}

static enum lvn_status check_gguf(const void *fields)
{
    const struct gemma *c = fields;
    struct gemma theirs = *c;
    derive_gguf(&theirs);
    resolve_defaults(&theirs);
    LVN_CHECK(theirs.query_scalar == c->query_scalar, UNSUPPORTED,
              "query_pre_attn_scalar is %" PRId64 ", and llama.cpp uses %" PRId64 " for a model of these sizes",
              c->query_scalar, theirs.query_scalar);
    LVN_CHECK(c->head_norms || (cap_of(c->cap_scores) > 0 && cap_of(c->cap_logits) > 0), UNSUPPORTED,
              "%s_logit_softcapping is null, and llama.cpp caps these logits in every gemma2",
              cap_of(c->cap_scores) > 0 ? "final" : "attn");
    for (int64_t l = 0; l < c->n_layer; l++)
        LVN_CHECK(slides(c, l) == ((l + 1) % (c->head_norms ? 6 : 2) != 0), UNSUPPORTED,
                  "layer %" PRId64 " has %s window, unlike that of llama.cpp, where each %s layer has none", l,
                  slides(c, l) ? "a" : "no", c->head_norms ? "sixth" : "second");
    LVN_CHECK(c->tied, UNSUPPORTED, "its head is not tied to the embedding, which llama.cpp does not support for %s",
              "this architecture");
    return LVN_OK;
}

static const struct lvn_gguf_family gguf_gemma2 = {"gemma2", gguf_keys, gguf_files, check_gguf, derive_gguf},
                                    gguf_gemma3 = {"gemma3", gguf_keys, gguf_files, check_gguf, derive_gguf};

/* --- the sizes; further values of published ones come with their config.json --- */

static const struct lvn_key_value tiny[] = {{"n_layer", 3},     {"n_head", 4},      {"n_embd", 32},
                                            {"n_kv_head", 2},   {"block_size", 32}, {"intermediate_size", 48},
                                            {"vocab_size", 65}, {"dropout", 0.1},   {"sliding_window", 8},
                                            {NULL, 0}};

/* --- the models --- */

static const struct lvn_head gemma2_heads[] = LVN_DECODER_HEADS("Gemma2", "Gemma2");
static const struct lvn_head gemma3_heads[] = LVN_DECODER_HEADS("Gemma3", "Gemma3Text");

extern const struct lvn_model lvn_model_gemma2, lvn_model_gemma3;

#define SHARED                                                                                                         \
    LVN_DECODER_DEFAULTS, .files = files, .tiny = tiny, .resolve_defaults = resolve_defaults, .check = check,          \
                          .rope = offsetof(struct gemma, rope), .build = build

const struct lvn_model lvn_model_gemma2 = {
    .name = "gemma2",
    .help = "as llama, with norms around each sublayer, GeGLU, soft caps, windows in every second layer",
    .keys = gemma2_keys,
    .gguf = &gguf_gemma2,
    .heads = gemma2_heads,
    SHARED};
const struct lvn_model lvn_model_gemma3 = {
    .name = "gemma3",
    .type = "gemma3_text",
    .whole = "gemma3",
    .help = "as gemma2, with norms of q and k instead of soft caps, windows in five of six layers",
    .keys = gemma3_keys,
    .gguf = &gguf_gemma3,
    .heads = gemma3_heads,
    SHARED};
