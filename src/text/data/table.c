/* table.c - see table.h: cells of a row, columns by name, rows. */
#include "data/table.h"

#include "base/files.h"
#include "base/log.h"
#include "base/text.h"
#include "data/file_type.h"
#include "data/json_line.h"
#include "data/parquet_texts.h"
#include "formats/archive_reader.h"

/* Does the name have the extension, before those of compression? */
static bool has_extension(const char *path, const char *extension)
{
    const int64_t n = lvn_file_uncompressed_name(path), m = (int64_t)strlen(extension);
    return n > m && !strncasecmp(path + n - m, extension, (size_t)m);
}

bool lvn_table_is_csv(const char *path)
{
    return has_extension(path, ".csv");
}

/* Is it .jsonl, or another name of it? A .json is mostly one value. */
static bool is_lines(const char *path)
{
    return lvn_file_type(path, lvn_file_uncompressed_name(path)) == LVN_FILE_TYPE_LINES &&
           !has_extension(path, ".json");
}

bool lvn_table_is_named(const char *path)
{
    return has_extension(path, ".tsv") || lvn_table_is_csv(path) || is_lines(path);
}

bool lvn_table_is_disguised(const char *path)
{
    char line[1024] = "";
    FILE *f = fopen(path, "rb");
    if (!f) return false;
    if (!fgets(line, sizeof line, f)) *line = '\0';
    fclose(f);
    bool found = false;
    for (char *cell = line, *end; *cell && !found; cell = end + (*end == '\t')) {
        end = cell + strcspn(cell, "\t\r\n");
        found = end - cell == 5 && !strncasecmp(cell, "label", 5) && strchr(line, '\t');
        if (*end != '\t') break;
    }
    return found;
}

/* --- rows as cells --- */

static const char *end_of_line(const struct lvn_table *t)
{
    const char *p = t->text + t->at, *end = memchr(p, '\n', (size_t)(t->bytes - t->at));
    return end ? end : t->text + t->bytes;
}

static void end_cell(struct lvn_text *cells, int *n)
{
    lvn_text_add_bytes(cells, "", 1);
    ++*n;
}

static void tsv_cells(const char *p, const char *end, struct lvn_text *cells, int *n)
{
    for (;;) {
        const char *stop = memchr(p, '\t', (size_t)(end - p));
        lvn_text_add_bytes(cells, p, (stop ? stop : end) - p);
        end_cell(cells, n);
        if (!stop) return;
        p = stop + 1;
    }
}

/* Split the row that begins at p; it may span lines within quotes. Returns its end; NULL for a fault of its quotes,
 * which is then in t->fault and t->fault_line. */
static const char *csv_cells(struct lvn_table *t, const char *p, struct lvn_text *cells, int *n)
{
    const char *all = t->text + t->bytes;
    bool quoted = false, closed = false; /* within quotes; after them */
    int64_t line = t->line;
    for (bool begins = true;; p++) {
        const bool ends_line = !quoted && (p == all || *p == '\n' || (*p == '\r' && (p + 1 == all || p[1] == '\n')));
        if (p == all && quoted) t->fault = "a quotation mark is never closed";
        if (closed && !ends_line && *p != ',')
            t->fault = "text after the closing quote; within a quoted cell a quotation mark is written twice";
        if (t->fault) return NULL;
        if (p == all || (!quoted && *p == '\n')) break;
        line += *p == '\n';
        if (quoted && *p == '"' && p + 1 < all && p[1] == '"') {
            lvn_text_add_bytes(cells, p++, 1);
        } else if (*p == '"' && (quoted || begins)) {
            if (!quoted) t->fault_line = line;
            closed = quoted;
            quoted = !quoted;
        } else if (*p == ',' && !quoted) {
            end_cell(cells, n);
            closed = false;
        } else if (!ends_line) {
            lvn_text_add_bytes(cells, p, 1);
        }
        begins = *p == ',' && !quoted;
    }
    end_cell(cells, n);
    return p;
}

/* Read the cells of the row at t->at and advance. Returns their number; -1 for a fault of quotes, after which the
 * next line is a row again. */
static int next_cells(struct lvn_table *t, struct lvn_text *cells)
{
    const char *begin = t->text + t->at, *end = end_of_line(t);
    int n = 0;
    lvn_text_clear(cells);
    t->fault = NULL;
    if (t->format == LVN_TABLE_CSV) {
        const char *stop = csv_cells(t, begin, cells, &n);
        if (!stop) n = -1;
        if (stop) end = stop;
    } else {
        const char *stop = end > begin && end[-1] == '\r' ? end - 1 : end;
        if (t->format == LVN_TABLE_TSV)
            tsv_cells(begin, stop, cells, &n);
        else
            lvn_text_add_bytes(cells, begin, stop - begin);
        if (t->format == LVN_TABLE_LINES) end_cell(cells, &n);
    }
    for (const char *p = begin; p < end; p++) t->line += *p == '\n';
    t->at = end - t->text + 1;
    t->line++;
    return n;
}

/* --- opening --- */

static void begin(struct lvn_table *t, const char *path)
{
    *t = (struct lvn_table){.path = path, .line = 1};
    t->format = has_extension(path, ".tsv")              ? LVN_TABLE_TSV
                : lvn_table_is_csv(path)                 ? LVN_TABLE_CSV
                : is_lines(path) || lvn_is_parquet(path) ? LVN_TABLE_JSONL
                                                         : LVN_TABLE_LINES;
}

static enum lvn_status add_line(void *context, const char *line, int64_t bytes)
{
    lvn_text_add_bytes(context, line, bytes);
    return lvn_text_status(context);
}

/* Turn the rows of a Parquet file into lines of JSON. */
static enum lvn_status read_parquet(struct lvn_table *t)
{
    struct lvn_parquet *p = t->parquet;
    struct lvn_text lines = {0};
    enum lvn_status status = LVN_OK;
    for (int64_t i = 0; i < lvn_parquet_groups(p) && status == LVN_OK; i++)
        status = lvn_parquet_read_lines(p, i, false, add_line, &lines);
    t->owned = lines.p;
    t->bytes = lines.n;
    return status;
}

/* --- compressed tables --- */

struct unpacked {
    struct lvn_text text;
    int files;
};

static enum lvn_status begin_file(void *context, const char *name, bool named, bool *want)
{
    struct unpacked *u = context;
    (void)named;
    *want = true;
    LVN_CHECK(!u->files++, FORMAT, "'%s' is in an archive of several files, and a table is one file: unpack it first",
              name);
    return LVN_OK;
}

static enum lvn_status file_bytes(void *context, const void *p, int64_t n)
{
    struct unpacked *u = context;
    lvn_text_add_bytes(&u->text, p, n);
    return lvn_text_status(&u->text);
}

static enum lvn_status end_file(void *context)
{
    (void)context;
    return LVN_OK;
}

/* Unpack the table's text if it is compressed; other texts are kept. */
static enum lvn_status unpack(struct lvn_table *t)
{
    struct unpacked u = {0};
    const struct lvn_archive_visitor visitor = {
        .context = &u, .begin = begin_file, .data = file_bytes, .end = end_file};
    if (!t->path[lvn_file_uncompressed_name(t->path)] || !lvn_archive_is(t->text, t->bytes)) return LVN_OK;
    const enum lvn_status status =
        lvn_archive_read_memory(t->path, t->text, t->bytes, (struct lvn_archive_position){.growth = 1}, &visitor);
    free(t->owned);
    t->text = t->owned = u.text.p;
    t->bytes = u.text.n;
    return status;
}

/* Do `first` and the next line have the same number of one of these characters? Then it is the table's separator. */
static bool next_has(const struct lvn_table *t, const char *first, const char *characters)
{
    const char *found = strpbrk(first, characters), *end = t->text + t->bytes;
    int64_t more = 0;
    for (const char *p = first; found && *p; p++) more += *p == *found;
    for (const char *p = t->text + t->at; found && p < end && *p != '\n'; p++) more -= *p == *found;
    return found && !more;
}

/* Remove spaces around a name of a column, as around class labels. */
static void trim(const char **p, size_t *n)
{
    for (; *n && **p == ' '; --*n) ++*p;
    while (*n && (*p)[*n - 1] == ' ') --*n;
}

static void trim_names(struct lvn_table *t)
{
    char *to = t->names.p;
    for (const char *p = to, *next, *end = to + t->names.n; p < end; p = next) {
        size_t n = strlen(p);
        next = p + n + 1;
        trim(&p, &n);
        memmove(to, p, n);
        to[n] = '\0';
        to += n + 1;
    }
    t->names.n = to - t->names.p;
}

/* The first line names the columns. */
static enum lvn_status read_header(struct lvn_table *t)
{
    const char *text = t->text + t->at;
    t->n_names = next_cells(t, &t->names);
    const int64_t n = (t->at < t->bytes ? t->at : t->bytes) - (text - t->text), wrong = lvn_utf8_check(text, n);
    LVN_CHECK(t->n_names > 0, FORMAT, "%s:%lld: %s", t->path, (long long)t->fault_line, t->fault);
    LVN_CHECK(wrong < 0, FORMAT, "%s:1: byte %lld is not UTF-8; " LVN_UTF8_ADVICE, t->path, (long long)wrong + 1);
    LVN_CHECK(!memchr(text, 0, (size_t)n), FORMAT,
              "%s:1: contains a NUL byte, as text in UTF-16 does; " LVN_UTF8_ADVICE, t->path);
    LVN_TRY(lvn_text_status(&t->names));
    const char *first = t->names.p, *between = t->format == LVN_TABLE_CSV ? "comma" : "tab";
    LVN_CHECK(strncasecmp(first, "sep=", 4) != 0, FORMAT,
              "%s:1: '%.40s' is a line for Excel, and the first line must name the columns: remove it", t->path, first);
    LVN_CHECK(t->n_names > 1 || *text == '"' || !next_has(t, first, t->format == LVN_TABLE_CSV ? ";\t" : ";,"), FORMAT,
              "%s:1: '%.80s' has no %s, which separates the cells of such a table: save it with %ss between them",
              t->path, first, between, between);
    trim_names(t);
    return LVN_OK;
}

static enum lvn_status begin_text(struct lvn_table *t, const char *text, int64_t bytes)
{
    t->text = text;
    t->bytes = bytes;
    LVN_TRY(unpack(t));
    t->at = lvn_utf8_bom(t->text, t->bytes);
    LVN_CHECK(t->at < t->bytes, FORMAT, "'%s' is empty", t->path);
    return t->format == LVN_TABLE_TSV || t->format == LVN_TABLE_CSV ? read_header(t) : LVN_OK;
}

enum lvn_status lvn_table_open(struct lvn_table *t, const char *path)
{
    begin(t, path);
    if (lvn_is_parquet(path)) {
        LVN_TRY(lvn_parquet_open(&t->parquet, path));
        LVN_TRY(read_parquet(t));
    } else {
        LVN_TRY(lvn_file_read(path, 0, &t->owned, &t->bytes));
    }
    return begin_text(t, t->owned, t->bytes);
}

enum lvn_status lvn_table_open_text(struct lvn_table *t, const char *path, const char *text, int64_t bytes)
{
    begin(t, path);
    if (!lvn_is_parquet(path) || bytes < 4 || memcmp(text, "PAR1", 4) != 0) return begin_text(t, text, bytes);
    LVN_TRY(lvn_parquet_open_memory(&t->parquet, path, text, bytes));
    LVN_TRY(read_parquet(t));
    return begin_text(t, t->owned, t->bytes);
}

void lvn_table_continue(struct lvn_table *t, const char *text, int64_t bytes)
{
    t->text = text;
    t->bytes = bytes;
    t->at = 0;
}

void lvn_table_close(struct lvn_table *t)
{
    if (2 * t->doubled > t->quoted)
        lvn_log(
            LVN_LOG_WARN,
            "'%s': %lld of the %lld cells that begin with a quotation mark end with one and have doubled ones inside, "
            "as in a .csv. In a .tsv quotation marks have no meaning and are part of the text: save the table as .csv",
            t->path, (long long)t->doubled, (long long)t->quoted);
    free(t->owned);
    lvn_parquet_close(t->parquet);
    lvn_text_release(&t->names);
    lvn_text_release(&t->cells);
    json_decref(t->object);
}

/* Index of the first column of the header with this name; -1: none. *n_found: number of columns with it. */
static int find_name(const struct lvn_table *t, const char *name, size_t n, int *n_found)
{
    const char *p = t->names.p;
    int found = -1;
    *n_found = 0;
    for (int i = 0; i < t->n_names; i++, p += strlen(p) + 1) {
        if (strlen(p) != n || memcmp(p, name, n) != 0) continue;
        if (!(*n_found)++) found = i;
    }
    return found;
}

/* The first object, whose members are the columns; lines before it are bad rows. *first NULL: there is none, and
 * `fault` is why the first line is none. */
static enum lvn_status first_object(const struct lvn_table *t, json_t **first, char *fault, size_t capacity)
{
    int64_t line = t->line;
    *first = NULL;
    *fault = '\0';
    for (const char *p = t->text + t->at, *all = t->text + t->bytes, *end; p < all; p = end + 1, line++) {
        json_error_t error;
        json_t *root = NULL;
        end = memchr(p, '\n', (size_t)(all - p));
        if (!end) end = all;
        LVN_TRY(lvn_json_load(p, end - p, LVN_JSON_ROW, &root, &error));
        if (json_is_object(root)) {
            *first = root;
            return LVN_OK;
        }
        if (!*fault && !lvn_json_line_is_blank(p, end - p))
            snprintf(fault, capacity, "line %lld: %s", (long long)line, lvn_json_line_fault(p, end - p, root, &error));
        json_decref(root);
    }
    return LVN_OK;
}

static enum lvn_status first_has(const struct lvn_table *t, const char *name, bool *has)
{
    json_t *first;
    char fault[LVN_TABLE_BAD];
    LVN_TRY(first_object(t, &first, fault, sizeof fault));
    *has = json_object_get(first, name) != NULL;
    json_decref(first);
    return LVN_OK;
}

static void list_name(const struct lvn_table *t, const char *name, bool unread, char *list, size_t capacity)
{
    for (int k = 0; k < t->n_columns && unread; k++)
        if (strcmp(t->name[k], name) == 0) return;
    lvn_print_append(list, capacity, "%s%s", *list ? ", " : "", name);
}

/* The names of the columns, or of those that were not selected, for messages. FORMAT if no line is an object. */
static enum lvn_status list_names(const struct lvn_table *t, bool unread, char *list, size_t capacity)
{
    const char *p = t->names.n ? t->names.p : "", *key;
    json_t *first = NULL, *value;
    char fault[LVN_TABLE_BAD] = "";
    if (t->format == LVN_TABLE_JSONL) LVN_TRY(first_object(t, &first, fault, sizeof fault));
    LVN_CHECK(t->format != LVN_TABLE_JSONL || first, FORMAT,
              "'%s': no line is a JSON object; each must be a row, as {\"text\": \"..\", \"label\": 0}%s%s", t->path,
              *fault ? "; " : "", fault);
    *list = '\0';
    for (int i = 0; i < t->n_names; i++, p += strlen(p) + 1) list_name(t, p, unread, list, capacity);
    json_object_foreach(first, key, value) list_name(t, key, unread, list, capacity);
    json_decref(first);
    return LVN_OK;
}

enum lvn_status lvn_table_unread(const struct lvn_table *t, char *list, size_t capacity)
{
    return list_names(t, true, list, capacity);
}

/* FORMAT if the schema has the column: the rows lack it only because its type is not read. */
static enum lvn_status check_type(const struct lvn_table *t, const char *name)
{
    LVN_CHECK(!t->parquet || !lvn_parquet_has(t->parquet, name), FORMAT,
              "'%s': the column '%s' has the type %s, which is not read; cast it to text, a whole number, float32, "
              "float64 or a boolean",
              t->path, name, lvn_parquet_type(t->parquet, name));
    return LVN_OK;
}

static enum lvn_status take_name(struct lvn_table *t, int k, const char *name, size_t n, bool *found)
{
    int n_found;
    if (t->format != LVN_TABLE_JSONL) trim(&name, &n);
    LVN_CHECK(n < sizeof t->name[k], ARG, "a column's name has at most %d bytes, '%.40s...' has %d",
              (int)sizeof t->name[k] - 1, name, (int)n);
    snprintf(t->name[k], sizeof t->name[k], "%.*s", (int)n, name);
    if (t->format == LVN_TABLE_JSONL) {
        LVN_TRY(first_has(t, t->name[k], found));
        return *found ? LVN_OK : check_type(t, t->name[k]);
    }
    if (t->format == LVN_TABLE_LINES) {
        *found = !strcmp(t->name[k], "text");
        return LVN_OK;
    }
    t->column[k] = find_name(t, name, n, &n_found);
    *found = t->column[k] >= 0;
    LVN_CHECK(n_found < 2, FORMAT, "%s:1: %d columns have the name '%s'; rename those that are not meant", t->path,
              n_found, t->name[k]);
    return LVN_OK;
}

/* Turn "text|document" into "text' or 'document", for use between quotes. */
static void write_names(const char *names, char *text, size_t bytes)
{
    size_t n = 0;
    text[0] = '\0';
    for (const char *p = names; *p && n + 7 < bytes; p++)
        n += (size_t)snprintf(text + n, bytes - n, *p == '|' ? "' or '" : "%c", *p);
}

enum lvn_status lvn_table_column(struct lvn_table *t, const char *names, bool required)
{
    char list[300], expected[300];
    int k = t->n_columns++;
    t->required[k] = required;
    for (const char *p = names; *p; p += strspn(p, "|")) {
        size_t n = strcspn(p, "|");
        bool found;
        LVN_TRY(take_name(t, k, p, n, &found));
        if (found) return LVN_OK;
        p += n;
    }
    t->column[k] = -1;
    t->name[k][0] = '\0';
    if (!required) return LVN_OK;
    LVN_TRY(list_names(t, false, list, sizeof list));
    write_names(names, expected, sizeof expected);
    static const char *const options[LVN_TABLE_COLUMNS] = {"data.text_column", "data.pair_column", "data.label_column"};
    const char *option = t->column_option ? t->column_option : options[k], *are = *list ? "; its columns are " : "";
    LVN_CHECK(*option, FORMAT, "'%s' has no column '%s'%s%s; rename the right one", t->path, expected, are, list);
    LVN_FAIL(FORMAT, "'%s' has no column '%s'%s%s; name the right one with %s=COLUMN%s", t->path, expected, are, list,
             option, k || t->column_option ? "" : " (and the second text of pairs with data.pair_column=COLUMN)");
}

bool lvn_table_has_labels(struct lvn_table *t)
{
    return lvn_table_column(t, "label", true) == LVN_OK &&
           lvn_table_column(t, "document|text|sentence", true) == LVN_OK;
}

/* --- rows --- */

#define BAD(row, ...) snprintf((row)->bad, sizeof(row)->bad, __VA_ARGS__)

/* Count the texts of a .tsv that a program quoted as in a .csv. */
static void count_quotes(struct lvn_table *t, const char *p, int64_t n)
{
    if (t->format != LVN_TABLE_TSV || *p != '"') return;
    t->quoted++;
    t->doubled += n >= 4 && p[n - 1] == '"' && memmem(p + 1, (size_t)n - 2, "\"\"", 2);
}

static void cells_of(struct lvn_table *t, struct lvn_table_row *row, int n)
{
    const char *p = t->cells.p;
    const int64_t lines = t->line - row->line;
    if (n < 0) {
        BAD(row, "%s:%lld: %s", t->path, (long long)t->fault_line, t->fault);
        return;
    }
    if (t->format != LVN_TABLE_LINES && n != t->n_names) {
        BAD(row, "%s:%lld: %d columns; the first line has %d", t->path, (long long)row->line, n, t->n_names);
        if (lines > 1)
            lvn_print_append(row->bad, sizeof row->bad, "; quotation marks make one row of %lld lines",
                             (long long)lines);
        return;
    }
    int found = 0, names = 0;
    for (int i = 0; i < n; i++, p += strlen(p) + 1)
        for (int k = 0; k < t->n_columns; k++)
            if (t->name[k][0] && t->column[k] == i) {
                row->cell[k].p = p;
                row->cell[k].n = (int64_t)strlen(p);
                count_quotes(t, p, row->cell[k].n);
                found++;
                names += !strcmp(p, t->name[k]);
            }
    if (found > 1 && names == found)
        BAD(row, "%s:%lld: the row repeats the names of the columns, as in tables that were joined", t->path,
            (long long)row->line);
}

static enum lvn_status members_of(struct lvn_table *t, struct lvn_table_row *row)
{
    json_error_t error;
    json_decref(t->object);
    t->object = NULL;
    LVN_TRY(lvn_json_load(t->cells.p, t->cells.n, JSON_REJECT_DUPLICATES | LVN_JSON_ROW, &t->object, &error));
    const char *fault = lvn_json_line_fault(t->cells.p, t->cells.n, t->object, &error);
    if (fault) {
        BAD(row, "%s:%lld: %s%.200s", t->path, (long long)row->line, fault == error.text ? "no JSON object: " : "",
            fault);
        return LVN_OK;
    }
    for (int k = 0; k < t->n_columns; k++) {
        const json_t *v = t->name[k][0] ? json_object_get(t->object, t->name[k]) : NULL;
        row->cell[k].p = json_string_value(v);
        row->cell[k].n = (int64_t)json_string_length(v);
        if (json_is_integer(v)) {
            row->cell[k].n = snprintf(t->number[k], sizeof t->number[k], "%lld", (long long)json_integer_value(v));
            row->cell[k].p = t->number[k];
        }
        if (t->reals[k] && json_is_real(v)) {
            row->cell[k].n = snprintf(t->number[k], sizeof t->number[k], "%.17g", json_real_value(v));
            row->cell[k].p = t->number[k];
        }
        if (t->booleans[k] && json_is_boolean(v)) {
            row->cell[k].p = json_is_true(v) ? "true" : "false";
            row->cell[k].n = (int64_t)strlen(row->cell[k].p);
        }
        if (json_is_null(v))
            BAD(row, "%s:%lld: '%s' is null", t->path, (long long)row->line, t->name[k]);
        else if (v && !row->cell[k].p)
            BAD(row, "%s:%lld: '%s' is neither text nor a %s", t->path, (long long)row->line, t->name[k],
                t->booleans[k] ? "number, nor true or false"
                : t->reals[k]  ? "number"
                               : "whole number");
        if (!v && t->required[k]) BAD(row, "%s:%lld: there is no '%s'", t->path, (long long)row->line, t->name[k]);
    }
    return LVN_OK;
}

/* Skip one empty line; false: the line is not empty. */
static bool skip_empty_line(struct lvn_table *t)
{
    const int64_t begin = t->at;
    while (t->at < t->bytes && t->text[t->at] == '\r') t->at++;
    const bool ended = t->at < t->bytes && t->text[t->at] == '\n';
    t->at += ended;
    t->line += ended;
    return ended || (t->at == t->bytes && t->at > begin);
}

/* Does anything but line ends follow? */
static bool has_more(struct lvn_table *t)
{
    if (t->next_row < t->at) t->next_row = t->at;
    while (t->next_row < t->bytes && (t->text[t->next_row] == '\n' || t->text[t->next_row] == '\r')) t->next_row++;
    return t->next_row < t->bytes;
}

enum lvn_status lvn_table_next(struct lvn_table *t, struct lvn_table_row *row, bool *more)
{
    while (t->format != LVN_TABLE_LINES) {
        *row = (struct lvn_table_row){.line = t->line};
        if (!skip_empty_line(t)) break;
        if (!t->keep_empty || !has_more(t)) continue;
        BAD(row, "%s:%lld: the line is empty", t->path, (long long)row->line);
        *more = true;
        return LVN_OK;
    }
    *more = t->at < t->bytes;
    if (!*more) return LVN_OK;
    *row = (struct lvn_table_row){.line = t->line};
    int64_t begin = t->at;
    int n = next_cells(t, &t->cells);
    int64_t end = t->at - 1 < t->bytes ? t->at - 1 : t->bytes, wrong = lvn_utf8_check(t->text + begin, end - begin);
    if (wrong >= 0)
        BAD(row, "%s:%lld: byte %lld is not UTF-8: " LVN_UTF8_ADVICE, t->path, (long long)row->line,
            (long long)wrong + 1);
    if (wrong < 0 && memchr(t->text + begin, 0, (size_t)(end - begin)))
        BAD(row, "%s:%lld: contains a NUL byte", t->path, (long long)row->line);
    LVN_TRY_WHILE(lvn_text_status(&t->cells), "reading %s:%lld", t->path, (long long)row->line);
    if (*row->bad) return LVN_OK;
    if (t->format == LVN_TABLE_JSONL) {
        LVN_TRY_WHILE(members_of(t, row), "reading %s:%lld", t->path, (long long)row->line);
    } else {
        cells_of(t, row, n);
    }
    return LVN_OK;
}
