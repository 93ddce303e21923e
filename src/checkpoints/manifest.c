/* manifest.c - see manifest.h: reads and writes the manifest, and verifies files against it.
 *
 * Files are read, not mapped, for verification: a bad disk is then an error and not a signal. */
#include "checkpoints/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "base/input.h"
#include "formats/checksum.h"
#include "formats/json.h"
#include "stores/store.h"

enum { VERSION = 1, LARGEST = 256 << 20, PART_BYTES = 1 << 20 };

static const char manifest_path[] = LVN_MANIFEST_PATH;

/* --- writing --- */

static json_t *sum_json(uint64_t sum)
{
    char text[LVN_CHECKSUM_TEXT];
    return json_string(lvn_checksum_text(sum, text));
}

static json_t *file_json(const struct lvn_manifest_file *f)
{
    json_t *file = json_object();
    json_object_set_new(file, "path", json_string(f->path));
    json_object_set_new(file, "bytes", json_integer(f->bytes));
    json_object_set_new(file, "sum", sum_json(f->sum));
    if (!f->tensors) return file;
    json_object_set_new(file, "header_bytes", json_integer(f->start));
    json_t *tensors = json_array();
    for (int i = 0; i < f->n; i++) {
        json_t *tensor = json_array();
        json_array_append_new(tensor, json_string(f->tensor[i].name));
        json_array_append_new(tensor, json_integer(f->tensor[i].bytes));
        json_array_append_new(tensor, sum_json(f->tensor[i].sum));
        json_array_append_new(tensors, tensor);
    }
    json_object_set_new(file, "tensors", tensors);
    return file;
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
                     isfinite(s->value) ? json_real(s->value) : json_null());
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

enum lvn_status lvn_manifest_write(const char *checkpoint, const struct lvn_manifest *m)
{
    long begun = lvn_json_begin();
    json_t *manifest = json_object(), *files = json_array(), *top = json_object();
    json_object_set_new(manifest, "version", json_integer(VERSION));
    json_object_set_new(manifest, "step", json_integer(m->step));
    json_object_set_new(manifest, "val_loss", isfinite(m->val_loss) ? json_real(m->val_loss) : json_null());
    if (!is_default_score(&m->score)) json_object_set_new(manifest, "score", score_json(&m->score));
    for (int i = 0; i < m->n; i++) json_array_append_new(files, file_json(&m->file[i]));
    json_object_set_new(manifest, "files", files);
    uint64_t sum = 0;
    enum lvn_status status = manifest_sum(begun, manifest, &sum);
    json_object_set_new(top, "manifest", manifest);
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

/* Is the path relative and without ".."? A manifest must not direct reads elsewhere. */
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
                                    struct lvn_manifest_file *f)
{
    LVN_CHECK(json_is_array(list), FORMAT, "%s, file '%s': 'tensors' is not a list", name, f->path);
    f->tensors = true;
    f->n = (int)json_array_size(list);
    f->tensor = lvn_arena_alloc(a, (size_t)f->n * sizeof *f->tensor);
    if (!f->tensor) return LVN_MEMORY;
    int64_t total = f->start;
    for (int i = 0; i < f->n; i++) {
        const json_t *v = json_array_get(list, (size_t)i), *bytes = json_array_get(v, 1);
        const char *tensor = json_string_value(json_array_get(v, 0));
        LVN_CHECK(tensor && json_is_integer(bytes) && json_integer_value(bytes) >= 0, FORMAT,
                  "%s, file '%s': tensor %d is not a name, a size and a sum", name, f->path, i);
        f->tensor[i].name = lvn_arena_strdup(a, tensor);
        if (!f->tensor[i].name) return LVN_MEMORY;
        f->tensor[i].bytes = json_integer_value(bytes);
        LVN_TRY(read_sum(name, json_array_get(v, 2), &f->tensor[i].sum));
        if (__builtin_add_overflow(total, f->tensor[i].bytes, &total)) total = -1;
        LVN_CHECK(total >= 0 && total <= f->bytes, FORMAT, "%s, file '%s': its tensors are larger than the file", name,
                  f->path);
    }
    LVN_CHECK(total == f->bytes, FORMAT, "%s, file '%s': its tensors are smaller than the file", name, f->path);
    return LVN_OK;
}

static enum lvn_status read_file_entry(struct lvn_arena *a, const char *name, const json_t *entry,
                                       struct lvn_manifest_file *f)
{
    const char *path = NULL;
    LVN_TRY(lvn_json_string(name, entry, "path", true, &path));
    LVN_CHECK(path_is_inside(path), FORMAT, "%s: the path '%s' leads out of the checkpoint", name, path);
    f->path = lvn_arena_strdup(a, path);
    if (!f->path) return LVN_MEMORY;
    LVN_TRY(lvn_json_int(name, entry, "bytes", true, 0, INT64_MAX, &f->bytes));
    LVN_TRY(read_sum(name, json_object_get(entry, "sum"), &f->sum));
    f->start = f->bytes;
    LVN_TRY(lvn_json_int(name, entry, "header_bytes", false, 0, f->bytes, &f->start));
    const json_t *tensors = json_object_get(entry, "tensors");
    LVN_CHECK(tensors || f->start == f->bytes, FORMAT, "%s, file '%s': 'tensors' is missing", name, path);
    return tensors ? read_tensors(a, name, tensors, f) : LVN_OK;
}

static enum lvn_status read_top(struct lvn_arena *a, const char *name, const json_t *top, struct lvn_manifest *out)
{
    const json_t *m = json_object_get(top, "manifest"), *files = json_object_get(m, "files");
    int64_t version = 0;
    uint64_t recorded = 0, found = 0;
    LVN_TRY(lvn_json_int(name, m, "version", true, 1, INT64_MAX, &version));
    LVN_CHECK(version == VERSION, UNSUPPORTED, "%s: version %lld of the manifest, this levin reads version %d", name,
              (long long)version, VERSION);
    LVN_TRY(read_sum(name, json_object_get(top, "sum"), &recorded));
    LVN_TRY(manifest_sum(lvn_json_begin(), m, &found));
    LVN_CHECK(recorded == found, FORMAT, "%s does not match its own checksum: it is damaged", name);
    LVN_TRY(lvn_json_int(name, m, "step", true, 0, INT64_MAX, &out->step));
    LVN_TRY(lvn_json_real(name, m, "val_loss", false, &out->val_loss));
    LVN_TRY(read_score(name, m, out));
    LVN_CHECK(json_is_array(files), FORMAT, "%s: 'files' is not a list", name);
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
    LVN_CHECK(kind == LVN_STORE_FILE, FORMAT, "'%s' has no %s: it was not written to its end", checkpoint,
              manifest_path);
    LVN_TRY(lvn_store_read(path, LARGEST, &text, &bytes));
    enum lvn_status status = lvn_manifest_parse(a, path, text, bytes, out);
    free(text);
    return status;
}

/* --- files against the manifest --- */

/* The checksum of the next n bytes. */
static enum lvn_status sum_part(int fd, const char *path, int64_t n, char *buffer, uint64_t *sum)
{
    struct lvn_checksum c;
    lvn_checksum_init(&c);
    while (n > 0) {
        ssize_t got = read(fd, buffer, n < PART_BYTES ? (size_t)n : PART_BYTES);
        if (got < 0 && errno == EINTR) continue;
        LVN_CHECK(got >= 0, IO, "cannot read '%s': %s", path, strerror(errno));
        LVN_CHECK(got > 0, FORMAT, "'%s' became shorter while it was read", path);
        lvn_checksum_add(&c, buffer, got);
        n -= got;
    }
    *sum = lvn_checksum_value(&c);
    return LVN_OK;
}

static enum lvn_status verify_sums(int fd, const char *path, const struct lvn_manifest_file *f, char *buffer)
{
    uint64_t sum = 0;
    LVN_TRY(sum_part(fd, path, f->start, buffer, &sum));
    LVN_CHECK(sum == f->sum, FORMAT, "'%s' is damaged: its %s not match the checksum in %s", path,
              f->tensors ? "header does" : "bytes do", manifest_path);
    for (int i = 0; i < f->n; i++) {
        LVN_TRY(sum_part(fd, path, f->tensor[i].bytes, buffer, &sum));
        LVN_CHECK(sum == f->tensor[i].sum, FORMAT, "'%s' is damaged: tensor '%s' does not match its checksum in %s",
                  path, f->tensor[i].name, manifest_path);
    }
    return LVN_OK;
}

static enum lvn_status verify_file(const char *path, const struct lvn_manifest_file *f, bool sums, char *buffer)
{
    int fd;
    LVN_CHECK(lvn_path_exists(path) || errno != ENOENT, FORMAT, "'%s' is missing", path);
    LVN_TRY(lvn_input_open(path, LVN_INPUT_REGULAR, &fd));
    struct stat s;
    enum lvn_status status = LVN_OK;
    if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_size != f->bytes)
        status = lvn_fail(LVN_FORMAT, "'%s' is damaged: it has %lld bytes, %lld were written", path,
                          (long long)s.st_size, (long long)f->bytes);
    else if (sums)
        status = verify_sums(fd, path, f, buffer);
    close(fd);
    return status;
}

enum lvn_status lvn_manifest_verify(const char *checkpoint, const struct lvn_manifest *m, enum lvn_manifest_depth depth)
{
    char *buffer = lvn_malloc(PART_BYTES);
    enum lvn_status status = buffer ? LVN_OK : LVN_MEMORY;
    LVN_LOCAL_ARENA(a);
    for (int i = 0; i < m->n && status == LVN_OK; i++) {
        bool state = strncmp(m->file[i].path, "state/", 6) == 0;
        bool sums = depth == LVN_MANIFEST_ALL || (depth == LVN_MANIFEST_MODEL && !state);
        char *path = lvn_path_join(&a, checkpoint, m->file[i].path);
        /* A downloaded checkpoint may have the model only. */
        if (path && depth == LVN_MANIFEST_MODEL && state && !lvn_path_exists(path)) continue;
        status = path ? verify_file(path, &m->file[i], sums, buffer) : LVN_MEMORY;
    }
    free(buffer);
    return status;
}
