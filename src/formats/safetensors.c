/* safetensors.c - reads safetensors (safetensors.h): the header is validated completely before any tensor is returned.
 *
 * Format: https://huggingface.co/docs/safetensors. Every tensor's bytes must lie in the file, have the size that shape
 * and type require, and follow each other without overlap, gap or rest: then the header describes the whole file. */
#include "formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/sort.h"
#include "formats/json.h"

enum { LARGEST_HEADER = 100 * 1000 * 1000 }; /* the limit of the reference implementation */

static int by_offset(const void *a, const void *b)
{
    const struct lvn_safetensor *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
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

static enum lvn_status read_shape(struct lvn_safetensor *t, const json_t *shape)
{
    LVN_CHECK(json_is_array(shape), FORMAT, "'%s', tensor '%s': 'shape' is not a list", t->file, t->name);
    LVN_CHECK(json_array_size(shape) <= LVN_MAX_RANK, FORMAT, "'%s', tensor '%s' has %zu dimensions, the most is %d",
              t->file, t->name, json_array_size(shape), LVN_MAX_RANK);
    int64_t dim[LVN_MAX_RANK], rank = (int64_t)json_array_size(shape);
    for (int64_t i = 0; i < rank; i++) {
        const json_t *v = json_array_get(shape, (size_t)i);
        LVN_CHECK(json_is_integer(v) && json_integer_value(v) >= 0, FORMAT,
                  "'%s', tensor '%s': dimension %lld of its shape is not a whole number from 0", t->file, t->name,
                  (long long)i);
        dim[i] = json_integer_value(v);
    }
    t->desc = lvn_desc_make(t->desc.dtype, (int)rank, dim);
    int64_t count = lvn_desc_count(&t->desc);
    LVN_CHECK(count >= 0 && !__builtin_mul_overflow(count, lvn_dtype_bytes(t->desc.dtype), &t->bytes), FORMAT,
              "'%s', tensor '%s': its shape has more elements than can be counted", t->file, t->name);
    return LVN_OK;
}

static enum lvn_status read_tensor(struct lvn_safetensor *t, const json_t *entry, const char *data, int64_t data_bytes)
{
    LVN_CHECK(json_is_object(entry), FORMAT, "'%s', tensor '%s': its entry is not an object", t->file, t->name);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    LVN_CHECK(dtype, FORMAT, "'%s', tensor '%s': 'dtype' is missing", t->file, t->name);
    LVN_CHECK(find_dtype(dtype, &t->desc.dtype), FORMAT,
              "'%s', tensor '%s' has the type '%.20s', which levin does not read", t->file, t->name, dtype);
    LVN_TRY(read_shape(t, json_object_get(entry, "shape")));
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    LVN_CHECK(json_array_size(offsets) == 2 && json_is_integer(first) && json_is_integer(last), FORMAT,
              "'%s', tensor '%s': 'data_offsets' are not two whole numbers", t->file, t->name);
    int64_t begin = json_integer_value(first), end = json_integer_value(last);
    LVN_CHECK(begin >= 0 && begin <= end, FORMAT, "'%s', tensor '%s': its bytes go from %lld to %lld", t->file, t->name,
              (long long)begin, (long long)end);
    LVN_CHECK(end <= data_bytes, FORMAT,
              "'%s', tensor '%s' ends at byte %lld of the data, but there are only %lld: the file is cut off or lies",
              t->file, t->name, (long long)end, (long long)data_bytes);
    char shape[LVN_SHAPE_TEXT];
    LVN_CHECK(end - begin == t->bytes, FORMAT, "'%s', tensor '%s': %lld bytes, but %s of %s needs %lld", t->file,
              t->name, (long long)(end - begin), lvn_shape_text(&t->desc, shape), lvn_dtype_name(t->desc.dtype),
              (long long)t->bytes);
    t->data = data + begin;
    return LVN_OK;
}

/* Sorted by offset, each tensor must begin where the one before ends, and the last one must end with the file. */
static enum lvn_status check_layout(struct lvn_safetensors *s, const char *data, int64_t data_bytes)
{
    if (s->n) qsort(s->tensor, (size_t)s->n, sizeof *s->tensor, by_offset);
    const char *at = data;
    for (int i = 0; i < s->n; i++) {
        const struct lvn_safetensor *t = &s->tensor[i];
        const char *begin = t->data;
        LVN_CHECK(begin >= at, FORMAT, "'%s', tensors '%s' and '%s' overlap", s->path, s->tensor[i ? i - 1 : 0].name,
                  t->name);
        LVN_CHECK(begin == at, FORMAT, "'%s': %lld bytes before tensor '%s' belong to no tensor", s->path,
                  (long long)(begin - at), t->name);
        at = begin + t->bytes;
    }
    LVN_CHECK(at == data + data_bytes, FORMAT, "'%s' is %lld bytes longer than its header says", s->path,
              (long long)(data + data_bytes - at));
    if (s->n) qsort(s->tensor, (size_t)s->n, sizeof *s->tensor, lvn_by_text);
    return LVN_OK;
}

/* Checks that all metadata are strings; their content is ignored. */
static enum lvn_status check_metadata(const struct lvn_safetensors *s, const json_t *metadata)
{
    LVN_CHECK(json_is_object(metadata), FORMAT, "'%s': '__metadata__' is not an object", s->path);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)metadata, key, value)
        LVN_CHECK(json_is_string(value), FORMAT, "'%s': '__metadata__' entry '%s' is not a string", s->path, key);
    return LVN_OK;
}

static enum lvn_status read_entries(struct lvn_safetensors *s, const json_t *header, const char *data,
                                    int64_t data_bytes)
{
    LVN_CHECK(json_is_object(header), FORMAT, "'%s': its header is not a JSON object", s->path);
    s->tensor = lvn_arena_alloc(&s->arena, json_object_size(header) * sizeof *s->tensor);
    if (!s->tensor) return LVN_MEMORY;
    const char *key;
    json_t *entry;
    json_object_foreach((json_t *)header, key, entry)
    {
        if (strcmp(key, "__metadata__") == 0) {
            LVN_TRY(check_metadata(s, entry));
            continue;
        }
        struct lvn_safetensor *t = &s->tensor[s->n];
        t->file = s->path;
        t->name = lvn_arena_strdup(&s->arena, key);
        if (!t->name) return LVN_MEMORY;
        LVN_TRY(read_tensor(t, entry, data, data_bytes));
        s->n++;
    }
    return check_layout(s, data, data_bytes);
}

/* Reads the header from the bytes of the file; s->path is set. */
static enum lvn_status read_file(struct lvn_safetensors *s, const unsigned char *bytes, int64_t n)
{
    LVN_CHECK(n >= 8, FORMAT, "'%s' has %lld bytes: too short for a safetensors file", s->path, (long long)n);
    uint64_t length = 0;
    for (int i = 7; i >= 0; i--) length = length << 8 | bytes[i];
    LVN_CHECK(length <= LARGEST_HEADER, FORMAT,
              "'%s': its first 8 bytes give a header of %llu bytes (the most is %d): this is no safetensors file",
              s->path, (unsigned long long)length, LARGEST_HEADER);
    LVN_CHECK((int64_t)length <= n - 8, FORMAT,
              "'%s': its header should have %llu bytes, but the file ends after %lld: it is cut off", s->path,
              (unsigned long long)length, (long long)(n - 8));
    json_t *header;
    LVN_TRY_WHILE(lvn_json_parse(s->path, (const char *)bytes + 8, (int64_t)length, &header),
                  "reading the header of the safetensors file '%s'", s->path);
    enum lvn_status status = read_entries(s, header, (const char *)bytes + 8 + length, n - 8 - (int64_t)length);
    json_decref(header);
    return status;
}

/* bytes -1: maps the file at `path`. */
static enum lvn_status open_bytes(struct lvn_safetensors *s, const char *path, const void *data, int64_t bytes)
{
    *s = (struct lvn_safetensors){0};
    lvn_arena_init(&s->arena);
    s->path = lvn_arena_strdup(&s->arena, path);
    enum lvn_status status = s->path ? LVN_OK : LVN_MEMORY;
    if (status == LVN_OK && bytes < 0) status = lvn_file_map(&s->map, path);
    if (status == LVN_OK) status = read_file(s, bytes < 0 ? s->map.data : data, bytes < 0 ? s->map.bytes : bytes);
    if (status != LVN_OK) lvn_safetensors_close(s);
    return status;
}

enum lvn_status lvn_safetensors_open(struct lvn_safetensors *s, const char *path)
{
    return open_bytes(s, path, NULL, -1);
}

enum lvn_status lvn_safetensors_parse(struct lvn_safetensors *s, const char *name, const void *data, int64_t bytes)
{
    return open_bytes(s, name, data, bytes);
}

void lvn_safetensors_close(struct lvn_safetensors *s)
{
    lvn_file_unmap(&s->map);
    lvn_arena_release(&s->arena);
    *s = (struct lvn_safetensors){0};
}

const struct lvn_safetensor *lvn_safetensors_find(const struct lvn_safetensors *s, const char *name)
{
    struct lvn_safetensor key = {.name = name};
    return s->n ? bsearch(&key, s->tensor, (size_t)s->n, sizeof key, lvn_by_text) : NULL;
}
