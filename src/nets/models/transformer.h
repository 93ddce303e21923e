/* transformer.h - expressions and checks that the families of transformers share. */
#ifndef LVN_TRANSFORMER_H
#define LVN_TRANSFORMER_H

#include "levin.h"
#include "models/model.h"

/* Exact GELU, or its approximation with tanh (Hendrycks, Gimpel: "Gaussian error linear units", 2016), and Hugging
 * Face's names of them, for a key LVN_KEY_WORD. */
enum { LVN_GELU_ERF, LVN_GELU_TANH };
extern const struct lvn_key_word lvn_gelu_words[];
struct levin_tensor *lvn_gelu_by(struct levin_graph *g, int64_t which, struct levin_tensor *x);

/* x (...,C) -> (...,N): new parameters weight (C,N), initially N(0, std), and bias (N), initially 0 (NULL: none). */
struct levin_tensor *lvn_projection(struct levin_graph *g, const char *weight, const char *bias, struct levin_tensor *x,
                                    int64_t N, double std);
/* Layer norm of x (...,C): new parameters weight (C) and bias (C) (NULL: none). */
struct levin_tensor *lvn_norm(struct levin_graph *g, const char *weight, const char *bias, struct levin_tensor *x,
                              double eps);
/* The same with parameters NAME.weight and, if `bias` is true, NAME.bias. */
#define LVN_LINEAR(g, name, bias, x, N, std) lvn_projection(g, name ".weight", (bias) ? name ".bias" : NULL, x, N, std)
#define LVN_NORM(g, name, bias, x, eps) lvn_norm(g, name ".weight", (bias) ? name ".bias" : NULL, x, eps)
/* cap * tanh(x / cap), any shape: the soft cap of logits in gemma.c and nanochat.c. The fuse pass recognizes it before
 * a loss. */
struct levin_tensor *lvn_softcap(struct levin_graph *g, struct levin_tensor *x, double cap);
/* GPT-2's initial standard deviations: of weights, and of projections back into the residual stream,
 * 0.02 / sqrt(2 n_layer). */
#define LVN_WEIGHT_STD 0.02
double lvn_residual_std(int64_t n_layer);

/* The rows of x (B,T,C) that the head computes: (1,N,C) of the graph's `selected`, or all. */
struct levin_tensor *lvn_selected(struct levin_graph *g, struct levin_tensor *x);
/* The head of a decoder, without a bias: x (B,T,C) -> classes (B,K) from the last token of each text, whose length is
 * inputs[1], or logits (B,T,V), by the embedding's table `tied` or, if that is NULL, by a new weight in the scope `lm`.
 */
struct levin_tensor *lvn_decoder_head(struct levin_graph *g, const struct lvn_model_config *c,
                                      struct levin_tensor *const *inputs, struct levin_tensor *x,
                                      struct levin_tensor *tied, const char *lm, int64_t V);

/* What decoders with Llama's names of layers have in common. */
// clang-format off
/* The heads; `lm` and `classifier` begin the names of their classes in transformers. */
#define LVN_DECODER_HEADS(lm, classifier)                                                                              \
    {{"lm", LVN_LABEL_TOKEN, lm "ForCausalLM", NULL, "lm_head"},                                                       \
     {"classify", LVN_LABEL_CLASS, classifier "ForSequenceClassification", lvn_text_inputs, "score"},                  \
     {"regress", LVN_LABEL_NUMBER, classifier "ForSequenceClassification", lvn_text_inputs, "score"},                  \
     {.task = NULL}}
/* Members of lvn_model: Llama's names of layers in files, the layers that LoRA changes, inputs and tasks. */
#define LVN_DECODER_DEFAULTS                                                                                           \
    .prefix = "model.",                                                                                                \
    .linear_layers = "self_attn.q_proj, self_attn.k_proj, self_attn.v_proj, self_attn.o_proj, mlp.gate_proj, "         \
                     "mlp.up_proj, mlp.down_proj",                                                                     \
    .lora_targets = "q_proj, v_proj", .freeze_example = "[embed_tokens, layers.0, 'layers.*.mlp']", .generates = true, \
    .bounded = true, .inputs = lvn_language_inputs, .tasks = lvn_decoder_tasks
/* Members of the rows of keys that several families have; `levin help` prints one range and one help for each. */
#define LVN_KEY_N_LAYER                                                                                                \
    .recipe = "n_layer", .min = 1, .max = 10000, .role = LVN_ROLE_LAYERS, .help = "number of blocks"
#define LVN_KEY_N_HEAD                                                                                                 \
    .recipe = "n_head", .min = 1, .max = 100000, .role = LVN_ROLE_HEADS, .help = "attention heads of a block"
#define LVN_KEY_N_KV_HEAD                                                                                              \
    .recipe = "n_kv_head", .default_value = 0, .min = 0, .max = 100000,                                                \
    .help = "KV heads; each is shared by the same number of query heads; 0: n_head"
#define LVN_KEY_N_EMBD                                                                                                 \
    .recipe = "n_embd", .min = 1, .max = 1048576, .help = "embedding dimension; a multiple of n_head"
#define LVN_KEY_INTERMEDIATE_SIZE                                                                                      \
    .recipe = "intermediate_size", .default_value = 0, .min = 0, .max = 16777216,                                      \
    .help = "hidden dimension of an MLP; 0: 4 n_embd; in llama, mistral, qwen2 and qwen3: 8/3 n_embd, rounded up to "  \
            "a multiple of 256"
#define LVN_KEY_BLOCK_SIZE                                                                                             \
    .recipe = "block_size", .default_value = 128, .min = 1, .max = 16777216, .role = LVN_ROLE_POSITIONS,               \
    .help = "context length in tokens; default: that of the loaded model, or what the task needs"
#define LVN_KEY_VOCAB_SIZE                                                                                             \
    .recipe = "vocab_size", .by_data = true, .min = 1, .max = 1073741824, .role = LVN_ROLE_VOCABULARY,                 \
    .help = "vocabulary size; 0: what the data need"
#define LVN_KEY_TIED .recipe = "tied", .help = "the head shares the embedding's weights"
#define LVN_KEY_BIAS                                                                                                   \
    .recipe = "bias", .help = "biases in linear layers and layer norms; in neox only in attention's linear layers"
#define LVN_DROPOUT_HELP "fraction of values that dropout sets to zero in training"
#define LVN_KEY_DROPOUT                                                                                                \
    .recipe = "dropout", .min = 0, .max = 0.999, .any_time = true, .help = LVN_DROPOUT_HELP
#define LVN_KEY_NORM_EPS                                                                                               \
    .recipe = "norm_eps", .min = 1e-30, .max = 1, .help = "epsilon of the norms, added to the variance"
#define LVN_KEY_HEAD_DIM                                                                                               \
    .recipe = "head_dim", .default_value = 0, .min = 0, .max = 65536, .help = "channels of a head; 0: n_embd / n_head"
/* Rows of a table of metadata in GGUF files. */
#define LVN_GGUF_LLAMA_KEYS                                                                                            \
    {"context_length", "max_position_embeddings", LVN_GGUF_PLAIN},                                                     \
    {"embedding_length", "hidden_size", LVN_GGUF_PLAIN},                                                               \
    {"block_count", "num_hidden_layers", LVN_GGUF_PLAIN},                                                              \
    {"feed_forward_length", "intermediate_size", LVN_GGUF_PLAIN},                                                      \
    {"attention.head_count", "num_attention_heads", LVN_GGUF_PLAIN},                                                   \
    {"attention.head_count_kv", "num_key_value_heads", LVN_GGUF_PLAIN},                                                \
    {"attention.key_length", "head_dim", LVN_GGUF_PLAIN},                                                              \
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps", LVN_GGUF_PLAIN},                                              \
    {"rope.freq_base", "rope_theta", LVN_GGUF_PLAIN}
/* Rows of a table of tensors in GGUF files. qk: flags of the projections to q and k; norms: of all norms. */
#define LVN_GGUF_LLAMA_FILES(qk, norms)                                                                                \
    {"token_embd.weight", "model.embed_tokens.weight", 0}, {"output_norm.weight", "model.norm.weight", norms},         \
    {"output.weight", "lm_head.weight", LVN_FILE_ROWS | LVN_FILE_IGNORED},                                             \
    {"rope_freqs.weight", NULL, LVN_FILE_IGNORED},                                                                     \
    {"blk.*.attn_norm.weight", "model.layers.*.input_layernorm.weight", norms},                                        \
    {"blk.*.attn_q.weight", "model.layers.*.self_attn.q_proj.weight", LVN_FILE_TRANSPOSED | (qk)},                     \
    {"blk.*.attn_k.weight", "model.layers.*.self_attn.k_proj.weight", LVN_FILE_TRANSPOSED | (qk)},                     \
    {"blk.*.attn_v.weight", "model.layers.*.self_attn.v_proj.weight", LVN_FILE_TRANSPOSED},                            \
    {"blk.*.attn_output.weight", "model.layers.*.self_attn.o_proj.weight", LVN_FILE_TRANSPOSED},                       \
    {"blk.*.attn_q.bias", "model.layers.*.self_attn.q_proj.bias", qk},                                                 \
    {"blk.*.attn_k.bias", "model.layers.*.self_attn.k_proj.bias", qk},                                                 \
    {"blk.*.attn_v.bias", "model.layers.*.self_attn.v_proj.bias", 0},                                                  \
    {"blk.*.attn_output.bias", "model.layers.*.self_attn.o_proj.bias", 0},                                             \
    {"blk.*.attn_q_norm.weight", "model.layers.*.self_attn.q_norm.weight", norms},                                     \
    {"blk.*.attn_k_norm.weight", "model.layers.*.self_attn.k_norm.weight", norms},                                     \
    {"blk.*.ffn_gate.weight", "model.layers.*.mlp.gate_proj.weight", LVN_FILE_TRANSPOSED},                             \
    {"blk.*.ffn_up.weight", "model.layers.*.mlp.up_proj.weight", LVN_FILE_TRANSPOSED},                                 \
    {"blk.*.ffn_down.weight", "model.layers.*.mlp.down_proj.weight", LVN_FILE_TRANSPOSED},                             \
    {"blk.*.ffn_gate.bias", "model.layers.*.mlp.gate_proj.bias", 0},                                                   \
    {"blk.*.ffn_up.bias", "model.layers.*.mlp.up_proj.bias", 0},                                                       \
    {"blk.*.ffn_down.bias", "model.layers.*.mlp.down_proj.bias", 0}
// clang-format on

/* --- sliding windows --- */

/* Words of layer_types in config.json, for a key of the kind LVN_KEY_LIST. */
extern const struct lvn_key_word lvn_layer_words[];
enum { LVN_NO_WINDOW = -1 };
#define LVN_WINDOW_HELP "number of last positions that a layer with a window attends to; -1: all"
/* Key of config.json and of recipes: the window. A window of a file may exceed the number of positions. */
#define LVN_KEY_WINDOW(type, window, absent_value)                                                                     \
    {                                                                                                                  \
        LVN_KEY_INT_OF(type, window), .json = "sliding_window", .recipe = "sliding_window",                            \
                                      .default_value = LVN_NO_WINDOW, .absent = (absent_value), .min = LVN_NO_WINDOW,  \
                                      .max = INT32_MAX, .null = true, .in_positions = true, .help = LVN_WINDOW_HELP    \
    }
/* ARG if the window is 0, or if layer_types (NULL: none) does not fit the model. */
enum lvn_status lvn_check_windows(int64_t window, const char *layers, int64_t n_layer) LVN_CHECKED;
/* Projections to q, k and v, causal attention over all positions or a window, and the output projection. */
struct lvn_attention {
    int64_t n_head, n_kv_head, head_size, n_embd, n_layer;
    int64_t window; /* 0: all positions */
    double scale;
    double softcap; /* 0: none */
    double dropout;
    bool bias_in, bias_out;
    /* Normalize the heads of q or k, with a weight of this name; NULL: no norm. */
    struct levin_tensor *(*norm)(struct levin_graph *g, const void *config, const char *name, struct levin_tensor *x);
    const void *config;
};
/* x (B,T,C), angles (T,S) -> (B,T,C); parameters self_attn.q_proj.weight and so on, as in Llama */
struct levin_tensor *lvn_self_attention(struct levin_graph *g, const struct lvn_attention *a, struct levin_tensor *x,
                                        struct levin_tensor *angles);
/* x (B,T,C) -> (B,T,C): down(act(gate x) * up x), with N hidden channels; parameters mlp.gate_proj.weight and so on */
struct levin_tensor *lvn_gated_mlp(struct levin_graph *g, struct levin_tensor *x, int64_t N, bool bias, double std,
                                   struct levin_tensor *(*act)(struct levin_graph *g, struct levin_tensor *x));

/* ARG if n_embd is not a multiple of n_head. */
enum lvn_status lvn_check_heads(int64_t n_embd, int64_t n_head) LVN_CHECKED;
/* ARG unless the size of a head is known (head_size is not 0) and n_kv_head divides n_head. */
enum lvn_status lvn_check_grouped_heads(int64_t n_embd, int64_t n_head, int64_t n_kv_head,
                                        int64_t head_size) LVN_CHECKED;
/* ARG if the model would have 1e14 values or more. rows: of all tables of n_embd columns. */
enum lvn_status lvn_check_size(int64_t n_layer, int64_t n_embd, double rows) LVN_CHECKED;

#endif
