/* weights.c - see weights.h. */
#include "formats/weights.h"

#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "formats/torch.h"

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct lvn_weight *)a)->name, ((const struct lvn_weight *)b)->name);
}

static enum lvn_status open_safetensors(struct lvn_weights *w, const char *path)
{
    LVN_TRY(lvn_safetensors_open(&w->safetensors, path));
    const struct lvn_safetensors *s = &w->safetensors;
    w->tensor = lvn_arena_alloc(&w->arena, sizeof *w->tensor * (size_t)(s->n + 1));
    if (!w->tensor) return LVN_MEMORY;
    for (; w->n < s->n; w->n++) {
        const struct lvn_safetensor *t = &s->tensor[w->n];
        w->tensor[w->n] = (struct lvn_weight){t->name, t->file, t->desc, t->data};
    }
    return LVN_OK;
}

/* --- torch.save() --- */

/* What holds the tensors: the value itself, or the entry of a training checkpoint. */
static const struct lvn_pickle *state_dict_of(const struct lvn_pickle *root)
{
    static const char *const keys[] = {"model", "state_dict"};
    for (int i = 0; i < 2; i++) {
        const struct lvn_pickle *inner = lvn_pickle_get(root, keys[i]);
        if (inner && inner->kind == LVN_PICKLE_DICT) return inner;
    }
    return root;
}

/* The tensors of one file, sorted by name. */
static enum lvn_status list_tensors(struct lvn_arena *a, const struct lvn_torch *t, struct lvn_weight **list, int *n)
{
    const struct lvn_pickle *dict = state_dict_of(t->root);
    *n = 0;
    LVN_CHECK(dict->kind == LVN_PICKLE_DICT, FORMAT, "'%s' holds %s, not the state_dict of a model", t->path,
              lvn_pickle_kind_text(dict));
    LVN_CHECK(dict->n < INT32_MAX, FORMAT, "'%s' holds too many tensors", t->path);
    *list = lvn_arena_alloc(a, sizeof **list * (size_t)(dict->n / 2 + 1));
    if (!*list) return LVN_MEMORY;
    for (int64_t i = 0; i < dict->n; i += 2) {
        struct lvn_torch_tensor tensor;
        const struct lvn_pickle *key = dict->item[i];
        if (key->kind != LVN_PICKLE_TEXT || !lvn_torch_tensor(dict->item[i + 1], &tensor)) continue;
        (*list)[(*n)++] = (struct lvn_weight){key->text, t->path, tensor.desc, tensor.data};
    }
    LVN_CHECK(*n, FORMAT, "'%s' holds no tensors where those of a model should be", t->path);
    qsort(*list, (size_t)*n, sizeof **list, by_name);
    for (int i = 1; i < *n; i++)
        LVN_CHECK(strcmp((*list)[i].name, (*list)[i - 1].name) != 0, FORMAT, "'%s' holds '%.100s' twice", t->path,
                  (*list)[i].name);
    return LVN_OK;
}

static enum lvn_status room_for_files(struct lvn_weights *w, size_t n)
{
    w->torch = lvn_arena_alloc(&w->arena, sizeof *w->torch * (n + 1));
    return w->torch ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status open_torch(struct lvn_weights *w, const char *path)
{
    LVN_TRY(room_for_files(w, 1));
    LVN_TRY(lvn_torch_open(w->torch, path));
    w->n_torch = 1;
    const struct lvn_pickle *args = lvn_pickle_get(w->torch->root, "model_args");
    if (args && args->kind == LVN_PICKLE_DICT) w->args = args;
    return list_tensors(&w->arena, w->torch, &w->tensor, &w->n);
}

/* --- several files of torch.save() --- */

struct shard {
    const char *name;
    struct lvn_weight *tensor;
    int n;
};

static enum lvn_status shard_of(struct lvn_weights *w, struct shard *shards, const char *index, const char *name,
                                struct shard **out)
{
    for (int i = 0; i < w->n_torch; i++) {
        *out = &shards[i];
        if (strcmp((*out)->name, name) == 0) return LVN_OK;
    }
    LVN_CHECK(*name && !strchr(name, '/'), FORMAT, "'%s' names the file '%.100s', which does not lie beside it", index,
              name);
    char *dir = lvn_path_dir(&w->arena, index), *path = dir ? lvn_path_join(&w->arena, dir, name) : NULL;
    *out = &shards[w->n_torch];
    (*out)->name = lvn_arena_strdup(&w->arena, name);
    if (!path || !(*out)->name) return LVN_MEMORY;
    LVN_TRY(lvn_torch_open(&w->torch[w->n_torch], path));
    w->n_torch++;
    return list_tensors(&w->arena, &w->torch[w->n_torch - 1], &(*out)->tensor, &(*out)->n);
}

static enum lvn_status read_index(struct lvn_weights *w, const char *path, const json_t *index)
{
    const json_t *map = json_object_get(index, "weight_map");
    LVN_CHECK(json_is_object(map), FORMAT, "'%s' has no 'weight_map': this is no index of a model", path);
    size_t room = json_object_size(map); /* at most a file a tensor */
    struct shard *shards = lvn_arena_alloc(&w->arena, sizeof *shards * (room + 1)), *shard = NULL;
    w->tensor = lvn_arena_alloc(&w->arena, sizeof *w->tensor * (room + 1));
    if (!shards || !w->tensor) return LVN_MEMORY;
    LVN_TRY(room_for_files(w, room));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)map, key, value)
    {
        LVN_CHECK(json_is_string(value), FORMAT, "'%s', tensor '%.100s': its file is not a string", path, key);
        LVN_TRY_WHILE(shard_of(w, shards, path, json_string_value(value), &shard), "opening what '%s' names", path);
        struct lvn_weight wanted = {.name = key};
        const struct lvn_weight *t = bsearch(&wanted, shard->tensor, (size_t)shard->n, sizeof wanted, by_name);
        LVN_CHECK(t, FORMAT, "'%s' says that tensor '%.100s' lies in '%s', but it does not", path, key, shard->name);
        w->tensor[w->n++] = *t;
    }
    qsort(w->tensor, (size_t)w->n, sizeof *w->tensor, by_name);
    return LVN_OK;
}

static enum lvn_status open_torch_index(struct lvn_weights *w, const char *path)
{
    json_t *index;
    LVN_TRY(lvn_json_read(path, &index));
    enum lvn_status status = read_index(w, path, index);
    json_decref(index);
    return status;
}

/* --- any --- */

static const struct {
    const char *name;
    enum lvn_status (*open)(struct lvn_weights *w, const char *path);
} in_directory[] = {
    {"model.safetensors", open_safetensors},
    {"model.safetensors.index.json", open_safetensors},
    {"pytorch_model.bin", open_torch},
    {"pytorch_model.bin.index.json", open_torch_index},
};

static enum lvn_status open_any(struct lvn_weights *w, const char *path)
{
    if (!lvn_path_is_dir(path)) return lvn_torch_is_file(path) ? open_torch(w, path) : open_safetensors(w, path);
    for (size_t i = 0; i < sizeof in_directory / sizeof in_directory[0]; i++) {
        char *file = lvn_path_join(&w->arena, path, in_directory[i].name);
        if (!file) return LVN_MEMORY;
        if (lvn_path_exists(file)) return in_directory[i].open(w, file);
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
    lvn_safetensors_close(&w->safetensors);
    for (int i = 0; i < w->n_torch; i++) lvn_torch_close(&w->torch[i]);
    lvn_arena_release(&w->arena);
    *w = (struct lvn_weights){0};
}

const struct lvn_weight *lvn_weights_find(const struct lvn_weights *w, const char *name)
{
    struct lvn_weight key = {.name = name};
    return w->n ? bsearch(&key, w->tensor, (size_t)w->n, sizeof key, by_name) : NULL;
}

void lvn_weight_read(const struct lvn_weight *t, int64_t first, int64_t n, float *to)
{
    const struct lvn_desc *d = &t->desc;
    const char *data = t->data;
    int64_t size = lvn_dtype_bytes(d->dtype);
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
