/* gguf.c - reads and writes GGUF (gguf.h): headers are validated completely before any value or tensor is returned.
 * Blocks are read by gguf_types.c. Written metadata are collected as bytes; tensors are converted one at a time. */
#include "formats/gguf.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/list.h"
#include "base/output.h"

enum { ALIGNMENT = 32, LARGEST_ALIGNMENT = 1 << 16, LONGEST_NAME = 255 };

/* The part of the header that has not been read yet. */
struct reader {
    struct lvn_gguf *file;
    const unsigned char *at, *end;
};

static uint64_t little(const unsigned char *p, int bytes)
{
    uint64_t x = 0;
    for (int i = bytes - 1; i >= 0; i--) x = x << 8 | p[i];
    return x;
}

static enum lvn_status need(const struct reader *r, uint64_t bytes, const char *what)
{
    LVN_CHECK(bytes <= (uint64_t)(r->end - r->at), FORMAT,
              "'%s' ends within %s: it is truncated, or a length in it is wrong (%llu bytes are needed, %lld are left)",
              r->file->path, what, (unsigned long long)bytes, (long long)(r->end - r->at));
    return LVN_OK;
}

static enum lvn_status read_number(struct reader *r, int bytes, const char *what, uint64_t *out)
{
    LVN_TRY(need(r, (uint64_t)bytes, what));
    *out = little(r->at, bytes);
    r->at += bytes;
    return LVN_OK;
}

/* A name: short, printable, without NUL. */
static enum lvn_status read_name(struct reader *r, const char *what, const char **out)
{
    uint64_t n;
    LVN_TRY(read_number(r, 8, what, &n));
    LVN_TRY(need(r, n, what));
    LVN_CHECK(n > 0 && n <= LONGEST_NAME, FORMAT, "'%s': %s has %llu bytes; from 1 to %d are supported", r->file->path,
              what, (unsigned long long)n, LONGEST_NAME);
    char *copy = lvn_arena_alloc(&r->file->arena, (size_t)n + 1);
    if (!copy) return LVN_MEMORY;
    for (uint64_t i = 0; i < n; i++) {
        LVN_CHECK(r->at[i] >= ' ' && r->at[i] != 0x7f, FORMAT, "'%s': %s has the byte 0x%02x", r->file->path, what,
                  r->at[i]);
        copy[i] = (char)r->at[i];
    }
    r->at += n;
    *out = copy;
    return LVN_OK;
}

/* --- metadata --- */

static const int kind_bytes[] = {
    [LVN_GGUF_U8] = 1,  [LVN_GGUF_I8] = 1,  [LVN_GGUF_U16] = 2,  [LVN_GGUF_I16] = 2, [LVN_GGUF_U32] = 4,
    [LVN_GGUF_I32] = 4, [LVN_GGUF_F32] = 4, [LVN_GGUF_BOOL] = 1, [LVN_GGUF_U64] = 8, [LVN_GGUF_STRING] = 0,
    [LVN_GGUF_I64] = 8, [LVN_GGUF_F64] = 8, [LVN_GGUF_LIST] = 0};
enum { N_KINDS = sizeof kind_bytes / sizeof kind_bytes[0] };

static enum lvn_status read_kind(struct reader *r, const struct lvn_gguf_value *v, enum lvn_gguf_kind *out)
{
    uint64_t kind;
    LVN_TRY(read_number(r, 4, "its metadata", &kind));
    LVN_CHECK(kind < N_KINDS, FORMAT, "'%s': the value of '%s' has the unknown type %llu", r->file->path, v->key,
              (unsigned long long)kind);
    *out = (enum lvn_gguf_kind)kind;
    return LVN_OK;
}

static enum lvn_status read_value(struct reader *r, struct lvn_gguf_value *v)
{
    uint64_t n = 1;
    LVN_TRY(read_name(r, "a key of its metadata", &v->key));
    LVN_TRY(read_kind(r, v, &v->kind));
    v->list = v->kind == LVN_GGUF_LIST;
    if (v->list) {
        LVN_TRY(read_kind(r, v, &v->kind));
        LVN_CHECK(v->kind != LVN_GGUF_LIST, UNSUPPORTED, "'%s': '%s' is a list of lists, which levin does not read",
                  r->file->path, v->key);
        LVN_TRY(read_number(r, 8, "its metadata", &n));
    }
    const int each = kind_bytes[v->kind];
    LVN_CHECK(n <= (uint64_t)(r->end - r->at) / (uint64_t)(each ? each : 8), FORMAT,
              "'%s': '%s' has %llu items, more than the file holds: it is truncated, or the number is wrong",
              r->file->path, v->key, (unsigned long long)n);
    v->n = (int64_t)n;
    v->data = r->at;
    if (each) r->at += n * (uint64_t)each;
    for (uint64_t i = 0; i < n && !each; i++) {
        uint64_t bytes;
        LVN_TRY(read_number(r, 8, "a string of its metadata", &bytes));
        LVN_TRY(need(r, bytes, "a string of its metadata"));
        r->at += bytes;
    }
    return LVN_OK;
}

static enum lvn_status read_values(struct reader *r, uint64_t n)
{
    struct lvn_gguf *file = r->file;
    LVN_CHECK(n <= (uint64_t)(r->end - r->at) / 13, FORMAT, /* a key of one letter, its type and one byte */
              "'%s' announces %llu metadata entries, more than it holds: it is truncated or damaged", file->path,
              (unsigned long long)n);
    file->value = lvn_arena_alloc(&file->arena, (size_t)(n + 1) * sizeof *file->value);
    if (!file->value) return LVN_MEMORY;
    for (; file->n_values < (int)n; file->n_values++) LVN_TRY(read_value(r, &file->value[file->n_values]));
    if (n) qsort(file->value, (size_t)n, sizeof *file->value, lvn_by_text);
    for (uint64_t i = 1; i < n; i++)
        LVN_CHECK(strcmp(file->value[i].key, file->value[i - 1].key) != 0, FORMAT, "'%s' has '%s' twice", file->path,
                  file->value[i].key);
    return LVN_OK;
}

const struct lvn_gguf_value *lvn_gguf_find(const struct lvn_gguf *file, const char *key)
{
    const struct lvn_gguf_value wanted = {.key = key};
    return file->n_values ? bsearch(&wanted, file->value, (size_t)file->n_values, sizeof wanted, lvn_by_text) : NULL;
}

double lvn_gguf_number(const struct lvn_gguf_value *v, int64_t i)
{
    const int bytes = kind_bytes[v->kind];
    const uint64_t x = bytes ? little(v->data + i * bytes, bytes) : 0;
    float single;
    double wide;
    switch (v->kind) {
    case LVN_GGUF_I8:
        return (int8_t)x;
    case LVN_GGUF_I16:
        return (int16_t)x;
    case LVN_GGUF_I32:
        return (int32_t)x;
    case LVN_GGUF_I64:
        return (double)(int64_t)x;
    case LVN_GGUF_F32:
        memcpy(&single, v->data + i * bytes, sizeof single);
        return single;
    case LVN_GGUF_F64:
        memcpy(&wide, &x, sizeof wide);
        return wide;
    case LVN_GGUF_BOOL:
        return x != 0;
    default:
        return (double)x;
    }
}

void lvn_gguf_next(const unsigned char **at, const char **text, int64_t *bytes)
{
    *bytes = (int64_t)little(*at, 8);
    *text = (const char *)*at + 8;
    *at += 8 + *bytes;
}

static const char *const kind_names[] = {
    [LVN_GGUF_U8] = "whole numbers",  [LVN_GGUF_I8] = "whole numbers",  [LVN_GGUF_U16] = "whole numbers",
    [LVN_GGUF_I16] = "whole numbers", [LVN_GGUF_U32] = "whole numbers", [LVN_GGUF_I32] = "whole numbers",
    [LVN_GGUF_F32] = "fp32 numbers",  [LVN_GGUF_BOOL] = "truth values", [LVN_GGUF_STRING] = "strings",
    [LVN_GGUF_LIST] = "lists",        [LVN_GGUF_U64] = "whole numbers", [LVN_GGUF_I64] = "whole numbers",
    [LVN_GGUF_F64] = "fp64 numbers"};

static enum lvn_status find_required(const struct lvn_gguf *file, const char *key, bool required,
                                     const struct lvn_gguf_value **out)
{
    *out = lvn_gguf_find(file, key);
    LVN_CHECK(*out || !required, FORMAT, "'%s' has no '%s' in its metadata", file->path, key);
    return LVN_OK;
}

enum lvn_status lvn_gguf_list(const struct lvn_gguf *file, const char *key, enum lvn_gguf_kind kind, bool required,
                              const struct lvn_gguf_value **out)
{
    LVN_TRY(find_required(file, key, required, out));
    LVN_CHECK(!*out || ((*out)->list && strcmp(kind_names[(*out)->kind], kind_names[kind]) == 0), FORMAT,
              "'%s': '%s' must be a list of %s", file->path, key, kind_names[kind]);
    return LVN_OK;
}

enum lvn_status lvn_gguf_string(struct lvn_gguf *file, const char *key, bool required, const char **out)
{
    const struct lvn_gguf_value *v;
    const char *text;
    int64_t bytes;
    *out = NULL;
    LVN_TRY(find_required(file, key, required, &v));
    if (!v) return LVN_OK;
    LVN_CHECK(v->kind == LVN_GGUF_STRING && !v->list, FORMAT, "'%s': '%s' must be a string", file->path, key);
    const unsigned char *at = v->data;
    lvn_gguf_next(&at, &text, &bytes);
    LVN_CHECK(lvn_utf8_check(text, bytes) < 0 && !memchr(text, 0, (size_t)bytes), FORMAT,
              "'%s': '%s' is not text in UTF-8", file->path, key);
    char *copy = lvn_arena_alloc(&file->arena, (size_t)bytes + 1);
    if (!copy) return LVN_MEMORY;
    if (bytes) memcpy(copy, text, (size_t)bytes);
    *out = copy;
    return LVN_OK;
}

enum lvn_status lvn_gguf_int(const struct lvn_gguf *file, const char *key, bool required, int64_t low, int64_t high,
                             int64_t *out)
{
    const struct lvn_gguf_value *v;
    LVN_TRY(find_required(file, key, required, &v));
    if (!v) return LVN_OK;
    const double x = !v->list ? lvn_gguf_number(v, 0) : NAN;
    const bool whole = !v->list && v->kind != LVN_GGUF_STRING && x == floor(x);
    LVN_CHECK(whole && x >= (double)low && x <= (double)high, FORMAT,
              "'%s': '%s' must be a whole number between %lld and %lld", file->path, key, (long long)low,
              (long long)high);
    *out = (int64_t)x;
    return LVN_OK;
}

enum lvn_status lvn_gguf_bool(const struct lvn_gguf *file, const char *key, bool *out)
{
    const struct lvn_gguf_value *v = lvn_gguf_find(file, key);
    if (!v) return LVN_OK;
    LVN_CHECK(v->kind == LVN_GGUF_BOOL && !v->list, FORMAT, "'%s': '%s' must be true or false", file->path, key);
    *out = lvn_gguf_number(v, 0) != 0;
    return LVN_OK;
}

/* --- tensors --- */

static enum lvn_status read_shape(struct reader *r, struct lvn_gguf_tensor *t)
{
    const char *path = r->file->path;
    uint64_t rank, dim;
    int64_t dims[LVN_MAX_RANK];
    LVN_TRY(read_number(r, 4, "its list of tensors", &rank));
    LVN_CHECK(rank >= 1 && rank <= LVN_MAX_RANK, FORMAT, "'%s', tensor '%s' has %llu dimensions, expected 1 to %d",
              path, t->name, (unsigned long long)rank, LVN_MAX_RANK);
    for (uint64_t i = rank; i-- > 0;) {
        LVN_TRY(read_number(r, 8, "its list of tensors", &dim));
        LVN_CHECK(dim >= 1 && dim <= INT64_MAX, FORMAT, "'%s', tensor '%s': a dimension is %llu", path, t->name,
                  (unsigned long long)dim);
        dims[i] = (int64_t)dim;
    }
    t->desc = lvn_desc_make(LVN_F32, (int)rank, dims);
    LVN_CHECK(lvn_desc_count(&t->desc) > 0, FORMAT, "'%s', tensor '%s': its shape has more values than can be counted",
              path, t->name);
    return LVN_OK;
}

static enum lvn_status read_tensor(struct reader *r, struct lvn_gguf_tensor *t, uint64_t *offset)
{
    const char *path = r->file->path;
    uint64_t id;
    LVN_TRY(read_name(r, "a tensor's name", &t->name));
    LVN_TRY(read_shape(r, t));
    LVN_TRY(read_number(r, 4, "its list of tensors", &id));
    LVN_TRY(read_number(r, 8, "its list of tensors", offset));
    t->type = lvn_gguf_type_of(id);
    if (!t->type) {
        LVN_LOCAL_TEXT(names);
        lvn_gguf_type_names(&names, false);
        LVN_FAIL(UNSUPPORTED, "'%s', tensor '%s' has the type %s, which levin does not read; it reads %s", path,
                 t->name, lvn_gguf_foreign_name(id), names.p ? names.p : "");
    }
    const int64_t row = t->desc.dim[t->desc.rank - 1], count = lvn_desc_count(&t->desc);
    t->desc.dtype = t->type->dtype;
    LVN_CHECK(row % t->type->values == 0, FORMAT,
              "'%s', tensor '%s': its rows have %lld values, which is not a multiple of %d, the block size of %s", path,
              t->name, (long long)row, t->type->values, t->type->name);
    LVN_CHECK(!__builtin_mul_overflow(count / t->type->values, (int64_t)t->type->bytes, &t->bytes), FORMAT,
              "'%s', tensor '%s': its shape has more bytes than can be counted", path, t->name);
    return LVN_OK;
}

static int by_data(const void *a, const void *b)
{
    const struct lvn_gguf_tensor *first = a, *second = b;
    return ((const char *)first->data > (const char *)second->data) -
           ((const char *)first->data < (const char *)second->data);
}

/* Sort by name, and check that no two tensors have a name or a byte in common. */
static enum lvn_status check_tensors(struct lvn_gguf *file)
{
    if (file->n) qsort(file->tensor, (size_t)file->n, sizeof *file->tensor, by_data);
    for (int i = 1; i < file->n; i++) {
        const struct lvn_gguf_tensor *before = &file->tensor[i - 1], *t = &file->tensor[i];
        LVN_CHECK((const char *)before->data + before->bytes <= (const char *)t->data, FORMAT,
                  "'%s', tensors '%s' and '%s' overlap", file->path, before->name, t->name);
    }
    if (file->n) qsort(file->tensor, (size_t)file->n, sizeof *file->tensor, lvn_by_text);
    for (int i = 1; i < file->n; i++)
        LVN_CHECK(strcmp(file->tensor[i].name, file->tensor[i - 1].name) != 0, FORMAT, "'%s' has the tensor '%s' twice",
                  file->path, file->tensor[i].name);
    return LVN_OK;
}

static enum lvn_status read_tensors(struct reader *r, const unsigned char *bytes, uint64_t n)
{
    struct lvn_gguf *file = r->file;
    int64_t align = ALIGNMENT;
    LVN_TRY(lvn_gguf_int(file, "general.alignment", false, 1, LARGEST_ALIGNMENT, &align));
    LVN_CHECK((align & (align - 1)) == 0, FORMAT, "'%s': general.alignment is %lld, which is not a power of two",
              file->path, (long long)align);
    LVN_CHECK(n <= (uint64_t)(r->end - r->at) / 33, FORMAT, /* a name of one letter, one dimension, type, offset */
              "'%s' announces %llu tensors, more than it holds: it is truncated or damaged", file->path,
              (unsigned long long)n);
    file->tensor = lvn_arena_alloc(&file->arena, (size_t)(n + 1) * sizeof *file->tensor);
    uint64_t *offset = lvn_arena_alloc(&file->arena, (size_t)(n + 1) * sizeof *offset);
    if (!file->tensor || !offset) return LVN_MEMORY;
    for (; file->n < (int)n; file->n++) LVN_TRY(read_tensor(r, &file->tensor[file->n], &offset[file->n]));
    const int64_t pad = (align - (r->at - bytes) % align) % align, left = r->end - r->at;
    const int64_t data_bytes = left > pad ? left - pad : 0;
    const unsigned char *data = left > pad ? r->at + pad : r->end;
    for (int i = 0; i < file->n; i++) {
        struct lvn_gguf_tensor *t = &file->tensor[i];
        LVN_CHECK(offset[i] % (uint64_t)align == 0, FORMAT,
                  "'%s', tensor '%s' begins at byte %llu of the data, which is not a multiple of %lld "
                  "(general.alignment)",
                  file->path, t->name, (unsigned long long)offset[i], (long long)align);
        LVN_CHECK(t->bytes <= data_bytes && offset[i] <= (uint64_t)(data_bytes - t->bytes), FORMAT,
                  "'%s', tensor '%s' has %lld bytes from byte %llu of the data, but the file has only %lld: it is "
                  "truncated or its header is wrong",
                  file->path, t->name, (long long)t->bytes, (unsigned long long)offset[i], (long long)data_bytes);
        t->data = data + offset[i];
    }
    return check_tensors(file);
}

/* --- the file --- */

static enum lvn_status read_file(struct lvn_gguf *file, const unsigned char *bytes, int64_t n)
{
    struct reader r = {.file = file, .at = bytes, .end = bytes + n};
    uint64_t version, n_tensors, n_values;
    LVN_CHECK(n >= 4 && memcmp(bytes, "GGUF", 4) == 0, FORMAT, "'%s' is not a GGUF file: it does not begin with GGUF",
              file->path);
    r.at += 4;
    LVN_TRY(read_number(&r, 4, "its header", &version));
    LVN_CHECK(!version || (version & 0xffff), UNSUPPORTED, "'%s' is a big-endian GGUF file, which levin does not read",
              file->path);
    LVN_CHECK(version == 2 || version == 3, UNSUPPORTED, "'%s' has GGUF version %llu; levin reads versions 2 and 3",
              file->path, (unsigned long long)version);
    LVN_TRY(read_number(&r, 8, "its header", &n_tensors));
    LVN_TRY(read_number(&r, 8, "its header", &n_values));
    LVN_CHECK(n_tensors < INT32_MAX && n_values < INT32_MAX, FORMAT,
              "'%s' announces %llu tensors and %llu metadata entries: its header is damaged", file->path,
              (unsigned long long)n_tensors, (unsigned long long)n_values);
    LVN_TRY(read_values(&r, n_values));
    return read_tensors(&r, bytes, n_tensors);
}

bool lvn_gguf_is_file(const char *path)
{
    char magic[4];
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return false;
    const bool is = read(fd, magic, sizeof magic) == (ssize_t)sizeof magic && memcmp(magic, "GGUF", sizeof magic) == 0;
    close(fd);
    return is || (lvn_ends_with(path, ".gguf") && lvn_path_is_file(path));
}

const char *lvn_gguf_part(struct lvn_arena *a, const char *path, int part, int *parts)
{
    static const char form[] = "-00001-of-00003.gguf";
    const size_t n = sizeof form - 1, all = strlen(path);
    bool is = all > n;
    *parts = 1;
    for (size_t i = 0; i < n && is; i++) {
        const char c = path[all - n + i];
        is = isdigit((unsigned char)form[i]) ? isdigit((unsigned char)c) != 0 : c == form[i];
    }
    const int count = is ? (int)strtol(path + all - n + sizeof "-00001-of-" - 1, NULL, 10) : 0;
    if (count < 2) return NULL;
    *parts = count;
    return lvn_arena_printf(a, "%.*s-%05d-of-%05d.gguf", (int)(all - n), path, part, count);
}

enum lvn_status lvn_gguf_parse(struct lvn_gguf *file, const char *name, const void *data, int64_t bytes)
{
    *file = (struct lvn_gguf){0};
    lvn_arena_init(&file->arena);
    file->path = lvn_arena_strdup(&file->arena, name);
    enum lvn_status status = file->path ? read_file(file, data, bytes) : LVN_MEMORY;
    if (status != LVN_OK) lvn_gguf_close(file);
    return status;
}

enum lvn_status lvn_gguf_open(struct lvn_gguf *file, const char *path)
{
    struct lvn_mapping map;
    *file = (struct lvn_gguf){0};
    LVN_TRY(lvn_file_map(&map, path));
    enum lvn_status status = lvn_gguf_parse(file, path, map.data, map.bytes);
    if (status == LVN_OK)
        file->map = map;
    else
        lvn_file_unmap(&map);
    return status;
}

void lvn_gguf_close(struct lvn_gguf *file)
{
    lvn_file_unmap(&file->map);
    lvn_arena_release(&file->arena);
    *file = (struct lvn_gguf){0};
}

/* --- writing --- */

enum { VERSION = 3 };

static void add_number(struct lvn_text *t, uint64_t x, int bytes)
{
    unsigned char b[8];
    for (int i = 0; i < bytes; i++) b[i] = (unsigned char)(x >> 8 * i);
    lvn_text_add_bytes(t, b, bytes);
}

static void add_string(struct lvn_text *t, const char *text, int64_t bytes)
{
    add_number(t, (uint64_t)bytes, 8);
    lvn_text_add_bytes(t, text, bytes);
}

static void begin_value(struct lvn_gguf_writer *w, const char *key, enum lvn_gguf_kind kind)
{
    add_string(&w->metadata, key, (int64_t)strlen(key));
    add_number(&w->metadata, kind, 4);
    w->n++;
}

void lvn_gguf_put_int(struct lvn_gguf_writer *w, const char *key, enum lvn_gguf_kind kind, int64_t value)
{
    begin_value(w, key, kind);
    add_number(&w->metadata, (uint64_t)value, kind == LVN_GGUF_BOOL ? 1 : 4);
}

void lvn_gguf_put_real(struct lvn_gguf_writer *w, const char *key, double value)
{
    begin_value(w, key, LVN_GGUF_F32);
    lvn_gguf_item_real(w, (float)value);
}

void lvn_gguf_put_string(struct lvn_gguf_writer *w, const char *key, const char *text, int64_t bytes)
{
    begin_value(w, key, LVN_GGUF_STRING);
    add_string(&w->metadata, text, bytes);
}

void lvn_gguf_put_list(struct lvn_gguf_writer *w, const char *key, enum lvn_gguf_kind kind, int64_t n)
{
    begin_value(w, key, LVN_GGUF_LIST);
    add_number(&w->metadata, kind, 4);
    add_number(&w->metadata, (uint64_t)n, 8);
}

void lvn_gguf_item_string(struct lvn_gguf_writer *w, const char *text, int64_t bytes)
{
    add_string(&w->metadata, text, bytes);
}

void lvn_gguf_item_int(struct lvn_gguf_writer *w, int32_t value)
{
    add_number(&w->metadata, (uint32_t)value, 4);
}

void lvn_gguf_item_real(struct lvn_gguf_writer *w, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    add_number(&w->metadata, bits, 4);
}

void lvn_gguf_writer_release(struct lvn_gguf_writer *w)
{
    lvn_text_release(&w->metadata);
    *w = (struct lvn_gguf_writer){0};
}

/* --- a file --- */

/* The type of a tensor in a file of type `type`: vectors are fp32, and matrices whose rows are not a multiple of a
 * block are fp16. */
static const struct lvn_gguf_type *type_of(const struct lvn_desc *d, const struct lvn_gguf_type *type)
{
    if (d->rank < 2) return lvn_gguf_type_of(0);
    return d->dim[d->rank - 1] % type->values == 0 ? type : lvn_gguf_type_find("F16");
}

static int64_t bytes_of(const struct lvn_desc *d, const struct lvn_gguf_type *type)
{
    return lvn_desc_count(d) / type->values * type->bytes;
}

static enum lvn_status make_header(struct lvn_text *t, const struct lvn_gguf_writer *w,
                                   const struct lvn_safetensors_source *source, const struct lvn_gguf_type *type)
{
    int64_t at = 0;
    lvn_text_add(t, "GGUF");
    add_number(t, VERSION, 4);
    add_number(t, (uint64_t)source->n, 8);
    add_number(t, (uint64_t)w->n, 8);
    lvn_text_add_bytes(t, w->metadata.p, w->metadata.n);
    for (int i = 0; i < source->n; i++) {
        const struct lvn_safetensors_item *item = &source->item[i];
        const struct lvn_gguf_type *own = type_of(&item->desc, type);
        add_string(t, item->name, (int64_t)strlen(item->name));
        add_number(t, (uint64_t)item->desc.rank, 4);
        for (int k = item->desc.rank - 1; k >= 0; k--) add_number(t, (uint64_t)item->desc.dim[k], 8);
        add_number(t, (uint64_t)own->id, 4);
        add_number(t, (uint64_t)at, 8);
        at += (bytes_of(&item->desc, own) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    while (t->n % ALIGNMENT && !t->failed) lvn_text_add_bytes(t, "", 1);
    return lvn_text_status(t);
}

static enum lvn_status check_range(const struct lvn_safetensors_item *item, const struct lvn_gguf_type *type,
                                   const float *x, int64_t n)
{
    /* from 65520 on, fp16 rounds to infinity; blocks of Q8_0 store 1/127 of their largest value in fp16 */
    const float largest = type->dtype == LVN_F16 ? 65519.0F : type->write ? 65519.0F * 127 : INFINITY;
    for (int64_t i = 0; i < n && largest < INFINITY; i++)
        LVN_CHECK(fabsf(x[i]) <= largest, NONFINITE,
                  "tensor '%.120s' has the value %g, which does not fit the type %s: write f32 or bf16", item->name,
                  (double)x[i], type->name);
    return LVN_OK;
}

static enum lvn_status write_tensor(struct lvn_output *output, const struct lvn_safetensors_item *item,
                                    const struct lvn_gguf_type *type, const float *values)
{
    enum { STEP = 4096 }; /* values at a time, a multiple of all blocks */
    unsigned char part[STEP * sizeof(float)] = {0};
    const int64_t count = lvn_desc_count(&item->desc);
    for (int64_t i = 0; i < count; i += STEP) {
        const int64_t n = count - i < STEP ? count - i : STEP;
        LVN_TRY(check_range(item, type, values + i, n));
        for (int64_t k = 0; k < n && type->write; k += type->values)
            type->write(values + i + k, part + k / type->values * type->bytes);
        if (!type->write) lvn_tensor_from_f32(type->dtype, values + i, part, n);
        LVN_TRY(lvn_output_write(output, part, n / type->values * type->bytes));
    }
    const int64_t pad = (ALIGNMENT - bytes_of(&item->desc, type) % ALIGNMENT) % ALIGNMENT;
    return lvn_output_write(output, (const char[ALIGNMENT]){0}, pad);
}

static enum lvn_status write_all(struct lvn_output *output, const struct lvn_text *header,
                                 const struct lvn_safetensors_source *source, const struct lvn_gguf_type *type)
{
    LVN_TRY(lvn_output_write(output, header->p, header->n));
    for (int i = 0; i < source->n; i++) {
        const struct lvn_safetensors_item *item = &source->item[i];
        const void *data = item->data;
        if (!data) LVN_TRY(source->fetch(source->context, i, &data));
        LVN_TRY(write_tensor(output, item, type_of(&item->desc, type), data));
    }
    return LVN_OK;
}

enum lvn_status lvn_gguf_write(const char *path, const struct lvn_gguf_writer *w,
                               const struct lvn_safetensors_source *source, const struct lvn_gguf_type *type)
{
    LVN_LOCAL_TEXT(header);
    struct lvn_output output;
    LVN_TRY(lvn_text_status(&w->metadata));
    LVN_TRY(make_header(&header, w, source, type));
    LVN_TRY(lvn_output_open(&output, path));
    enum lvn_status status = write_all(&output, &header, source, type);
    if (status != LVN_OK && output.status == LVN_OK) output.status = status; /* skip the fsync */
    status = lvn_output_close(&output);
    if (status != LVN_OK) unlink(path);
    return status;
}
