/* text_files.c - see text_files.h. */
#include "data/texts/text_files.h"

#include "base/files.h"
#include "base/log.h"
#include "data/file_type.h"
#include "data/parquet_texts.h"
#include "formats/archive_reader.h"

/* --- splits: the parts of a data set, for training and others --- */

enum split { NO_SPLIT, TRAIN, OTHER_SPLIT };

static enum split split_of_word(const char *word, int64_t n)
{
    static const char *const words[] = {"train", "training", "validation", "valid", "val",
                                        "dev",   "test",     "testing",    "eval",  "evaluation"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((int64_t)strlen(words[i]) == n && !strncasecmp(words[i], word, (size_t)n))
            return i < 2 ? TRAIN : OTHER_SPLIT;
    return NO_SPLIT;
}

/* The split of the first word in a name that names a split, as Hugging Face datasets does; last: only the last word is
 * considered. */
static enum split split_of_name(const char *name, int64_t n, bool last)
{
    enum split split = NO_SPLIT;
    for (int64_t i = 0, length; i < n; i += length + 1) {
        for (length = 0; i + length < n && !strchr("-._ 0123456789", name[i + length]);) length++;
        if (length && (last || split == NO_SPLIT)) split = split_of_word(name + i, length);
    }
    return split;
}

/* Is it a shard as the hub names them, SPLIT-00000-of-00002.parquet, or with a checksum after the count? */
static bool is_shard(const char *name)
{
    int end = 0;
    return lvn_is_parquet(name) && sscanf(name, "%*[A-Za-z0-9_.]-%*5[0-9]-of-%*5[0-9]%n", &end) != EOF && end &&
           (name[end] == '-' || name[end] == '.');
}

/* Does the name have this extension, ignoring extensions of compression? */
static bool has_extension(const char *name, const char *extension)
{
    const int64_t n = lvn_file_uncompressed_name(name), m = (int64_t)strlen(extension);
    return n > m && !strncasecmp(name + n - m, extension, (size_t)m);
}

/* Does the file have rows, or is it an archive? */
static bool has_rows(const char *name)
{
    const enum lvn_file_type type = lvn_file_type(name, lvn_file_uncompressed_name(name));
    if (type == LVN_FILE_TYPE_UNKNOWN) return lvn_file_type(name, (int64_t)strlen(name)) == LVN_FILE_TYPE_ARCHIVE;
    return type == LVN_FILE_TYPE_LINES || type == LVN_FILE_TYPE_PARQUET || has_extension(name, ".csv") ||
           has_extension(name, ".tsv");
}

/* The split of a file by its name, else by that of the nearest folder below the first `root` bytes. */
static enum split split_of(const char *path, int64_t root)
{
    const bool text = has_extension(path, ".txt");
    const char *name = lvn_path_name(path);
    if (!text && !has_rows(path)) return NO_SPLIT;
    enum split split = split_of_name(name, lvn_file_stem(path) - (name - path), text);
    for (int64_t end = name - path - 1, at; end > root && split == NO_SPLIT; end = at - 1) {
        for (at = end; at > root && path[at - 1] != '/';) at--;
        split = split_of_name(path + at, end - at, text);
    }
    return split == NO_SPLIT && is_shard(name) ? OTHER_SPLIT : split;
}

/* --- the files of a folder --- */

/* In a folder with Parquet files: is this file read? */
static bool is_read_with_parquet(const char *name)
{
    return lvn_is_parquet(name) || lvn_file_type(name, lvn_file_uncompressed_name(name)) == LVN_FILE_TYPE_LINES;
}

struct folder {
    const char *path;
    int64_t root;         /* bytes of the path */
    bool parquet;         /* it has such files */
    int64_t n[3];         /* files of each split; of OTHER_SPLIT those with rows */
    const char *example;  /* of OTHER_SPLIT */
    const char *left_out; /* the last file that is not read */
    int64_t n_left_out;
};

static void count_splits(struct folder *f, const char *const *names, int64_t n)
{
    for (int64_t i = 0; i < n; i++) f->parquet |= lvn_is_parquet(names[i]);
    for (int64_t i = 0; i < n; i++) {
        if (f->parquet && !is_read_with_parquet(names[i])) continue;
        const enum split split = split_of(names[i], f->root);
        if (split == OTHER_SPLIT && !has_rows(names[i])) continue;
        f->n[split]++;
        if (split == OTHER_SPLIT) f->example = names[i];
    }
}

static bool is_read(const struct folder *f, const char *name)
{
    if (f->parquet && !is_read_with_parquet(name)) return false;
    return !f->n[TRAIN] || split_of(name, f->root) != OTHER_SPLIT;
}

/* The name of a file below the folder. */
static const char *below(const struct folder *f, const char *name)
{
    return name + f->root + strspn(name + f->root, "/");
}

static enum lvn_status list_folder(struct folder *f, struct lvn_arena *a, const char *path, const char *const **names,
                                   int64_t *n)
{
    int64_t kept = 0;
    *f = (struct folder){.path = path, .root = (int64_t)strlen(path)};
    LVN_TRY(lvn_archive_list(a, path, names, n));
    if (!lvn_path_is_dir(path)) return LVN_OK;
    const char **list = lvn_arena_alloc(a, sizeof *list * (size_t)(*n + 1));
    if (!list) return LVN_MEMORY;
    count_splits(f, *names, *n);
    for (int64_t i = 0; i < *n; i++) {
        if (is_read(f, (*names)[i]))
            list[kept++] = (*names)[i];
        else
            f->left_out = (*names)[i];
    }
    f->n_left_out = *n - kept;
    *names = list;
    *n = kept;
    return LVN_OK;
}

enum lvn_status lvn_text_files_quietly(struct lvn_arena *a, const char *path, const char *const **names, int64_t *n)
{
    struct folder f;
    return list_folder(&f, a, path, names, n);
}

enum lvn_status lvn_text_files(struct lvn_arena *a, const char *path, const char *const **names, int64_t *n)
{
    struct folder f;
    LVN_TRY(list_folder(&f, a, path, names, n));
    if (f.left_out)
        lvn_log(LVN_LOG_INFO, "'%s': %lld file%s not read, such as '%s': %s%s%s; give the path of a file to read it",
                path, (long long)f.n_left_out, f.n_left_out == 1 ? " is" : "s are", below(&f, f.left_out),
                f.parquet ? "in a folder with Parquet files only these and lines of JSON are read" : "",
                f.parquet && f.n[TRAIN] ? ", and " : "",
                f.n[TRAIN] ? "only the training split is read, which names of files and folders tell" : "");
    if (f.n[OTHER_SPLIT] && f.n[NO_SPLIT] && !f.n[TRAIN])
        lvn_log(LVN_LOG_WARN,
                "'%s': %lld file%s read, such as '%s', with the name of a validation or test split, because no file is "
                "named train; to leave them out, give a folder without them",
                path, (long long)f.n[OTHER_SPLIT], f.n[OTHER_SPLIT] == 1 ? " is" : "s are", below(&f, f.example));
    return LVN_OK;
}

/* --- the first rows --- */

enum { LOOK_BYTES = 1 << 20 };
struct look {
    struct lvn_text *rows;
    bool is_lines;  /* the present file has rows */
    int64_t others; /* bytes of files before it that have none */
};

static enum lvn_status look_begin(void *context, const char *name, bool named, bool *want)
{
    struct look *look = context;
    look->is_lines = named || lvn_file_type(name, (int64_t)strlen(name)) == LVN_FILE_TYPE_LINES;
    *want = true;
    return LVN_OK;
}

/* Keep the first bytes of rows, then stop the reading. An archive of texts is unpacked up to LOOK_BYTES only. */
static enum lvn_status look_bytes(void *context, const void *p, int64_t n)
{
    struct look *look = context;
    if (!look->is_lines) return (look->others += n) < LOOK_BYTES ? LVN_OK : LVN_STOPPED;
    lvn_text_add_bytes(look->rows, p, n < LOOK_BYTES - look->rows->n ? n : LOOK_BYTES - look->rows->n);
    return look->rows->n < LOOK_BYTES ? LVN_OK : LVN_STOPPED;
}

static enum lvn_status look_end(void *context)
{
    const struct look *look = context;
    return look->is_lines ? LVN_STOPPED : LVN_OK;
}

static enum lvn_status look_line(void *context, const char *line, int64_t bytes)
{
    lvn_text_add_bytes(context, line, bytes < LOOK_BYTES ? bytes : LOOK_BYTES);
    return LVN_STOPPED;
}

/* Keep the first row. */
static enum lvn_status look_row(struct lvn_text *rows, const char *path)
{
    struct lvn_parquet *p;
    LVN_TRY(lvn_parquet_open(&p, path));
    const enum lvn_status status = lvn_parquet_groups(p) ? lvn_parquet_read_lines(p, 0, true, look_line, rows) : LVN_OK;
    lvn_parquet_close(p);
    return status;
}

const char *lvn_text_files_look(struct lvn_arena *a, const char *path, struct lvn_text *rows)
{
    struct look look = {.rows = rows};
    const struct lvn_archive_visitor visitor = {
        .context = &look, .begin = look_begin, .data = look_bytes, .end = look_end};
    const char *const *file, *seen = path;
    int64_t n = 0, bytes;
    enum lvn_status status = lvn_text_files_quietly(a, path, &file, &n);
    for (int64_t i = 0; i < n && status == LVN_OK && !rows->n; i++) {
        seen = file[i];
        if (lvn_file_type(seen, lvn_file_uncompressed_name(seen)) == LVN_FILE_TYPE_TEXT) continue;
        status = lvn_is_parquet(seen) ? look_row(rows, seen)
                                      : lvn_archive_read(seen, !lvn_path_is_dir(path), &visitor, &bytes);
    }
    lvn_error_clear();
    return seen;
}
