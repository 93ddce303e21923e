/* chat_rows.c - see chat_rows.h. */
#include "data/texts/chat_rows.h"

#include <stdatomic.h>

#include "base/log.h"
#include "base/threads.h"
#include "data/json_line.h"
#include "formats/json_scan.h"
#include "formats/parquet/parquet.h"

enum { GROUP_ROWS = 1024, ERROR_BYTES = 600, PART_BYTES = 16 << 20 };

struct row {
    int64_t line; /* of the file; in a list: its number */
    const char *p;
    int64_t n;
    json_t *value; /* of a list's element, borrowed; NULL: parse the line */
    struct lvn_text out;
    enum lvn_chat_form form;
    bool bad;
    char error[ERROR_BYTES];
};

struct lvn_chat_rows {
    struct lvn_chat_rows_options o;
    struct lvn_chat_encoder **encoder; /* [n_threads] */
    struct row *row;                   /* [GROUP_ROWS] */
    int64_t n_rows;
    atomic_int_fast64_t next;
    const char *name; /* of the file */
    struct lvn_text raw;
    int64_t enough;          /* bytes of `raw` that are worth looking for whole lines */
    int64_t line;            /* number of the next line of `raw` */
    bool is_list;            /* the file is one list */
    enum lvn_chat_form form; /* of the file's first good row; LVN_CHAT_FORMS: none yet */
    int64_t form_line;
};

/* --- one row --- */

static enum lvn_status encode(const struct lvn_chat_rows *r, struct lvn_chat_encoder *e, struct row *row)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_chat_samples samples;
    json_error_t error;
    json_t *value = json_incref(row->value);
    if (!value) LVN_TRY(lvn_json_scan_load(row->p, row->n, &value, &error));
    const char *fault = lvn_json_line_fault(row->p ? row->p : "", row->n, value, &error);
    enum lvn_status status = fault ? lvn_fail(LVN_FORMAT, "%s", fault) : LVN_OK;
    if (status == LVN_OK) status = lvn_chat_encode(e, &a, value, &row->form, &samples);
    json_decref(value);
    if (status == LVN_OK) status = r->o.write(&row->out, row->line, &samples);
    return status == LVN_OK ? lvn_text_status(&row->out) : status;
}

static void work(void *argument, int thread, int n_threads)
{
    struct lvn_chat_rows *r = argument;
    (void)n_threads;
    for (int64_t i; (i = atomic_fetch_add(&r->next, 1)) < r->n_rows;) {
        struct row *row = &r->row[i];
        lvn_text_clear(&row->out);
        row->form = LVN_CHAT_FORMS;
        row->bad = encode(r, r->encoder[thread], row) != LVN_OK;
        if (row->bad)
            snprintf(row->error, sizeof row->error, "%s:%" PRId64 ": %s", r->name, row->line, levin_error_text());
        lvn_error_clear();
    }
}

/* --- groups of rows --- */

/* The rows of a file have one form. */
static void check_form(struct lvn_chat_rows *r, struct row *row)
{
    if (row->bad) return;
    if (r->form == LVN_CHAT_FORMS) {
        r->form = row->form;
        r->form_line = row->line;
    }
    row->bad = row->form != r->form;
    if (row->bad)
        snprintf(row->error, sizeof row->error,
                 "%s:%" PRId64 ": the row has %s, but line %" PRId64 " has %s; a file has one form of rows", r->name,
                 row->line, lvn_chat_form_text(row->form), r->form_line, lvn_chat_form_text(r->form));
}

static enum lvn_status run_group(struct lvn_chat_rows *r)
{
    enum lvn_status status = LVN_OK;
    atomic_store(&r->next, 0);
    if (r->n_rows) lvn_team_run(r->o.n_threads, work, r);
    for (int64_t i = 0; i < r->n_rows && status == LVN_OK; i++) {
        struct row *row = &r->row[i];
        if (row->form < LVN_CHAT_FORMS && row->form != LVN_CHAT_IDS) LVN_TRY(lvn_chat_require_template(r->o.chat));
        check_form(r, row);
        if (row->bad) {
            int64_t cut = lvn_utf8_check(row->error, (int64_t)strlen(row->error));
            if (cut >= 0) row->error[cut] = 0;
        }
        status = r->o.each(r->o.context, row->line, row->bad ? NULL : &row->out, row->bad ? row->error : NULL);
    }
    r->n_rows = 0;
    return status;
}

static enum lvn_status add_row(struct lvn_chat_rows *r, int64_t line, const char *p, int64_t n, json_t *value)
{
    struct row *row = &r->row[r->n_rows++];
    row->line = line;
    row->p = p;
    row->n = n;
    row->value = value;
    return r->n_rows == GROUP_ROWS ? run_group(r) : LVN_OK;
}

/* --- files --- */

/* Encode the whole lines of `raw`; with `all`, all of it. */
static enum lvn_status read_lines(struct lvn_chat_rows *r, bool all)
{
    const char *p = r->raw.p, *end = p + r->raw.n;
    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const int64_t n = (newline ? newline : end) - p;
        if (!newline && !all) break;
        if (!lvn_json_line_is_blank(p, n)) LVN_TRY(add_row(r, r->line, p, n, NULL));
        r->line++;
        p = newline ? newline + 1 : end;
    }
    LVN_TRY(run_group(r));
    memmove(r->raw.p, p, (size_t)(end - p));
    r->raw.n = end - p;
    return LVN_OK;
}

static enum lvn_status read_list(struct lvn_chat_rows *r)
{
    json_t *list, *one;
    json_error_t error;
    size_t i;
    LVN_TRY(lvn_json_scan_load(r->raw.p, r->raw.n, &list, &error));
    LVN_CHECK(list, FORMAT, "%s:%d: invalid JSON: %s", r->name, error.line > 0 ? error.line : 1, error.text);
    enum lvn_status status = LVN_OK;
    json_array_foreach(list, i, one)
    {
        status = add_row(r, (int64_t)i + 1, NULL, 0, one);
        if (status != LVN_OK) break;
    }
    if (status == LVN_OK) status = run_group(r);
    json_decref(list);
    return status;
}

void lvn_chat_rows_begin(struct lvn_chat_rows *r, const char *name)
{
    r->name = name;
    r->form = LVN_CHAT_FORMS;
    r->line = 1;
    r->n_rows = 0;
    r->is_list = false;
    r->enough = PART_BYTES;
    lvn_text_clear(&r->raw);
}

/* Take the byte order mark off the beginning of the file, and look at its first character. */
static void look_at_beginning(struct lvn_chat_rows *r)
{
    int64_t i = 0;
    if (r->line != 1 || !r->raw.n) return;
    const int64_t mark = lvn_utf8_bom(r->raw.p, r->raw.n);
    memmove(r->raw.p, r->raw.p + mark, (size_t)(r->raw.n - mark));
    r->raw.n -= mark;
    while (i < r->raw.n && strchr(" \t\r\n", r->raw.p[i]) && r->raw.p[i]) i++;
    r->is_list = i < r->raw.n && r->raw.p[i] == '[';
}

enum lvn_status lvn_chat_rows_data(struct lvn_chat_rows *r, const void *p, int64_t n)
{
    lvn_text_add_bytes(&r->raw, p, n);
    LVN_TRY(lvn_text_status(&r->raw));
    if (r->raw.n < r->enough) return LVN_OK;
    look_at_beginning(r);
    if (!r->is_list) LVN_TRY(read_lines(r, false));
    r->enough = 2 * r->raw.n + PART_BYTES;
    return LVN_OK;
}

static enum lvn_status parquet_line(void *context, const char *line, int64_t bytes)
{
    return lvn_chat_rows_data(context, line, bytes);
}

/* Does the path of a column have this part, which ends in a dot? */
static bool has_part(const char *column, const char *part)
{
    const char *at = strstr(column, part);
    return at && (at == column || at[-1] == '.');
}

static enum lvn_status check_columns(const struct lvn_parquet *p, const char *path)
{
    static const char *const refused[] = {"tools.", "tool_calls.", "function_call.", "chat_template_kwargs."};
    static const char *const named[] = {"messages.", "conversations.", "prompt.", "completion.", "documents."};
    static const char types[] = "has a type that is not read (map, date, time, decimal, float16 or bytes)";
    const char *column;
    for (int next = 0; (column = lvn_parquet_unread(p, &next));) {
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
            LVN_CHECK(
                !has_part(column, refused[i]), FORMAT,
                "'%s': the column '%.200s' %s, so the model would learn without it: cast it to text, or write the "
                "rows as lines of JSON",
                path, column, types);
        for (size_t i = 0; i < sizeof named / sizeof *named; i++)
            if (strncmp(column, named[i], strlen(named[i])) == 0)
                lvn_log_once(LVN_LOG_WARN, "'%s': the column '%.200s' %s, so templates do not get it", path, column,
                             types);
    }
    return LVN_OK;
}

enum lvn_status lvn_chat_rows_check(const char *path)
{
    struct lvn_parquet *p;
    LVN_TRY(lvn_parquet_open(&p, path));
    const enum lvn_status status = check_columns(p, path);
    lvn_parquet_close(p);
    return status;
}

enum lvn_status lvn_chat_rows_parquet(struct lvn_chat_rows *r, const char *path)
{
    struct lvn_parquet *p;
    LVN_TRY(lvn_parquet_open(&p, path));
    enum lvn_status status = LVN_OK;
    for (int64_t i = 0; i < lvn_parquet_groups(p) && status == LVN_OK; i++)
        status = lvn_parquet_read_lines(p, i, true, parquet_line, r);
    lvn_parquet_close(p);
    return status;
}

enum lvn_status lvn_chat_rows_end(struct lvn_chat_rows *r)
{
    look_at_beginning(r);
    enum lvn_status status = !r->raw.n ? LVN_OK : r->is_list ? read_list(r) : read_lines(r, true);
    r->n_rows = 0;
    return status;
}

static enum lvn_status open_encoders(struct lvn_chat_rows *r)
{
    r->encoder = lvn_calloc((size_t)r->o.n_threads, sizeof *r->encoder);
    r->row = lvn_calloc(GROUP_ROWS, sizeof *r->row);
    if (!r->encoder || !r->row) return LVN_MEMORY;
    for (int i = 0; i < r->o.n_threads; i++)
        if (!(r->encoder[i] = lvn_chat_encoder_new(r->o.chat))) return LVN_MEMORY;
    return LVN_OK;
}

enum lvn_status lvn_chat_rows_new(struct lvn_chat_rows **out, const struct lvn_chat_rows_options *o)
{
    *out = NULL;
    struct lvn_chat_rows *r = lvn_calloc(1, sizeof *r);
    if (!r) return LVN_MEMORY;
    r->o = *o;
    enum lvn_status status = open_encoders(r);
    if (status == LVN_OK)
        *out = r;
    else
        lvn_chat_rows_free(r);
    return status;
}

void lvn_chat_rows_free(struct lvn_chat_rows *r)
{
    if (!r) return;
    for (int i = 0; r->encoder && i < r->o.n_threads; i++) lvn_chat_encoder_free(r->encoder[i]);
    for (int i = 0; r->row && i < GROUP_ROWS; i++) lvn_text_release(&r->row[i].out);
    lvn_text_release(&r->raw);
    free(r->encoder);
    free(r->row);
    free(r);
}
