/* pretrained.c - reading model directories; see pretrained.h. */
#include "train/pretrained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "io/checkpoint.h"
#include "io/json.h"
#include "train/dialect.h"

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

/* --- weights --- */

/* A tensor by levin's name, with or without `transformer.` and with the prefix that torch.compile leaves. */
static const struct lvn_safetensor *find(const struct lvn_pretrained *p, const char *name)
{
    static const char *const prefixes[] = {"", "_orig_mod."};
    char full[512];
    for (int i = 0; i < 2; i++) {
        snprintf(full, sizeof full, "%s%s", prefixes[i], name);
        const struct lvn_safetensor *t = lvn_safetensors_find(&p->weights, full);
        if (t) return t;
    }
    const char *base = "transformer.";
    return strncmp(name, base, strlen(base)) == 0 ? lvn_safetensors_find(&p->weights, name + strlen(base)) : NULL;
}

const char *lvn_pretrained_name(const struct lvn_pretrained *p, const char *name)
{
    const struct lvn_safetensor *t = find(p, name);
    return t ? t->name : name;
}

/* Tensors of files that are no parameters: causal masks, and a tied head stored twice. */
static bool passed_over(const struct lvn_pretrained *p, const char *name)
{
    size_t n = strlen(name);
    const char *const tails[] = {".attn.bias", ".attn.masked_bias"};
    for (int i = 0; i < 2; i++)
        if (n > strlen(tails[i]) && strcmp(name + n - strlen(tails[i]), tails[i]) == 0) return true;
    return p->config.tied && n >= 14 && strcmp(name + n - 14, "lm_head.weight") == 0;
}

struct findings {
    struct lvn_text list;
    int n;
};

static void found(struct findings *f, const char *format, const char *name)
{
    if (f->n++ < 10) {
        lvn_text_add(&f->list, f->n > 1 ? ", " : "");
        lvn_text_printf(&f->list, format, name);
    }
}

static bool fits(const struct lvn_pretrained *p, const struct lvn_param *q, const struct lvn_safetensor *t)
{
    struct lvn_desc want = lvn_dialect_desc(p->dialect, q);
    return lvn_desc_same_shape(&want, &t->desc);
}

static bool is_real(enum lvn_dtype t)
{
    return t == LVN_F32 || t == LVN_F16 || t == LVN_BF16 || t == LVN_F64;
}

static enum lvn_status compare(struct lvn_pretrained *p, const struct lvn_params *params, struct findings *f)
{
    int64_t wanted = 0, seen = 0;
    for (int i = 0; i < params->n; i++) {
        const struct lvn_param *q = params->list[i];
        const struct lvn_safetensor *t = find(p, q->name);
        char have[LVN_SHAPE_TEXT], want[LVN_SHAPE_TEXT], line[400];
        struct lvn_desc d = lvn_dialect_desc(p->dialect, q);
        wanted++;
        seen += t != NULL;
        if (t && (!fits(p, q, t) || !is_real(t->desc.dtype))) {
            snprintf(line, sizeof line, "'%.120s' is %s of %s, wanted %s", t->name, lvn_shape_text(&t->desc, have),
                     lvn_dtype_name(t->desc.dtype), lvn_shape_text(&d, want));
            found(f, "%s", line);
        }
        if (!t) found(f, "'%s' is missing", q->name);
    }
    for (int i = 0; i < p->weights.n; i++) {
        const char *name = p->weights.tensor[i].name;
        char full[600];
        if (passed_over(p, name)) continue;
        const char *bare = strncmp(name, "_orig_mod.", 10) == 0 ? name + 10 : name;
        snprintf(full, sizeof full, "transformer.%s", bare);
        /* Hugging Face files of models without biases carry zeros. */
        bool zero_bias = p->dialect == LVN_DIALECT_HUGGINGFACE && !p->config.bias && strlen(bare) > 5 &&
                         strcmp(bare + strlen(bare) - 5, ".bias") == 0;
        if (!zero_bias && !lvn_params_find(params, bare) && !lvn_params_find(params, full))
            found(f, "'%s' is not wanted", name);
    }
    if (!f->n) return LVN_OK;
    const char *list = lvn_text_string(&f->list);
    if (!list) return LVN_MEMORY;
    LVN_FAIL(FORMAT, "'%s' does not hold the model of its config.json: of %lld tensors %lld are there; %s%s", p->path,
             (long long)wanted, (long long)seen, list, f->n > 10 ? ", and more" : "");
}

/* The parameters that a config wants, to hold the file against. */
static enum lvn_status check_weights(struct lvn_pretrained *p)
{
    struct lvn_params *params = lvn_params_new();
    struct lvn_graph *g = params ? lvn_graph_new(params, LVN_F32) : NULL;
    enum lvn_status status = g ? LVN_OK : LVN_MEMORY;
    if (g) {
        lvn_model_build(g, &p->config, 1, 1, false);
        status = lvn_graph_status(g);
    }
    struct findings f = {0};
    if (status == LVN_OK) status = compare(p, params, &f);
    lvn_text_release(&f.list);
    lvn_graph_free(g);
    lvn_params_free(params);
    return status;
}

enum lvn_status lvn_pretrained_open(struct lvn_pretrained *p, const char *model, const char *prefer)
{
    *p = (struct lvn_pretrained){0};
    lvn_arena_init(&p->arena);
    enum lvn_status status = lvn_checkpoint_locate(&p->arena, model, prefer, &p->path);
    if (status == LVN_OK) status = load_config(p);
    bool open = false;
    if (status == LVN_OK) {
        status = lvn_safetensors_open(&p->weights, p->path);
        open = status == LVN_OK;
    }
    if (status == LVN_OK) status = check_weights(p);
    if (status == LVN_OK) return LVN_OK;
    if (open) lvn_safetensors_close(&p->weights);
    lvn_arena_release(&p->arena);
    return status;
}

void lvn_pretrained_close(struct lvn_pretrained *p)
{
    lvn_safetensors_close(&p->weights);
    lvn_arena_release(&p->arena);
}

static enum lvn_status load_one(const struct lvn_pretrained *p, const struct lvn_param *q, float *flat, float *room)
{
    const struct lvn_safetensor *t = find(p, q->name);
    bool turned = lvn_dialect_transposes(p->dialect, q);
    float *to = turned ? room : flat + q->offset;
    lvn_tensor_to_f32(t->desc.dtype, t->data, to, q->count);
    int64_t rows = q->desc.dim[0], columns = q->desc.rank > 1 ? q->desc.dim[1] : 1;
    for (int64_t i = 0; turned && i < rows; i++)
        for (int64_t j = 0; j < columns; j++) flat[q->offset + i * columns + j] = room[j * rows + i];
    for (int64_t i = 0; i < q->count; i++)
        LVN_CHECK(isfinite(flat[q->offset + i]), NONFINITE, "'%s': '%s' holds a number that is not finite, at %lld",
                  t->file, t->name, (long long)i);
    return LVN_OK;
}

enum lvn_status lvn_pretrained_load(const struct lvn_pretrained *p, const struct lvn_params *params, float *values)
{
    int64_t most = 1;
    for (int i = 0; i < params->n; i++)
        if (params->list[i]->count > most && lvn_dialect_transposes(p->dialect, params->list[i]))
            most = params->list[i]->count;
    float *room = lvn_malloc(sizeof *room * (size_t)most);
    enum lvn_status status = room ? LVN_OK : LVN_MEMORY;
    for (int i = 0; i < params->n && status == LVN_OK; i++) status = load_one(p, params->list[i], values, room);
    free(room);
    return status;
}
