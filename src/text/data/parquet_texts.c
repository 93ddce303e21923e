/* parquet_texts.c - see parquet_texts.h. */
#include "data/parquet_texts.h"

#include <stdio.h>
#include <string.h>

#include "base/files.h"
#include "base/log.h"
#include "data/file_type.h"
#include "formats/archive_reader.h"

bool lvn_is_parquet(const char *name)
{
    return lvn_file_type(name, (int64_t)strlen(name)) == LVN_FILE_TYPE_PARQUET;
}

/* --- the files of a folder --- */

/* Length of SPLIT of SPLIT-00000-of-00002.parquet; 0: the file has another name. */
static int split_length(const char *name)
{
    int length = 0, end = 0;
    name = lvn_path_name(name);
    if (sscanf(name, "%*[A-Za-z_]%n-%*5[0-9]-of-%*5[0-9].parquet%n", &length, &end) == EOF || !end) return 0;
    return name[end] ? 0 : length;
}

static bool is_of_train(const char *name)
{
    return split_length(name) == 5 && strncmp(lvn_path_name(name), "train", 5) == 0;
}

static bool is_read(const char *name, bool train)
{
    if (lvn_is_parquet(name)) return !train || !split_length(name) || is_of_train(name);
    return lvn_file_type(name, lvn_file_uncompressed_name(name)) == LVN_FILE_TYPE_LINES;
}

enum lvn_status lvn_text_files(struct lvn_arena *a, const char *path, const char *const **names, int64_t *n)
{
    bool some = false, train = false;
    const char *left_out = NULL;
    int64_t kept = 0;
    LVN_TRY(lvn_archive_list(a, path, names, n));
    for (int64_t i = 0; i < *n; i++) {
        some |= lvn_is_parquet((*names)[i]);
        train |= is_of_train((*names)[i]);
    }
    if (!some || !lvn_path_is_dir(path)) return LVN_OK;
    const char **list = lvn_arena_alloc(a, sizeof *list * (size_t)*n);
    if (!list) return LVN_MEMORY;
    for (int64_t i = 0; i < *n; i++) {
        if (is_read((*names)[i], train))
            list[kept++] = (*names)[i];
        else
            left_out = (*names)[i];
    }
    if (left_out)
        lvn_log(LVN_LOG_INFO,
                "'%s': %lld files are not read, such as '%s': of a folder with Parquet files levin reads these%s and "
                "lines of JSON; name another file to read it",
                path, (long long)(*n - kept), lvn_path_name(left_out), train ? ", of shards those of train," : "");
    *names = list;
    *n = kept;
    return LVN_OK;
}

enum lvn_status lvn_source_name(struct lvn_text *out, const struct lvn_source_files *s, int64_t at, const char *name)
{
    const char *shown = s->shown[at];
    const size_t file = strlen(s->file[at]), n = strlen(name), cut = n < file ? file - n : 0;
    lvn_text_clear(out);
    lvn_text_printf(out, "%.*s%s", (int)(strlen(shown) - cut), shown, cut ? "" : name + file);
    return lvn_text_status(out);
}

/* --- the texts of a file --- */

/* The column of the first of the names that the file has. */
static enum lvn_status find_column(const struct lvn_parquet_texts *t, const struct lvn_parquet *p, int *column)
{
    LVN_LOCAL_ARENA(a);
    const char *all = "", *one = NULL;
    for (const char *name = t->field; *name; name += strspn(name, "|")) {
        const int n = (int)strcspn(name, "|");
        one = lvn_arena_printf(&a, "%.*s", n, name);
        all = one ? lvn_arena_printf(&a, "%s%s%s", all, *all ? "' or '" : "", one) : NULL; /* between quotes */
        if (!all) return LVN_MEMORY;
        if (lvn_parquet_has(p, one)) break;
        name += n;
        one = all;
    }
    const enum lvn_status status = one ? lvn_parquet_column(p, one, column) : LVN_ARG;
    return status == LVN_OK || !one ? status : lvn_fail(status, "%s (%s=NAME)", levin_error_text(), t->option);
}

struct one_group {
    const struct lvn_parquet_texts *t;
    int64_t group;
};

static enum lvn_status each_text(void *context, int64_t row, const void *text, int64_t bytes)
{
    const struct one_group *g = context;
    return g->t->each(g->t->context, g->group, row, text, bytes);
}

enum lvn_status lvn_parquet_texts_read(const struct lvn_parquet_texts *t, const char *path, int64_t *bytes_read)
{
    struct lvn_parquet *p;
    int column = -1;
    *bytes_read = 0;
    LVN_TRY(lvn_parquet_open(&p, path));
    enum lvn_status status = find_column(t, p, &column);
    for (int64_t i = 0; i < lvn_parquet_groups(p) && status == LVN_OK; i++) {
        struct one_group g = {.t = t, .group = i};
        status = lvn_parquet_read(p, i, column, each_text, &g);
        *bytes_read = lvn_parquet_group_end(p, i);
    }
    lvn_parquet_close(p);
    return status;
}
