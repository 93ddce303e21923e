/* benchmark_rows.c - see benchmark_rows.h. */
#include "benchmarks/benchmark_rows.h"

#include "base/files.h"
#include "base/list.h"
#include "data/json_line.h"

enum lvn_status lvn_rows_add(struct lvn_rows *rows, json_t *row, int64_t line)
{
    if (!lvn_list_reserve(&rows->row, &rows->row_capacity, rows->n + 1, sizeof *rows->row) ||
        !lvn_list_reserve(&rows->line, &rows->line_capacity, rows->n + 1, sizeof *rows->line)) {
        json_decref(row);
        return LVN_MEMORY;
    }
    rows->row[rows->n] = row;
    rows->line[rows->n++] = line;
    return LVN_OK;
}

static enum lvn_status read_list(struct lvn_rows *rows, const char *path, const char *text, int64_t bytes)
{
    json_t *list;
    enum lvn_status status = LVN_OK;
    LVN_TRY(lvn_json_parse(path, text, bytes, &list));
    for (size_t i = 0; i < json_array_size(list) && status == LVN_OK; i++) {
        json_t *row = json_array_get(list, i);
        if (json_is_object(row))
            status = lvn_rows_add(rows, json_incref(row), (int64_t)i + 1);
        else
            status = lvn_fail(LVN_ARG, "'%s': element %zu of the list is not an object", path, i + 1);
    }
    json_decref(list);
    return status;
}

static enum lvn_status read_lines(struct lvn_rows *rows, const char *path, const char *text, int64_t bytes)
{
    int64_t line = 0;
    for (const char *p = text, *end = text + bytes; p < end; line++) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        const int64_t n = (stop ? stop : end) - p;
        json_error_t error;
        json_t *row;
        if (!lvn_json_line_is_blank(p, n)) {
            LVN_TRY(lvn_json_load(p, n, LVN_JSON_ROW, &row, &error));
            const char *fault = lvn_json_line_fault(p, n, row, &error);
            if (fault) json_decref(row);
            LVN_CHECK(!fault, ARG, "%s:%lld: %s; a line is a JSON object, an item of the task", path,
                      (long long)line + 1, fault);
            LVN_TRY(lvn_rows_add(rows, row, line + 1));
        }
        p += n + 1;
    }
    return LVN_OK;
}

enum lvn_status lvn_rows_read(struct lvn_rows *rows, const char *path)
{
    char *text;
    int64_t bytes;
    const int64_t before = rows->n;
    rows->path = path;
    LVN_TRY(lvn_file_read(path, 0, &text, &bytes));
    const int64_t bom = lvn_utf8_bom(text, bytes);
    const char *begin = text + bom + strspn(text + bom, " \t\r\n");
    enum lvn_status status = *begin == '[' ? read_list(rows, path, text + bom, bytes - bom)
                                           : read_lines(rows, path, text + bom, bytes - bom);
    free(text);
    LVN_TRY(status);
    LVN_CHECK(rows->n > before, ARG, "'%s' has no items: give a file with a JSON object a line", path);
    return LVN_OK;
}

void lvn_rows_release(struct lvn_rows *rows)
{
    for (int64_t i = 0; i < rows->n; i++) json_decref(rows->row[i]);
    json_decref(rows->columns);
    free(rows->row);
    free(rows->line);
    *rows = (struct lvn_rows){0};
}
