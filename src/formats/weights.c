/* weights.c - see weights.h. */
#include "formats/weights.h"

#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/text.h"
#include "base/work.h"
#include "formats/json.h"
#include "formats/torch.h"

struct lvn_weights_file {
    const char *name; /* its name in the index */
    bool is_torch;
    struct lvn_safetensors safetensors;
    struct lvn_torch torch;
    struct lvn_weight *tensor; /* sorted by name */
    int n;
};

static enum lvn_status list_safetensors(struct lvn_arena *a, struct lvn_weights_file *f)
{
    const struct lvn_safetensors *s = &f->safetensors;
    f->tensor = lvn_arena_alloc(a, sizeof *f->tensor * (size_t)(s->n + 1));
    if (!f->tensor) return LVN_MEMORY;
    for (; f->n < s->n; f->n++) {
        const struct lvn_safetensor *t = &s->tensor[f->n];
        f->tensor[f->n] = (struct lvn_weight){t->name, t->file, t->desc, t->data};
    }
    return LVN_OK;
}

/* The dict with the tensors: the value itself, or an entry of a training checkpoint. */
static const struct lvn_pickle *find_state_dict(const struct lvn_pickle *root)
{
    static const char *const keys[] = {"model", "state_dict"};
    for (int i = 0; i < 2; i++) {
        const struct lvn_pickle *inner = lvn_pickle_get(root, keys[i]);
        if (inner && inner->kind == LVN_PICKLE_DICT) return inner;
    }
    return root;
}

static enum lvn_status list_torch(struct lvn_arena *a, struct lvn_weights_file *f)
{
    const struct lvn_torch *t = &f->torch;
    const struct lvn_pickle *dict = find_state_dict(t->root);
    LVN_CHECK(dict->kind == LVN_PICKLE_DICT, FORMAT, "'%s' holds %s, not the state_dict of a model", t->path,
              lvn_pickle_kind_text(dict));
    LVN_CHECK(dict->n < INT32_MAX, FORMAT, "'%s' holds too many tensors", t->path);
    f->tensor = lvn_arena_alloc(a, sizeof *f->tensor * (size_t)(dict->n / 2 + 1));
    if (!f->tensor) return LVN_MEMORY;
    for (int64_t i = 0; i < dict->n; i += 2) {
        struct lvn_torch_tensor tensor;
        const struct lvn_pickle *key = dict->item[i];
        if (key->kind != LVN_PICKLE_TEXT || !lvn_torch_tensor(dict->item[i + 1], &tensor)) continue;
        f->tensor[f->n++] = (struct lvn_weight){key->text, t->path, tensor.desc, tensor.data};
    }
    LVN_CHECK(f->n, FORMAT, "'%s' holds no tensors where those of a model should be", t->path);
    qsort(f->tensor, (size_t)f->n, sizeof *f->tensor, lvn_by_text);
    for (int i = 1; i < f->n; i++)
        LVN_CHECK(strcmp(f->tensor[i].name, f->tensor[i - 1].name) != 0, FORMAT, "'%s' holds '%.100s' twice", t->path,
                  f->tensor[i].name);
    return LVN_OK;
}

/* --- files --- */

static enum lvn_status alloc_files(struct lvn_weights *w, size_t n)
{
    w->file = lvn_arena_alloc(&w->arena, sizeof *w->file * (n + 1));
    return w->file ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status open_file(struct lvn_weights *w, const char *path, bool is_torch)
{
    struct lvn_weights_file *f = &w->file[w->n_files];
    f->is_torch = is_torch;
    LVN_TRY(is_torch ? lvn_torch_open(&f->torch, path) : lvn_safetensors_open(&f->safetensors, path));
    w->n_files++;
    return is_torch ? list_torch(&w->arena, f) : list_safetensors(&w->arena, f);
}

static enum lvn_status open_one(struct lvn_weights *w, const char *path, bool is_torch)
{
    LVN_TRY(alloc_files(w, 1));
    LVN_TRY(open_file(w, path, is_torch));
    const struct lvn_pickle *args = is_torch ? lvn_pickle_get(w->file->torch.root, "model_args") : NULL;
    if (args && args->kind == LVN_PICKLE_DICT) w->args = args;
    w->tensor = w->file->tensor;
    w->n = w->file->n;
    return LVN_OK;
}

/* --- several files and their index --- */

static enum lvn_status find_file(struct lvn_weights *w, const char *index, const char *name, bool is_torch,
                                 const struct lvn_weights_file **out)
{
    for (int i = 0; i < w->n_files; i++) {
        *out = &w->file[i];
        if (strcmp((*out)->name, name) == 0) return LVN_OK;
    }
    LVN_CHECK(*name && !strchr(name, '/'), FORMAT, "'%s' names the file '%.100s', which is not in the same folder",
              index, name);
    char *dir = lvn_path_dir(&w->arena, index), *path = dir ? lvn_path_join(&w->arena, dir, name) : NULL;
    struct lvn_weights_file *f = &w->file[w->n_files];
    *out = f;
    f->name = lvn_arena_strdup(&w->arena, name);
    if (!path || !f->name) return LVN_MEMORY;
    return open_file(w, path, is_torch);
}

/* Refuses a tensor in two files: programs that load shard after shard use the last copy, others the one that the index
 * names; neither is known to be right. */
static enum lvn_status refuse_duplicates(struct lvn_weights *w, const char *index)
{
    size_t n = 0, at = 0;
    for (int i = 0; i < w->n_files; i++) n += (size_t)w->file[i].n;
    struct lvn_weight *all = lvn_arena_alloc(&w->arena, sizeof *all * (n + 1));
    if (!all) return LVN_MEMORY;
    for (int i = 0; i < w->n_files; at += (size_t)w->file[i++].n)
        if (w->file[i].n) memcpy(all + at, w->file[i].tensor, sizeof *all * (size_t)w->file[i].n);
    if (n) qsort(all, n, sizeof *all, lvn_by_text);
    for (size_t i = 1; i < n; i++)
        LVN_CHECK(strcmp(all[i].name, all[i - 1].name) != 0, FORMAT,
                  "tensor '%.100s' lies in two files of '%s', '%s' and '%s': nothing says which one counts; write the "
                  "model again, each tensor once",
                  all[i].name, index, all[i - 1].file, all[i].file);
    return LVN_OK;
}

static enum lvn_status read_index(struct lvn_weights *w, const char *path, bool is_torch, const json_t *index)
{
    const json_t *map = json_object_get(index, "weight_map");
    LVN_CHECK(json_is_object(map), FORMAT, "'%s' has no 'weight_map': this is no index of a model", path);
    size_t capacity = json_object_size(map); /* at most one file for each tensor */
    w->tensor = lvn_arena_alloc(&w->arena, sizeof *w->tensor * (capacity + 1));
    if (!w->tensor) return LVN_MEMORY;
    LVN_TRY(alloc_files(w, capacity));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)map, key, value)
    {
        const struct lvn_weights_file *f = NULL;
        LVN_CHECK(json_is_string(value), FORMAT, "'%s', tensor '%.100s': its file is not a string", path, key);
        LVN_TRY_WHILE(find_file(w, path, json_string_value(value), is_torch, &f), "opening what '%s' names", path);
        struct lvn_weight wanted = {.name = key};
        const struct lvn_weight *t =
            f->n ? bsearch(&wanted, f->tensor, (size_t)f->n, sizeof wanted, lvn_by_text) : NULL;
        LVN_CHECK(t, FORMAT, "'%s' says that tensor '%.100s' lies in '%s', but it does not", path, key, f->name);
        w->tensor[w->n++] = *t;
    }
    if (w->n) qsort(w->tensor, (size_t)w->n, sizeof *w->tensor, lvn_by_text);
    return refuse_duplicates(w, path);
}

static enum lvn_status open_index(struct lvn_weights *w, const char *path, bool is_torch)
{
    json_t *index;
    LVN_TRY(lvn_json_read(path, &index));
    enum lvn_status status = read_index(w, path, is_torch, index);
    json_decref(index);
    return status;
}

/* --- all formats --- */

static const struct {
    const char *name;
    enum lvn_status (*open)(struct lvn_weights *w, const char *path, bool is_torch);
    bool is_torch;
} in_directory[] = {
    {"model.safetensors", open_one, false},
    {"model.safetensors.index.json", open_index, false},
    {"pytorch_model.bin", open_one, true},
    {"pytorch_model.bin.index.json", open_index, true},
};

static enum lvn_status open_any(struct lvn_weights *w, const char *path)
{
    if (!lvn_path_is_dir(path) && lvn_ends_with(path, ".json"))
        return open_index(w, path, lvn_ends_with(path, ".bin.index.json"));
    if (!lvn_path_is_dir(path)) return open_one(w, path, lvn_torch_is_file(path));
    for (size_t i = 0; i < sizeof in_directory / sizeof in_directory[0]; i++) {
        char *file = lvn_path_join(&w->arena, path, in_directory[i].name);
        if (!file) return LVN_MEMORY;
        if (lvn_path_exists(file)) return in_directory[i].open(w, file, in_directory[i].is_torch);
    }
    LVN_FAIL(IO, "'%s' has neither model.safetensors nor pytorch_model.bin, nor an index of several", path);
}

enum lvn_status lvn_weights_open(struct lvn_weights *w, const char *path)
{
    *w = (struct lvn_weights){0};
    lvn_arena_init(&w->arena);
    enum lvn_status status = open_any(w, path);
    if (status != LVN_OK) lvn_weights_close(w);
    return status;
}

void lvn_weights_close(struct lvn_weights *w)
{
    for (int i = 0; i < w->n_files; i++) {
        if (w->file[i].is_torch)
            lvn_torch_close(&w->file[i].torch);
        else
            lvn_safetensors_close(&w->file[i].safetensors);
    }
    lvn_arena_release(&w->arena);
    *w = (struct lvn_weights){0};
}

const struct lvn_weight *lvn_weights_find(const struct lvn_weights *w, const char *name)
{
    struct lvn_weight key = {.name = name};
    return w->n ? bsearch(&key, w->tensor, (size_t)w->n, sizeof key, lvn_by_text) : NULL;
}

void lvn_weight_read(const struct lvn_weight *t, int64_t first, int64_t n, float *to)
{
    const struct lvn_desc *d = &t->desc;
    const char *data = t->data;
    int64_t size = lvn_dtype_bytes(d->dtype);
    lvn_work_done(n);
    if (lvn_desc_contiguous(d)) {
        lvn_tensor_to_f32(d->dtype, data + (d->offset + first) * size, to, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = first + i, at = d->offset;
        for (int k = d->rank - 1; k >= 0; k--) {
            at += rest % d->dim[k] * d->stride[k];
            rest /= d->dim[k];
        }
        lvn_tensor_to_f32(d->dtype, data + at * size, &to[i], 1);
    }
}
