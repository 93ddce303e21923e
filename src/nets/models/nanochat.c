/* nanochat.c - the networks of nanochat (Karpathy, https://github.com/karpathy/nanochat).
 *
 *   nanochat       that of commit 92d63d4 (July 2026)
 *   nanochat-2025  the first one, of October 2025, in the files of transformers' NanoChat
 *
 * Both are pre-norm transformers without learned norms and without biases: x += attention(norm(x));
 * x += fc2(relu(fc1(norm x))^2). Embeddings are normalized too, and so are q and k of each head. Rotary positions turn
 * heads in the opposite direction of Llama's. The head is not tied, and a soft cap bounds the logits.
 *
 * The newer one also has
 *
 *   smear                x += gate(x) * the embedding of the previous token, after the embedding
 *   residual scalars     before block i, x = a_i x + b_i x0, where x0 is what the first block reads
 *   value embeddings     in every second block and the last one, v += 3 sigmoid(gate) * a table's row, for each head
 *   windows              attention over a quarter of the context, but in each layer `window_period` and in the last one
 *   backout              the residual stream after the middle block is subtracted before the last norm
 *
 * Initial values of nanochat-2025 are N(0, 0.02), and N(0, 0.02 / sqrt(2 n_layer)) for projections back into the
 * residual stream, as in transformers; those of nanochat are the same as in the nanochat repository. */

#include "models/rope.h"
#include "models/transformer.h"

struct nanochat {
    int64_t n_layer;
    int64_t n_head;
    int64_t n_embd;
    int64_t n_kv_head; /* 0: n_head */
    int64_t head_size; /* 0: n_embd / n_head */
    int64_t n_positions;
    int64_t n_inner; /* channels of the MLP; 0: 4 n_embd */
    int64_t vocab_size;
    int64_t window_period; /* one layer in this many has no window; of nanochat */
    int64_t activation;    /* the squared ReLU alone */
    int64_t bos;           /* token that begins a text; levin only copies it; -1: none */
    bool bias;             /* in attention */
    bool tied;             /* the head shares the embedding's weights */
    double cap_logits;     /* soft cap of logits; HUGE_VAL: none */
    double dropout_attention;
    double eps; /* of RMS norms */
    struct lvn_rope rope;
};
_Static_assert(sizeof(struct nanochat) <= LVN_FIELDS_BYTES, "a configuration is a plain value");

static bool is_new(const struct nanochat *c)
{
    return c->window_period > 0;
}

static int64_t head_size(const struct nanochat *c)
{
    return c->head_size ? c->head_size : c->n_embd / c->n_head;
}

/* RMS norm without a weight. */
static struct levin_tensor *norm(struct levin_graph *g, const struct nanochat *c, struct levin_tensor *x)
{
    return levin_rmsnorm(g, x, NULL, c->eps, 0);
}

/* Angles of rotary positions in the opposite direction: a linear scaling of positions by -1. */
static struct levin_tensor *angles_of(struct levin_graph *g, const struct nanochat *c, struct levin_tensor *ids)
{
    const struct lvn_rope reversed = {.theta = c->rope.theta,
                                      .scaling = LVN_ROTARY_LINEAR,
                                      .factor = c->rope.scaling == LVN_ROTARY_LINEAR ? -c->rope.factor : -1};
    return lvn_rope_table(g, &reversed, ids, head_size(c), c->n_positions);
}

/* --- nanochat-2025 --- */

/* nanochat normalizes q and k after the rotation, which does not change the norm. */
static struct levin_tensor *head_norm(struct levin_graph *g, const void *c, const char *name, struct levin_tensor *x)
{
    (void)name;
    return norm(g, c, x);
}

/* x (B,T,C), angles (T,S) -> (B,T,C) */
static struct levin_tensor *block_2025(struct levin_graph *g, const struct nanochat *c, struct levin_tensor *x,
                                       struct levin_tensor *angles)
{
    const struct lvn_attention a = {.n_head = c->n_head,
                                    .n_kv_head = c->n_kv_head,
                                    .head_size = c->head_size,
                                    .n_embd = c->n_embd,
                                    .n_layer = c->n_layer,
                                    .scale = 1.0 / sqrt((double)c->head_size),
                                    .dropout = c->dropout_attention,
                                    .bias_in = c->bias,
                                    .bias_out = c->bias,
                                    .norm = head_norm,
                                    .config = c};
    x = levin_add(g, x, lvn_self_attention(g, &a, norm(g, c, x), angles));
    struct levin_tensor *h = lvn_projection(g, "mlp.fc1.weight", NULL, norm(g, c, x), c->n_inner, LVN_WEIGHT_STD);
    h = lvn_projection(g, "mlp.fc2.weight", NULL, levin_relu2(g, h), c->n_embd, lvn_residual_std(c->n_layer));
    return levin_add(g, x, h);
}

/* ids (B,T) -> logits (B,T,V) */
static struct levin_tensor *build_2025(struct levin_graph *g, const struct lvn_model_config *config,
                                       struct levin_tensor *const *inputs)
{
    const struct nanochat *c = (const struct nanochat *)(const void *)config->fields;
    const int64_t C = c->n_embd, V = c->vocab_size;
    levin_scope(g, "model");
    struct levin_tensor *wte = levin_table(g, "embed_tokens.weight", V, C, LVN_WEIGHT_STD);
    struct levin_tensor *angles = angles_of(g, c, inputs[0]);
    struct levin_tensor *x = norm(g, c, levin_embedding(g, inputs[0], wte, NULL));
    for (int64_t l = 0; l < c->n_layer; l++) {
        levin_scope(g, "model.layers.%lld", (long long)l);
        levin_block(g);
        x = block_2025(g, c, x, angles);
    }
    levin_block_end(g);
    x = lvn_decoder_head(g, config, inputs, norm(g, c, x), c->tied ? wte : NULL, "lm_head", V);
    return c->cap_logits < HUGE_VAL ? lvn_softcap(g, x, c->cap_logits) : x;
}

/* --- nanochat --- */

enum { VALUE_GATE_CHANNELS = 12, SMEAR_GATE_CHANNELS = 24 }; /* the first channels, which gates read */
#define GATE_RANGE 0.01                                      /* a gate's weights are uniform in [0, 0.02) */

static struct levin_tensor *linear(struct levin_graph *g, const char *name, struct levin_tensor *x, int64_t N,
                                   struct lvn_init init)
{
    const int64_t K = x ? x->desc.dim[x->desc.rank - 1] : 1;
    return levin_linear(g, x, lvn_param(g, name, LVN_WEIGHT, init, LVN_DESC(LVN_F32, K, N)), NULL, true);
}

/* x (B,T,C) -> (B,T,N): a linear layer on the first channels */
static struct levin_tensor *gate(struct levin_graph *g, const char *name, struct levin_tensor *x, int64_t channels,
                                 int64_t N)
{
    const struct lvn_init init = {LVN_INIT_UNIFORM, GATE_RANGE, .center = GATE_RANGE};
    return linear(g, name, levin_pack(g, levin_slice(g, x, 2, 0, channels)), N, init);
}

/* Does block l have value embeddings? */
static bool has_values(const struct nanochat *c, int64_t l)
{
    return l % 2 == (c->n_layer - 1) % 2;
}

/* The number of last positions that layer l attends to; 0: all. A short window has a quarter of the context, rounded
 * up to 128 positions, besides the token itself. */
static int64_t window_of(const struct nanochat *c, int64_t l)
{
    const int64_t window = ((c->n_positions + 3) / 4 + 127) / 128 * 128 + 1;
    const bool is_short = l + 1 < c->n_layer && (l + 1) % c->window_period != 0;
    return is_short && window < c->n_positions ? window : 0;
}

/* Short windows follow from the number of positions. A text of the new number must not notice. */
static enum lvn_status shorten(void *fields, int64_t positions)
{
    const struct nanochat *c = fields;
    struct nanochat other = *c;
    other.n_positions = positions;
    for (int64_t l = 0; l < c->n_layer; l++) {
        const int64_t before = window_of(c, l), after = window_of(&other, l);
        LVN_CHECK(before == after || (!after && before >= positions), ARG,
                  "the model has %" PRId64 " positions, a quarter of which is the short window of its attention; "
                  "with %" PRId64 " positions it would have another window, so the number cannot be changed",
                  c->n_positions, positions);
    }
    return LVN_OK;
}

/* x (B,T,C), values (B,T,K*S) or NULL, angles (T,S) -> (B,T,C) */
static struct levin_tensor *attention(struct levin_graph *g, const struct nanochat *c, int64_t l,
                                      struct levin_tensor *x, struct levin_tensor *values, struct levin_tensor *angles)
{
    const int64_t H = c->n_head, K = c->n_kv_head, S = head_size(c), window = window_of(c, l);
    const struct lvn_init init = LVN_UNIFORM(sqrt(3.0 / (double)c->n_embd));
    struct levin_tensor *q = linear(g, "attn.c_q.weight", x, H * S, init);
    struct levin_tensor *k = linear(g, "attn.c_k.weight", x, K * S, init);
    struct levin_tensor *v = linear(g, "attn.c_v.weight", x, K * S, init);
    if (values) v = levin_gated_add(g, v, values, gate(g, "attn.ve_gate.weight", x, VALUE_GATE_CHANNELS, K), NULL, 3);
    q = levin_rotary(g, norm(g, c, levin_heads(g, q, 0, H, S)), angles);
    k = levin_rotary(g, norm(g, c, levin_heads(g, k, 0, K, S)), angles);
    k = levin_kv_cache(g, "attn.k", k, window);
    v = levin_kv_cache(g, "attn.v", levin_heads(g, v, 0, K, S), window);
    const struct levin_attention_options how = {.size = sizeof how,
                                                .causal = true,
                                                .scale =
                                                    1.2 * 1.2 / sqrt((double)S), /* q and k are multiplied by 1.2 */
                                                .window = window,
                                                .dropout = c->dropout_attention};
    return linear(g, "attn.c_proj.weight", levin_attention(g, q, k, v, &how), c->n_embd, LVN_CONSTANT(0));
}

/* x (B,T,C) -> (B,T,C) */
static struct levin_tensor *mlp(struct levin_graph *g, const struct nanochat *c, struct levin_tensor *x)
{
    x = linear(g, "mlp.c_fc.weight", x, 4 * c->n_embd, LVN_UNIFORM(0.4 * sqrt(3.0 / (double)c->n_embd)));
    return linear(g, "mlp.c_proj.weight", levin_relu2(g, x), c->n_embd, LVN_CONSTANT(0));
}

/* The scalars of all blocks, from `first` in the first block to `last` in the last one. */
static struct levin_tensor *scalars(struct levin_graph *g, const struct nanochat *c, const char *name, double first,
                                    double last)
{
    const int64_t L = c->n_layer;
    const struct lvn_init init = {LVN_INIT_CONSTANT, first, .slope = L > 1 ? (last - first) / (double)(L - 1) : 0};
    return lvn_param(g, name, LVN_VECTOR, init, LVN_DESC(LVN_F32, L));
}

/* ids (B,T) -> (B,T,C): what the first block reads */
static struct levin_tensor *embed(struct levin_graph *g, const struct nanochat *c, struct levin_tensor *ids)
{
    levin_scope(g, "transformer");
    struct levin_tensor *wte = levin_table(g, "wte.weight", c->vocab_size, c->n_embd, 0.8);
    struct levin_tensor *x = norm(g, c, levin_embedding(g, ids, wte, NULL));
    levin_scope(g, "%s", "");
    struct levin_tensor *z = gate(g, "smear_gate.weight", x, SMEAR_GATE_CHANNELS, 1);
    return levin_gated_add(g, x, levin_previous(g, x), z, levin_vector(g, "smear_lambda", 1, 0), 1);
}

/* ids (B,T) -> logits (B,T,V) */
static struct levin_tensor *build(struct levin_graph *g, const struct lvn_model_config *config,
                                  struct levin_tensor *const *inputs)
{
    const struct nanochat *c = (const struct nanochat *)(const void *)config->fields;
    const int64_t C = c->n_embd, V = c->vocab_size, values = c->n_kv_head * head_size(c);
    struct levin_tensor *x = embed(g, c, inputs[0]), *first = x, *middle = x;
    struct levin_tensor *a = scalars(g, c, "resid_lambdas", 1.15, 1.05), *b = scalars(g, c, "x0_lambdas", 0.2, 0.05);
    struct levin_tensor *backout = levin_vector(g, "backout_lambda", 1, 0.2), *angles = angles_of(g, c, inputs[0]);
    for (int64_t l = 0; l < c->n_layer; l++) {
        struct levin_tensor *table = NULL, *ve = NULL;
        levin_scope(g, "value_embeds.%lld", (long long)l);
        levin_block(g);
        if (has_values(c, l))
            table =
                lvn_param(g, "weight", LVN_EMBEDDING, LVN_UNIFORM(sqrt(3.0 / (double)C)), LVN_DESC(LVN_F32, V, values));
        if (table) ve = levin_embedding(g, inputs[0], table, NULL);
        levin_scope(g, "transformer.h.%lld", (long long)l);
        x = levin_weighted_sum(g, x, first, levin_slice(g, a, 0, l, 1), levin_slice(g, b, 0, l, 1), 1);
        x = levin_add(g, x, attention(g, c, l, norm(g, c, x), ve, angles));
        x = levin_add(g, x, mlp(g, c, norm(g, c, x)));
        if (l == c->n_layer / 2) middle = x;
    }
    levin_block_end(g);
    x = norm(g, c, levin_weighted_sum(g, x, middle, NULL, backout, -1));
    levin_scope(g, "lm_head");
    x = levin_linear(g, lvn_selected(g, x), levin_weight(g, "weight", V, C, 0.001), NULL, false);
    return lvn_softcap(g, x, c->cap_logits);
}

static void resolve_defaults(void *fields)
{
    struct nanochat *c = fields;
    if (!c->n_kv_head) c->n_kv_head = c->n_head;
    if (is_new(c)) return; /* files of nanochat have neither of these */
    if (!c->head_size && c->n_embd % c->n_head == 0) c->head_size = c->n_embd / c->n_head; /* else refused by check() */
    if (!c->n_inner) c->n_inner = 4 * c->n_embd;
}

static enum lvn_status check(const void *fields)
{
    const struct nanochat *c = fields;
    LVN_CHECK(c->head_size || c->n_embd % c->n_head == 0, ARG,
              "model.n_embd (%" PRId64 ") is not a multiple of model.n_head (%" PRId64
              "), and no head_dim in a config.json says how many channels a head has",
              c->n_embd, c->n_head);
    LVN_TRY(lvn_check_size(c->n_layer, c->n_embd, 2.0 * (double)c->vocab_size));
    LVN_TRY(lvn_check_grouped_heads(c->n_embd, c->n_head, c->n_kv_head, head_size(c)));
    LVN_CHECK(!is_new(c) || c->n_embd >= SMEAR_GATE_CHANNELS, ARG,
              "model.n_embd is %" PRId64 "; a gate of nanochat reads the first %d channels: use at least that many",
              c->n_embd, SMEAR_GATE_CHANNELS);
    return lvn_rope_check(&c->rope, head_size(c));
}

/* --- how it is trained --- */

/* nanochat's sizes: 64 channels per layer, rounded up to heads of 128. */
static int64_t heads_by_depth(int64_t depth)
{
    return (64 * depth + 127) / 128;
}
static int64_t width_by_depth(int64_t depth)
{
    return 128 * heads_by_depth(depth);
}

/* Weights that count for the length of a training: matrices of blocks and the head. */
static double scaling_weights(const struct nanochat *c)
{
    const int64_t C = c->n_embd, H = c->n_head, K = c->n_kv_head, S = head_size(c), L = c->n_layer;
    const int64_t rows = (c->vocab_size + 63) / 64 * 64, gates = (L + 1) / 2;
    return (double)(L * (2 * C * H * S + 2 * C * K * S + 8 * C * C) + gates * VALUE_GATE_CHANNELS * K + rows * C);
}

/* nanochat's base_train.py: rates are tuned for depth 12, 12 tokens for each of these weights, and batches of 2^19
 * tokens. The batch grows with tokens^0.383, rates with the root of the batch, and those of AdamW fall with the root of
 * the width. */
static void train_by_depth(const void *fields, int64_t batch, struct lvn_depth_plan *out)
{
    static const double tokens_for_weight = 12, best_batch = 1 << 19;
    struct nanochat c = *(const struct nanochat *)fields, tuned = c;
    if (!c.n_kv_head) c.n_kv_head = c.n_head;
    tuned.n_layer = 12;
    tuned.n_head = tuned.n_kv_head = heads_by_depth(12);
    tuned.n_embd = width_by_depth(12);
    const double tokens = floor(tokens_for_weight * scaling_weights(&c));
    const double ratio = tokens / (tokens_for_weight * scaling_weights(&tuned));
    *out = (struct lvn_depth_plan){.batch = batch, .tokens = (int64_t)tokens, .min_lr = 0.05};
    if (!batch) out->batch = (int64_t)exp2(rint(log2(best_batch * pow(ratio, 0.383))));
    out->steps = out->tokens / out->batch > 1 ? out->tokens / out->batch : 1;
    const double scale = sqrt((double)out->batch / best_batch), width = scale * sqrt(768.0 / (double)c.n_embd);
    int n = 0;
#define SET(name, ...)                                                                                                 \
    out->set[n].key = (name);                                                                                          \
    snprintf(out->set[n++].value, LVN_DEPTH_TEXT, __VA_ARGS__)
    SET("optimizer.kind", "muon");
    SET("optimizer.lr", "%.8g", 0.02 * scale);
    SET("optimizer.weight_decay", "%.8g", 0.28 * scale / ratio);
    SET("optimizer.decay", "all");
    SET("optimizer.eps", "1e-10");
    SET("optimizer.adjust_lr_fn", "original");
    SET("optimizer.variant", "nanochat");
    SET("optimizer.momentum", "0.97");
    SET("optimizer.groups",
        "[{match: lm_head, lr: %.8g, betas: [0.8, 0.96], weight_decay: 0.01}, "
        "{match: wte, lr: %.8g, betas: [0.8, 0.995], weight_decay: 0.001}, "
        "{match: value_embeds, lr: %.8g, betas: [0.8, 0.995], weight_decay: 0.01}, "
        "{match: resid_lambdas, lr: %.8g, betas: [0.8, 0.95], weight_decay: 0.05}, "
        "{match: x0_lambdas, lr: %.8g, betas: [0.96, 0.95], weight_decay: 0}, "
        "{match: 'smear_gate, smear_lambda, backout_lambda', lr: 0.2, betas: [0.8, 0.95], weight_decay: 0}]",
        0.008 * width, 0.3 * width, 0.15 * width, 0.005 * scale, 0.5 * scale);
    SET("schedule.kind", "wsd");
    SET("schedule.warmup_steps", "39"); /* nanochat's 40: step 40 has the full rate there, too */
    SET("schedule.wsd_decay_steps", "0.65");
    SET("schedule.wsd_decay_type", "linear");
    SET("trainer.gradient_clip_val", "0");
#undef SET
}

/* --- the keys --- */

static const struct lvn_key_word activations[] = {{"relu2", 0, "the squared ReLU"}, {NULL, 0, NULL}};
static const struct lvn_key_word scalings[] = {{"default", LVN_ROTARY_PLAIN, "unscaled rotary positions"},
                                               {"linear", LVN_ROTARY_LINEAR, "linear scaling of rotary positions"},
                                               {NULL, 0, NULL}};

// clang-format off
#define N(field) LVN_KEY_INT_OF(struct nanochat, field)
#define X(field) LVN_KEY_REAL_OF(struct nanochat, field)
#define IS(field) LVN_KEY_BOOL_OF(struct nanochat, field)
#define SCALING LVN_KEY_WORD_OF(struct nanochat, rope.scaling), .words = scalings
/* Values of absent keys are those of transformers. */
static const struct lvn_key nanochat_2025_keys[] = {
    {LVN_KEY_NAME, .json = "architectures", .text = "NanoChatForCausalLM"},
    {N(bos), .json = "bos_token_id", .default_value = -1, .absent = 0, .min = -1, .max = INT32_MAX, .null = true},
    {LVN_KEY_TOKEN, .json = "eos_token_id", .default_value = 1},
    {LVN_KEY_WORD_OF(struct nanochat, activation), .json = "hidden_act", .words = activations},
    {N(n_layer), .json = "num_hidden_layers", LVN_KEY_N_LAYER, .default_value = 6, .absent = 12},
    {N(n_head), .json = "num_attention_heads", LVN_KEY_N_HEAD, .default_value = 6, .absent = 6},
    {N(n_kv_head), .json = "num_key_value_heads", LVN_KEY_N_KV_HEAD},
    {N(n_embd), .json = "hidden_size", LVN_KEY_N_EMBD, .default_value = 192, .absent = 768},
    {N(n_inner), .json = "intermediate_size", LVN_KEY_INTERMEDIATE_SIZE, .absent = 8192},
    {N(n_positions), .json = "max_position_embeddings", LVN_KEY_BLOCK_SIZE, .absent = 2048},
    {N(vocab_size), .json = "vocab_size", LVN_KEY_VOCAB_SIZE, .absent = 50304},
    {IS(tied), .json = "tie_word_embeddings", .default_value = false, LVN_KEY_TIED},
    {X(dropout_attention), .json = "attention_dropout", LVN_KEY_DROPOUT, .default_value = 0},
    {N(head_size), .json = "head_dim", .default_value = 0, .min = 0, .max = 65536, .role = LVN_ROLE_HEAD_SIZE},
    {X(eps), .json = "rms_norm_eps", .default_value = 1e-6, LVN_KEY_NORM_EPS},
    {X(cap_logits), .json = "final_logit_softcapping", .default_value = 15, .null_value = HUGE_VAL, .min = 1e-6,
     .max = HUGE_VAL},
    {IS(bias), .json = "attention_bias", .default_value = false},
    LVN_ROPE_THETA(struct nanochat, "rope_theta"),
    {X(rope.theta), .json = "rope_parameters.rope_theta", .default_value = 10000, .min = 1, .max = 1e12,
     .read_only = true},
    {SCALING, .json = "rope_scaling.type", .read_only = true},
    {SCALING, .json = "rope_scaling.rope_type", .omit_default = true},
    {SCALING, .json = "rope_parameters.rope_type", .read_only = true},
    {X(rope.factor), .json = "rope_scaling.factor", .default_value = 0, .min = 0, .max = 1e9, .omit_default = true},
    {X(rope.factor), .json = "rope_parameters.factor", .default_value = 0, .min = 0, .max = 1e9, .read_only = true},
    {LVN_KEY_DTYPE, .json = "dtype"},
    {.kind = LVN_KEY_END},
};
/* nanochat's patterns: the last letter is the layer without a window. */
static const struct lvn_key_word patterns[] = {
    {"L", 1, "no windows"}, {"SL", 2, "windows in every second layer"}, {"SSL", 3, "windows in two of three layers"},
    {"SSSL", 4, "windows in three of four layers"}, {"SSSSL", 5, "windows in four of five layers"},
    {"SSSSSL", 6, "windows in five of six layers"}, {NULL, 0, NULL}};

static const struct lvn_key nanochat_keys[] = {
    {LVN_KEY_NAME, .json = "architectures", .text = "GPT"},
    {LVN_KEY_TOKEN, .json = "eos_token_id", .default_value = -1},
    {N(n_layer), .json = "n_layer", .required = true, LVN_KEY_N_LAYER, .default_value = 4},
    {N(n_layer), .recipe = "depth", .default_value = 4, .min = 1, .max = 10000,
     .help = "number of layers, from which n_embd, n_head and, unless given, context length, batch, steps, optimizer "
             "and schedule are derived, as in nanochat"},
    {N(n_head), .json = "n_head", .required = true, LVN_KEY_N_HEAD, .default_value = 2, .of_layers = heads_by_depth},
    {N(n_kv_head), .json = "n_kv_head", LVN_KEY_N_KV_HEAD},
    {N(n_embd), .json = "n_embd", .required = true, LVN_KEY_N_EMBD, .default_value = 256, .of_layers = width_by_depth},
    {N(n_positions), .json = "sequence_len", .required = true, LVN_KEY_BLOCK_SIZE},
    {N(vocab_size), .json = "vocab_size", .required = true, LVN_KEY_VOCAB_SIZE},
    {N(window_period), .recipe = "window_period", .default_value = 4, .min = 1, .max = 6,
     .help = "one layer in this many attends to the whole context, the others to a quarter of it; 1: all"},
    {LVN_KEY_WORD_OF(struct nanochat, window_period), .json = "window_pattern", .default_value = 4, .absent = 1,
     .words = patterns},
    {X(dropout_attention), .json = "levin.dropout", .omit_default = true, LVN_KEY_DROPOUT, .default_value = 0},
    {X(eps), .default_value = 0x1p-23, .min = 1e-30, .max = 1, .fixed = true}, /* torch's default in fp32 */
    {X(cap_logits), .default_value = 15, .max = HUGE_VAL, .fixed = true},
    {X(rope.theta), .default_value = 100000, .max = 1e12, .fixed = true},
    {LVN_KEY_DTYPE, .json = "dtype"},
    {.kind = LVN_KEY_END},
};
// clang-format on

/* --- the files --- */

/* Tables have rows for a vocabulary that is rounded up to a multiple of 64. */
static const struct lvn_file nanochat_files[] = {
    {"*.c_*.weight", NULL, LVN_FILE_TRANSPOSED},
    {"*_gate.weight", NULL, LVN_FILE_TRANSPOSED},
    {"transformer.wte.weight", NULL, LVN_FILE_ROWS | LVN_FILE_PADDED},
    {"value_embeds.*", NULL, LVN_FILE_ROWS | LVN_FILE_PADDED},
    {"lm_head.weight", NULL, LVN_FILE_ROWS | LVN_FILE_PADDED},
    {NULL, NULL, 0},
};

static const struct lvn_file files_2025[] = {
    {"*_proj.weight", NULL, LVN_FILE_TRANSPOSED},
    {"*.mlp.fc*.weight", NULL, LVN_FILE_TRANSPOSED},
    {"lm_head.weight", NULL, LVN_FILE_ROWS | LVN_FILE_IGNORED},
    {NULL, NULL, 0},
};

/* --- the sizes --- */

static const struct lvn_size sizes_2025[] = {
    {"nanochat-d20", NULL, {20, 10, 1280, 2048, 65536}},
    {"nanochat-d32", "karpathy/nanochat-d32", {32, 16, 2048, 2048, 65536}},
    {NULL, NULL, {0}},
};
static const struct lvn_key_value tiny_2025[] = {{"n_layer", 2},     {"n_head", 4},      {"n_embd", 32},
                                                 {"n_kv_head", 2},   {"block_size", 32}, {"intermediate_size", 48},
                                                 {"vocab_size", 65}, {"dropout", 0.1},   {NULL, 0}};

static const struct lvn_key_value tiny[] = {{"n_layer", 4},     {"n_head", 4},      {"n_embd", 32},   {"n_kv_head", 2},
                                            {"block_size", 32}, {"vocab_size", 65}, {"dropout", 0.1}, {NULL, 0}};

/* --- the models --- */

static const struct lvn_head heads[] = {
    {"lm", LVN_LABEL_TOKEN, "GPT", NULL, "lm_head"},
    {.task = NULL},
};
static const struct lvn_head heads_2025[] = {
    {"lm", LVN_LABEL_TOKEN, "NanoChatForCausalLM", NULL, "lm_head"},
    {.task = NULL},
};

extern const struct lvn_model lvn_model_nanochat, lvn_model_nanochat_2025;

const struct lvn_model lvn_model_nanochat = {
    .name = "nanochat",
    .type = "nanochat_gpt",
    .train_by_depth = train_by_depth,
    .help = "nanochat of July 2026: as nanochat-2025, with value embeddings, residual scalars, smear and windows",
    .keys = nanochat_keys,
    .prefix = "transformer.",
    .files = nanochat_files,
    .checkpoint = "model_*.pt",
    .metadata = "meta_*.json",
    .program = "nanochat",
    .heads = heads,
    .tiny = tiny,
    .linear_layers = "attn.c_q, attn.c_k, attn.c_v, attn.c_proj, mlp.c_fc, mlp.c_proj",
    .lora_targets = "c_q, c_v",
    .freeze_example = "[wte, h.0, 'h.*.mlp']",
    .generates = true,
    .bounded = true,
    .inputs = lvn_language_inputs,
    .tasks = lvn_language_tasks,
    .resolve_defaults = resolve_defaults,
    .check = check,
    .shorten = shorten,
    .build = build,
};
const struct lvn_model lvn_model_nanochat_2025 = {
    .name = "nanochat-2025",
    .type = "nanochat",
    .help = "nanochat of October 2025: norms without weights, squared ReLU, soft cap of logits",
    .keys = nanochat_2025_keys,
    .prefix = "model.",
    .files = files_2025,
    .heads = heads_2025,
    .sizes = sizes_2025,
    .size_keys = {"n_layer", "n_head", "n_embd", "block_size", "vocab_size"},
    .tiny = tiny_2025,
    .linear_layers = "self_attn.q_proj, self_attn.k_proj, self_attn.v_proj, self_attn.o_proj, mlp.fc1, mlp.fc2",
    .lora_targets = "q_proj, v_proj",
    .freeze_example = "[embed_tokens, layers.0, 'layers.*.mlp']",
    .generates = true,
    .bounded = true,
    .inputs = lvn_language_inputs,
    .tasks = lvn_language_tasks,
    .resolve_defaults = resolve_defaults,
    .check = check,
    .build = build_2025,
};
