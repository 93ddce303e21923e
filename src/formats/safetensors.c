/* safetensors.c - reading: the header is checked in full before any tensor is handed out.
 *
 * Format: https://huggingface.co/docs/safetensors. Every tensor's bytes must lie in the file, have the size that shape
 * and type ask for, and follow each other without overlap, gap or rest: then what a header says is what is there. */
#include "formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "formats/json.h"

enum { LARGEST_HEADER = 100 * 1000 * 1000 }; /* the reference implementation's bound */

struct lvn_safetensors_shard {
    struct lvn_mapping map;        /* data == NULL: the caller's memory */
    const char *path, *name;       /* name: as the index calls it */
    struct lvn_safetensor *tensor; /* sorted by name */
    int n;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct lvn_safetensor *)a)->name, ((const struct lvn_safetensor *)b)->name);
}

static int by_place(const void *a, const void *b)
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

/* Sorted by place, each tensor begins where the one before ended, and the last one ends with the file. */
static enum lvn_status check_places(struct lvn_safetensors_shard *s, const char *data, int64_t data_bytes)
{
    if (s->n) qsort(s->tensor, (size_t)s->n, sizeof *s->tensor, by_place);
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
    if (s->n) qsort(s->tensor, (size_t)s->n, sizeof *s->tensor, by_name);
    return LVN_OK;
}

/* Texts only, of which nothing is wanted. */
static enum lvn_status check_metadata(const struct lvn_safetensors_shard *s, const json_t *metadata)
{
    LVN_CHECK(json_is_object(metadata), FORMAT, "'%s': '__metadata__' is not an object", s->path);
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)metadata, key, value)
        LVN_CHECK(json_is_string(value), FORMAT, "'%s': '__metadata__' entry '%s' is not a string", s->path, key);
    return LVN_OK;
}

static enum lvn_status read_entries(struct lvn_arena *a, struct lvn_safetensors_shard *s, const json_t *header,
                                    const char *data, int64_t data_bytes)
{
    LVN_CHECK(json_is_object(header), FORMAT, "'%s': its header is not a JSON object", s->path);
    s->tensor = lvn_arena_alloc(a, json_object_size(header) * sizeof *s->tensor);
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
        t->name = lvn_arena_strdup(a, key);
        if (!t->name) return LVN_MEMORY;
        LVN_TRY(read_tensor(t, entry, data, data_bytes));
        s->n++;
    }
    return check_places(s, data, data_bytes);
}

/* s->path is set; fills the rest from the bytes of the file. */
static enum lvn_status read_shard(struct lvn_arena *a, struct lvn_safetensors_shard *s, const unsigned char *bytes,
                                  int64_t n)
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
    enum lvn_status status = read_entries(a, s, header, (const char *)bytes + 8 + length, n - 8 - (int64_t)length);
    json_decref(header);
    return status;
}

static enum lvn_status open_shard(struct lvn_arena *a, struct lvn_safetensors_shard *s, const char *path)
{
    s->path = lvn_arena_strdup(a, path);
    if (!s->path) return LVN_MEMORY;
    LVN_TRY(lvn_file_map(&s->map, path));
    return read_shard(a, s, s->map.data, s->map.bytes);
}

static enum lvn_status add_shards(struct lvn_safetensors *s, int room)
{
    s->shard = lvn_arena_alloc(&s->arena, (size_t)room * sizeof *s->shard);
    return s->shard ? LVN_OK : LVN_MEMORY;
}

static enum lvn_status open_one(struct lvn_safetensors *s, const char *path)
{
    LVN_TRY(add_shards(s, 1));
    s->n_shards = 1;
    LVN_TRY(open_shard(&s->arena, s->shard, path));
    s->tensor = s->shard->tensor;
    s->n = s->shard->n;
    return LVN_OK;
}

/* --- several shards --- */

static enum lvn_status shard_of(struct lvn_safetensors *s, const char *index, const char *name,
                                struct lvn_safetensors_shard **out)
{
    for (int i = 0; i < s->n_shards; i++) {
        *out = &s->shard[i];
        if (strcmp((*out)->name, name) == 0) return LVN_OK;
    }
    LVN_CHECK(*name && !strchr(name, '/'), FORMAT, "'%s' names the file '%s', which does not lie beside it", index,
              name);
    *out = &s->shard[s->n_shards];
    (*out)->name = lvn_arena_strdup(&s->arena, name);
    char *dir = lvn_path_dir(&s->arena, index), *path = dir ? lvn_path_join(&s->arena, dir, name) : NULL;
    if (!(*out)->name || !path) return LVN_MEMORY;
    s->n_shards++;
    return open_shard(&s->arena, *out, path);
}

static const struct lvn_safetensor *search(const struct lvn_safetensor *tensor, int n, const char *name)
{
    struct lvn_safetensor key = {.name = name};
    return n ? bsearch(&key, tensor, (size_t)n, sizeof key, by_name) : NULL;
}

static enum lvn_status read_index(struct lvn_safetensors *s, const char *path, const json_t *index)
{
    const json_t *map = json_object_get(index, "weight_map");
    LVN_CHECK(json_is_object(map), FORMAT, "'%s' has no 'weight_map': this is no index of a model", path);
    size_t room = json_object_size(map); /* at most a file a tensor */
    s->tensor = lvn_arena_alloc(&s->arena, room * sizeof *s->tensor);
    if (!s->tensor) return LVN_MEMORY;
    LVN_TRY(add_shards(s, (int)room));
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)map, key, value)
    {
        LVN_CHECK(json_is_string(value), FORMAT, "'%s', tensor '%s': its file is not a string", path, key);
        struct lvn_safetensors_shard *shard = NULL;
        LVN_TRY_WHILE(shard_of(s, path, json_string_value(value), &shard), "opening what '%s' names", path);
        const struct lvn_safetensor *t = search(shard->tensor, shard->n, key);
        LVN_CHECK(t, FORMAT, "'%s' says that tensor '%s' lies in '%s', but it does not", path, key, shard->path);
        s->tensor[s->n++] = *t;
    }
    if (s->n) qsort(s->tensor, (size_t)s->n, sizeof *s->tensor, by_name);
    return LVN_OK;
}

static enum lvn_status open_index(struct lvn_safetensors *s, const char *path)
{
    json_t *index;
    LVN_TRY(lvn_json_read(path, &index));
    enum lvn_status status = read_index(s, path, index);
    json_decref(index);
    return status;
}

static enum lvn_status open_any(struct lvn_safetensors *s, const char *path)
{
    size_t n = strlen(path);
    if (n > 5 && strcmp(path + n - 5, ".json") == 0) return open_index(s, path);
    if (!lvn_path_is_dir(path)) return open_one(s, path);
    char *file = lvn_path_join(&s->arena, path, "model.safetensors");
    char *index = lvn_path_join(&s->arena, path, "model.safetensors.index.json");
    if (!file || !index) return LVN_MEMORY;
    if (lvn_path_exists(file)) return open_one(s, file);
    if (lvn_path_exists(index)) return open_index(s, index);
    LVN_FAIL(IO, "'%s' has neither model.safetensors nor model.safetensors.index.json", path);
}

enum lvn_status lvn_safetensors_open(struct lvn_safetensors *s, const char *path)
{
    *s = (struct lvn_safetensors){0};
    lvn_arena_init(&s->arena);
    enum lvn_status status = open_any(s, path);
    if (status != LVN_OK) lvn_safetensors_close(s);
    return status;
}

enum lvn_status lvn_safetensors_parse(struct lvn_safetensors *s, const char *name, const void *data, int64_t bytes)
{
    *s = (struct lvn_safetensors){0};
    lvn_arena_init(&s->arena);
    enum lvn_status status = add_shards(s, 1);
    if (status == LVN_OK) {
        s->n_shards = 1;
        s->shard->path = lvn_arena_strdup(&s->arena, name);
        status = s->shard->path ? read_shard(&s->arena, s->shard, data, bytes) : LVN_MEMORY;
        s->tensor = s->shard->tensor;
        s->n = s->shard->n;
    }
    if (status != LVN_OK) lvn_safetensors_close(s);
    return status;
}

void lvn_safetensors_close(struct lvn_safetensors *s)
{
    for (int i = 0; i < s->n_shards; i++) lvn_file_unmap(&s->shard[i].map);
    lvn_arena_release(&s->arena);
    *s = (struct lvn_safetensors){0};
}

const struct lvn_safetensor *lvn_safetensors_find(const struct lvn_safetensors *s, const char *name)
{
    return search(s->tensor, s->n, name);
}
