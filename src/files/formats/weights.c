/* weights.c - see weights.h. */
#include "formats/weights.h"

#include "base/list.h"
#include "base/text.h"
#include "base/work.h"
#include "formats/json.h"
#include "formats/torch.h"

struct lvn_weights_file {
    const char *name; /* its name in the index */
    /* Of these, one is open: */
    struct lvn_safetensors safetensors;
    struct lvn_torch torch;
    struct lvn_gguf gguf;
    struct lvn_weight *tensor; /* sorted by name */
    int n;
};
/* Open a file of a format and list its tensors. lvn_weights_close() closes it, after a failure too. */
typedef enum lvn_status reader(struct lvn_arena *a, struct lvn_weights_file *file, const char *path);

static enum lvn_status read_safetensors(struct lvn_arena *a, struct lvn_weights_file *file, const char *path)
{
    const struct lvn_safetensors *safetensors = &file->safetensors;
    LVN_TRY(lvn_safetensors_open(&file->safetensors, path));
    file->tensor = lvn_arena_alloc(a, sizeof *file->tensor * (size_t)(safetensors->n + 1));
    if (!file->tensor) return LVN_MEMORY;
    for (; file->n < safetensors->n; file->n++) {
        const struct lvn_safetensor *tensor = &safetensors->tensor[file->n];
        file->tensor[file->n] =
            (struct lvn_weight){.name = tensor->name, .file = tensor->file, .desc = tensor->desc, .data = tensor->data};
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

static enum lvn_status read_torch(struct lvn_arena *a, struct lvn_weights_file *file, const char *path)
{
    const struct lvn_torch *torch = &file->torch;
    LVN_TRY(lvn_torch_open(&file->torch, path));
    const struct lvn_pickle *dict = find_state_dict(torch->root);
    LVN_CHECK(dict->kind == LVN_PICKLE_DICT, FORMAT, "'%s' contains %s, expected the state_dict of a model",
              torch->path, lvn_pickle_kind_text(dict));
    LVN_CHECK(dict->n < INT32_MAX, FORMAT, "'%s' contains too many tensors", torch->path);
    file->tensor = lvn_arena_alloc(a, sizeof *file->tensor * (size_t)(dict->n / 2 + 1));
    if (!file->tensor) return LVN_MEMORY;
    for (int64_t i = 0; i < dict->n; i += 2) {
        struct lvn_torch_tensor tensor;
        const struct lvn_pickle *key = dict->item[i];
        if (key->kind != LVN_PICKLE_TEXT || !lvn_torch_tensor(dict->item[i + 1], &tensor)) continue;
        file->tensor[file->n++] =
            (struct lvn_weight){.name = key->text, .file = torch->path, .desc = tensor.desc, .data = tensor.data};
    }
    LVN_CHECK(file->n, FORMAT, "'%s' contains no tensors of a model", torch->path);
    qsort(file->tensor, (size_t)file->n, sizeof *file->tensor, lvn_by_text);
    for (int i = 1; i < file->n; i++)
        LVN_CHECK(strcmp(file->tensor[i].name, file->tensor[i - 1].name) != 0, FORMAT, "'%s' contains '%.100s' twice",
                  torch->path, file->tensor[i].name);
    return LVN_OK;
}

static enum lvn_status read_gguf(struct lvn_arena *a, struct lvn_weights_file *file, const char *path)
{
    const struct lvn_gguf *gguf = &file->gguf;
    LVN_TRY(lvn_gguf_open(&file->gguf, path));
    file->tensor = lvn_arena_alloc(a, sizeof *file->tensor * (size_t)(gguf->n + 1));
    if (!file->tensor) return LVN_MEMORY;
    for (; file->n < gguf->n; file->n++) {
        const struct lvn_gguf_tensor *tensor = &gguf->tensor[file->n];
        file->tensor[file->n] =
            (struct lvn_weight){.name = tensor->name,
                                .file = gguf->path,
                                .desc = tensor->desc,
                                .data = tensor->data,
                                .packed = lvn_dtype_is_packed(tensor->type->type) ? tensor->type->type : LVN_F32};
    }
    return LVN_OK;
}

/* --- files --- */

static enum lvn_status alloc_files(struct lvn_weights *weights, size_t n)
{
    weights->file = lvn_arena_alloc(&weights->arena, sizeof *weights->file * (n + 1));
    return weights->file ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status open_one(struct lvn_weights *weights, const char *path, reader *read)
{
    LVN_TRY(alloc_files(weights, 1));
    LVN_TRY(read(&weights->arena, &weights->file[weights->n_files++], path));
    const struct lvn_pickle *root = weights->file->torch.root;
    const struct lvn_pickle *args = root ? lvn_pickle_get(root, "model_args") : NULL;
    if (args && args->kind == LVN_PICKLE_DICT) weights->args = args;
    weights->tensor = weights->file->tensor;
    weights->n = weights->file->n;
    return LVN_OK;
}

/* --- several files and their index --- */

static enum lvn_status find_file(struct lvn_weights *weights, const char *index, const char *name, reader *read,
                                 const struct lvn_weights_file **out)
{
    for (int i = 0; i < weights->n_files; i++) {
        *out = &weights->file[i];
        if (strcmp((*out)->name, name) == 0) return LVN_OK;
    }
    LVN_CHECK(*name && !strchr(name, '/'), FORMAT, "'%s' refers to the file '%.100s', which is not in the same folder",
              index, name);
    char *dir = lvn_path_dir(&weights->arena, index), *path = dir ? lvn_path_join(&weights->arena, dir, name) : NULL;
    struct lvn_weights_file *file = &weights->file[weights->n_files++];
    *out = file;
    file->name = lvn_arena_strdup(&weights->arena, name);
    if (!path || !file->name) return LVN_MEMORY;
    return read(&weights->arena, file, path);
}

/* All tensors of all files. Refuses one in two files: some programs use the copy in the last shard, others the one from
 * the index; neither is known to be right. */
static enum lvn_status list_all(struct lvn_weights *weights, const char *index, struct lvn_weight **out, int *count)
{
    size_t n = 0, at = 0;
    for (int i = 0; i < weights->n_files; i++) n += (size_t)weights->file[i].n;
    struct lvn_weight *all = lvn_arena_alloc(&weights->arena, sizeof *all * (n + 1));
    if (!all) return LVN_MEMORY;
    for (int i = 0; i < weights->n_files; at += (size_t)weights->file[i++].n)
        if (weights->file[i].n) memcpy(all + at, weights->file[i].tensor, sizeof *all * (size_t)weights->file[i].n);
    if (n) qsort(all, n, sizeof *all, lvn_by_text);
    for (size_t i = 1; i < n; i++)
        LVN_CHECK(strcmp(all[i].name, all[i - 1].name) != 0, FORMAT,
                  "tensor '%.100s' is in two files of '%s', '%s' and '%s': write the model again with each tensor "
                  "once",
                  all[i].name, index, all[i - 1].file, all[i].file);
    *out = all;
    *count = (int)n;
    return LVN_OK;
}

static enum lvn_status read_index(struct lvn_weights *weights, const char *path, reader *read, const json_t *index)
{
    const json_t *map = json_object_get(index, "weight_map");
    LVN_CHECK(json_is_object(map), FORMAT, "'%s' has no 'weight_map': this is not an index of a model", path);
    size_t capacity = json_object_size(map); /* at most one file for each tensor */
    weights->tensor = lvn_arena_alloc(&weights->arena, sizeof *weights->tensor * (capacity + 1));
    if (!weights->tensor) return LVN_MEMORY;
    LVN_TRY(alloc_files(weights, capacity));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)map, key, value)
    {
        const struct lvn_weights_file *file = NULL;
        LVN_CHECK(json_is_string(value), FORMAT, "'%s', tensor '%.100s': its file is not a string", path, key);
        LVN_TRY_WHILE(find_file(weights, path, json_string_value(value), read, &file), "opening the files of '%s'",
                      path);
        struct lvn_weight name = {.name = key};
        const struct lvn_weight *weight =
            file->n ? bsearch(&name, file->tensor, (size_t)file->n, sizeof name, lvn_by_text) : NULL;
        LVN_CHECK(weight, FORMAT, "'%s' lists tensor '%.100s' in '%s', but that file does not contain it", path, key,
                  file->name);
        weights->tensor[weights->n++] = *weight;
    }
    if (weights->n) qsort(weights->tensor, (size_t)weights->n, sizeof *weights->tensor, lvn_by_text);
    return list_all(weights, path, &(struct lvn_weight *){0}, &(int){0});
}

static enum lvn_status open_index(struct lvn_weights *weights, const char *path, reader *read)
{
    json_t *index;
    LVN_TRY(lvn_json_read(path, &index));
    enum lvn_status status = read_index(weights, path, read, index);
    json_decref(index);
    return status;
}

/* --- GGUF --- */

/* Part i + 1 of `parts`. */
static enum lvn_status open_part(struct lvn_weights *weights, const char *path, int i, int parts)
{
    const char *name = lvn_gguf_part(&weights->arena, path, i + 1, &parts);
    int64_t number = 0, count = 1;
    if (!name && parts > 1) return LVN_MEMORY;
    LVN_CHECK(!name || lvn_path_is_file(name), IO,
              "'%s' is missing: the model of '%s' has %d parts, which must be in one folder", name, path, parts);
    LVN_TRY(read_gguf(&weights->arena, &weights->file[weights->n_files++], name ? name : path));
    const struct lvn_gguf *file = &weights->file[i].gguf;
    LVN_TRY(lvn_gguf_int(file, "split.no", false, 0, UINT16_MAX, &number));
    LVN_TRY(lvn_gguf_int(file, "split.count", false, 0, UINT16_MAX, &count));
    LVN_CHECK(name || count <= 1, FORMAT,
              "'%s' is one of %lld parts of a model (split.count), which are found by their names: name it "
              "...-%05lld-of-%05lld.gguf again",
              path, (long long)count, (long long)number + 1, (long long)count);
    LVN_CHECK(!name || (number == i && count == parts), FORMAT,
              "'%s' describes itself as part %lld of %lld (split.no, split.count); expected part %d of %d, by its name",
              name, (long long)number + 1, (long long)count, i + 1, parts);
    return LVN_OK;
}

static enum lvn_status open_gguf(struct lvn_weights *weights, const char *path)
{
    int parts;
    int64_t total = -1;
    lvn_gguf_part(&weights->arena, path, 1, &parts);
    LVN_TRY(alloc_files(weights, (size_t)parts));
    for (int i = 0; i < parts; i++) LVN_TRY(open_part(weights, path, i, parts));
    weights->gguf = &weights->file->gguf;
    LVN_TRY(list_all(weights, path, &weights->tensor, &weights->n));
    LVN_TRY(lvn_gguf_int(weights->gguf, "split.tensors.count", false, 0, INT32_MAX, &total));
    LVN_CHECK(total < 0 || total == weights->n, FORMAT,
              "'%s' announces %lld tensors in all parts (split.tensors.count), and they have %d: the files are of "
              "different models",
              weights->gguf->path, (long long)total, weights->n);
    return LVN_OK;
}

/* --- all formats --- */

static const struct {
    const char *name;
    enum lvn_status (*open)(struct lvn_weights *weights, const char *path, reader *read);
    reader *read;
} in_directory[] = {
    {"model.safetensors", open_one, read_safetensors},
    {"model.safetensors.index.json", open_index, read_safetensors},
    {"pytorch_model.bin", open_one, read_torch},
    {"pytorch_model.bin.index.json", open_index, read_torch},
};

bool lvn_weights_exist(const char *directory)
{
    LVN_LOCAL_ARENA(a);
    for (size_t i = 0; i < sizeof in_directory / sizeof in_directory[0]; i++) {
        const char *file = lvn_path_join(&a, directory, in_directory[i].name);
        if (file && lvn_path_exists(file)) return true;
    }
    return false;
}

static enum lvn_status open_any(struct lvn_weights *weights, const char *path)
{
    if (!lvn_path_is_dir(path) && lvn_ends_with(path, ".json"))
        return open_index(weights, path, lvn_ends_with(path, ".bin.index.json") ? read_torch : read_safetensors);
    if (!lvn_path_is_dir(path) && lvn_gguf_is_file(path)) return open_gguf(weights, path);
    if (!lvn_path_is_dir(path)) return open_one(weights, path, lvn_torch_is_file(path) ? read_torch : read_safetensors);
    for (size_t i = 0; i < sizeof in_directory / sizeof in_directory[0]; i++) {
        char *file = lvn_path_join(&weights->arena, path, in_directory[i].name);
        if (!file) return LVN_MEMORY;
        if (lvn_path_exists(file)) return in_directory[i].open(weights, file, in_directory[i].read);
    }
    LVN_FAIL(IO, "'%s' contains neither model.safetensors nor pytorch_model.bin nor an index of several files", path);
}

enum lvn_status lvn_weights_open(struct lvn_weights *weights, const char *path)
{
    *weights = (struct lvn_weights){0};
    lvn_arena_init(&weights->arena);
    enum lvn_status status = open_any(weights, path);
    if (status != LVN_OK) lvn_weights_close(weights);
    return status;
}

void lvn_weights_close(struct lvn_weights *weights)
{
    for (int i = 0; i < weights->n_files; i++) {
        lvn_torch_close(&weights->file[i].torch);
        lvn_gguf_close(&weights->file[i].gguf);
        lvn_safetensors_close(&weights->file[i].safetensors);
    }
    lvn_arena_release(&weights->arena);
    *weights = (struct lvn_weights){0};
}

void lvn_weights_evict(const struct lvn_weights *weights)
{
    for (int i = 0; i < weights->n_files; i++) {
        lvn_file_map_drop(&weights->file[i].torch.map);
        lvn_file_map_drop(&weights->file[i].gguf.map);
        lvn_file_map_drop(&weights->file[i].safetensors.map);
    }
}

const struct lvn_weight *lvn_weights_find(const struct lvn_weights *weights, const char *name)
{
    struct lvn_weight key = {.name = name};
    return weights->n ? bsearch(&key, weights->tensor, (size_t)weights->n, sizeof key, lvn_by_text) : NULL;
}

void lvn_weight_copy_blocks(const struct lvn_weight *weight, const int32_t *row_of, void *to)
{
    const struct lvn_blocks b = {weight->packed, weight->desc.dim[0], weight->desc.dim[1]};
    lvn_work_done(b.rows * b.columns);
    if (weight->nf4) {
        lvn_nf4_put(&b, weight->nf4, to);
        return;
    }
    if (weight->row_factor) {
        lvn_int8_put(&b, weight->data, weight->row_factor, row_of, to);
        return;
    }
    for (int64_t row = 0; row < b.rows; row++) lvn_ggml_put(&b, weight->data, row_of[row], row, to);
}

void lvn_weight_read(const struct lvn_weight *weight, int64_t first, int64_t n, float *to)
{
    const struct lvn_desc *d = &weight->desc;
    const char *data = weight->data;
    int64_t size = lvn_dtype_bytes(d->dtype);
    lvn_work_done(n);
    if (weight->nf4) {
        lvn_nf4_read(weight->nf4, first, n, to);
        return;
    }
    if (weight->row_factor) {
        for (int64_t i = first; i < first + n; i++)
            *to++ = lvn_int8_value(((const int8_t *)data)[i], weight->row_factor[i / d->dim[1]]);
        return;
    }
    if (weight->packed) {
        lvn_ggml_read(lvn_ggml_block(weight->packed), data, first, n, to);
        return;
    }
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
