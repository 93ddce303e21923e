/* pretrained.c - see pretrained.h: opening model directories and checkpoints. Weights are read in pretrained_weights.c,
 * adapters in pretrained_adapters.c. */
#include "model_io/pretrained_private.h"

#include "base/files.h"
#include "formats/json.h"
#include "model_io/bitsandbytes.h"
#include "model_io/gguf_model.h"
#include "model_io/model_config.h"
#include "model_io/model_find.h"
#include "models/model_folder.h"

enum lvn_status lvn_pretrained_config(struct lvn_pretrained *p)
{
    json_t *root = NULL;
    const char *path = lvn_path_join(&p->arena, p->path, "config.json");
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_json_read(path, &root));
    enum lvn_status status = lvn_config_read(&p->config, &p->variant, path, root);
    json_decref(root);
    p->files = p->variant;
    return status;
}

/* --- model_args of checkpoints --- */

/* The scalar values of a dict as a JSON object. */
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

/* The model in model_args of a checkpoint of torch.save(). */
static const struct lvn_model *model_of_checkpoints(void)
{
    const struct lvn_model *const *m = lvn_models();
    while (*m && (!(*m)->checkpoint || (*m)->metadata)) m++;
    return *m;
}

/* The model whose checkpoints have such a name, and their metadata. */
static const struct lvn_model *model_by_metadata(struct lvn_pretrained *p, const char **metadata)
{
    for (const struct lvn_model *const *m = lvn_models(); *m; m++) {
        *metadata = lvn_model_metadata_file(&p->arena, *m, p->path);
        if (*metadata && lvn_path_is_file(*metadata)) return *m;
    }
    return NULL;
}

static enum lvn_status load_metadata(struct lvn_pretrained *p, const struct lvn_model *m, const char *path)
{
    json_t *root = NULL;
    LVN_TRY(lvn_json_read(path, &root));
    json_t *config = json_object_get(root, "model_config");
    enum lvn_status status = LVN_OK;
    if (!json_is_object(config)) {
        status = lvn_fail(LVN_FORMAT, "%s: there is no object 'model_config', which says how large the model is", path);
    } else {
        json_object_set_new(config, "model_type", json_string(lvn_model_type(m)));
        status = lvn_config_read(&p->config, &p->variant, path, config);
    }
    json_decref(root);
    p->files = p->variant;
    return status;
}

static enum lvn_status load_args(struct lvn_pretrained *p)
{
    const char *metadata;
    const struct lvn_model *m = p->weights.args ? NULL : model_by_metadata(p, &metadata);
    if (m) return load_metadata(p, m, metadata);
    m = model_of_checkpoints();
    LVN_CHECK(p->weights.args, FORMAT,
              "'%s' is not a checkpoint of %s: it has no 'model_args', which say how large the model is; put the "
              "weights into a directory with a config.json, as pytorch_model.bin",
              p->path, m->program);
    long begun = lvn_json_begin();
    json_t *root = json_of(p->weights.args);
    const char *name = lvn_arena_printf(&p->arena, "'model_args' of '%s'", p->path);
    json_object_set_new(root, "model_type", json_string(m->name));
    enum lvn_status status = name ? lvn_json_check(begun) : LVN_MEMORY;
    if (status == LVN_OK) status = lvn_config_read(&p->config, &p->variant, name, root);
    json_decref(root);
    p->files = p->variant;
    return status;
}

/* --- opening --- */

const char *lvn_pretrained_source(const struct lvn_pretrained *p)
{
    return p->weights.args ? "model_args" : p->weights.gguf ? "metadata" : "config.json";
}

/* Every layer has a tensor: refuse more layers than tensors before the model is built. */
static enum lvn_status check_layers(const struct lvn_pretrained *p)
{
    int64_t layers = lvn_model_value(&p->config, LVN_ROLE_LAYERS);
    LVN_CHECK(layers <= p->weights.n, FORMAT,
              "'%s' does not match its %s: that has %lld layers, and %d tensors are there", p->path,
              lvn_pretrained_source(p), (long long)layers, p->weights.n);
    return LVN_OK;
}

/* A directory's config.json is read before its weights; a checkpoint and a GGUF file are one file. */
static enum lvn_status open_files(struct lvn_pretrained *p, const char *base, int depth)
{
    bool directory = lvn_path_is_dir(p->path);
    const char *adapters = directory ? lvn_adapter_files_find(&p->arena, p->path) : NULL;
    if (adapters) return lvn_pretrained_open_adapters(p, adapters, base, depth);
    p->dir = directory ? p->path : lvn_path_dir(&p->arena, p->path);
    if (!p->dir) return LVN_MEMORY;
    if (directory) LVN_TRY(lvn_pretrained_config(p));
    LVN_TRY(lvn_weights_open(&p->weights, p->path));
    LVN_TRY(lvn_bitsandbytes_join(&p->weights.arena, p->weights.tensor, &p->weights.n));
    if (p->weights.gguf) p->dir = p->path;
    if (!directory) LVN_TRY(p->weights.gguf ? lvn_gguf_model_read(p) : load_args(p));
    LVN_TRY(check_layers(p));
    return lvn_pretrained_check(p);
}

enum lvn_status lvn_pretrained_open_at(struct lvn_pretrained *p, const char *model, const char *prefer,
                                       const char *base, int depth)
{
    *p = (struct lvn_pretrained){0};
    lvn_arena_init(&p->arena);
    enum lvn_status status = lvn_model_find_files(&p->arena, model, prefer, &p->path);
    if (status == LVN_OK) status = open_files(p, base, depth);
    if (status != LVN_OK) lvn_pretrained_close(p);
    return status;
}

enum lvn_status lvn_pretrained_open_on(struct lvn_pretrained *p, const char *model, const char *prefer,
                                       const char *base)
{
    LVN_TRY(lvn_pretrained_open_at(p, model, prefer, base, 0));
    if (!base || !*base || p->base) return LVN_OK;
    enum lvn_status status = lvn_fail(LVN_ARG,
                                      "'%s' is given as the base model of loaded adapters, and '%s' has no adapters: "
                                      "leave the base model out",
                                      base, p->path);
    lvn_pretrained_close(p);
    return status;
}

void lvn_pretrained_close(struct lvn_pretrained *p)
{
    if (p->base) lvn_pretrained_close(p->base);
    free(p->base);
    lvn_adapter_files_close(&p->adapters);
    lvn_weights_close(&p->weights);
    lvn_arena_release(&p->arena);
    p->base = NULL;
}
