/* pretrained.c - reading model directories; see pretrained.h. */
#include "train/pretrained.h"

#include <math.h>
#include <string.h>

#include "base/files.h"
#include "formats/json.h"
#include "train/dialect.h"
#include "train/model_find.h"

static const char *const words[] = {
#define LVN_X(name, word) [LVN_DIALECT_##name] = word,
    LVN_DIALECT_MAP(LVN_X)
#undef LVN_X
};

enum lvn_status lvn_dialect_find(const char *word, enum lvn_dialect *out)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(word, words[i]) == 0) {
            *out = (enum lvn_dialect)i;
            return LVN_OK;
        }
    LVN_FAIL(ARG, "the format '%.40s' is not known; choose huggingface, nanogpt or mingpt", word);
}

/* --- config.json --- */

struct reader {
    const char *path;
    const json_t *root;
};

static enum lvn_status size(const struct reader *r, const char *key, int64_t *out)
{
    return lvn_json_int(r->path, r->root, key, true, 1, INT32_MAX, out);
}

static enum lvn_status common_sizes(const struct reader *r, const char *positions, struct lvn_model_config *c)
{
    LVN_TRY(size(r, "n_layer", &c->n_layer));
    LVN_TRY(size(r, "n_head", &c->n_head));
    LVN_TRY(size(r, "n_embd", &c->n_embd));
    LVN_TRY(size(r, "vocab_size", &c->vocab_size));
    return size(r, positions, &c->n_positions);
}

static enum lvn_status dropouts(const struct reader *r, struct lvn_model_config *c)
{
    LVN_TRY(lvn_json_real(r->path, r->root, "embd_pdrop", false, &c->dropout_embedding));
    LVN_TRY(lvn_json_real(r->path, r->root, "resid_pdrop", false, &c->dropout_residual));
    LVN_TRY(lvn_json_real(r->path, r->root, "attn_pdrop", false, &c->dropout_attention));
    return LVN_OK;
}

/* What levin itself wrote beside Hugging Face's keys. */
static enum lvn_status levin_object(const struct reader *r, struct lvn_model_config *c)
{
    const json_t *own = json_object_get(r->root, "levin");
    const char *kind = NULL;
    if (!own) return LVN_OK;
    LVN_CHECK(json_is_object(own), FORMAT, "%s: 'levin' wants an object", r->path);
    LVN_TRY(lvn_json_bool(r->path, own, "bias", false, &c->bias));
    LVN_TRY(lvn_json_string(r->path, own, "kind", false, &kind));
    if (!kind) return LVN_OK;
    c->model = lvn_model_find(kind);
    LVN_CHECK(c->model, FORMAT, "%s: levin.kind '%.40s' is not a model of this version", r->path, kind);
    return LVN_OK;
}

static enum lvn_status huggingface_config(const struct reader *r, struct lvn_model_config *c)
{
    const char *activation = "gelu_new";
    int64_t inner = 0;
    bool scale = true, by_layer = false;
    LVN_TRY(common_sizes(r, "n_positions", c));
    LVN_TRY(dropouts(r, c));
    LVN_TRY(lvn_json_real(r->path, r->root, "layer_norm_epsilon", false, &c->eps));
    LVN_TRY(lvn_json_bool(r->path, r->root, "tie_word_embeddings", false, &c->tied));
    LVN_TRY(lvn_json_bool(r->path, r->root, "scale_attn_weights", false, &scale));
    LVN_TRY(lvn_json_bool(r->path, r->root, "scale_attn_by_inverse_layer_idx", false, &by_layer));
    LVN_TRY(lvn_json_string(r->path, r->root, "activation_function", false, &activation));
    LVN_TRY(lvn_json_int(r->path, r->root, "n_inner", false, 1, INT32_MAX, &inner));
    LVN_CHECK(scale && !by_layer, UNSUPPORTED,
              "%s: scale_attn_weights must be true and scale_attn_by_inverse_layer_idx false", r->path);
    LVN_CHECK(!inner || inner == 4 * c->n_embd, UNSUPPORTED, "%s: n_inner is %lld; only 4 x n_embd is there", r->path,
              (long long)inner);
    bool erf = strcmp(activation, "gelu") == 0;
    c->gelu_tanh = strcmp(activation, "gelu_new") == 0 || strcmp(activation, "gelu_pytorch_tanh") == 0;
    LVN_CHECK(erf || c->gelu_tanh, UNSUPPORTED, "%s: activation_function '%.40s'; only gelu and gelu_new are there",
              r->path, activation);
    return levin_object(r, c);
}

static enum lvn_status nanogpt_config(const struct reader *r, struct lvn_model_config *c)
{
    double p = 0.0;
    c->bias = true; /* nanoGPT's own default */
    LVN_TRY(common_sizes(r, "block_size", c));
    LVN_TRY(lvn_json_bool(r->path, r->root, "bias", false, &c->bias));
    LVN_TRY(lvn_json_real(r->path, r->root, "dropout", false, &p));
    c->dropout_embedding = c->dropout_residual = c->dropout_attention = p;
    return LVN_OK;
}

static enum lvn_status mingpt_config(const struct reader *r, struct lvn_model_config *c)
{
    LVN_TRY(common_sizes(r, "block_size", c));
    return dropouts(r, c);
}

/* The dialects in the order of enum lvn_dialect: model_type of config.json, and who reads the rest of it. */
static const struct {
    const char *model_type;
    enum lvn_status (*read)(const struct reader *r, struct lvn_model_config *c);
} dialects[] = {
    [LVN_DIALECT_HUGGINGFACE] = {"gpt2", huggingface_config},
    [LVN_DIALECT_NANOGPT] = {"nanogpt", nanogpt_config},
    [LVN_DIALECT_MINGPT] = {"mingpt", mingpt_config},
};
enum { N_DIALECTS = sizeof dialects / sizeof dialects[0] };

static enum lvn_status read_config(struct lvn_pretrained *p, const struct reader *r)
{
    const char *type = NULL;
    LVN_TRY(lvn_json_string(r->path, r->root, "model_type", true, &type));
    int d = 0;
    while (d < N_DIALECTS && strcmp(type, dialects[d].model_type) != 0) d++;
    LVN_CHECK(d < N_DIALECTS, UNSUPPORTED, "%s: model_type is '%.40s'; this version loads gpt2, nanogpt and mingpt",
              r->path, type);
    p->dialect = (enum lvn_dialect)d;
    p->config.model = lvn_model_find(type);
    p->config.model->defaults(&p->config);
    LVN_TRY(dialects[d].read(r, &p->config));
    const double rates[] = {p->config.dropout_embedding, p->config.dropout_residual, p->config.dropout_attention};
    for (int i = 0; i < 3; i++)
        LVN_CHECK(rates[i] >= 0.0 && rates[i] < 1.0, FORMAT, "%s: a dropout rate is %g; it must lie in [0, 1)", r->path,
                  rates[i]);
    LVN_CHECK(p->config.eps > 0.0 && p->config.eps < 1.0, FORMAT, "%s: layer_norm_epsilon is %g", r->path,
              p->config.eps);
    return lvn_model_check(&p->config);
}

static enum lvn_status load_config(struct lvn_pretrained *p)
{
    json_t *root = NULL;
    struct reader r = {.path = lvn_path_join(&p->arena, p->path, "config.json")};
    if (!r.path) return LVN_MEMORY;
    LVN_TRY(lvn_json_read(r.path, &root));
    r.root = root;
    enum lvn_status status = read_config(p, &r);
    json_decref(root);
    return status;
}

/* --- model_args of nanoGPT's checkpoints --- */

/* The plain values of a dict as a JSON object. */
static json_t *json_of(const struct lvn_pickle *dict)
{
    json_t *object = json_object();
    for (int64_t i = 0; i < dict->n; i += 2) {
        const struct lvn_pickle *key = dict->item[i], *v = dict->item[i + 1];
        if (key->kind != LVN_PICKLE_TEXT) continue;
        if (v->kind == LVN_PICKLE_BOOL) json_object_set_new(object, key->text, json_boolean(v->truth));
        if (v->kind == LVN_PICKLE_INT) json_object_set_new(object, key->text, json_integer(v->integer));
        if (v->kind == LVN_PICKLE_REAL && isfinite(v->real)) json_object_set_new(object, key->text, json_real(v->real));
    }
    return object;
}

static enum lvn_status load_args(struct lvn_pretrained *p)
{
    LVN_CHECK(p->weights.args, FORMAT,
              "'%s' is no checkpoint of nanoGPT: it has no 'model_args', which say how large the model is; put the "
              "weights into a directory with a config.json, as pytorch_model.bin",
              p->path);
    json_t *root = json_of(p->weights.args);
    struct reader r = {.path = lvn_arena_printf(&p->arena, "'model_args' of '%s'", p->path), .root = root};
    json_object_set_new(root, "model_type", json_string("nanogpt"));
    enum lvn_status status = r.path ? read_config(p, &r) : LVN_MEMORY;
    json_decref(root);
    return status;
}

/* --- opening --- */

/* A directory's config.json is looked at before its weights; a checkpoint of nanoGPT is one file. */
static enum lvn_status open_files(struct lvn_pretrained *p)
{
    bool directory = lvn_path_is_dir(p->path);
    p->dir = directory ? p->path : lvn_path_dir(&p->arena, p->path);
    if (!p->dir) return LVN_MEMORY;
    if (directory) LVN_TRY(load_config(p));
    LVN_TRY(lvn_weights_open(&p->weights, p->path));
    if (!directory) LVN_TRY(load_args(p));
    return lvn_pretrained_check(p);
}

enum lvn_status lvn_pretrained_open(struct lvn_pretrained *p, const char *model, const char *prefer)
{
    *p = (struct lvn_pretrained){0};
    lvn_arena_init(&p->arena);
    enum lvn_status status = lvn_model_find_files(&p->arena, model, prefer, &p->path);
    if (status == LVN_OK) status = open_files(p);
    if (status != LVN_OK) lvn_pretrained_close(p);
    return status;
}

void lvn_pretrained_close(struct lvn_pretrained *p)
{
    lvn_weights_close(&p->weights);
    lvn_arena_release(&p->arena);
}
