/* metrics_file.c - see metrics_file.h.
 *
 * A run has a row for each step and a report reads all of them, so this scanner for objects of numbers is used, which
 * needs a tenth of a JSON parser's time. */
#include "report/metrics_file.h"

#include <unistd.h>

#include "base/files.h"
#include "base/input.h"

enum { CHUNK = 1 << 18, LONGEST_ROW = 1 << 20, VALUES = 2 * LVN_SERIES };

struct value {
    const char *name;
    int64_t length;
    double number;
};

/* Add the values of a row under its step. */
static void add_row(struct lvn_metrics_file *m, const struct value *v, int n)
{
    double step = NAN;
    for (int i = 0; i < n; i++) {
        if (v[i].length == 4 && !memcmp(v[i].name, "step", 4)) step = v[i].number;
    }
    if (!(step >= 0 && step < 1e15)) {
        m->broken++;
        return;
    }
    m->rows++;
    if (step > (double)m->last_step) m->last_step = (int64_t)step;
    for (int i = 0; i < n; i++) {
        if (v[i].length && (v[i].length != 4 || memcmp(v[i].name, "step", 4) != 0))
            lvn_series_add(&m->list, v[i].name, v[i].length, step, v[i].number);
    }
}

static const char *skip(const char *p)
{
    return p + strspn(p, " \t\r");
}

/* A JSON string at *p without escapes; false: something else. */
static bool scan_text(const char **p, const char **text, int64_t *length)
{
    const char *s = *p;
    if (*s++ != '"') return false;
    *text = s;
    s += strcspn(s, "\"\\");
    *length = s - *text;
    *p = s + 1;
    return *s == '"';
}

/* A number, null, string or word at *p; everything but numbers becomes NaN. */
static bool scan_value(const char **p, double *number)
{
    char *end;
    const char *text;
    int64_t length;
    *number = strtod(*p, &end);
    if (end != *p) {
        *p = end;
        return true;
    }
    *number = NAN;
    if (**p == '"') return scan_text(p, &text, &length);
    length = (int64_t)strspn(*p, "nulltruefalse");
    *p += length;
    return length > 0;
}

/* An object of numbers; false: something else. */
static bool scan_object(struct lvn_metrics_file *m, const char *p)
{
    struct value v[VALUES];
    int n = 0;
    p = skip(p);
    if (*p++ != '{') return false;
    for (p = skip(p); *p != '}'; p = skip(p)) {
        struct value one;
        if (n && *p++ != ',') return false;
        p = skip(p);
        if (!scan_text(&p, &one.name, &one.length)) return false;
        p = skip(p);
        if (*p++ != ':') return false;
        p = skip(p);
        if (!scan_value(&p, &one.number) || n == VALUES) return false;
        v[n++] = one;
    }
    if (*skip(p + 1)) return false;
    add_row(m, v, n);
    return true;
}

/* The next cell of a line, without quotes around it; false: no more. */
static bool next_cell(const char **p, const char **cell, int64_t *length)
{
    if (!*p) return false;
    const char *s = *p;
    *cell = s;
    *length = (int64_t)strcspn(s, ",");
    *p = s[*length] ? s + *length + 1 : NULL;
    if (*length >= 2 && s[0] == '"' && s[*length - 1] == '"') {
        ++*cell;
        *length -= 2;
    }
    return true;
}

static void scan_cells(struct lvn_metrics_file *m, const char *row)
{
    struct value v[VALUES];
    int n = 0;
    const char *column = m->columns.p, *cell;
    int64_t length;
    while (n < VALUES && next_cell(&column, &v[n].name, &v[n].length) && next_cell(&row, &cell, &length)) {
        char *end;
        v[n].number = strtod(cell, &end);
        if (!length || end != cell + length) v[n].number = NAN;
        n++;
    }
    add_row(m, v, n);
}

/* A line without its end. */
static void read_line(struct lvn_metrics_file *m, char *line, int64_t length, bool csv)
{
    if (length && line[length - 1] == '\r') line[--length] = '\0';
    if (!*skip(line)) return;
    if (lvn_utf8_check(line, length) >= 0 || (int64_t)strlen(line) != length) {
        m->broken++;
        if (csv && !m->columns.n) lvn_text_add(&m->columns, "-"); /* no known column */
    } else if (!csv) {
        if (!scan_object(m, line)) m->broken++;
    } else if (m->columns.n) {
        scan_cells(m, line);
    } else {
        lvn_text_add(&m->columns, line);
    }
}

/* Read the complete lines of `text`; returns their bytes. */
static int64_t read_lines(struct lvn_metrics_file *m, char *text, int64_t bytes, bool csv)
{
    char *line = text, *end;
    while ((end = memchr(line, '\n', (size_t)(text + bytes - line)))) {
        *end = '\0';
        read_line(m, line, end - line, csv);
        line = end + 1;
    }
    return line - text;
}

static enum lvn_status read_on(struct lvn_metrics_file *m, const char *path, int fd, char *buffer, bool csv)
{
    int64_t held = 0; /* bytes of an incomplete row at the start of the buffer */
    for (;;) {
        ssize_t n = pread(fd, buffer + held, CHUNK, (off_t)(m->offset + held));
        if (n < 0 && errno == EINTR) continue;
        LVN_CHECK(n >= 0, IO, "cannot read '%s': %s", path, strerror(errno));
        if (!n) return LVN_OK;
        int64_t bytes = held + n, used = read_lines(m, buffer, bytes, csv);
        if (!used && bytes > LONGEST_ROW) { /* not a row of metrics */
            m->broken++;
            used = bytes;
        }
        held = bytes - used;
        memmove(buffer, buffer + used, (size_t)held);
        m->offset += used;
    }
}

enum lvn_status lvn_metrics_file_read(struct lvn_metrics_file *m, const char *path, bool csv)
{
    int fd;
    LVN_TRY(lvn_input_open(path, LVN_INPUT_REGULAR, &fd));
    if (lseek(fd, 0, SEEK_END) < m->offset) lvn_metrics_file_release(m);
    char *buffer = lvn_malloc(LONGEST_ROW + 2 * CHUNK + 1);
    enum lvn_status status = buffer ? read_on(m, path, fd, buffer, csv) : LVN_MEMORY;
    free(buffer);
    close(fd);
    if (status == LVN_OK && (m->list.failed || m->columns.failed))
        status = lvn_fail(LVN_MEMORY, "not enough memory to read '%s'", path);
    return status;
}

void lvn_metrics_file_release(struct lvn_metrics_file *m)
{
    lvn_series_release(&m->list);
    lvn_text_release(&m->columns);
    *m = (struct lvn_metrics_file){0};
}
