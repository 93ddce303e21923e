/* safetensors.c - reads safetensors (safetensors.h): the header is validated completely before any tensor is returned.
 *
 * Format: https://huggingface.co/docs/safetensors. The bytes of the tensors must be within the file, have the size
 * that shape and type require, and fill the file without overlaps or gaps. */
#include "formats/safetensors.h"

#include "base/files.h"
#include "base/list.h"
#include "formats/json.h"

enum { LARGEST_HEADER = 100 * 1000 * 1000 }; /* the limit of the reference implementation */

static int by_offset(const void *a, const void *b)
{
    const struct lvn_safetensor *first = a, *second = b;
    if (first->data != second->data) return (const char *)first->data < (const char *)second->data ? -1 : 1;
    if (first->bytes != second->bytes) return first->bytes < second->bytes ? -1 : 1;
    return strcmp(first->name, second->name);
}

static bool find_dtype(const char *text, enum lvn_dtype *dtype)
{
    static const char *const name[] = {
#define LVN_X(c, text, bytes, safetensors) [LVN_##c] = (safetensors),
        LVN_DTYPE_MAP(LVN_X)
#undef LVN_X
    };
    for (int i = 0; i < LVN_DTYPE_COUNT; i++) {
        *dtype = (enum lvn_dtype)i;
        if (strcmp(name[i], text) == 0) return true;
    }
    return false;
}

static enum lvn_status read_shape(struct lvn_safetensor *tensor, const json_t *shape)
{
    LVN_CHECK(json_is_array(shape), FORMAT, "'%s', tensor '%s': 'shape' is not a list", tensor->file, tensor->name);
    LVN_CHECK(json_array_size(shape) <= LVN_MAX_RANK, FORMAT, "'%s', tensor '%s' has %zu dimensions, the maximum is %d",
              tensor->file, tensor->name, json_array_size(shape), LVN_MAX_RANK);
    int64_t dim[LVN_MAX_RANK], rank = (int64_t)json_array_size(shape);
    for (int64_t i = 0; i < rank; i++) {
        const json_t *v = json_array_get(shape, (size_t)i);
        LVN_CHECK(json_is_integer(v) && json_integer_value(v) >= 0, FORMAT,
                  "'%s', tensor '%s': dimension %lld of its shape is not a non-negative integer", tensor->file,
                  tensor->name, (long long)i);
        dim[i] = json_integer_value(v);
    }
    tensor->desc = lvn_desc_make(tensor->desc.dtype, (int)rank, dim);
    int64_t count = lvn_desc_count(&tensor->desc);
    LVN_CHECK(count >= 0 && !__builtin_mul_overflow(count, lvn_dtype_bytes(tensor->desc.dtype), &tensor->bytes), FORMAT,
              "'%s', tensor '%s': its shape has more elements than can be counted", tensor->file, tensor->name);
    return LVN_OK;
}

static enum lvn_status read_tensor(struct lvn_safetensor *tensor, const json_t *entry, const char *data,
                                   int64_t data_bytes)
{
    LVN_CHECK(json_is_object(entry), FORMAT, "'%s', tensor '%s': its entry is not an object", tensor->file,
              tensor->name);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    LVN_CHECK(dtype, FORMAT, "'%s', tensor '%s': 'dtype' is missing", tensor->file, tensor->name);
    LVN_CHECK(find_dtype(dtype, &tensor->desc.dtype), FORMAT, "'%s', tensor '%s' has the unsupported type '%.20s'",
              tensor->file, tensor->name, dtype);
    LVN_TRY(read_shape(tensor, json_object_get(entry, "shape")));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    LVN_CHECK(json_array_size(offsets) == 2 && json_is_integer(first) && json_is_integer(last), FORMAT,
              "'%s', tensor '%s': 'data_offsets' are not two whole numbers", tensor->file, tensor->name);
    int64_t begin = json_integer_value(first), end = json_integer_value(last);
    LVN_CHECK(begin >= 0 && begin <= end, FORMAT, "'%s', tensor '%s': its data_offsets [%lld, %lld] are invalid",
              tensor->file, tensor->name, (long long)begin, (long long)end);
    LVN_CHECK(end <= data_bytes, FORMAT,
              "'%s', tensor '%s' ends at byte %lld of the data, but the file has only %lld: it is truncated or its "
              "header is wrong",
              tensor->file, tensor->name, (long long)end, (long long)data_bytes);
    char shape[LVN_SHAPE_TEXT];
    LVN_CHECK(end - begin == tensor->bytes, FORMAT, "'%s', tensor '%s' has %lld bytes, but %s of %s requires %lld",
              tensor->file, tensor->name, (long long)(end - begin), lvn_shape_text(&tensor->desc, shape),
              lvn_dtype_name(tensor->desc.dtype), (long long)tensor->bytes);
    tensor->data = data + begin;
    return LVN_OK;
}

/* Sorted by offset, each tensor must begin at the end of the previous one, and the last one must end with the file. */
static enum lvn_status check_layout(struct lvn_safetensors *file, const char *data, int64_t data_bytes)
{
    if (file->n) qsort(file->tensor, (size_t)file->n, sizeof *file->tensor, by_offset);
    const char *at = data;
    for (int i = 0; i < file->n; i++) {
        const struct lvn_safetensor *tensor = &file->tensor[i];
        const char *begin = tensor->data;
        LVN_CHECK(begin >= at, FORMAT, "'%s', tensors '%s' and '%s' overlap", file->path,
                  file->tensor[i ? i - 1 : 0].name, tensor->name);
        LVN_CHECK(begin == at, FORMAT, "'%s': %lld bytes before tensor '%s' belong to no tensor", file->path,
                  (long long)(begin - at), tensor->name);
        at = begin + tensor->bytes;
    }
    LVN_CHECK(at == data + data_bytes, FORMAT, "'%s' is %lld bytes longer than the size from its header", file->path,
              (long long)(data + data_bytes - at));
    if (file->n) qsort(file->tensor, (size_t)file->n, sizeof *file->tensor, lvn_by_text);
    return LVN_OK;
}

/* Check that all metadata are strings; their content is ignored. */
static enum lvn_status check_metadata(const struct lvn_safetensors *file, const json_t *metadata)
{
    LVN_CHECK(json_is_object(metadata), FORMAT, "'%s': '__metadata__' is not an object", file->path);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)metadata, key, value)
        LVN_CHECK(json_is_string(value), FORMAT, "'%s': '__metadata__' entry '%s' is not a string", file->path, key);
    return LVN_OK;
}

static enum lvn_status read_entries(struct lvn_safetensors *file, const json_t *header, const char *data,
                                    int64_t data_bytes)
{
    LVN_CHECK(json_is_object(header), FORMAT, "'%s': its header is not a JSON object", file->path);
    file->tensor = lvn_arena_alloc(&file->arena, json_object_size(header) * sizeof *file->tensor);
    if (!file->tensor) return LVN_MEMORY;
    const char *key;
    json_t *entry;
    json_object_foreach((json_t *)header, key, entry)
    {
        if (strcmp(key, "__metadata__") == 0) {
            LVN_TRY(check_metadata(file, entry));
            continue;
        }
        struct lvn_safetensor *tensor = &file->tensor[file->n];
        tensor->file = file->path;
        tensor->name = lvn_arena_strdup(&file->arena, key);
        if (!tensor->name) return LVN_MEMORY;
        LVN_TRY(read_tensor(tensor, entry, data, data_bytes));
        file->n++;
    }
    return check_layout(file, data, data_bytes);
}

/* Read the header from the bytes of the file; file->path is set. */
static enum lvn_status read_file(struct lvn_safetensors *file, const unsigned char *bytes, int64_t n)
{
    LVN_CHECK(n >= 8, FORMAT, "'%s' has %lld bytes: too short for a safetensors file", file->path, (long long)n);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | bytes[i];
    LVN_CHECK(length <= LARGEST_HEADER, FORMAT,
              "'%s': its first 8 bytes give a header of %llu bytes (the maximum is %d): this is not a safetensors file",
              file->path, (unsigned long long)length, LARGEST_HEADER);
    LVN_CHECK((int64_t)length <= n - 8, FORMAT,
              "'%s': its header has %llu bytes, but the file ends after %lld: it is truncated", file->path,
              (unsigned long long)length, (long long)(n - 8));
    json_t *header;
    LVN_TRY_WHILE(lvn_json_parse(file->path, (const char *)bytes + 8, (int64_t)length, &header),
                  "reading the header of the safetensors file '%s'", file->path);
    enum lvn_status status = read_entries(file, header, (const char *)bytes + 8 + length, n - 8 - (int64_t)length);
    json_decref(header);
    return status;
}

enum lvn_status lvn_safetensors_parse(struct lvn_safetensors *file, const char *name, const void *data, int64_t bytes)
{
    *file = (struct lvn_safetensors){0};
    lvn_arena_init(&file->arena);
    file->path = lvn_arena_strdup(&file->arena, name);
    enum lvn_status status = file->path ? read_file(file, data, bytes) : LVN_MEMORY;
    if (status != LVN_OK) lvn_safetensors_close(file);
    return status;
}

enum lvn_status lvn_safetensors_open(struct lvn_safetensors *file, const char *path)
{
    struct lvn_mapping map;
    *file = (struct lvn_safetensors){0};
    LVN_TRY(lvn_file_map(&map, path));
    enum lvn_status status = lvn_safetensors_parse(file, path, map.data, map.bytes);
    if (status == LVN_OK)
        file->map = map;
    else
        lvn_file_unmap(&map);
    return status;
}

void lvn_safetensors_close(struct lvn_safetensors *file)
{
    lvn_file_unmap(&file->map);
    lvn_arena_release(&file->arena);
    *file = (struct lvn_safetensors){0};
}

const struct lvn_safetensor *lvn_safetensors_find(const struct lvn_safetensors *file, const char *name)
{
    struct lvn_safetensor key = {.name = name};
    return file->n ? bsearch(&key, file->tensor, (size_t)file->n, sizeof key, lvn_by_text) : NULL;
}
