/* snapshot_weights.c - see snapshot_weights.h. */
#include "train/snapshot_weights.h"

#include "base/files.h"
#include "base/text.h"
#include "engine/parameters.h"
#include "formats/weights.h"
#include "model_io/adapters.h"
#include "model_io/model_config.h"
#include "model_io/model_files.h"
#include "model_io/pretrained.h"
#include "models/lora.h"
#include "models/weight_files.h"
#include "settings/settings.h"
#include "train/snapshot_files.h"

/* --- adapters.safetensors: the tensors that a model.safetensors with merged adapters lacks --- */

static const char adapters_file[] = "state/adapters.safetensors";

/* Is the parameter an adapter, or a weight with an adapter? */
static bool is_adapted(const struct lvn_params *params, const struct lvn_param *p)
{
    struct lvn_lora_pair pair;
    return p->adapter || lvn_lora_find(params, p, &pair);
}

struct adapters {
    const struct lvn_model_state *model_state;
    const struct lvn_param **p; /* of each item */
    void *buffer;               /* for the largest one that is not in host memory */
};

static enum lvn_status fetch_adapter(void *context, int i, const void **data)
{
    const struct adapters *x = context;
    *data = x->buffer;
    const struct lvn_parameter_window window = lvn_parameters_at(x->model_state, LVN_PARAMETER_VALUES, x->p[i]);
    return lvn_parameter_read(&window, x->buffer);
}

static enum lvn_status add_adapters(struct lvn_checkpoint_writer *writer, struct lvn_arena *a,
                                    const struct lvn_model_state *n)
{
    struct lvn_parameters each = {n, LVN_PARAMETER_VALUES, 0};
    struct lvn_parameter_window v;
    struct adapters x = {n, lvn_arena_alloc(a, sizeof *x.p * (size_t)(n->params->n + 1)), NULL};
    struct lvn_safetensors_item *items = lvn_arena_alloc(a, sizeof *items * (size_t)(n->params->n + 1));
    struct lvn_safetensors_source source = {.item = items, .fetch = fetch_adapter, .context = &x};
    int64_t max = 1; /* bytes of the largest one that is not in host memory */
    if (!items || !x.p) return LVN_MEMORY;
    while (lvn_parameters_next(&each, &v)) {
        if (!is_adapted(n->params, v.param)) continue;
        items[source.n] = (struct lvn_safetensors_item){.name = v.param->name, .desc = v.desc, .data = v.host};
        x.p[source.n++] = v.param;
        if (!v.host && v.bytes > max) max = v.bytes;
    }
    x.buffer = lvn_arena_alloc(a, (size_t)max);
    if (!x.buffer) return LVN_MEMORY;
    if (source.n) lvn_checkpoint_add_tensors(writer, adapters_file, &source);
    return LVN_OK;
}

/* As a folder of PEFT. */
static enum lvn_status add_peft(struct lvn_checkpoint_writer *writer, struct lvn_arena *a,
                                const struct lvn_model_state *n, const struct lvn_adapter_base *base)
{
    static const char folder[] = LVN_ADAPTERS_FOLDER "/";
    struct lvn_adapter_texts t = {0};
    const char *weights = lvn_arena_printf(a, "%s%s", folder, LVN_ADAPTERS_WEIGHTS);
    const char *config = lvn_arena_printf(a, "%s%s", folder, LVN_ADAPTERS_CONFIG);
    const char *base_file = lvn_arena_printf(a, "%s%s", folder, LVN_ADAPTERS_BASE);
    enum lvn_status status = weights && config && base_file ? lvn_adapters_make(n, base, a, &t) : LVN_MEMORY;
    if (status == LVN_OK) {
        lvn_checkpoint_add_tensors(writer, weights, &t.weights);
        lvn_checkpoint_add_text(writer, config, t.config.p, t.config.n);
        lvn_checkpoint_add_text(writer, base_file, t.base.p, t.base.n);
    }
    lvn_text_release(&t.config);
    lvn_text_release(&t.base);
    return status;
}

/* The whole model: one file, or several with an index. */
static enum lvn_status add_model(struct lvn_snapshot_files *files, const struct lvn_model_files *f,
                                 const struct levin_settings *s)
{
    struct lvn_safetensors_shards shards;
    LVN_TRY(lvn_safetensors_split(&shards, files->arena, &f->source, "model",
                                  lvn_bytes_of_text(s->values.checkpoint.max_shard_size)));
    for (int i = 0; i < shards.n; i++) LVN_TRY(lvn_snapshot_files_add_tensors(files, shards.name[i], &shards.part[i]));
    if (shards.index)
        lvn_snapshot_files_add_text(files, "model.safetensors.index.json", shards.index, (int64_t)strlen(shards.index));
    return LVN_OK;
}

/* Only adapters: config.json describes their base model with them. */
static enum lvn_status make_config(struct lvn_model_files *f, const struct lvn_model_state *n)
{
    *f = (struct lvn_model_files){0};
    lvn_arena_init(&f->arena);
    return lvn_config_write(&f->config, lvn_model_file_variant(n->config.model), &n->config, n->weights);
}

enum lvn_status lvn_snapshot_add_weights(struct lvn_snapshot_files *files, struct lvn_model_files *f,
                                         const struct lvn_snapshot_target *to, const struct lvn_model_state *n)
{
    const bool adapters = n->config.lora.rank > 0, whole = !adapters || to->settings->values.lora.merge_checkpoints;
    enum lvn_status status =
        whole ? lvn_model_files_make(f, lvn_model_file_variant(n->config.model), n, LVN_PARAMETER_VALUES, false)
              : make_config(f, n);
    if (whole && status == LVN_OK) status = add_model(files, f, to->settings);
    if (!adapters) return status;
    lvn_snapshot_files_begin_alone(files); /* also after a failure, because the other ranks wait */
    if (files->writer && whole && status == LVN_OK) status = add_adapters(files->writer, files->arena, n);
    if (files->writer && status == LVN_OK) status = add_peft(files->writer, files->arena, n, to->base);
    const enum lvn_status ended = lvn_snapshot_files_end_alone(files);
    return status == LVN_OK ? ended : status;
}

/* --- loading --- */

/* Copy stored values, in memory order, to the window on their parameter; its type may differ if trainer.precision was
 * changed. */
static enum lvn_status load_values(const struct lvn_model_state *n, const struct lvn_param *p, enum lvn_dtype type,
                                   const void *stored)
{
    const struct lvn_parameter_window window = lvn_parameters_at(n, LVN_PARAMETER_VALUES, p);
    const void *values = (const char *)stored + window.first * lvn_dtype_bytes(type);
    if (!window.count) return LVN_OK;
    if (type == n->weights) return lvn_parameter_write(&window, values);
    float *wide = lvn_malloc(sizeof *wide * (size_t)window.count), *to = lvn_malloc(sizeof *to * (size_t)window.count);
    enum lvn_status status = wide && to ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK) {
        lvn_tensor_to_f32(type, values, wide, window.count);
        lvn_tensor_from_f32(n->weights, wide, to, window.count);
        status = lvn_parameter_write(&window, to);
    }
    free(wide);
    free(to);
    return status;
}

/* Load from the file or the files at `path`, in which the parameter has layout `l`. */
static enum lvn_status load_param(const struct lvn_model_state *n, const struct lvn_param *p,
                                  const struct lvn_layout *l, const struct lvn_weights *files, const char *path)
{
    const struct lvn_weight *t = lvn_weights_find(files, l->name);
    LVN_CHECK(t, FORMAT, "'%s' lacks '%s'; it is the state of another model", path, l->name);
    LVN_CHECK(lvn_desc_same_shape(&t->desc, &l->desc), FORMAT, "'%s': '%s' differs in shape from the parameter",
              t->file, l->name);
    if (!lvn_layout_moves(l)) return load_values(n, p, t->desc.dtype, t->data);
    const int64_t each = lvn_dtype_bytes(t->desc.dtype);
    void *moved = lvn_malloc((size_t)(each * p->count));
    if (!moved) return LVN_MEMORY;
    lvn_layout_to_memory(l, each, t->data, moved);
    enum lvn_status status = load_values(n, p, t->desc.dtype, moved);
    free(moved);
    return status;
}

/* The parameters to load. */
enum which {
    ADAPTED, /* stored in memory order */
    OTHERS,  /* all others */
    PLAIN,   /* all with the same order in the file as in memory, without adapters */
    MOVED,   /* all with another order */
};

/* Load from a file, or a folder with a model's files. */
static enum lvn_status load_file(const char *path, const struct lvn_model_state *n, enum which which)
{
    struct lvn_weights files;
    LVN_TRY(lvn_weights_open(&files, path));
    enum lvn_status status = LVN_OK;
    for (int i = 0; i < n->params->n && status == LVN_OK; i++) {
        const struct lvn_param *p = n->params->list[i];
        struct lvn_layout l;
        if (is_adapted(n->params, p) != (which == ADAPTED)) continue;
        status = lvn_file_layout(lvn_model_file_variant(n->config.model), &n->config, p, &l);
        if (which == ADAPTED) l.flags = 0, l.desc = p->desc;
        if ((which == PLAIN || which == MOVED) && lvn_layout_moves(&l) != (which == MOVED)) continue;
        if (status == LVN_OK) status = load_param(n, p, &l, &files, path);
    }
    lvn_weights_close(&files);
    return status;
}

/* FORMAT unless the base model of the checkpoint's adapters is unchanged. */
static enum lvn_status check_base(const char *dir, const struct lvn_adapter_files *f, const struct lvn_pretrained *base)
{
    char sum[LVN_CHECKSUM_TEXT];
    uint64_t value;
    LVN_TRY(lvn_pretrained_checksum(base, &value));
    LVN_CHECK(!f->sum || strcmp(lvn_checksum_text(value, sum), f->sum) == 0, FORMAT,
              "the base model '%s' (model.init) is not the one with which the adapters of '%s' were trained, '%s'; its "
              "weights have the checksum %s, expected %s; restore the original weights, or give their path: "
              "--model.init=PATH",
              base->path, dir, f->base, sum, f->sum);
    return LVN_OK;
}

/* Load the base model, and the adapters of a checkpoint. */
static enum lvn_status load_adapters(const char *dir, const char *folder, const struct lvn_model_state *n,
                                     const struct lvn_pretrained *base)
{
    struct lvn_adapter_files f;
    LVN_TRY(lvn_adapter_files_open(&f, folder));
    enum lvn_status status = check_base(dir, &f, base);
    if (status == LVN_OK) status = lvn_pretrained_load(base, n);
    if (status == LVN_OK) status = lvn_adapters_load(&f, n, false);
    lvn_adapter_files_close(&f);
    return status;
}

/* *same: the base model has the values that were loaded for this parameter. */
static enum lvn_status compare_with_base(const struct lvn_model_state *n, const struct lvn_param *p,
                                         const struct lvn_pretrained *base, bool *same)
{
    const size_t bytes = (size_t)(p->count * lvn_dtype_bytes(n->weights)), floats = sizeof(float) * (size_t)p->count;
    float *values = lvn_malloc(floats), *scratch = lvn_malloc(floats);
    void *loaded = lvn_malloc(bytes);
    const struct lvn_parameter_window window = lvn_parameters_at(n, LVN_PARAMETER_VALUES, p);
    enum lvn_status status = values && scratch && loaded ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK) status = lvn_parameter_read(&window, loaded);
    if (status == LVN_OK) status = lvn_pretrained_values(base, p, values, scratch);
    if (status == LVN_OK) {
        lvn_tensor_from_f32(n->weights, values, scratch, p->count);
        *same = memcmp(scratch, loaded, bytes) == 0;
    }
    free(values);
    free(scratch);
    free(loaded);
    return status;
}

/* The checkpoint has its own copy of the base, and the next checkpoints will refer to model.init instead, so both must
 * be equal. */
static enum lvn_status check_copy(const char *dir, const struct lvn_model_state *n, const struct lvn_pretrained *base)
{
    bool same = true;
    for (int i = 0; i < n->params->n && same; i++) {
        const struct lvn_param *p = n->params->list[i];
        if (p->adapter || p->trainable) continue;
        LVN_TRY(compare_with_base(n, p, base, &same));
        LVN_CHECK(same, FORMAT,
                  "'%s' has a copy of the base model of its adapters, but in '%s' (model.init) '%s' has other values "
                  "now; restore the original weights, give their path (--model.init=PATH), or continue with the copy "
                  "(--lora.merge_checkpoints=true)",
                  dir, base->path, p->name);
    }
    return LVN_OK;
}

enum lvn_status lvn_snapshot_load_weights(struct lvn_arena *a, const char *dir, const struct lvn_model_state *n,
                                          const struct lvn_snapshot_source *source, bool remaining_only)
{
    if (remaining_only) return load_file(dir, n, MOVED);
    const char *adapters = lvn_path_join(a, dir, adapters_file);
    const char *folder = lvn_path_join(a, dir, LVN_ADAPTERS_FOLDER);
    if (!adapters || !folder) return LVN_MEMORY;
    if (n->config.lora.rank && !lvn_path_exists(adapters)) return load_adapters(dir, folder, n, source->base);
    LVN_TRY(load_file(dir, n, OTHERS));
    if (!n->config.lora.rank) return LVN_OK;
    LVN_TRY(load_file(adapters, n, ADAPTED));
    return source->allows_copies ? LVN_OK : check_copy(dir, n, source->base);
}

enum lvn_status lvn_snapshot_load_shards(const char *dir, const struct lvn_model_state *n)
{
    return load_file(dir, n, PLAIN);
}
