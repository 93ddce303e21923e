/* adapters.c - see adapters.h. */
#include "train/adapters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/files.h"
#include "models/lora.h"

/* "h.0.attn.c_attn.weight" without its end */
static int stem_length(const char *name)
{
    return (int)(strlen(name) - strlen(".weight"));
}

/* How A or B of a weight lies in the file: transposed, and B's rows as those of the weight. */
static enum lvn_status layout_of(const struct lvn_network *n, const struct lvn_param *weight, const struct lvn_param *p,
                                 char which, struct lvn_layout *l)
{
    struct lvn_layout of;
    LVN_TRY(lvn_file_layout(lvn_model_form(n->config.model), &n->config, weight, &of));
    *l = (struct lvn_layout){.how = LVN_FILE_TRANSPOSED, .desc = LVN_DESC(LVN_F32, p->desc.dim[1], p->desc.dim[0])};
    if (which == 'B') l->how |= of.how & LVN_FILE_INTERLEAVED;
    if (which == 'B') l->head_size = of.head_size;
    int length =
        snprintf(l->name, sizeof l->name, "base_model.model.%.*s.lora_%c.weight", stem_length(of.name), of.name, which);
    LVN_CHECK(length < (int)sizeof l->name, INTERNAL, "the name of '%s' is too long", weight->name);
    return LVN_OK;
}

/* A parameter that learns beside the adapters, as it is: a head for classes, one of PEFT's `modules_to_save`. */
static bool is_whole(const struct lvn_param *p)
{
    return p->trainable && !p->adapter;
}

static enum lvn_status layout_of_whole(const struct lvn_network *n, const struct lvn_param *p, struct lvn_layout *l)
{
    char name[LVN_FILE_NAME];
    LVN_TRY(lvn_file_layout(lvn_model_form(n->config.model), &n->config, p, l));
    int length = snprintf(name, sizeof name, "base_model.model.%s", l->name);
    LVN_CHECK(length < (int)sizeof name, INTERNAL, "the name of '%s' is too long", p->name);
    memcpy(l->name, name, (size_t)length + 1);
    return LVN_OK;
}

/* --- writing --- */

/* Names of modules that are saved whole, each once; null: there are none. */
static json_t *whole_of(const struct lvn_network *n)
{
    json_t *modules = json_object(), *list = json_array();
    const char *name;
    json_t *value;
    for (int i = 0; i < n->params->n; i++) {
        struct lvn_layout l;
        const struct lvn_param *p = n->params->list[i];
        if (!is_whole(p) || lvn_file_layout(lvn_model_form(n->config.model), &n->config, p, &l) != LVN_OK) continue;
        *strrchr(l.name, '.') = '\0';
        json_object_set_new(modules, l.name, json_null());
    }
    json_object_foreach(modules, name, value) json_array_append_new(list, json_string(name));
    json_decref(modules);
    if (json_array_size(list)) return list;
    json_decref(list);
    return json_null();
}

static json_t *config_of(const struct lvn_network *n, const char *base)
{
    json_t *modules = json_array();
    const struct lvn_task *task = n->config.head ? lvn_task_find(n->config.head->task) : NULL;
    struct lvn_lora_pair pair;
    struct lvn_layout l = {0};
    bool in_out = false;
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *w = n->params->list[i];
        if (!lvn_lora_find(n->params, w, &pair)) continue;
        if (lvn_file_layout(lvn_model_form(n->config.model), &n->config, w, &l) != LVN_OK) continue;
        in_out |= !(l.how & LVN_FILE_TRANSPOSED);
        json_array_append_new(modules, json_stringn(l.name, (size_t)stem_length(l.name)));
    }
    return json_pack("{s:s, s:s?, s:s, s:I, s:f, s:f, s:s, s:b, s:b, s:b, s:b, s:o, s:o}", "peft_type", "LORA",
                     "task_type", task ? task->peft : "CAUSAL_LM", "base_model_name_or_path", base, "r",
                     (json_int_t)n->config.lora.rank, "lora_alpha", n->config.lora.alpha, "lora_dropout", 0.0, "bias",
                     "none", "fan_in_fan_out", in_out, "inference_mode", 1, "use_rslora", 0, "use_dora", 0,
                     "modules_to_save", whole_of(n), "target_modules", modules);
}

/* One tensor, moved, behind those of the source. */
static enum lvn_status put(const struct lvn_network *n, struct lvn_arena *a, struct lvn_safetensors_source *source,
                           struct lvn_safetensors_item *item, const struct lvn_param *p,
                           const struct lvn_layout *layout)
{
    const int64_t each = lvn_dtype_bytes(n->weights);
    struct lvn_layout *l = lvn_arena_alloc(a, sizeof *l);
    void *values = lvn_arena_alloc(a, (size_t)(p->count * each)),
         *moved = lvn_arena_alloc(a, (size_t)(p->count * each));
    if (!l || !values || !moved) return LVN_MEMORY;
    *l = *layout;
    LVN_TRY(lvn_network_read(n, p, values));
    lvn_layout_to_file(l, each, values, moved);
    l->desc.dtype = n->weights;
    item[source->n++] = (struct lvn_safetensors_item){.name = l->name, .desc = l->desc, .data = moved};
    return LVN_OK;
}

/* Both adapters of each weight, and what learns beside them. */
static enum lvn_status collect(const struct lvn_network *n, struct lvn_arena *a, struct lvn_safetensors_source *source)
{
    struct lvn_safetensors_item *items = lvn_arena_alloc(a, sizeof *items * (size_t)(n->params->n + 1));
    struct lvn_lora_pair pair;
    struct lvn_layout l;
    if (!items) return LVN_MEMORY;
    *source = (struct lvn_safetensors_source){.item = items};
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *p = n->params->list[i];
        if (lvn_lora_find(n->params, p, &pair)) {
            LVN_TRY(layout_of(n, p, pair.a, 'A', &l));
            LVN_TRY(put(n, a, source, items, pair.a, &l));
            LVN_TRY(layout_of(n, p, pair.b, 'B', &l));
            LVN_TRY(put(n, a, source, items, pair.b, &l));
        } else if (is_whole(p)) {
            LVN_TRY(layout_of_whole(n, p, &l));
            LVN_TRY(put(n, a, source, items, p, &l));
        }
    }
    return LVN_OK;
}

enum lvn_status lvn_adapters_files(const struct lvn_network *n, const char *base, struct lvn_arena *a,
                                   struct lvn_safetensors_source *source, struct lvn_text *config)
{
    LVN_TRY(collect(n, a, source));
    json_t *root = config_of(n, base);
    if (!root) return LVN_MEMORY;
    lvn_json_add(config, root, 2);
    lvn_text_add(config, "\n");
    json_decref(root);
    return lvn_text_status(config);
}

/* --- reading --- */

/* What would make the same tensors another model. */
static enum lvn_status check_kind(const char *path, const json_t *root)
{
    static const char *const not_there[] = {"use_rslora",        "use_dora",          "use_qalora",
                                            "alpha_pattern",     "rank_pattern",      "alora_invocation_tokens",
                                            "layer_replication", "target_parameters", "arrow_config"};
    static const char *const changes_base[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    const json_t *init = json_object_get(root, "init_lora_weights");
    for (size_t i = 0; i < sizeof not_there / sizeof not_there[0]; i++) {
        const json_t *v = json_object_get(root, not_there[i]);
        const bool none = !v || json_is_null(v) || json_is_false(v) ||
                          ((json_is_object(v) || json_is_array(v)) && !json_object_size(v) && !json_array_size(v));
        LVN_CHECK(none, UNSUPPORTED, "%s: it has %s, which levin's adapters have not", path, not_there[i]);
    }
    for (size_t i = 0; json_is_string(init) && i < sizeof changes_base / sizeof changes_base[0]; i++)
        LVN_CHECK(strncmp(json_string_value(init), changes_base[i], strlen(changes_base[i])) != 0, UNSUPPORTED,
                  "%s: its adapters began with init_lora_weights '%.40s', which changes the model beside them; merge "
                  "them with PEFT, or convert them there to plain ones (save_pretrained() with "
                  "path_initial_model_for_weight_conversion)",
                  path, json_string_value(init));
    return LVN_OK;
}

static enum lvn_status check_config(const char *path, const json_t *root, const struct lvn_lora *lora)
{
    const char *type = NULL, *bias = "none";
    int64_t rank = 0;
    double alpha = 8; /* as PEFT has it */
    LVN_TRY(lvn_json_string(path, root, "peft_type", true, &type));
    LVN_CHECK(strcmp(type, "LORA") == 0, UNSUPPORTED, "%s: peft_type is '%.40s'; this version has LORA", path, type);
    LVN_TRY(lvn_json_int(path, root, "r", true, 1, 65536, &rank));
    LVN_TRY(lvn_json_real(path, root, "lora_alpha", false, &alpha));
    LVN_TRY(lvn_json_string(path, root, "bias", false, &bias));
    LVN_TRY(check_kind(path, root));
    LVN_CHECK(strcmp(bias, "none") == 0, UNSUPPORTED, "%s: bias is '%.40s'; levin's adapters have none", path, bias);
    LVN_CHECK(rank == lora->rank, ARG,
              "%s: its adapters have the rank %lld, and lora.rank is %lld; set lora.rank: %lld", path, (long long)rank,
              (long long)lora->rank, (long long)rank);
    LVN_CHECK(alpha == lora->alpha, ARG, "%s: its lora_alpha is %g, and lora.alpha is %g; set lora.alpha: %g", path,
              alpha, lora->alpha, alpha);
    return LVN_OK;
}

static enum lvn_status read_one(const struct lvn_safetensors *file, const char *path, struct lvn_network *n,
                                const struct lvn_param *p, const struct lvn_layout *l)
{
    char have[LVN_SHAPE_TEXT], want[LVN_SHAPE_TEXT];
    const struct lvn_safetensor *t = lvn_safetensors_find(file, l->name);
    LVN_CHECK(t, FORMAT, "'%s' has no '%s'; lora.targets must name the maps that its adapters stand beside", path,
              l->name);
    LVN_CHECK(lvn_desc_same_shape(&t->desc, &l->desc) &&
                  (t->desc.dtype == LVN_F32 || t->desc.dtype == LVN_F16 || t->desc.dtype == LVN_BF16),
              FORMAT, "'%s': '%s' is %s of %s, wanted %s of real numbers", path, l->name,
              lvn_shape_text(&t->desc, have), lvn_dtype_name(t->desc.dtype), lvn_shape_text(&l->desc, want));
    float *file_order = lvn_malloc(sizeof *file_order * (size_t)p->count);
    float *values = lvn_malloc(sizeof *values * (size_t)p->count);
    enum lvn_status status = file_order && values ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK) {
        lvn_tensor_to_f32(t->desc.dtype, t->data, file_order, p->count);
        lvn_layout_to_memory(l, sizeof *values, file_order, values);
        lvn_tensor_from_f32(n->weights, values, file_order, p->count);
        status = lvn_network_write(n, p, file_order);
    }
    free(file_order);
    free(values);
    return status;
}

static enum lvn_status read_all(const struct lvn_safetensors *file, const char *path, struct lvn_network *n)
{
    struct lvn_lora_pair pair;
    struct lvn_layout l;
    int seen = 0;
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *w = n->params->list[i];
        if (is_whole(w)) {
            LVN_TRY(layout_of_whole(n, w, &l));
            if (!lvn_safetensors_find(file, l.name)) continue; /* it is as the model has it */
            LVN_TRY(read_one(file, path, n, w, &l));
            seen++;
        }
        if (!lvn_lora_find(n->params, w, &pair)) continue;
        LVN_TRY(layout_of(n, w, pair.a, 'A', &l));
        LVN_TRY(read_one(file, path, n, pair.a, &l));
        LVN_TRY(layout_of(n, w, pair.b, 'B', &l));
        LVN_TRY(read_one(file, path, n, pair.b, &l));
        seen += 2;
    }
    LVN_CHECK(seen == file->n, FORMAT,
              "'%s' holds %d tensors, and the adapters that lora.targets names are %d; name those that it has", path,
              file->n, seen);
    return LVN_OK;
}

static enum lvn_status read_folder(const char *folder, struct lvn_network *n, struct lvn_arena *a)
{
    const char *config = lvn_path_join(a, folder, LVN_ADAPTERS_CONFIG);
    const char *weights = lvn_path_join(a, folder, LVN_ADAPTERS_WEIGHTS);
    struct lvn_safetensors file;
    json_t *root;
    if (!config || !weights) return LVN_MEMORY;
    LVN_TRY(lvn_json_read(config, &root));
    enum lvn_status status = check_config(config, root, &n->config.lora);
    json_decref(root);
    LVN_TRY(status);
    LVN_TRY(lvn_safetensors_open(&file, weights));
    status = read_all(&file, weights, n);
    lvn_safetensors_close(&file);
    return status;
}

enum lvn_status lvn_adapters_read(const char *folder, struct lvn_network *n)
{
    LVN_LOCAL_ARENA(a);
    enum lvn_status status = read_folder(folder, n, &a);
    return status == LVN_OK ? LVN_OK : lvn_while_at(status, "reading the adapters of lora.init, '%s'", folder);
}
