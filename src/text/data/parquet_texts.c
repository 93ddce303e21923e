/* parquet_texts.c - see parquet_texts.h. */
#include "data/parquet_texts.h"

#include "base/files.h"
#include "data/file_type.h"
#include "formats/archive_reader.h"

bool lvn_is_parquet(const char *name)
{
    return lvn_file_type(name, (int64_t)strlen(name)) == LVN_FILE_TYPE_PARQUET;
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
