/* rows.c - see rows.h. */
#include "train/callbacks/rows.h"

#include <fcntl.h>

#include "base/files.h"
#include "base/target.h"

/* The step of a row; -1: none. */
static int64_t step_of(const char *row, const char *end)
{
    while (row < end && (*row < '0' || *row > '9')) row++;
    return row < end ? strtoll(row, NULL, 10) : -1;
}

static int count_commas(const char *text, const char *end)
{
    int n = 0;
    while (text < end) n += *text++ == ',';
    return n;
}

/* Copy the header, and the complete rows of text[bytes] up to `last_step`, which get a field for each of its columns.
 */
static void keep(const char *text, int64_t bytes, int64_t last_step, const char *header, struct lvn_text *out)
{
    const char *row = text, *end;
    const int columns = count_commas(header, header + strlen(header));
    lvn_text_add(out, header);
    for (; (end = memchr(row, '\n', (size_t)(text + bytes - row))); row = end + 1) {
        int64_t step = row == text && *header && (*row < '0' || *row > '9') ? -1 : step_of(row, end);
        if (step < 0 || step > last_step) continue;
        lvn_text_add_bytes(out, row, end - row);
        for (int k = *header ? count_commas(row, end) : columns; k < columns; k++) lvn_text_add(out, ",");
        lvn_text_add(out, "\n");
    }
}

static enum lvn_status cut(const char *path, int64_t last_step, const char *header)
{
    char *text = NULL;
    int64_t bytes = 0;
    LVN_LOCAL_TEXT(out);
    if (!lvn_path_exists(path) || last_step < 0) return lvn_file_write(path, header, (int64_t)strlen(header));
    LVN_TRY(lvn_file_read(path, 0, &text, &bytes));
    keep(text, bytes, last_step, header, &out);
    enum lvn_status status = lvn_text_status(&out);
    if (status == LVN_OK && (out.n != bytes || memcmp(out.p, text, (size_t)bytes) != 0))
        status = lvn_file_write(path, out.p, out.n);
    free(text);
    return status;
}

static enum lvn_status open_file(struct lvn_rows *r, const char *path)
{
    int fd;
    LVN_TRY(lvn_file_open_nofollow(path, O_WRONLY | O_APPEND | O_CREAT, &fd));
    lvn_append_file_open(&r->file, fd);
    return LVN_OK;
}

enum lvn_status lvn_rows_open(struct lvn_rows *r, const struct lvn_callback_context *context, const char *name,
                              const char *header)
{
    char path[LVN_CALLBACK_PATH_TEXT];
    *r = (struct lvn_rows){.name = name};
    LVN_TRY(cut(lvn_callback_path(context, name, path), context->resumed_step, header));
    return open_file(r, path);
}

void lvn_rows_close(void *rows)
{
    struct lvn_rows *r = rows;
    lvn_text_release(&r->row);
    if (lvn_append_file_close(&r->file) != LVN_OK) lvn_error_clear();
}

static void report(struct lvn_rows *r, struct lvn_callback_context *context, enum lvn_status status)
{
    char text[100];
    if (status == LVN_OK) return;
    snprintf(text, sizeof text, "%s could not be written", r->name);
    const bool again = r->failed;
    r->failed = true; /* set it first, since the note may become a row of the same file */
    if (again)
        lvn_error_clear();
    else
        lvn_callback_warn(context, text);
}

void lvn_rows_set_header(struct lvn_rows *r, struct lvn_callback_context *context, const char *header)
{
    char path[LVN_CALLBACK_PATH_TEXT];
    if (!r->file.is_open) return;
    enum lvn_status status = lvn_append_file_close(&r->file); /* writes pending rows */
    if (status == LVN_OK) status = cut(lvn_callback_path(context, r->name, path), INT64_MAX, header);
    report(r, context, status);
    if (!r->file.is_open) report(r, context, open_file(r, lvn_callback_path(context, r->name, path)));
}

struct lvn_text *lvn_rows_begin(struct lvn_rows *r)
{
    lvn_text_clear(&r->row);
    r->row.failed = false; /* a failure of the previous row was reported */
    return &r->row;
}

/* Has the run that is resumed written this row? It made a validation that its checkpoint still owes. */
static bool is_written(struct lvn_rows *r, const struct lvn_callback_context *context)
{
    char path[LVN_CALLBACK_PATH_TEXT], *text;
    int64_t bytes;
    const char *row = lvn_text_string(&r->row), *found;
    if (context->event.kind != LVN_EVENT_VALIDATION || context->event.step != context->resumed_step || !row)
        return false;
    if (lvn_file_read(lvn_callback_path(context, r->name, path), 0, &text, &bytes) != LVN_OK) {
        lvn_error_clear();
        return false;
    }
    found = strstr(text, row);
    const bool written = found && (found == text || found[-1] == '\n');
    free(text);
    return written;
}

void lvn_rows_end(struct lvn_rows *r, struct lvn_callback_context *context)
{
    if (!r->file.is_open) return;
    lvn_text_add(&r->row, "\n");
    if (is_written(r, context)) return;
    enum lvn_status status = lvn_text_status(&r->row); /* a failed write leaves no partial row */
    report(r, context, status == LVN_OK ? lvn_append_file_write(&r->file, r->row.p, r->row.n) : status);
    if (context->event.kind != LVN_EVENT_STEP && context->event.kind != LVN_EVENT_LOG) lvn_rows_flush(r, context);
}

void lvn_rows_flush(void *rows, struct lvn_callback_context *context)
{
    struct lvn_rows *r = rows;
    report(r, context, lvn_append_file_flush(&r->file));
}

void lvn_rows_number(struct lvn_text *t, double value)
{
    lvn_text_number(t, value, fabs(value) >= 1e9 && fabs(value) < 1e15 ? 13 : 9);
}
