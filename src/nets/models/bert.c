/* bert.c - BERT: a bidirectional encoder, with a head for each of three tasks.
 *
 *   classify   the first token through a linear layer and tanh (the pooler), then a linear layer to the classes
 *   regress    the same with one class, whose logit is the number
 *   mlm        each token through a linear layer, GELU and layer norm, then the embedding's weights and a bias
 *
 * Post-norm transformer: x = norm(x + attention(x)); x = norm(x + mlp(x)). Queries attend to the text's tokens, not to
 * padding. Names are those of Hugging Face's files; linear weights are (in, out) in memory and (out, in) in files.
 * Initial values: N(0, 0.02), biases 0. Not supported: next-sentence prediction. (Devlin, Chang, Lee, Toutanova: "BERT:
 * pre-training of deep bidirectional transformers for language understanding", 2018.) */

#include "models/transformer.h"

struct bert {
    int64_t n_layer;
    int64_t n_head;
    int64_t n_embd;
    int64_t intermediate; /* channels of the MLP; 0: 4 n_embd */
    int64_t n_positions;
    int64_t vocab_size;
    int64_t types;      /* token types */
    int64_t activation; /* LVN_GELU_... */
    int64_t positions;  /* position_embedding_type; absolute alone */
    bool bias;
    double dropout;
    double dropout_attention;
    double dropout_head; /* before the classifier; -1: dropout */
    double eps;          /* of layer norms */
};
_Static_assert(sizeof(struct bert) <= LVN_FIELDS_BYTES, "a configuration is a plain value");

static const struct bert *fields(const struct lvn_model_config *c)
{
    return (const struct bert *)(const void *)c->fields;
}

/* x (...,C) -> (...,N); NAME.weight and NAME.bias */
#define LINEAR(g, name, x, N) lvn_projection(g, name ".weight", name ".bias", x, N, LVN_WEIGHT_STD)
/* x (...,C) */
#define NORM(g, c, name, x) lvn_norm(g, name ".weight", name ".bias", x, (c)->eps)

/* ids, types (B,T) -> (B,T,C) */
static struct levin_tensor *embeddings(struct levin_graph *g, const struct bert *c, struct levin_tensor *ids,
                                       struct levin_tensor *types, struct levin_tensor **words)
{
    int64_t C = c->n_embd;
    levin_scope(g, "bert.embeddings");
    *words = levin_table(g, "word_embeddings.weight", c->vocab_size, C, LVN_WEIGHT_STD);
    struct levin_tensor *positions = levin_table(g, "position_embeddings.weight", c->n_positions, C, LVN_WEIGHT_STD);
    struct levin_tensor *kinds = levin_table(g, "token_type_embeddings.weight", c->types, C, LVN_WEIGHT_STD);
    struct levin_tensor *x =
        levin_add(g, levin_embedding(g, ids, *words, positions), levin_embedding(g, types, kinds, NULL));
    return levin_dropout(g, NORM(g, c, "LayerNorm", x), c->dropout);
}

/* x (B,T,C), lengths (B) -> (B,T,C) */
static struct levin_tensor *attention(struct levin_graph *g, const struct bert *c, struct levin_tensor *x,
                                      struct levin_tensor *lengths)
{
    int64_t C = c->n_embd, H = c->n_head, S = C / H;
    struct levin_tensor *q = levin_heads(g, LINEAR(g, "attention.self.query", x, C), 0, H, S); /* (B,T,H,S) */
    struct levin_tensor *k = levin_heads(g, LINEAR(g, "attention.self.key", x, C), 0, H, S);
    struct levin_tensor *v = levin_heads(g, LINEAR(g, "attention.self.value", x, C), 0, H, S);
    const struct levin_attention_options how = {
        .size = sizeof how, .lengths = lengths, .scale = 1.0 / sqrt((double)S), .dropout = c->dropout_attention};
    struct levin_tensor *y = levin_attention(g, q, k, v, &how);
    y = levin_dropout(g, LINEAR(g, "attention.output.dense", y, C), c->dropout);
    return NORM(g, c, "attention.output.LayerNorm", levin_add(g, x, y));
}

/* x (B,T,C) -> (B,T,C) */
static struct levin_tensor *mlp(struct levin_graph *g, const struct bert *c, struct levin_tensor *x)
{
    int64_t C = c->n_embd, I = c->intermediate ? c->intermediate : 4 * C;
    struct levin_tensor *h = lvn_gelu_by(g, c->activation, LINEAR(g, "intermediate.dense", x, I));
    h = levin_dropout(g, LINEAR(g, "output.dense", h, C), c->dropout);
    return NORM(g, c, "output.LayerNorm", levin_add(g, x, h));
}

/* x (B,T,C) -> (B,C) */
static struct levin_tensor *pooler(struct levin_graph *g, const struct bert *c, struct levin_tensor *x)
{
    int64_t C = c->n_embd;
    levin_scope(g, "bert.pooler");
    struct levin_tensor *first = levin_pack(g, levin_slice(g, x, 1, 0, 1)); /* (B,1,C) */
    if (!first) return NULL;
    first = levin_reshape(g, first, 2, (const int64_t[]){first->desc.dim[0], C});
    return levin_tanh(g, LINEAR(g, "dense", first, C));
}

/* x (B,T,C) -> (B,T,V) */
static struct levin_tensor *predictions(struct levin_graph *g, const struct bert *c, struct levin_tensor *x,
                                        struct levin_tensor *words)
{
    int64_t C = c->n_embd;
    levin_scope(g, "cls.predictions");
    x = lvn_gelu_by(g, c->activation, LINEAR(g, "transform.dense", x, C));
    x = NORM(g, c, "transform.LayerNorm", x);
    return levin_linear(g, x, words, levin_vector(g, "bias", c->vocab_size, 0.0), false);
}

/* ids (B,T), types (B,T), length (B) -> classes (B,K), logits (B,T,V), or, without a task, the pooler's output (B,C) */
static struct levin_tensor *build(struct levin_graph *g, const struct lvn_model_config *config,
                                  struct levin_tensor *const *inputs)
{
    const struct bert *c = fields(config);
    struct levin_tensor *words, *x = embeddings(g, c, inputs[0], inputs[1], &words);
    for (int64_t l = 0; l < c->n_layer; l++) {
        levin_scope(g, "bert.encoder.layer.%lld", (long long)l);
        levin_block(g);
        x = mlp(g, c, attention(g, c, x, inputs[2]));
    }
    levin_block_end(g);
    if (lvn_model_predicts(config, LVN_LABEL_TOKEN)) return predictions(g, c, x, words);
    x = pooler(g, c, x);
    if (!lvn_model_predicts_samples(config)) return x;
    levin_scope(g, "%s", "");
    return LINEAR(g, "classifier", levin_dropout(g, x, c->dropout_head < 0 ? c->dropout : c->dropout_head),
                  config->classes);
}

static enum lvn_status check(const void *fields)
{
    const struct bert *c = fields;
    LVN_TRY(lvn_check_heads(c->n_embd, c->n_head));
    return lvn_check_size(c->n_layer, c->n_embd, (double)c->vocab_size + (double)c->n_positions);
}

/* --- the keys --- */

static const struct lvn_key_word biases[] = {{NULL, 0, "no biases"}, {NULL, 1, "biases"}, {NULL, 0, NULL}};
static const struct lvn_key_word absolute[] = {{"absolute", 0, "absolute positions"}, {NULL, 0, NULL}};

// clang-format off
#define N(field) LVN_KEY_INT_OF(struct bert, field)
#define X(field) LVN_KEY_REAL_OF(struct bert, field)
#define DROPOUT(field, key) {X(field), .json = key, LVN_KEY_DROPOUT, .default_value = 0.1}

static const struct lvn_key keys[] = {
    {LVN_KEY_NAME, .json = "architectures", .text = "BertForSequenceClassification"},
    {N(vocab_size), .json = "vocab_size", .required = true, LVN_KEY_VOCAB_SIZE},
    {N(n_embd), .json = "hidden_size", .required = true, LVN_KEY_N_EMBD, .default_value = 192},
    {N(n_layer), .json = "num_hidden_layers", .required = true, LVN_KEY_N_LAYER, .default_value = 6},
    {N(n_head), .json = "num_attention_heads", .required = true, LVN_KEY_N_HEAD, .default_value = 6},
    {N(intermediate), .json = "intermediate_size", .required = true, LVN_KEY_INTERMEDIATE_SIZE,
     .default_multiple_of = offsetof(struct bert, n_embd), .default_multiple = 4},
    {LVN_KEY_WORD_OF(struct bert, activation), .json = "hidden_act", .default_value = LVN_GELU_ERF,
     .words = lvn_gelu_words},
    DROPOUT(dropout, "hidden_dropout_prob"),
    DROPOUT(dropout_attention, "attention_probs_dropout_prob"),
    {X(dropout_head), .json = "classifier_dropout", .recipe = "dropout", .default_value = -1, .min = -1,
     .max = 0.999, .null = true, .any_time = true, .help = LVN_DROPOUT_HELP},
    {N(n_positions), .json = "max_position_embeddings", .required = true, LVN_KEY_BLOCK_SIZE},
    {N(types), .json = "type_vocab_size", .default_value = 2, .min = 2, .max = 1024},
    {X(eps), .json = "layer_norm_eps", LVN_KEY_NORM_EPS, .default_value = 1e-12},
    {LVN_KEY_WORD_OF(struct bert, positions), .json = "position_embedding_type", .words = absolute, .read_only = true},
    {LVN_KEY_DTYPE, .json = "dtype"},
    {LVN_KEY_BOOL_OF(struct bert, bias), .default_value = true, .fixed = true, LVN_KEY_BIAS, .words = biases},
    {LVN_KEY_MUST, .json = "is_decoder", .default_value = false},
    {LVN_KEY_MUST, .json = "add_cross_attention", .default_value = false},
    {.kind = LVN_KEY_END},
};
// clang-format on

/* --- the files --- */

/* Ignored: position numbers, and the tied decoder, which some files store twice. */
static const struct lvn_file files[] = {
    {"bert.embeddings.position_ids", NULL, LVN_FILE_IGNORED},
    {"cls.predictions.decoder.*", NULL, LVN_FILE_IGNORED},
    {"bert.embeddings.*_embeddings.weight", NULL, LVN_FILE_ROWS},
    {"cls.predictions.bias", NULL, LVN_FILE_ROWS},
    {"*.LayerNorm.gamma", "*.LayerNorm.weight", LVN_FILE_LEGACY},
    {"*.LayerNorm.beta", "*.LayerNorm.bias", LVN_FILE_LEGACY},
    {"*.LayerNorm.weight", NULL, 0},
    {"*.weight", NULL, LVN_FILE_TRANSPOSED},
    {NULL, NULL, 0},
};

/* --- the sizes --- */

static const struct lvn_size sizes[] = {
    {"bert-base", "google-bert/bert-base-uncased", {12, 12, 768, 512, 30522}},
    {"bert-large", "google-bert/bert-large-uncased", {24, 16, 1024, 512, 30522}},
    {"kcbert-base", "beomi/kcbert-base", {12, 12, 768, 300, 30000}},
    {"kcbert-large", "beomi/kcbert-large", {24, 16, 1024, 300, 30000}},
    {NULL, NULL, {0}},
};
static const struct lvn_key_value published[] = {{NULL, 0}};
static const struct lvn_key_value tiny[] = {
    {"n_layer", 2},     {"n_head", 2},      {"n_embd", 32},   {"intermediate_size", 128},
    {"block_size", 32}, {"vocab_size", 65}, {"dropout", 0.1}, {NULL, 0}};

/* --- the model --- */

static const struct lvn_field inputs[] = {{.name = "ids", .dtype = LVN_I32, .rank = 1},
                                          {.name = "types", .dtype = LVN_I32, .rank = 1, .below = 2},
                                          {.name = "length", .dtype = LVN_I32, .min = 1},
                                          {.name = NULL}};
static const struct lvn_head heads[] = {
    {"classify", LVN_LABEL_CLASS, "BertForSequenceClassification", inputs, "bert.pooler, classifier"},
    {"regress", LVN_LABEL_NUMBER, "BertForSequenceClassification", inputs, "bert.pooler, classifier"},
    {"mlm", LVN_LABEL_TOKEN, "BertForMaskedLM", inputs, "cls.predictions"},
    {"mlm", LVN_LABEL_TOKEN, "BertForPreTraining", inputs,
     "cls.seq_relationship"}, /* its parameters are ignored; lvn_model_head() finds the row above */
    {"", LVN_LABEL_NONE, "BertModel", inputs, NULL},
    {.task = NULL},
};
static const char *const tasks[] = {"classify", "mlm", "regress", NULL};

extern const struct lvn_model lvn_model_bert;
const struct lvn_model lvn_model_bert = {
    .name = "bert",
    .help = "an encoder, for classes of texts or masked language modeling",
    .keys = keys,
    .files = files,
    .prefix = "bert.",
    .sizes = sizes,
    .size_keys = {"n_layer", "n_head", "n_embd", "block_size", "vocab_size"},
    .published = published,
    .tiny = tiny,
    .linear_layers = "attention.self.query, attention.self.key, attention.self.value, attention.output.dense, "
                     "intermediate.dense, output.dense",
    .lora_targets = "query, value",
    .freeze_example = "[embeddings, layer.0, 'layer.*.output']",
    .heads = heads,
    .check = check,
    .inputs = inputs,
    .tasks = tasks,
    .build = build,
};
