/* bert.c - BERT and RoBERTa: a bidirectional encoder, with a head for each of three tasks.
 *
 *   classify   the first token through a linear layer and tanh (the pooler), then a linear layer to the classes
 *   regress    the same with one class, whose logit is the number
 *   mlm        each token through a linear layer, GELU and layer norm, then the embedding's weights and a bias
 *
 *   bert         two types of tokens
 *   roberta      the type of each token is 0, and the first token's position embedding is row 2 of its table: row 1 is
 *                that of padding, and row 0 has no use
 *   xlm-roberta  the same network
 *
 * Post-norm transformer: x = norm(x + attention(x)); x = norm(x + mlp(x)). Queries attend to the text's tokens, not to
 * padding. Names are those of Hugging Face's files; linear weights are (in, out) in memory and (out, in) in files.
 * Initial values: N(0, 0.02), biases 0. Not supported: next-sentence prediction. (Devlin, Chang, Lee, Toutanova: "BERT:
 * pre-training of deep bidirectional transformers for language understanding", 2018; Liu et al.: "RoBERTa: a robustly
 * optimized BERT pretraining approach", 2019.) */

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
    bool roberta;
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

/* The first part of the names of the encoder's parameters. */
static const char *family(const struct bert *c)
{
    return c->roberta ? "roberta" : "bert";
}

/* x (...,C) -> (...,N); NAME.weight and NAME.bias */
#define LINEAR(g, name, x, N) lvn_projection(g, name ".weight", name ".bias", x, N, LVN_WEIGHT_STD)
/* x (...,C) */
#define NORM(g, c, name, x) lvn_norm(g, name ".weight", name ".bias", x, (c)->eps)

/* The row of the first token in RoBERTa's position embeddings: pad_token_id + 1. */
enum { ROBERTA_FIRST_POSITION = 2 };

/* ids, types (B,T); types NULL: all are 0 -> (B,T,C) */
static struct levin_tensor *embeddings(struct levin_graph *g, const struct bert *c, struct levin_tensor *ids,
                                       struct levin_tensor *types, struct levin_tensor **words)
{
    const int64_t C = c->n_embd, first = c->roberta ? ROBERTA_FIRST_POSITION : 0;
    levin_scope(g, "%s.embeddings", family(c));
    *words = levin_table(g, "word_embeddings.weight", c->vocab_size, C, LVN_WEIGHT_STD);
    struct levin_tensor *positions =
        levin_table(g, "position_embeddings.weight", first + c->n_positions, C, LVN_WEIGHT_STD);
    if (first) positions = levin_pack(g, levin_slice(g, positions, 0, first, c->n_positions));
    struct levin_tensor *kinds = levin_table(g, "token_type_embeddings.weight", c->types, C, LVN_WEIGHT_STD);
    kinds = types ? levin_embedding(g, types, kinds, NULL)
                  : levin_reshape(g, levin_pack(g, levin_slice(g, kinds, 0, 0, 1)), 1, &C);
    struct levin_tensor *x = levin_add(g, levin_embedding(g, ids, *words, positions), kinds);
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

/* x (B,T,C) -> the first token's (B,C) */
static struct levin_tensor *first_token(struct levin_graph *g, const struct bert *c, struct levin_tensor *x)
{
    struct levin_tensor *first = levin_pack(g, levin_slice(g, x, 1, 0, 1)); /* (B,1,C) */
    return first ? levin_reshape(g, first, 2, (const int64_t[]){first->desc.dim[0], c->n_embd}) : NULL;
}

/* x (B,T,C) -> classes (B,K); without a task (B,C) */
static struct levin_tensor *pooled(struct levin_graph *g, const struct lvn_model_config *config, struct levin_tensor *x)
{
    const struct bert *c = fields(config);
    const bool classes = lvn_model_predicts_samples(config);
    const double dropout = c->dropout_head < 0 ? c->dropout : c->dropout_head;
    if (c->roberta && classes)
        levin_scope(g, "classifier");
    else
        levin_scope(g, "%s.pooler", family(c));
    x = first_token(g, c, x);
    if (c->roberta && classes) x = levin_dropout(g, x, dropout);
    x = levin_tanh(g, LINEAR(g, "dense", x, c->n_embd));
    if (!classes) return x;
    x = levin_dropout(g, x, dropout);
    if (c->roberta) return LINEAR(g, "out_proj", x, config->classes);
    levin_scope(g, "%s", "");
    return LINEAR(g, "classifier", x, config->classes);
}

/* x (B,T,C) -> (B,T,V) */
static struct levin_tensor *predictions(struct levin_graph *g, const struct bert *c, struct levin_tensor *x,
                                        struct levin_tensor *words)
{
    int64_t C = c->n_embd;
    levin_scope(g, "%s", c->roberta ? "lm_head" : "cls.predictions");
    if (c->roberta) {
        x = levin_gelu(g, LINEAR(g, "dense", x, C));
        x = NORM(g, c, "layer_norm", x);
    } else {
        x = lvn_gelu_by(g, c->activation, LINEAR(g, "transform.dense", x, C));
        x = NORM(g, c, "transform.LayerNorm", x);
    }
    return levin_linear(g, x, words, levin_vector(g, "bias", c->vocab_size, 0.0), false);
}

/* ids (B,T), types (B,T) unless it is a RoBERTa, length (B) -> classes (B,K), logits (B,T,V), or, without a task, the
 * pooler's output (B,C) */
static struct levin_tensor *build(struct levin_graph *g, const struct lvn_model_config *config,
                                  struct levin_tensor *const *inputs)
{
    const struct bert *c = fields(config);
    struct levin_tensor *types = c->roberta ? NULL : inputs[1], *lengths = inputs[c->roberta ? 1 : 2];
    struct levin_tensor *words, *x = embeddings(g, c, inputs[0], types, &words);
    for (int64_t l = 0; l < c->n_layer; l++) {
        levin_scope(g, "%s.encoder.layer.%lld", family(c), (long long)l);
        levin_block(g);
        x = mlp(g, c, attention(g, c, x, lengths));
    }
    levin_block_end(g);
    return lvn_model_predicts(config, LVN_LABEL_TOKEN) ? predictions(g, c, x, words) : pooled(g, config, x);
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

/* Keys of all variants. name: the beginning of the architectures' names; least_types, n_types: minimum and default
 * number of token types; epsilon: default of layer_norm_eps. */
#define SHARED_KEYS(name, least_types, n_types, epsilon)                                                               \
    {LVN_KEY_NAME, .json = "architectures", .text = name "ForSequenceClassification"},                                 \
    {N(vocab_size), .json = "vocab_size", .required = true, LVN_KEY_VOCAB_SIZE},                                       \
    {N(n_embd), .json = "hidden_size", .required = true, LVN_KEY_N_EMBD, .default_value = 192},                        \
    {N(n_layer), .json = "num_hidden_layers", .required = true, LVN_KEY_N_LAYER, .default_value = 6},                  \
    {N(n_head), .json = "num_attention_heads", .required = true, LVN_KEY_N_HEAD, .default_value = 6},                  \
    {N(intermediate), .json = "intermediate_size", .required = true, LVN_KEY_INTERMEDIATE_SIZE,                        \
     .default_multiple_of = offsetof(struct bert, n_embd), .default_multiple = 4},                                     \
    {LVN_KEY_WORD_OF(struct bert, activation), .json = "hidden_act", .default_value = LVN_GELU_ERF,                    \
     .words = lvn_gelu_words},                                                                                         \
    DROPOUT(dropout, "hidden_dropout_prob"),                                                                           \
    DROPOUT(dropout_attention, "attention_probs_dropout_prob"),                                                        \
    {X(dropout_head), .json = "classifier_dropout", .recipe = "dropout", .default_value = -1, .min = -1,               \
     .max = 0.999, .null = true, .any_time = true, .help = LVN_DROPOUT_HELP},                                          \
    {N(types), .json = "type_vocab_size", .default_value = n_types, .absent = 2, .min = least_types, .max = 1024},     \
    {X(eps), .json = "layer_norm_eps", LVN_KEY_NORM_EPS, .default_value = epsilon, .absent = 1e-12},                   \
    {LVN_KEY_WORD_OF(struct bert, positions), .json = "position_embedding_type", .words = absolute,                    \
     .read_only = true},                                                                                               \
    {LVN_KEY_DTYPE, .json = "dtype"},                                                                                  \
    {LVN_KEY_BOOL_OF(struct bert, bias), .default_value = true, .fixed = true, LVN_KEY_BIAS, .words = biases},         \
    {LVN_KEY_MUST, .json = "is_decoder", .default_value = false},                                                      \
    {LVN_KEY_MUST, .json = "add_cross_attention", .default_value = false}
#define IS_ROBERTA(yes) {LVN_KEY_BOOL_OF(struct bert, roberta), .default_value = yes, .fixed = true}

static const struct lvn_key bert_keys[] = {
    SHARED_KEYS("Bert", 2, 2, 1e-12),
    IS_ROBERTA(false),
    {N(n_positions), .json = "max_position_embeddings", .required = true, LVN_KEY_BLOCK_SIZE},
    {.kind = LVN_KEY_END},
};
#define ROBERTA_KEYS(name)                                                                                             \
    {                                                                                                                  \
        SHARED_KEYS(name, 1, 1, 1e-5), IS_ROBERTA(true),                                                               \
        {N(n_positions), .json = "max_position_embeddings", .required = true, LVN_KEY_BLOCK_SIZE,                      \
         .json_offset = ROBERTA_FIRST_POSITION},                                                                       \
        {LVN_KEY_MUST, .json = "pad_token_id", .default_value = ROBERTA_FIRST_POSITION - 1},                           \
        {.kind = LVN_KEY_END},                                                                                         \
    }
static const struct lvn_key roberta_keys[] = ROBERTA_KEYS("Roberta"), xlm_roberta_keys[] = ROBERTA_KEYS("XLMRoberta");
// clang-format on

/* --- the files --- */

/* Ignored: position numbers, and the tied decoder, which some files store twice. */
static const struct lvn_file bert_files[] = {
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
static const struct lvn_file roberta_files[] = {
    {"roberta.embeddings.position_ids", NULL, LVN_FILE_IGNORED},
    {"lm_head.decoder.*", NULL, LVN_FILE_IGNORED},
    {"roberta.embeddings.*_embeddings.weight", NULL, LVN_FILE_ROWS},
    {"lm_head.bias", NULL, LVN_FILE_ROWS},
    {"*.LayerNorm.weight", NULL, 0},
    {"lm_head.layer_norm.weight", NULL, 0},
    {"*.weight", NULL, LVN_FILE_TRANSPOSED},
    {NULL, NULL, 0},
};

/* --- the sizes --- */

static const struct lvn_size bert_sizes[] = {
    {"bert-base", "google-bert/bert-base-uncased", {12, 12, 768, 512, 30522}},
    {"bert-large", "google-bert/bert-large-uncased", {24, 16, 1024, 512, 30522}},
    {"kcbert-base", "beomi/kcbert-base", {12, 12, 768, 300, 30000}},
    {"kcbert-large", "beomi/kcbert-large", {24, 16, 1024, 300, 30000}},
    {NULL, NULL, {0}},
};
static const struct lvn_size roberta_sizes[] = {
    {"roberta-base", "FacebookAI/roberta-base", {12, 12, 768, 512, 50265}},
    {"roberta-large", "FacebookAI/roberta-large", {24, 16, 1024, 512, 50265}},
    {"klue-roberta-base", "klue/roberta-base", {12, 12, 768, 512, 32000}},
    {"klue-roberta-large", "klue/roberta-large", {24, 16, 1024, 512, 32000}},
    {NULL, NULL, {0}},
};
static const struct lvn_size xlm_roberta_sizes[] = {
    {"xlm-roberta-base", "FacebookAI/xlm-roberta-base", {12, 12, 768, 512, 250002}},
    {"xlm-roberta-large", "FacebookAI/xlm-roberta-large", {24, 16, 1024, 512, 250002}},
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
static const struct lvn_head bert_heads[] = {
    {"classify", LVN_LABEL_CLASS, "BertForSequenceClassification", inputs, "bert.pooler, classifier"},
    {"regress", LVN_LABEL_NUMBER, "BertForSequenceClassification", inputs, "bert.pooler, classifier"},
    {"mlm", LVN_LABEL_TOKEN, "BertForMaskedLM", inputs, "cls.predictions"},
    {"mlm", LVN_LABEL_TOKEN, "BertForPreTraining", inputs,
     "cls.seq_relationship"}, /* its parameters are ignored; lvn_model_head() finds the row above */
    {"", LVN_LABEL_NONE, "BertModel", inputs, NULL},
    {.task = NULL},
};
#define ROBERTA_CLASSIFIER "classifier.dense, classifier.out_proj"
#define ROBERTA_HEADS(name)                                                                                            \
    {                                                                                                                  \
        {"classify", LVN_LABEL_CLASS, name "ForSequenceClassification", lvn_text_inputs, ROBERTA_CLASSIFIER},          \
            {"regress", LVN_LABEL_NUMBER, name "ForSequenceClassification", lvn_text_inputs, ROBERTA_CLASSIFIER},      \
            {"mlm", LVN_LABEL_TOKEN, name "ForMaskedLM", lvn_text_inputs, "lm_head"},                                  \
            {"", LVN_LABEL_NONE, name "Model", lvn_text_inputs, "roberta.pooler"}, {.task = NULL},                     \
    }
static const struct lvn_head roberta_heads[] = ROBERTA_HEADS("Roberta"),
                             xlm_roberta_heads[] = ROBERTA_HEADS("XLMRoberta");
static const char *const tasks[] = {"classify", "mlm", "regress", NULL};

extern const struct lvn_model lvn_model_bert, lvn_model_roberta, lvn_model_xlm_roberta;

#define SHARED                                                                                                         \
    .size_keys = {"n_layer", "n_head", "n_embd", "block_size", "vocab_size"}, .published = published, .tiny = tiny,    \
    .linear_layers = "attention.self.query, attention.self.key, attention.self.value, attention.output.dense, "        \
                     "intermediate.dense, output.dense",                                                               \
    .lora_targets = "query, value", .freeze_example = "[embeddings, layer.0, 'layer.*.output']", .check = check,       \
    .tasks = tasks, .build = build

const struct lvn_model lvn_model_bert = {
    .name = "bert",
    .help = "an encoder, for classes of texts or masked language modeling",
    .keys = bert_keys,
    .files = bert_files,
    .prefix = "bert.",
    .sizes = bert_sizes,
    .heads = bert_heads,
    .inputs = inputs,
    SHARED,
};
const struct lvn_model lvn_model_roberta = {
    .name = "roberta",
    .help = "like bert, with one token type, and a classification head without a pooler",
    .keys = roberta_keys,
    .files = roberta_files,
    .prefix = "roberta.",
    .sizes = roberta_sizes,
    .heads = roberta_heads,
    .inputs = lvn_text_inputs,
    SHARED,
};
const struct lvn_model lvn_model_xlm_roberta = {
    .name = "xlm-roberta",
    .help = "the network of roberta, for many languages",
    .keys = xlm_roberta_keys,
    .files = roberta_files,
    .prefix = "roberta.",
    .sizes = xlm_roberta_sizes,
    .heads = xlm_roberta_heads,
    .inputs = lvn_text_inputs,
    SHARED,
};
