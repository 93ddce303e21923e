/* assignments.c - see assignments.h; works line by line.
 *
 * Text between triple quotes that spans lines is skipped, so that none of its lines is treated as a setting. */
#include "formats/assignments.h"

#include "base/files.h"
#include "base/text.h"

enum { MAX_LINES = 10000, MAX_BYTES = 1 << 20, MAX_LINE_TEXT = 100 };

static const char *skip_blanks(const char *p)
{
    return p + strspn(p, " \t");
}

/* True if the rest of the line is empty or a comment. */
static bool is_end(const char *p)
{
    p = skip_blanks(p);
    return *p == 0 || *p == '#';
}

/* The number as written in recipes: the shortest text that reads back. */
static enum lvn_status spell(struct lvn_arena *a, double x, bool whole, struct lvn_assigned *v)
{
    char text[LVN_NUMBER_TEXT];
    if (!isfinite(x)) return LVN_OK;
    if (whole && fabs(x) < 1e15)
        snprintf(text, sizeof text, "%.0f", x);
    else
        lvn_shortest_text(x, 1, text);
    v->kind = LVN_ASSIGNED_NUMBER;
    v->number = x;
    v->text = lvn_arena_strdup(a, text);
    return v->text ? LVN_OK : LVN_MEMORY;
}

/* A number, or a product of numbers. */
static enum lvn_status number(struct lvn_arena *a, const char *p, struct lvn_assigned *v)
{
    double x = 1;
    bool whole = true;
    for (;; p++) {
        p = skip_blanks(p);
        size_t n = strspn(p, "+-"), digits = strspn(p + n, "0123456789.eE+-");
        char *end;
        x *= strtod(p, &end);
        if (n > 1 || !digits || end != p + n + digits) return LVN_OK;
        whole &= !memchr(p, '.', n + digits) && !memchr(p, 'e', n + digits) && !memchr(p, 'E', n + digits);
        p = skip_blanks(end);
        if (*p != '*') return is_end(p) ? spell(a, x, whole, v) : LVN_OK;
    }
}

/* Parse the right-hand side; the kind stays UNREAD if it is not a literal. */
static enum lvn_status literal(struct lvn_arena *a, const char *p, struct lvn_assigned *v)
{
    static const struct {
        const char *name, *text;
        enum lvn_assigned_kind kind;
        double number;
    } words[] = {{"True", "true", LVN_ASSIGNED_BOOL, 1},
                 {"False", "false", LVN_ASSIGNED_BOOL, 0},
                 {"None", "none", LVN_ASSIGNED_NONE, 0}};
    if (*p == '\'' || *p == '"') {
        const char *end = strchr(p + 1, *p);
        if (!end || memchr(p, '\\', (size_t)(end - p)) || !is_end(end + 1)) return LVN_OK;
        v->kind = LVN_ASSIGNED_TEXT;
        v->text = lvn_arena_printf(a, "%.*s", (int)(end - p - 1), p + 1);
        return v->text ? LVN_OK : LVN_MEMORY;
    }
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].name);
        if (strncmp(p, words[i].name, n) != 0 || !is_end(p + n)) continue;
        v->kind = words[i].kind;
        v->number = words[i].number;
        v->text = words[i].text;
        return LVN_OK;
    }
    return number(a, p, v);
}

static enum lvn_status read_line(struct lvn_arena *a, const char *line, struct lvn_assigned *v)
{
    size_t n = 0;
    if (!isdigit((unsigned char)*line))
        while (isalnum((unsigned char)line[n]) || line[n] == '_') n++;
    const char *p = skip_blanks(line + n);
    if (n && *p == '=' && p[1] != '=') {
        v->name = lvn_arena_printf(a, "%.*s", (int)n, line);
        if (!v->name) return LVN_MEMORY;
        LVN_TRY(literal(a, skip_blanks(p + 1), v));
        if (v->text) return LVN_OK;
    }
    n = strlen(line = skip_blanks(line));
    while (n && line[n - 1] == ' ') n--;
    if (n > MAX_LINE_TEXT) /* do not cut within a UTF-8 character */
        for (n = MAX_LINE_TEXT; n && ((unsigned char)line[n] & 0xc0) == 0x80;) n--;
    v->text = lvn_arena_printf(a, "%.*s", (int)n, line);
    return v->text ? LVN_OK : LVN_MEMORY;
}

/* The first triple quotes on the line; NULL if there are none. */
static const char *long_quotes(const char *line)
{
    const char *one = strstr(line, "'''"), *two = strstr(line, "\"\"\"");
    return one && (!two || one < two) ? one : two;
}

static enum lvn_status read_lines(struct lvn_arena *a, const char *name, char *text, struct lvn_assigned *list, int *n)
{
    char *next = text;
    for (int number = 1, spanned = 0; next; number += 1 + spanned) {
        char *line = next, *begin = line + strspn(line, " \t\r");
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        line[strcspn(line, "\r")] = 0;
        spanned = 0;
        if (is_end(begin)) continue;
        LVN_CHECK(*n < MAX_LINES, FORMAT, "'%s' has more than %d statements: this is not a configuration", name,
                  MAX_LINES);
        struct lvn_assigned *v = &list[*n];
        *v = (struct lvn_assigned){.kind = LVN_ASSIGNED_UNREAD, .line = number};
        LVN_TRY(read_line(a, line, v));
        const char *quotes = v->kind == LVN_ASSIGNED_UNREAD ? long_quotes(line) : NULL;
        if (!quotes || quotes != begin) ++*n; /* a lone string is a comment in Python */
        if (!quotes || strstr(quotes + 3, (char[]){*quotes, *quotes, *quotes, 0})) continue;
        char *end = next ? strstr(next, (char[]){*quotes, *quotes, *quotes, 0}) : NULL;
        LVN_CHECK(end, FORMAT, "%s:%d: unterminated string", name, number);
        for (char *p = next; p < end; p++) spanned += *p == '\n';
        next = strchr(end, '\n');
        spanned++;
        if (next) next++;
    }
    return LVN_OK;
}

enum lvn_status lvn_assignments_parse(struct lvn_arena *a, const char *name, const char *text, int64_t bytes,
                                      const struct lvn_assigned **list, int *n)
{
    int64_t bom = lvn_utf8_bom(text, bytes);
    struct lvn_assigned *all = lvn_arena_alloc(a, sizeof *all * MAX_LINES);
    *n = 0;
    *list = all;
    LVN_CHECK(lvn_utf8_check(text, bytes) < 0 && !memchr(text, 0, (size_t)bytes), FORMAT,
              "'%s' is not a text: it is not UTF-8 or contains a NUL", name);
    char *copy = lvn_arena_printf(a, "%.*s", (int)(bytes - bom), text + bom);
    return all && copy ? read_lines(a, name, copy, all, n) : LVN_MEMORY;
}

enum lvn_status lvn_assignments_read(struct lvn_arena *a, const char *path, const struct lvn_assigned **list, int *n)
{
    char *text;
    int64_t bytes;
    LVN_TRY(lvn_file_read(path, MAX_BYTES, &text, &bytes));
    enum lvn_status status = lvn_assignments_parse(a, path, text, bytes, list, n);
    free(text);
    return status;
}

const struct lvn_assigned *lvn_assignments_find(const struct lvn_assigned *list, int n, const char *name)
{
    for (int i = n - 1; i >= 0; i--)
        if (list[i].name && list[i].kind != LVN_ASSIGNED_UNREAD && !strcmp(list[i].name, name)) return &list[i];
    return NULL;
}
