/* adapter_files.c - see adapter_files.h: the folder and its two JSON files, then the tensors. */
#include "models/adapter_files.h"

#include "base/files.h"
#include "base/index.h"
#include "base/list.h"
#include "base/log.h"
#include "formats/json.h"
#include "graph/names.h"
#include "models/lora.h"

static const char peft_prefix[] = "base_model.model.";

/* --- the folder --- */

const char *lvn_adapter_files_find(struct lvn_arena *a, const char *folder)
{
    static const char *const weights[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                          "pytorch_model.bin.index.json"};
    const char *inner = lvn_path_join(a, folder, LVN_ADAPTERS_FOLDER), *dirs[] = {folder, inner};
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) {
        const char *path = lvn_path_join(a, folder, weights[i]);
        if (!path || lvn_path_exists(path)) return NULL;
    }
    for (int i = 0; i < 2; i++) {
        const char *config = dirs[i] ? lvn_path_join(a, dirs[i], LVN_ADAPTERS_CONFIG) : NULL;
        if (config && lvn_path_is_file(config)) return dirs[i];
    }
    return NULL;
}

/* Keys of adapter_config.json that are read elsewhere, or that do not change the model of given tensors: they name the
 * modules, choose initial values, or apply to PEFT alone. */
static const char *const keys_that_may_be_set[] = {"peft_type",
                                                   "r",
                                                   "lora_alpha",
                                                   "use_rslora",
                                                   "lora_dropout",
                                                   "trainable_token_indices",
                                                   "ensure_weight_tying",
                                                   "base_model_name_or_path",
                                                   "bias",
                                                   "init_lora_weights",
                                                   "target_modules",
                                                   "exclude_modules",
                                                   "layers_to_transform",
                                                   "layers_pattern",
                                                   "modules_to_save",
                                                   "fan_in_fan_out",
                                                   "loftq_config",
                                                   "eva_config",
                                                   "corda_config",
                                                   "lora_ga_config",
                                                   "qalora_group_size",
                                                   "megatron_core",
                                                   "runtime_config",
                                                   "task_type",
                                                   "auto_mapping",
                                                   "revision",
                                                   "inference_mode",
                                                   "peft_version"};

static bool may_be_set(const char *key)
{
    for (size_t i = 0; i < sizeof keys_that_may_be_set / sizeof *keys_that_may_be_set; i++)
        if (strcmp(key, keys_that_may_be_set[i]) == 0) return true;
    return false;
}

/* UNSUPPORTED for settings of PEFT with which the same tensors are a different model, or are trained differently. A
 * number or a text of a key that is unknown here may be the default of a newer version. */
static enum lvn_status check_kind(const char *path, const json_t *root)
{
    static const char *const changes_base[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    const json_t *init = json_object_get(root, "init_lora_weights"), *v;
    const char *bias = "none", *key;
    json_object_foreach((json_t *)(uintptr_t)root, key, v)
    {
        const bool unknown = !may_be_set(key), sized = json_object_size(v) || json_array_size(v);
        LVN_CHECK(!unknown || !(sized || json_is_true(v)), UNSUPPORTED,
                  "%s: %.60s is not supported: merge the adapters with PEFT first", path, key);
        if (unknown && (json_is_number(v) || json_is_string(v)))
            lvn_log_once(LVN_LOG_WARN, "%s: levin does not know '%.60s', and ignores it", path, key);
    }
    for (size_t i = 0; json_is_string(init) && i < sizeof changes_base / sizeof changes_base[0]; i++)
        LVN_CHECK(strncmp(json_string_value(init), changes_base[i], strlen(changes_base[i])) != 0, UNSUPPORTED,
                  "%s: its adapters began with init_lora_weights '%.40s', which changes the base model; merge them "
                  "with PEFT, or convert them there to plain ones (save_pretrained() with "
                  "path_initial_model_for_weight_conversion)",
                  path, json_string_value(init));
    LVN_TRY(lvn_json_string(path, root, "bias", false, &bias));
    LVN_CHECK(strcmp(bias, "none") == 0, UNSUPPORTED, "%s: bias is '%.40s'; levin's adapters have none", path, bias);
    return LVN_OK;
}

/* trainable_token_indices: ids, or an object with the ids of one module, whose name its tensor has too. */
static enum lvn_status read_tokens(const char *path, const json_t *root, struct lvn_lora *out)
{
    LVN_LOCAL_ARENA(a);
    const json_t *list = json_object_get(root, "trainable_token_indices");
    LVN_CHECK(!json_is_object(list) || json_object_size(list) <= 1, UNSUPPORTED,
              "%s: trainable_token_indices names %zu modules; levin trains tokens of the embedding alone", path,
              json_object_size(list));
    if (json_is_object(list)) list = json_object_iter_value(json_object_iter((json_t *)(uintptr_t)list));
    if (!list || json_is_null(list)) return LVN_OK;
    const size_t n = json_array_size(list);
    int32_t *ids = lvn_arena_alloc(&a, sizeof *ids * (n + 1)), *sorted = lvn_arena_alloc(&a, sizeof *ids * (n + 1));
    if (!ids || !sorted) return LVN_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const json_int_t id = json_integer_value(json_array_get(list, i));
        LVN_CHECK(json_is_integer(json_array_get(list, i)) && id >= 0 && id < INT32_MAX, FORMAT,
                  "%s: trainable_token_indices must have ids of tokens", path);
        ids[i] = sorted[i] = (int32_t)id;
    }
    if (n) qsort(sorted, n, sizeof *sorted, lvn_by_id);
    for (size_t i = 1; i < n; i++)
        LVN_CHECK(sorted[i] != sorted[i - 1], FORMAT, "%s: trainable_token_indices has %d twice", path, sorted[i]);
    out->n_tokens = (int)n;
    out->tokens = n ? lvn_intern(ids, sizeof *ids * n) : NULL;
    return out->tokens || !n ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status read_scale(const char *path, const json_t *root, struct lvn_lora *out)
{
    const char *type = NULL;
    *out = (struct lvn_lora){.alpha = 8}; /* as PEFT has it */
    LVN_TRY(lvn_json_string(path, root, "peft_type", true, &type));
    LVN_CHECK(strcmp(type, "LORA") == 0, UNSUPPORTED, "%s: peft_type is '%.40s'; this version has LORA", path, type);
    LVN_TRY(lvn_json_int(path, root, "r", true, 1, 65536, &out->rank));
    LVN_TRY(lvn_json_real(path, root, "lora_alpha", false, &out->alpha));
    LVN_TRY(lvn_json_bool(path, root, "use_rslora", false, &out->rslora));
    LVN_TRY(lvn_json_real(path, root, "lora_dropout", false, &out->dropout));
    LVN_CHECK(out->dropout >= 0 && out->dropout < 1, FORMAT,
              "%s: lora_dropout is %g, expected at least 0 and less than 1", path, out->dropout);
    LVN_TRY(read_tokens(path, root, out));
    return check_kind(path, root);
}

enum lvn_status lvn_adapter_files_scale(const char *dir, struct lvn_lora *out)
{
    LVN_LOCAL_ARENA(a);
    const char *path = lvn_path_join(&a, dir, LVN_ADAPTERS_CONFIG);
    json_t *root;
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_json_read(path, &root));
    enum lvn_status status = read_scale(path, root, out);
    json_decref(root);
    return status;
}

static const char *bool_text(bool value)
{
    return value ? "true" : "false";
}

enum lvn_status lvn_adapter_check_scale(const char *dir, const struct lvn_lora *found, const struct lvn_lora *expected)
{
    LVN_CHECK(found->rank == expected->rank, ARG,
              "%s/%s: its adapters have the rank %lld, and lora.rank is %lld; set lora.rank: %lld, or leave it out",
              dir, LVN_ADAPTERS_CONFIG, (long long)found->rank, (long long)expected->rank, (long long)found->rank);
    LVN_CHECK(found->alpha == expected->alpha, ARG,
              "%s/%s: its lora_alpha is %g, and lora.alpha is %g; set lora.alpha: %g, or leave it out", dir,
              LVN_ADAPTERS_CONFIG, found->alpha, expected->alpha, found->alpha);
    LVN_CHECK(found->rslora == expected->rslora, ARG,
              "%s/%s: its use_rslora is %s, and lora.use_rslora is %s; set lora.use_rslora: %s, or leave it out", dir,
              LVN_ADAPTERS_CONFIG, bool_text(found->rslora), bool_text(expected->rslora), bool_text(found->rslora));
    return LVN_OK;
}

/* Copy a text of an object into the arena; NULL if it is absent or empty. */
static enum lvn_status copy_text(struct lvn_arena *a, const char *path, const json_t *root, const char *key,
                                 const char **out)
{
    const char *text = NULL;
    LVN_TRY(lvn_json_string(path, root, key, false, &text));
    *out = text && *text ? lvn_arena_strdup(a, text) : NULL;
    return *out || !text || !*text ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_adapter_files_parse(struct lvn_adapter_files *f, const char *name, const json_t *root)
{
    LVN_TRY(read_scale(name, root, &f->lora));
    LVN_TRY(lvn_json_bool(name, root, "ensure_weight_tying", false, &f->keeps_ties));
    return copy_text(&f->arena, name, root, "base_model_name_or_path", &f->base);
}

static enum lvn_status read_config(struct lvn_adapter_files *f)
{
    const char *path = lvn_path_join(&f->arena, f->dir, LVN_ADAPTERS_CONFIG);
    json_t *root;
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_json_read(path, &root));
    enum lvn_status status = lvn_adapter_files_parse(f, path, root);
    json_decref(root);
    return status;
}

static enum lvn_status read_base(struct lvn_adapter_files *f)
{
    const char *path = lvn_path_join(&f->arena, f->dir, LVN_ADAPTERS_BASE);
    json_t *root;
    if (!path) return LVN_MEMORY;
    if (!lvn_path_is_file(path)) return LVN_OK;
    LVN_TRY(lvn_json_read(path, &root));
    enum lvn_status status = copy_text(&f->arena, path, root, "sum", &f->sum);
    json_decref(root);
    return status;
}

static enum lvn_status open_all(struct lvn_adapter_files *f, const char *dir)
{
    f->dir = lvn_arena_strdup(&f->arena, dir);
    const char *weights = lvn_path_join(&f->arena, dir, LVN_ADAPTERS_WEIGHTS);
    if (!f->dir || !weights) return LVN_MEMORY;
    LVN_TRY(read_config(f));
    LVN_TRY(read_base(f));
    const char *old = lvn_path_join(&f->arena, dir, "adapter_model.bin");
    if (!old) return LVN_MEMORY;
    f->path = lvn_path_is_file(weights) || !lvn_path_is_file(old) ? weights : old;
    LVN_TRY(lvn_weights_open(&f->weights, f->path));
    int n = 0; /* with adapters of a head, PEFT also saves the head's own weight, which is that of the base model */
    for (int i = 0; i < f->weights.n; i++)
        if (!lvn_ends_with(f->weights.tensor[i].name, ".base_layer.weight"))
            f->weights.tensor[n++] = f->weights.tensor[i];
    f->weights.n = n;
    return LVN_OK;
}

enum lvn_status lvn_adapter_files_open(struct lvn_adapter_files *f, const char *dir)
{
    *f = (struct lvn_adapter_files){0};
    lvn_arena_init(&f->arena);
    enum lvn_status status = open_all(f, dir);
    if (status != LVN_OK) lvn_adapter_files_close(f);
    return status;
}

void lvn_adapter_files_close(struct lvn_adapter_files *f)
{
    lvn_weights_close(&f->weights);
    lvn_arena_release(&f->arena);
    *f = (struct lvn_adapter_files){0};
}

/* --- its tensors --- */

/* The part of a module's name after the number of its layer; all of it if there is none. */
static const char *within_layer(const char *name)
{
    const char *after = name;
    for (const char *p = name, *dot; (dot = strchr(p, '.')); p = dot + 1)
        if (dot > p && strspn(p, "0123456789") == (size_t)(dot - p)) after = dot + 1;
    return after;
}

enum lvn_status lvn_adapter_files_targets(struct lvn_arena *a, const char *dir, const char **out)
{
    static const char tail[] = ".lora_A.weight";
    struct lvn_adapter_files f;
    struct lvn_index seen = {0};
    LVN_LOCAL_TEXT(list);
    LVN_TRY(lvn_adapter_files_open(&f, dir));
    enum lvn_status status = LVN_OK;
    for (int i = 0; i < f.weights.n && status == LVN_OK; i++) {
        const char *name = f.weights.tensor[i].name;
        if (!lvn_ends_with(name, tail)) continue;
        if (strncmp(name, peft_prefix, sizeof peft_prefix - 1) == 0) name += sizeof peft_prefix - 1;
        name = within_layer(name);
        const char *one = lvn_arena_printf(a, "%.*s", (int)(strlen(name) - (sizeof tail - 1)), name);
        const int n = seen.n;
        if (!one || !lvn_index_add(&seen, one, 0)) status = LVN_MEMORY;
        if (seen.n > n) lvn_text_printf(&list, "%s%s", n ? ", " : "", one);
    }
    lvn_index_release(&seen);
    lvn_adapter_files_close(&f);
    LVN_TRY(status);
    LVN_TRY(lvn_text_status(&list));
    *out = lvn_arena_strdup(a, list.n ? list.p : "");
    return *out ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_adapter_layout(const struct lvn_model *variant, const struct lvn_model_config *c,
                                   const struct lvn_param *p, int64_t rank, char which, struct lvn_layout *l)
{
    struct lvn_layout base;
    LVN_TRY(lvn_file_layout(variant, c, p, &base));
    int length, stem = (int)(strlen(base.name) - strlen(".weight"));
    if (which == 'R') {
        *l = (struct lvn_layout){.desc = LVN_DESC(LVN_F32, rank, p->desc.dim[1])};
        length = snprintf(l->name, sizeof l->name, "%s%.*s%s", peft_prefix, stem, base.name, LVN_LORA_ROWS);
    } else if (which) {
        /* (in, out) in memory, apart from a decoder's head, which is (out, in) there as in files. */
        const bool head = c->head && c->head->params && !(base.flags & LVN_FILE_TRANSPOSED) &&
                          lvn_names_match(c->head->params, p->name);
        const int64_t in = p->desc.dim[head ? 1 : 0], out = p->desc.dim[head ? 0 : 1];
        *l = (struct lvn_layout){.flags = head ? 0 : LVN_FILE_TRANSPOSED};
        l->desc = which == 'A' ? LVN_DESC(LVN_F32, rank, in) : LVN_DESC(LVN_F32, out, rank);
        if (which == 'B') l->flags |= base.flags & LVN_FILE_INTERLEAVED; /* its rows are those of the weight */
        if (which == 'B') l->head_size = base.head_size;
        length = snprintf(l->name, sizeof l->name, "%s%.*s.lora_%c.weight", peft_prefix, stem, base.name, which);
    } else {
        *l = base;
        length = snprintf(l->name, sizeof l->name, "%s%s", peft_prefix, base.name);
    }
    LVN_CHECK(length < (int)sizeof l->name, INTERNAL, "the name of '%s' is too long", p->name);
    return LVN_OK;
}

const struct lvn_weight *lvn_adapter_find(const struct lvn_adapter_files *f, const struct lvn_model *variant,
                                          const struct lvn_layout *l)
{
    const struct lvn_weight *t = lvn_weights_find(&f->weights, l->name);
    const char *bare = l->name + sizeof peft_prefix - 1, *prefix = variant->prefix ? variant->prefix : "";
    char name[LVN_FILE_NAME];
    if (t || !*prefix || strncmp(bare, prefix, strlen(prefix)) != 0) return t;
    snprintf(name, sizeof name, "%s%s", peft_prefix, bare + strlen(prefix));
    return lvn_weights_find(&f->weights, name);
}

enum lvn_status lvn_adapter_read(const struct lvn_weight *t, const struct lvn_layout *l, float *to, float *scratch)
{
    char have[LVN_SHAPE_TEXT], want[LVN_SHAPE_TEXT];
    const int64_t count = lvn_desc_count(&l->desc);
    LVN_CHECK(lvn_desc_same_shape(&t->desc, &l->desc) &&
                  (t->desc.dtype == LVN_F32 || t->desc.dtype == LVN_F16 || t->desc.dtype == LVN_BF16),
              FORMAT, "'%s': '%s' has shape %s and type %s, expected %s of a floating-point type", t->file, t->name,
              lvn_shape_text(&t->desc, have), lvn_dtype_name(t->desc.dtype), lvn_shape_text(&l->desc, want));
    lvn_weight_read(t, 0, count, scratch);
    for (int64_t i = 0; i < count; i++)
        LVN_CHECK(isfinite(scratch[i]), NONFINITE, "'%s': '%s' holds a number that is not finite, at %lld", t->file,
                  t->name, (long long)i);
    lvn_layout_to_memory(l, sizeof *to, scratch, to);
    return LVN_OK;
}
