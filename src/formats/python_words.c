/* python_words.c - a scanner after The Python Language Reference, 2 (lexical analysis): see python_words.h. */
#include "formats/python_words.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* White space, comments, and line ends within brackets. False at a line end that counts. */
static bool skip(struct lvn_py_scanner *s)
{
    while (s->p < s->end) {
        if (*s->p == '#') {
            while (s->p < s->end && *s->p != '\n') s->p++;
        } else if (*s->p == '\\' && s->end - s->p > 1 && (s->p[1] == '\n' || s->p[1] == '\r')) {
            s->p += s->p[1] == '\r' && s->end - s->p > 2 && s->p[2] == '\n' ? 3 : 2;
            s->line++;
        } else if (*s->p == '\n') {
            if (!s->brackets) return false;
            s->line++;
            s->p++;
        } else if (*s->p == ' ' || *s->p == '\t' || *s->p == '\r' || *s->p == '\f') {
            s->p++;
        } else {
            break;
        }
    }
    return true;
}

static int hex_digits(const char *p, const char *end, int n, int32_t *code)
{
    *code = 0;
    for (int i = 0; i < n; i++) {
        if (p + i >= end || !isxdigit((unsigned char)p[i])) return 0;
        *code = *code * 16 + (isdigit((unsigned char)p[i]) ? p[i] - '0' : (p[i] | 32) - 'a' + 10);
        if (*code > 0x10ffff) return 0;
    }
    return n;
}

/* The escape behind a backslash at p; returns the bytes it takes, 0: an odd one. */
static int escape(const char *p, const char *end, struct lvn_text *out)
{
    static const char from[] = "ntr\\'\"abfv0", to[] = "\n\t\r\\'\"\a\b\f\v";
    const char *found = strchr(from, *p);
    if (*p == '\n') return 1;
    if (*p == '0') return 0; /* a NUL is in nobody's settings */
    if (found && *p) {
        lvn_text_add_bytes(out, to + (found - from), 1);
        return 1;
    }
    int digits = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    int32_t code;
    char utf8[4];
    if (!digits) {
        lvn_text_add_bytes(out, "\\", 1);
        lvn_text_add_bytes(out, p, 1);
        return 1;
    }
    if (!hex_digits(p + 1, end, digits, &code) || !code || (code >= 0xd800 && code < 0xe000)) return 0;
    lvn_text_add_bytes(out, utf8, lvn_utf8_encode(code, utf8));
    return 1 + digits;
}

/* A string whose quotes begin at p. Odd escapes make it an odd word. */
static enum lvn_status string(struct lvn_py_scanner *s, const char *p, bool raw)
{
    struct lvn_text out = {0};
    int began = s->line;
    bool odd = false, closed = false;
    char quote = *p;
    int marks = s->end - p > 2 && p[1] == quote && p[2] == quote ? 3 : 1;
    p += marks;
    while (p < s->end && !closed) {
        bool ends = *p == quote && (marks == 1 || (s->end - p > 2 && p[1] == quote && p[2] == quote));
        if (ends) {
            p += marks;
            closed = true;
        } else if (*p == '\n' && marks == 1) {
            break;
        } else if (*p == '\\' && s->end - p > 1) {
            s->line += p[1] == '\n';
            int used = raw ? 0 : escape(p + 1, s->end, &out);
            if (raw) lvn_text_add_bytes(&out, p, 2);
            odd = odd || (!raw && !used);
            p += 1 + (used ? used : 1);
        } else {
            s->line += *p == '\n';
            lvn_text_add_bytes(&out, p++, 1);
        }
    }
    const char *text = lvn_text_string(&out);
    s->text = text ? lvn_arena_strdup(s->arena, text) : NULL;
    lvn_text_release(&out);
    if (!s->text) return LVN_MEMORY;
    LVN_CHECK(closed, FORMAT, "%s:%d: a string that does not end", s->name, began);
    s->p = p;
    s->token = odd ? LVN_PY_ODD : LVN_PY_STRING;
    return LVN_OK;
}

/* 40, 1_000, 0x10, 1e-3, .5 */
static void number(struct lvn_py_scanner *s)
{
    char digits[64];
    size_t n = 0;
    bool based = s->end - s->p > 2 && *s->p == '0' && strchr("xXoObB", s->p[1]);
    s->whole = true;
    for (; s->p < s->end; s->p++) {
        bool sign = (*s->p == '+' || *s->p == '-') && n && (digits[n - 1] | 32) == 'e' && !based;
        if (!isalnum((unsigned char)*s->p) && *s->p != '_' && *s->p != '.' && !sign) break;
        if (!based && (*s->p == '.' || *s->p == 'e' || *s->p == 'E')) s->whole = false;
        if (*s->p != '_' && n < sizeof digits) digits[n++] = *s->p;
    }
    char *stop = digits;
    s->token = LVN_PY_NUMBER;
    if (n < sizeof digits) {
        digits[n] = '\0';
        int base = (digits[1] | 32) == 'x' ? 16 : (digits[1] | 32) == 'o' ? 8 : 2;
        s->number = based ? (double)strtoull(digits + 2, &stop, base) : strtod(digits, &stop);
    }
    if (stop != digits + n || n == sizeof digits || !isfinite(s->number)) s->token = LVN_PY_ODD;
}

static bool is_letter(char c)
{
    return isalpha((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

static enum lvn_status name_or_string(struct lvn_py_scanner *s)
{
    while (s->p < s->end && (is_letter(*s->p) || isdigit((unsigned char)*s->p))) s->p++;
    int64_t n = s->p - s->at;
    s->token = LVN_PY_NAME;
    if (s->p == s->end || (*s->p != '\'' && *s->p != '"') || n > 2) return LVN_OK;
    bool raw = false, plain = true;
    for (int64_t i = 0; i < n; i++) {
        raw = raw || (s->at[i] | 32) == 'r';
        plain = plain && strchr("rRuU", s->at[i]);
    }
    LVN_TRY(string(s, s->p, raw || !plain));
    if (!plain) s->token = LVN_PY_ODD; /* f"", b"" */
    return LVN_OK;
}

static void sign(struct lvn_py_scanner *s)
{
    static const char *const two[] = {"**", "//", "==", "!=", "<=", ">=", ":=", "->", "+=", "-=", "*=", "/=", "%="};
    size_t n = 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (s->end - s->p > 1 && !strncmp(s->p, two[i], 2)) n = 2;
    if (strchr("([{", *s->p)) s->brackets++;
    if (strchr(")]}", *s->p) && s->brackets) s->brackets--;
    memcpy(s->sign, s->p, n);
    s->sign[n] = '\0';
    s->p += n;
    s->token = LVN_PY_OPERATOR;
}

enum lvn_status lvn_py_next(struct lvn_py_scanner *s)
{
    int line = s->line;
    bool goes_on = skip(s);
    s->at = s->p;
    s->at_line = s->line;
    if (s->p == s->end) {
        LVN_CHECK(!s->brackets, FORMAT, "%s:%d: a bracket that is not closed before the end of the file", s->name,
                  line);
        s->token = LVN_PY_END;
    } else if (!goes_on) {
        s->p++;
        s->line++;
        s->token = LVN_PY_NEWLINE;
    } else if (isdigit((unsigned char)*s->p) ||
               (*s->p == '.' && s->end - s->p > 1 && isdigit((unsigned char)s->p[1]))) {
        number(s);
    } else if (is_letter(*s->p)) {
        LVN_TRY(name_or_string(s));
    } else if (*s->p == '\'' || *s->p == '"') {
        LVN_TRY(string(s, s->p, false));
    } else {
        sign(s);
    }
    s->n = s->p - s->at;
    return LVN_OK;
}
