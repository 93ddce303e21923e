/* torch.c - see torch.h. */
#include "formats/torch.h"

#include "base/text.h"
#include "formats/zip.h"

/* A storage. Objects of the pickle are a storage alone, or a tensor, which is a view of one. */
struct lvn_torch_storage {
    struct lvn_torch_storage *next;
    const char *key;
    enum lvn_dtype dtype;
    int64_t count;
    const unsigned char *data; /* NULL: not located yet */
};

struct object {
    struct lvn_torch_storage *storage;
    bool is_tensor;
    struct lvn_desc desc;
};

/* State of the callbacks of struct lvn_pickle_functions. */
struct reader {
    struct lvn_torch *file;
    const struct lvn_zip *zip; /* NULL: a stream of pickles, followed by the storages */
    const char *folder;        /* prefix of the member names, "archive/" */
};

/* --- storages --- */

static const struct {
    const char *name;
    enum lvn_dtype dtype;
} storage_types[] = {
    {"torch.FloatStorage", LVN_F32},     {"torch.DoubleStorage", LVN_F64}, {"torch.HalfStorage", LVN_F16},
    {"torch.BFloat16Storage", LVN_BF16}, {"torch.LongStorage", LVN_I64},   {"torch.IntStorage", LVN_I32},
    {"torch.ShortStorage", LVN_I16},     {"torch.CharStorage", LVN_I8},    {"torch.ByteStorage", LVN_U8},
    {"torch.BoolStorage", LVN_BOOL},
};

static enum lvn_status find_type(const char *path, const char *name, enum lvn_dtype *out)
{
    for (size_t i = 0; i < sizeof storage_types / sizeof storage_types[0]; i++)
        if (strcmp(name, storage_types[i].name) == 0) {
            *out = storage_types[i].dtype;
            return LVN_OK;
        }
    LVN_FAIL(UNSUPPORTED, "'%s' contains a storage of the unsupported type '%.60s'", path, name);
}

/* Set a storage's bytes, of which `bytes` are available. */
static enum lvn_status bind(const struct reader *reader, struct lvn_torch_storage *storage, const unsigned char *data,
                            int64_t bytes)
{
    LVN_CHECK(storage->count <= bytes / lvn_dtype_bytes(storage->dtype), FORMAT,
              "'%s': storage '%.40s' has %lld elements of %s, but the file has only %lld bytes for it",
              reader->file->path, storage->key, (long long)storage->count, lvn_dtype_name(storage->dtype),
              (long long)bytes);
    storage->data = data;
    return LVN_OK;
}

static enum lvn_status bind_member(const struct reader *reader, struct lvn_torch_storage *storage)
{
    char name[512];
    LVN_CHECK(lvn_fit(name, sizeof name, "%sdata/%s", reader->folder, storage->key), FORMAT,
              "'%s': the name of storage '%.40s...' is too long", reader->file->path, storage->key);
    const struct lvn_zip_member *member = lvn_zip_find(reader->zip, name);
    LVN_CHECK(member, FORMAT, "'%s' lacks '%.200s', the elements of a tensor", reader->file->path, name);
    return bind(reader, storage, member->data, member->bytes);
}

/* The persistent ID of a storage: ("storage", type, key, device, number of elements[, a view]). */
static enum lvn_status find_storage(void *context, struct lvn_arena *a, const struct lvn_pickle *id,
                                    struct lvn_pickle **out)
{
    static const enum lvn_pickle_kind want[] = {LVN_PICKLE_TEXT, LVN_PICKLE_NAME, LVN_PICKLE_TEXT, LVN_PICKLE_TEXT,
                                                LVN_PICKLE_INT};
    struct reader *reader = context;
    bool good = id->kind == LVN_PICKLE_TUPLE && id->n >= 5;
    for (int i = 0; good && i < 5; i++) good = id->item[i]->kind == want[i];
    good = good && strcmp(id->item[0]->text, "storage") == 0 && id->item[4]->integer >= 0;
    LVN_CHECK(good && (id->n == 5 || id->item[5]->kind == LVN_PICKLE_NONE), FORMAT,
              "'%s': a storage has an unsupported description", reader->file->path);
    struct lvn_torch_storage *storage = lvn_arena_alloc(a, sizeof *storage);
    struct object *object = lvn_arena_alloc(a, sizeof *object);
    if (!storage || !object) return LVN_MEMORY;
    storage->key = id->item[2]->text;
    storage->count = id->item[4]->integer;
    storage->next = reader->file->storages;
    reader->file->storages = object->storage = storage;
    LVN_TRY(find_type(reader->file->path, id->item[1]->text, &storage->dtype));
    if (reader->zip) LVN_TRY(bind_member(reader, storage));
    *out = lvn_pickle_new(a, LVN_PICKLE_OBJECT);
    if (!*out) return LVN_MEMORY;
    (*out)->object = object;
    return LVN_OK;
}

/* --- the functions that a pickle may call --- */

static const struct object *get_object(const struct lvn_pickle *value, bool is_tensor)
{
    const struct object *object = value->kind == LVN_PICKLE_OBJECT ? value->object : NULL;
    return object && object->is_tensor == is_tensor ? object : NULL;
}

/* Read a tuple of integers >= 0. */
static bool read_sizes(const struct lvn_pickle *value, int64_t *out)
{
    if (value->kind != LVN_PICKLE_TUPLE || value->n > LVN_MAX_RANK) return false;
    for (int64_t i = 0; i < value->n; i++) {
        if (value->item[i]->kind != LVN_PICKLE_INT || value->item[i]->integer < 0) return false;
        out[i] = value->item[i]->integer;
    }
    return true;
}

/* True if the last element is within `count`. */
static bool is_within(const struct lvn_desc *d, int64_t count)
{
    int64_t last = d->offset, step;
    for (int i = 0; i < d->rank; i++) {
        if (d->dim[i] == 0) return true;
        if (__builtin_mul_overflow(d->dim[i] - 1, d->stride[i], &step) || __builtin_add_overflow(last, step, &last))
            return false;
    }
    return last < count;
}

/* _rebuild_tensor(storage, offset, size, stride, requires_grad, hooks). */
static enum lvn_status make_tensor(const struct reader *reader, struct lvn_arena *a, const struct lvn_pickle *arguments,
                                   struct lvn_pickle **out)
{
    struct lvn_pickle **value = arguments->item;
    const struct object *source = arguments->n >= 4 ? get_object(value[0], false) : NULL;
    LVN_CHECK(source && value[1]->kind == LVN_PICKLE_INT && value[1]->integer >= 0 &&
                  value[2]->kind == LVN_PICKLE_TUPLE,
              FORMAT, "'%s': a tensor has an unsupported description", reader->file->path);
    LVN_CHECK(value[2]->n <= LVN_MAX_RANK, UNSUPPORTED, "'%s' contains a tensor of %lld dimensions; the maximum is %d",
              reader->file->path, (long long)value[2]->n, LVN_MAX_RANK);
    struct object *object = lvn_arena_alloc(a, sizeof *object);
    *out = lvn_pickle_new(a, LVN_PICKLE_OBJECT);
    if (!object || !*out) return LVN_MEMORY;
    int64_t dim[LVN_MAX_RANK], stride[LVN_MAX_RANK];
    bool good = read_sizes(value[2], dim) && read_sizes(value[3], stride) && value[2]->n == value[3]->n;
    if (good) {
        object->desc = lvn_desc_make(source->storage->dtype, (int)value[2]->n, dim);
        object->desc.offset = value[1]->integer;
        for (int64_t i = 0; i < value[2]->n; i++) object->desc.stride[i] = stride[i];
    }
    LVN_CHECK(good && lvn_desc_count(&object->desc) >= 0 && is_within(&object->desc, source->storage->count), FORMAT,
              "'%s': a tensor exceeds its storage '%.40s' of %lld elements", reader->file->path, source->storage->key,
              (long long)source->storage->count);
    object->is_tensor = true;
    object->storage = source->storage;
    (*out)->object = object;
    return LVN_OK;
}

static enum lvn_status make_dict(const struct reader *reader, struct lvn_arena *a, const struct lvn_pickle *arguments,
                                 struct lvn_pickle **out)
{
    LVN_CHECK(arguments->n == 0, UNSUPPORTED, "'%s' creates a dict with arguments, which is not supported",
              reader->file->path);
    *out = lvn_pickle_new(a, LVN_PICKLE_DICT);
    return *out ? LVN_OK : LVN_MEMORY;
}

/* torch.Size((2, 3)), torch.device("cpu"), a parameter of a tensor: represented by their first argument. */
static enum lvn_status first_argument(const struct reader *reader, struct lvn_arena *a,
                                      const struct lvn_pickle *arguments, struct lvn_pickle **out)
{
    (void)a;
    LVN_CHECK(arguments->n >= 1, FORMAT, "'%s': a call without arguments", reader->file->path);
    *out = arguments->item[0];
    return LVN_OK;
}

static const struct {
    const char *name;
    enum lvn_status (*make)(const struct reader *reader, struct lvn_arena *a, const struct lvn_pickle *arguments,
                            struct lvn_pickle **out);
} functions[] = {
    {"collections.OrderedDict", make_dict},
    {"torch._utils._rebuild_tensor_v2", make_tensor},
    {"torch._utils._rebuild_tensor", make_tensor},
    {"torch._utils._rebuild_parameter", first_argument},
    {"torch.Size", first_argument},
    {"torch.device", first_argument},
};

static enum lvn_status call(void *context, struct lvn_arena *a, const char *function,
                            const struct lvn_pickle *arguments, struct lvn_pickle **out)
{
    const struct reader *reader = context;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(function, functions[i].name) == 0) return functions[i].make(reader, a, arguments, out);
    LVN_FAIL(
        FORMAT,
        "'%s' calls the function '%.100s', but levin does not execute code and only reads tensors and plain values: if "
        "you trust the file, load it in Python and save its state_dict() as safetensors",
        reader->file->path, function);
}

/* --- a zip archive --- */

static enum lvn_status read_archive(struct lvn_torch *torch, const unsigned char *data, int64_t bytes)
{
    struct lvn_zip zip;
    LVN_TRY(lvn_zip_open(&zip, &torch->arena, torch->path, data, bytes));
    const struct lvn_zip_member *main = NULL;
    const char tail[] = "data.pkl";
    for (int i = 0; i < zip.n; i++) {
        const char *slash = strrchr(zip.member[i].name, '/'), *name = slash ? slash + 1 : zip.member[i].name;
        if (strcmp(name, tail) == 0 && !main) main = &zip.member[i];
    }
    LVN_CHECK(main, FORMAT, "'%s' is a zip archive without a data.pkl: torch.save() did not write it", torch->path);
    int folder = (int)(strlen(main->name) - strlen(tail));
    struct reader reader = {
        .file = torch, .zip = &zip, .folder = lvn_arena_printf(&torch->arena, "%.*s", folder, main->name)};
    char *order_name = lvn_arena_printf(&torch->arena, "%.*sbyteorder", folder, main->name);
    if (!reader.folder || !order_name) return LVN_MEMORY;
    const struct lvn_zip_member *order = lvn_zip_find(&zip, order_name);
    LVN_CHECK(!order || (order->bytes == 6 && memcmp(order->data, "little", 6) == 0), UNSUPPORTED,
              "'%s' was written on a big-endian machine; save it again on another one", torch->path);
    struct lvn_pickle_functions callbacks = {.context = &reader, .call = call, .persistent_load = find_storage};
    struct lvn_pickle *root;
    int64_t used;
    LVN_TRY(lvn_pickle_read(&torch->arena, torch->path, main->data, main->bytes, &callbacks, &root, &used));
    torch->root = root;
    return LVN_OK;
}

/* --- a stream: magic number, version, system information, the value, keys of storages; then the storages --- */

static const unsigned char magic[] = {0x80, 2,    0x8a, 10,   0x6c, 0xfc, 0x9c, 0x46,
                                      0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, '.'};

static enum lvn_status bind_following(const struct reader *reader, const struct lvn_pickle *keys,
                                      const unsigned char *p, const unsigned char *end)
{
    LVN_CHECK(keys->kind == LVN_PICKLE_LIST, FORMAT, "'%s' has no list of its storages", reader->file->path);
    for (int64_t i = 0; i < keys->n; i++) {
        const char *key = keys->item[i]->kind == LVN_PICKLE_TEXT ? keys->item[i]->text : "";
        int64_t count, bytes = -1;
        LVN_CHECK(end - p >= 8, FORMAT, "'%s' ends before its storage '%.40s': it is truncated", reader->file->path,
                  key);
        memcpy(&count, p, 8);
        p += 8;
        for (struct lvn_torch_storage *storage = reader->file->storages; storage; storage = storage->next) {
            if (strcmp(storage->key, key) != 0) continue;
            LVN_CHECK(storage->count == count, FORMAT, "'%s': storage '%.40s' has two lengths", reader->file->path,
                      key);
            LVN_TRY(bind(reader, storage, p, end - p));
            bytes = count * lvn_dtype_bytes(storage->dtype);
        }
        LVN_CHECK(bytes >= 0 && bytes <= end - p, FORMAT, "'%s' contains a storage '%.40s' that belongs to no tensor",
                  reader->file->path, key);
        p += bytes;
    }
    for (const struct lvn_torch_storage *storage = reader->file->storages; storage; storage = storage->next)
        LVN_CHECK(storage->data || !storage->count, FORMAT, "'%s' lacks the elements of its storage '%.40s'",
                  reader->file->path, storage->key);
    return LVN_OK;
}

static enum lvn_status read_stream(struct lvn_torch *torch, const unsigned char *data, int64_t bytes)
{
    struct reader reader = {.file = torch};
    struct lvn_pickle_functions callbacks = {.context = &reader, .call = call, .persistent_load = find_storage};
    struct lvn_pickle *part[4];
    int64_t at = (int64_t)sizeof magic, used;
    for (int i = 0; i < 4; i++) {
        LVN_TRY(lvn_pickle_read(&torch->arena, torch->path, data + at, bytes - at, &callbacks, &part[i], &used));
        at += used;
    }
    LVN_CHECK(part[0]->kind == LVN_PICKLE_INT && part[0]->integer == 1001, UNSUPPORTED,
              "'%s' was written by an unsupported version of torch.save()", torch->path);
    const struct lvn_pickle *little = lvn_pickle_get(part[1], "little_endian");
    LVN_CHECK(little && little->kind == LVN_PICKLE_BOOL && little->truth, UNSUPPORTED,
              "'%s' was written on a big-endian machine; save it again on another one", torch->path);
    torch->root = part[2];
    return bind_following(&reader, part[3], data + at, data + bytes);
}

/* --- both formats --- */

static bool is_stream(const unsigned char *data, int64_t bytes)
{
    return bytes >= (int64_t)sizeof magic && memcmp(data, magic, sizeof magic) == 0;
}

static enum lvn_status read(struct lvn_torch *torch, const unsigned char *data, int64_t bytes)
{
    if (lvn_zip_begins(data, bytes)) return read_archive(torch, data, bytes);
    if (is_stream(data, bytes)) return read_stream(torch, data, bytes);
    LVN_FAIL(FORMAT, "'%s' was not written by torch.save(): it is neither a zip archive nor a stream of pickles",
             torch->path);
}

bool lvn_torch_is_file(const char *path)
{
    unsigned char start[sizeof magic];
    FILE *f = lvn_path_is_file(path) ? fopen(path, "rb") : NULL;
    int64_t n = f ? (int64_t)fread(start, 1, sizeof start, f) : 0;
    if (f) fclose(f);
    return lvn_zip_begins(start, n) || is_stream(start, n);
}

enum lvn_status lvn_torch_open(struct lvn_torch *torch, const char *path)
{
    struct lvn_mapping map;
    *torch = (struct lvn_torch){0};
    LVN_TRY(lvn_file_map(&map, path));
    enum lvn_status status = lvn_torch_parse(torch, path, map.data, map.bytes);
    if (status == LVN_OK)
        torch->map = map;
    else
        lvn_file_unmap(&map);
    return status;
}

enum lvn_status lvn_torch_parse(struct lvn_torch *torch, const char *name, const void *data, int64_t bytes)
{
    *torch = (struct lvn_torch){0};
    lvn_arena_init(&torch->arena);
    torch->path = lvn_arena_strdup(&torch->arena, name);
    enum lvn_status status = torch->path ? read(torch, data, bytes) : LVN_MEMORY;
    if (status != LVN_OK) lvn_torch_close(torch);
    return status;
}

void lvn_torch_close(struct lvn_torch *torch)
{
    lvn_file_unmap(&torch->map);
    lvn_arena_release(&torch->arena);
    *torch = (struct lvn_torch){0};
}

bool lvn_torch_tensor(const struct lvn_pickle *value, struct lvn_torch_tensor *out)
{
    const struct object *object = get_object(value, true);
    if (!object) return false;
    *out = (struct lvn_torch_tensor){.desc = object->desc, .data = object->storage->data};
    return true;
}
