/* adapters.c - see adapters.h. */
#include "model_io/adapters.h"

#include "base/log.h"
#include "engine/parameters.h"
#include "formats/checksum.h"
#include "formats/json.h"
#include "graph/names.h"
#include "model_io/pretrained.h"
#include "models/lora.h"

/* The layout in PEFT's files of A, B or rows (`which`: 'A', 'B', 'R'), or, with '\0', of the parameter itself. */
static enum lvn_status layout_of(const struct lvn_model_state *n, const struct lvn_param *p, char which,
                                 struct lvn_layout *l)
{
    const int64_t rows = which == 'R' ? n->config.lora.n_tokens : n->config.lora.rank;
    return lvn_adapter_layout(lvn_model_file_variant(n->config.model), &n->config, p, rows, which, l);
}

/* --- writing --- */

/* Names of modules that are saved whole, each once; null: none. */
static json_t *whole_of(const struct lvn_model_state *n)
{
    json_t *modules = json_object(), *list = json_array();
    const char *name;
    json_t *value;
    for (int i = 0; i < n->params->n; i++) {
        struct lvn_layout l;
        const struct lvn_param *p = n->params->list[i];
        if (!lvn_lora_is_whole(&n->config, p) ||
            lvn_file_layout(lvn_model_file_variant(n->config.model), &n->config, p, &l) != LVN_OK)
            continue;
        *strrchr(l.name, '.') = '\0';
        if (!strncmp(l.name, "classifier.", 11)) l.name[10] = '\0'; /* PEFT saves it as one, unasked */
        json_object_set_new(modules, l.name, json_null());
    }
    json_object_foreach(modules, name, value) json_array_append_new(list, json_string(name));
    json_decref(modules);
    if (json_array_size(list)) return list;
    json_decref(list);
    return json_null();
}

static json_t *config_of(const struct lvn_model_state *n, const struct lvn_adapter_base *base)
{
    json_t *modules = json_array();
    const struct lvn_task *task = n->config.head ? lvn_task_find(n->config.head->task) : NULL;
    struct lvn_lora_pair pair;
    struct lvn_layout l = {0};
    bool in_out = false;
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *w = n->params->list[i];
        if (!lvn_lora_find(n->params, w, &pair) || !pair.a) continue;
        if (lvn_file_layout(lvn_model_file_variant(n->config.model), &n->config, w, &l) != LVN_OK) continue;
        in_out |= !(l.flags & LVN_FILE_TRANSPOSED) && lvn_lora_in_out(w, &pair);
        json_array_append_new(modules, json_stringn(l.name, strlen(l.name) - strlen(".weight")));
    }
    json_t *tokens = n->config.lora.n_tokens ? json_array() : json_null();
    for (int i = 0; i < n->config.lora.n_tokens; i++)
        json_array_append_new(tokens, json_integer(n->config.lora.tokens[i]));
    return json_pack("{s:s, s:s?, s:s, s:I, s:f, s:f, s:s, s:b, s:b, s:b, s:b, s:o, s:o, s:o}", "peft_type", "LORA",
                     "task_type", task ? task->peft : "CAUSAL_LM", "base_model_name_or_path", base->name, "r",
                     (json_int_t)n->config.lora.rank, "lora_alpha", n->config.lora.alpha, "lora_dropout",
                     n->config.lora.dropout, "bias", "none", "fan_in_fan_out", in_out, "inference_mode", 1,
                     "use_rslora", n->config.lora.rslora, "use_dora", 0, "modules_to_save", whole_of(n),
                     "target_modules", modules, "trainable_token_indices", tokens);
}

/* Append one tensor to the source, copied and in the layout of the file. */
static enum lvn_status put(const struct lvn_model_state *n, struct lvn_arena *a, struct lvn_safetensors_source *source,
                           struct lvn_safetensors_item *item, const struct lvn_param *p,
                           const struct lvn_layout *layout)
{
    const int64_t each = lvn_dtype_bytes(n->weights);
    struct lvn_layout *l = lvn_arena_alloc(a, sizeof *l);
    void *values = lvn_arena_alloc(a, (size_t)(p->count * each)),
         *moved = lvn_arena_alloc(a, (size_t)(p->count * each));
    if (!l || !values || !moved) return LVN_MEMORY;
    *l = *layout;
    const struct lvn_parameter_window w = lvn_parameters_at(n, LVN_PARAMETER_VALUES, p);
    LVN_TRY(lvn_parameter_read(&w, values));
    lvn_layout_to_file(l, each, values, moved);
    l->desc.dtype = n->weights;
    item[source->n++] = (struct lvn_safetensors_item){.name = l->name, .desc = l->desc, .data = moved};
    return LVN_OK;
}

/* Both adapters of each weight, and other parameters that are trained. */
static enum lvn_status collect(const struct lvn_model_state *n, struct lvn_arena *a,
                               struct lvn_safetensors_source *source)
{
    struct lvn_safetensors_item *items = lvn_arena_alloc(a, sizeof *items * (size_t)(n->params->n + 1));
    struct lvn_lora_pair pair;
    struct lvn_layout l;
    if (!items) return LVN_MEMORY;
    *source = (struct lvn_safetensors_source){.item = items};
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *p = n->params->list[i];
        if (lvn_lora_find(n->params, p, &pair)) {
            const struct lvn_param *part[] = {pair.a, pair.b, pair.rows};
            for (int k = 0; k < 3; k++) {
                if (part[k]) LVN_TRY(layout_of(n, p, "ABR"[k], &l));
                if (part[k]) LVN_TRY(put(n, a, source, items, part[k], &l));
            }
        } else if (lvn_lora_is_whole(&n->config, p)) {
            LVN_TRY(layout_of(n, p, '\0', &l));
            LVN_TRY(put(n, a, source, items, p, &l));
        }
    }
    return LVN_OK;
}

static enum lvn_status base_text(const struct lvn_adapter_base *base, struct lvn_text *out)
{
    char sum[LVN_CHECKSUM_TEXT];
    long begun = lvn_json_begin();
    json_t *root = json_pack("{s:s, s:s}", "base", base->name, "sum", lvn_checksum_text(base->checksum, sum));
    lvn_json_add(out, begun, root, 2);
    lvn_text_add(out, "\n");
    json_decref(root);
    return lvn_text_status(out);
}

enum lvn_status lvn_adapters_make(const struct lvn_model_state *n, const struct lvn_adapter_base *base,
                                  struct lvn_arena *a, struct lvn_adapter_texts *out)
{
    LVN_TRY(collect(n, a, &out->weights));
    long begun = lvn_json_begin();
    json_t *root = config_of(n, base);
    lvn_json_add(&out->config, begun, root, 2);
    lvn_text_add(&out->config, "\n");
    json_decref(root);
    LVN_TRY(lvn_text_status(&out->config));
    return base_text(base, &out->base);
}

/* --- the first values of trained rows --- */

/* Write values to a parameter, in its type; `scratch` has its size. */
static enum lvn_status write_values(const struct lvn_model_state *n, const struct lvn_param *p, const float *values,
                                    float *scratch)
{
    lvn_tensor_from_f32(n->weights, values, scratch, p->count);
    const struct lvn_parameter_window w = lvn_parameters_at(n, LVN_PARAMETER_VALUES, p);
    return lvn_parameter_write(&w, scratch);
}

static enum lvn_status start(const struct lvn_pretrained *p, const struct lvn_model_state *n, const struct lvn_param *w,
                             const struct lvn_param *rows)
{
    const int64_t C = w->desc.dim[1];
    float *table = lvn_malloc(sizeof *table * (size_t)w->count),
          *scratch = lvn_malloc(sizeof *table * (size_t)w->count);
    enum lvn_status status = table && scratch ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK) status = lvn_pretrained_values(p, w, table, scratch);
    for (int i = 0; status == LVN_OK && i < n->config.lora.n_tokens; i++) /* ids rise, so no row is lost */
        memmove(table + i * C, table + n->config.lora.tokens[i] * C, sizeof *table * (size_t)C);
    if (status == LVN_OK) status = write_values(n, rows, table, scratch);
    free(table);
    free(scratch);
    return status;
}

enum lvn_status lvn_adapters_start(const struct lvn_pretrained *p, const struct lvn_model_state *n)
{
    struct lvn_lora_pair pair;
    for (int i = 0; i < n->params->n; i++)
        if (lvn_lora_find(n->params, n->params->list[i], &pair) && pair.rows)
            LVN_TRY(start(p, n, n->params->list[i], pair.rows));
    return LVN_OK;
}

/* --- reading --- */

/* The position of a token in the file's list; n_tokens: it is not there. */
static int token_at(const struct lvn_lora *lora, int32_t id)
{
    int k = 0;
    while (k < lora->n_tokens && lora->tokens[k] != id) k++;
    return k;
}

/* ARG unless the file has trained rows of the same tokens. */
static enum lvn_status check_tokens(const struct lvn_adapter_files *f, const struct lvn_lora *expected)
{
    bool same = f->lora.n_tokens == expected->n_tokens;
    for (int i = 0; same && i < expected->n_tokens; i++)
        same = token_at(&f->lora, expected->tokens[i]) < f->lora.n_tokens;
    LVN_CHECK(same, ARG,
              "'%s' has trained rows of other tokens (trainable_token_indices in its %s) than lora.trainable_tokens "
              "names; leave that out",
              f->path, LVN_ADAPTERS_CONFIG);
    return LVN_OK;
}

/* Trained rows in the order of the file to the order in memory. */
static void sort_rows(const struct lvn_lora *file, const struct lvn_lora *memory, int64_t C, const float *rows,
                      float *sorted)
{
    for (int i = 0; i < memory->n_tokens; i++)
        memcpy(sorted + i * C, rows + token_at(file, memory->tokens[i]) * C, sizeof *rows * (size_t)C);
}

static enum lvn_status read_values(const struct lvn_adapter_files *f, const struct lvn_weight *t,
                                   const struct lvn_layout *l, const struct lvn_model_state *n,
                                   const struct lvn_param *p, bool rows)
{
    float *file_order = lvn_malloc(sizeof *file_order * (size_t)p->count);
    float *values = lvn_malloc(sizeof *values * (size_t)p->count);
    enum lvn_status status = file_order && values ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK) status = lvn_adapter_read(t, l, rows ? file_order : values, rows ? values : file_order);
    if (status == LVN_OK && rows) sort_rows(&f->lora, &n->config.lora, p->desc.dim[1], file_order, values);
    if (status == LVN_OK) status = write_values(n, p, values, file_order);
    free(file_order);
    free(values);
    return status;
}

/* Read what the file has for a weight into `to` (NULL: only count it). which: 'A', 'B', 'R' for trained rows, 0 for the
 * weight in full. */
static enum lvn_status read_one(const struct lvn_adapter_files *f, const struct lvn_model_state *n,
                                const struct lvn_param *weight, char which, const struct lvn_param *to, int *seen)
{
    struct lvn_layout l;
    LVN_TRY(layout_of(n, weight, which, &l));
    const struct lvn_weight *t = lvn_adapter_find(f, lvn_model_file_variant(n->config.model), &l);
    if (!t && !which) return LVN_OK; /* it is as the model has it */
    LVN_CHECK(t, FORMAT, "'%s' has no '%s'%s", f->path, l.name,
              which == 'R' ? "" : "; lora.targets must name the linear layers that it has adapters for");
    *seen += 1;
    return to ? read_values(f, t, &l, n, to, which == 'R') : LVN_OK;
}

/* FORMAT if the file stores a parameter in full that is not trained here, because it would not be loaded. */
static enum lvn_status check_whole(const struct lvn_adapter_files *f, const struct lvn_model_state *n)
{
    struct lvn_layout l;
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *w = n->params->list[i];
        if (w->adapter || lvn_lora_is_whole(&n->config, w)) continue;
        LVN_TRY(layout_of(n, w, '\0', &l));
        LVN_CHECK(!lvn_adapter_find(f, lvn_model_file_variant(n->config.model), &l), FORMAT,
                  "'%s' stores '%s' in full (modules_to_save in its %s), and this run does not train it: set "
                  "task.fresh_head=true if it is the head, or give this folder as model.init, to train new adapters",
                  f->path, l.name, LVN_ADAPTERS_CONFIG);
    }
    return LVN_OK;
}

static enum lvn_status read_all(const struct lvn_adapter_files *f, const struct lvn_model_state *n, bool loaded)
{
    struct lvn_lora_pair pair;
    int seen = 0;
    for (int i = 0; i < n->params->n; i++) {
        const struct lvn_param *w = n->params->list[i];
        if (!w->adapter && (loaded || lvn_lora_is_whole(&n->config, w)))
            LVN_TRY(read_one(f, n, w, '\0', loaded ? NULL : w, &seen));
        if (!lvn_lora_find(n->params, w, &pair)) continue;
        if (pair.a) LVN_TRY(read_one(f, n, w, 'A', pair.a, &seen));
        if (pair.b) LVN_TRY(read_one(f, n, w, 'B', pair.b, &seen));
        if (pair.rows) LVN_TRY(read_one(f, n, w, 'R', pair.rows, &seen));
    }
    if (seen < f->weights.n && !loaded) LVN_TRY(check_whole(f, n));
    LVN_CHECK(seen == f->weights.n, FORMAT,
              "'%s' has %d tensors, but lora.targets uses only %d of them; set lora.targets to all layers of the file",
              f->path, f->weights.n, seen);
    return LVN_OK;
}

enum lvn_status lvn_adapters_load(const struct lvn_adapter_files *f, const struct lvn_model_state *n, bool loaded)
{
    LVN_TRY(lvn_adapter_check_scale(f->dir, &f->lora, &n->config.lora));
    LVN_TRY(check_tokens(f, &n->config.lora));
    return read_all(f, n, loaded);
}

static void compare_base(const struct lvn_adapter_files *f, const struct lvn_pretrained *p, uint64_t checksum)
{
    char sum[LVN_CHECKSUM_TEXT];
    if (f->sum && strcmp(lvn_checksum_text(checksum, sum), f->sum) != 0)
        lvn_log(LVN_LOG_WARN,
                "the adapters of lora.init, '%s', were trained with other weights, '%s', than those of model.init, "
                "'%s': they continue from what another model has learned",
                f->dir, f->base ? f->base : "", p->path);
}

enum lvn_status lvn_adapters_read(const char *folder, const struct lvn_pretrained *p, uint64_t checksum,
                                  const struct lvn_model_state *n)
{
    struct lvn_adapter_files f;
    enum lvn_status status = lvn_adapter_files_open(&f, folder);
    if (status == LVN_OK) {
        status = lvn_adapters_load(&f, n, false);
        if (status == LVN_OK) compare_base(&f, p, checksum);
        lvn_adapter_files_close(&f);
    }
    return status == LVN_OK ? LVN_OK : lvn_while_at(status, "reading the adapters of lora.init, '%s'", folder);
}
