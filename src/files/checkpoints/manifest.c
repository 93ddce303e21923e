/* manifest.c - see manifest.h: reads and writes the manifest, and verifies files against it.
 *
 * Files are read, not mapped, for verification, so that a disk error is an error and not a signal. */
#include "checkpoints/manifest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/input.h"
#include "formats/checksum.h"
#include "formats/json.h"
#include "stores/store.h"

enum { VERSION = 2, LARGEST = 256 << 20, PART_BYTES = 1 << 20 };

static const char manifest_path[] = LVN_MANIFEST_PATH;

/* --- writing --- */

static json_t *sum_json(uint64_t sum)
{
    char text[LVN_CHECKSUM_TEXT];
    return json_string(lvn_checksum_text(sum, text));
}

static json_t *file_json(const struct lvn_manifest_file *file)
{
    json_t *json = json_object();
    json_object_set_new(json, "path", json_string(file->path));
    json_object_set_new(json, "bytes", json_integer(file->bytes));
    json_object_set_new(json, "sum", sum_json(file->sum));
    if (!file->tensors) return json;
    json_object_set_new(json, "header_bytes", json_integer(file->start));
    json_t *tensors = json_array();
    for (int i = 0; i < file->n; i++) {
        json_t *tensor = json_array();
        json_array_append_new(tensor, json_string(file->tensor[i].name));
        json_array_append_new(tensor, json_integer(file->tensor[i].bytes));
        json_array_append_new(tensor, sum_json(file->tensor[i].sum));
        json_array_append_new(tensors, tensor);
    }
    json_object_set_new(json, "tensors", tensors);
    return json;
}

static enum lvn_status manifest_sum(long begun, const json_t *manifest, uint64_t *sum)
{
    LVN_LOCAL_TEXT(t);
    lvn_json_add(&t, begun, manifest, 0);
    enum lvn_status status = lvn_text_status(&t);
    if (status == LVN_OK) *sum = lvn_checksum(t.p, t.n);
    return status;
}

/* --- the score --- */

static const char default_score[] = "val_loss";

static bool is_default_score(const struct lvn_checkpoint_score *s)
{
    return !s->higher && !strcmp(s->name, default_score);
}

static json_t *score_json(const struct lvn_checkpoint_score *s)
{
    return json_pack("{s:s, s:s, s:o}", "name", s->name, "mode", s->higher ? "max" : "min", "value",
                     lvn_json_number(s->value));
}

static enum lvn_status read_score(const char *name, const json_t *m, struct lvn_manifest *out)
{
    const json_t *score = json_object_get(m, "score");
    const char *score_name = default_score, *mode = "min";
    double value = score ? (double)NAN : out->val_loss;
    if (score) {
        LVN_TRY(lvn_json_string(name, score, "name", true, &score_name));
        LVN_TRY(lvn_json_string(name, score, "mode", true, &mode));
        LVN_TRY(lvn_json_real(name, score, "value", false, &value));
    }
    out->score = (struct lvn_checkpoint_score){.higher = strcmp(mode, "max") == 0, .value = value};
    snprintf(out->score.name, sizeof out->score.name, "%s", score_name);
    return LVN_OK;
}

/* --- the whole manifest --- */

enum lvn_status lvn_manifest_write(const char *checkpoint, const struct lvn_manifest *manifest)
{
    long begun = lvn_json_begin();
    json_t *json = json_object(), *files = json_array(), *top = json_object();
    json_object_set_new(json, "version", json_integer(VERSION));
    json_object_set_new(json, "step", json_integer(manifest->step));
    json_object_set_new(json, "val_loss", lvn_json_number(manifest->val_loss));
    if (!is_default_score(&manifest->score)) json_object_set_new(json, "score", score_json(&manifest->score));
    for (int i = 0; i < manifest->n; i++) json_array_append_new(files, file_json(&manifest->file[i]));
    json_object_set_new(json, "files", files);
    uint64_t sum = 0;
    enum lvn_status status = manifest_sum(begun, json, &sum);
    json_object_set_new(top, "manifest", json);
    json_object_set_new(top, "sum", sum_json(sum));
    LVN_LOCAL_ARENA(a);
    char *path = lvn_path_join(&a, checkpoint, manifest_path);
    if (status == LVN_OK) status = path ? lvn_json_write(path, begun, top) : LVN_MEMORY;
    json_decref(top);
    LVN_TRY_WHILE(status, "writing the manifest of '%s'", checkpoint);
    return LVN_OK;
}

/* --- reading --- */

static enum lvn_status read_sum(const char *name, const json_t *v, uint64_t *sum)
{
    const char *text = json_string_value(v);
    LVN_CHECK(text && strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16, FORMAT,
              "%s: a checksum is not 16 hexadecimal digits", name);
    *sum = strtoull(text, NULL, 16);
    return LVN_OK;
}

/* True if the path is relative and without "..", because a manifest must not direct reads elsewhere. */
static bool path_is_inside(const char *path)
{
    if (!*path || *path == '/') return false;
    for (const char *p = path; p; p = strchr(p, '/')) {
        if (*p == '/') p++;
        if (strncmp(p, "..", 2) == 0 && (p[2] == '/' || p[2] == '\0')) return false;
    }
    return true;
}

static enum lvn_status read_tensors(struct lvn_arena *a, const char *name, const json_t *list,
                                    struct lvn_manifest_file *file)
{
    LVN_CHECK(json_is_array(list), FORMAT, "%s, file '%s': 'tensors' must be a list", name, file->path);
    file->tensors = true;
    file->n = (int)json_array_size(list);
    file->tensor = lvn_arena_alloc(a, (size_t)file->n * sizeof *file->tensor);
    if (!file->tensor) return LVN_MEMORY;
    int64_t total = file->start;
    for (int i = 0; i < file->n; i++) {
        const json_t *v = json_array_get(list, (size_t)i), *bytes = json_array_get(v, 1);
        const char *tensor = json_string_value(json_array_get(v, 0));
        LVN_CHECK(tensor && json_is_integer(bytes) && json_integer_value(bytes) >= 0, FORMAT,
                  "%s, file '%s': tensor %d must be a name, a size and a checksum", name, file->path, i);
        file->tensor[i].name = lvn_arena_strdup(a, tensor);
        if (!file->tensor[i].name) return LVN_MEMORY;
        file->tensor[i].bytes = json_integer_value(bytes);
        LVN_TRY(read_sum(name, json_array_get(v, 2), &file->tensor[i].sum));
        if (__builtin_add_overflow(total, file->tensor[i].bytes, &total)) total = -1;
        LVN_CHECK(total >= 0 && total <= file->bytes, FORMAT, "%s, file '%s': its tensors are larger than the file",
                  name, file->path);
    }
    LVN_CHECK(total == file->bytes, FORMAT, "%s, file '%s': its tensors are smaller than the file", name, file->path);
    return LVN_OK;
}

static enum lvn_status read_file_entry(struct lvn_arena *a, const char *name, const json_t *entry,
                                       struct lvn_manifest_file *file)
{
    const char *path = NULL;
    LVN_TRY(lvn_json_string(name, entry, "path", true, &path));
    LVN_CHECK(path_is_inside(path), FORMAT, "%s: the path '%s' leads out of the checkpoint", name, path);
    file->path = lvn_arena_strdup(a, path);
    if (!file->path) return LVN_MEMORY;
    LVN_TRY(lvn_json_int(name, entry, "bytes", true, 0, INT64_MAX, &file->bytes));
    LVN_TRY(read_sum(name, json_object_get(entry, "sum"), &file->sum));
    file->start = file->bytes;
    LVN_TRY(lvn_json_int(name, entry, "header_bytes", false, 0, file->bytes, &file->start));
    const json_t *tensors = json_object_get(entry, "tensors");
    LVN_CHECK(tensors || file->start == file->bytes, FORMAT, "%s, file '%s': 'tensors' is missing", name, path);
    return tensors ? read_tensors(a, name, tensors, file) : LVN_OK;
}

static enum lvn_status read_top(struct lvn_arena *a, const char *name, const json_t *top, struct lvn_manifest *out)
{
    const json_t *m = json_object_get(top, "manifest"), *files = json_object_get(m, "files");
    int64_t version = 0;
    uint64_t recorded = 0, found = 0;
    LVN_CHECK(json_is_object(m), FORMAT, "%s: 'manifest' must be an object", name);
    LVN_TRY(read_sum(name, json_object_get(top, "sum"), &recorded));
    LVN_TRY(manifest_sum(lvn_json_begin(), m, &found));
    LVN_CHECK(recorded == found, FORMAT, "%s does not match its own checksum: it is damaged", name);
    LVN_TRY(lvn_json_int(name, m, "version", true, 1, INT64_MAX, &version));
    LVN_CHECK(version == VERSION, UNSUPPORTED,
              "%s: the manifest has version %lld, but this levin supports version %d; use the levin that wrote it",
              name, (long long)version, VERSION);
    LVN_TRY(lvn_json_int(name, m, "step", true, 0, INT64_MAX, &out->step));
    LVN_TRY(lvn_json_real(name, m, "val_loss", false, &out->val_loss));
    LVN_TRY(read_score(name, m, out));
    LVN_CHECK(json_is_array(files), FORMAT, "%s: 'files' must be a list", name);
    out->n = (int)json_array_size(files);
    out->file = lvn_arena_alloc(a, (size_t)out->n * sizeof *out->file);
    if (!out->file) return LVN_MEMORY;
    for (int i = 0; i < out->n; i++) LVN_TRY(read_file_entry(a, name, json_array_get(files, (size_t)i), &out->file[i]));
    return LVN_OK;
}

enum lvn_status lvn_manifest_parse(struct lvn_arena *a, const char *name, const char *text, int64_t bytes,
                                   struct lvn_manifest *out)
{
    *out = (struct lvn_manifest){.val_loss = NAN};
    json_t *top;
    LVN_TRY(lvn_json_parse(name, text, bytes, &top));
    enum lvn_status status = read_top(a, name, top, out);
    json_decref(top);
    return status;
}

enum lvn_status lvn_manifest_read(struct lvn_arena *a, const char *checkpoint, struct lvn_manifest *out)
{
    char *text, *path = lvn_store_join(a, checkpoint, manifest_path);
    enum lvn_store_kind kind;
    int64_t bytes;
    if (!path) return LVN_MEMORY;
    LVN_TRY(lvn_store_stat(path, &kind, &bytes));
    LVN_CHECK(kind == LVN_STORE_FILE, FORMAT, "'%s' has no %s: it is incomplete", checkpoint, manifest_path);
    LVN_TRY(lvn_store_read(path, LARGEST, &text, &bytes));
    enum lvn_status status = lvn_manifest_parse(a, path, text, bytes, out);
    free(text);
    return status;
}

/* --- files against the manifest --- */

/* The checksum of the next n bytes. */
static enum lvn_status sum_part(int fd, const char *path, int64_t n, char *buffer, uint64_t *sum)
{
    struct lvn_checksum checksum;
    lvn_checksum_init(&checksum);
    LVN_TRY(lvn_checksum_add_file(&checksum, fd, path, n, buffer, PART_BYTES));
    *sum = lvn_checksum_value(&checksum);
    return LVN_OK;
}

static enum lvn_status verify_sums(int fd, const char *path, const struct lvn_manifest_file *file, char *buffer)
{
    uint64_t sum = 0;
    LVN_TRY(sum_part(fd, path, file->start, buffer, &sum));
    LVN_CHECK(sum == file->sum, FORMAT, "'%s' is damaged: its %s not match the checksum in %s", path,
              file->tensors ? "header does" : "bytes do", manifest_path);
    for (int i = 0; i < file->n; i++) {
        LVN_TRY(sum_part(fd, path, file->tensor[i].bytes, buffer, &sum));
        LVN_CHECK(sum == file->tensor[i].sum, FORMAT, "'%s' is damaged: tensor '%s' does not match its checksum in %s",
                  path, file->tensor[i].name, manifest_path);
    }
    return LVN_OK;
}

static enum lvn_status verify_file(const char *path, const struct lvn_manifest_file *file, bool sums, char *buffer)
{
    int fd;
    LVN_CHECK(lvn_path_exists(path) || errno != ENOENT, FORMAT, "'%s' is missing", path);
    LVN_TRY(lvn_input_open(path, LVN_INPUT_REGULAR, &fd));
    struct stat s;
    enum lvn_status status = LVN_OK;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_size != file->bytes)
        status = lvn_fail(LVN_FORMAT, "'%s' is damaged: it has %lld bytes, %lld were written", path,
                          (long long)s.st_size, (long long)file->bytes);
    else if (sums)
        status = verify_sums(fd, path, file, buffer);
    close(fd);
    return status;
}

enum lvn_status lvn_manifest_verify(const char *checkpoint, const struct lvn_manifest *manifest,
                                    enum lvn_manifest_depth depth)
{
    char *buffer = lvn_malloc(PART_BYTES);
    enum lvn_status status = buffer ? LVN_OK : LVN_MEMORY;
    LVN_LOCAL_ARENA(a);
    for (int i = 0; i < manifest->n && status == LVN_OK; i++) {
        bool state = strncmp(manifest->file[i].path, "state/", 6) == 0;
        bool sums = depth == LVN_MANIFEST_ALL || (depth == LVN_MANIFEST_MODEL && !state);
        char *path = lvn_path_join(&a, checkpoint, manifest->file[i].path);
        /* A downloaded checkpoint may have the model only. */
        if (path && depth == LVN_MANIFEST_MODEL && state && !lvn_path_exists(path)) continue;
        status = path ? verify_file(path, &manifest->file[i], sums, buffer) : LVN_MEMORY;
    }
    free(buffer);
    return status;
}
