/* json_scan.c - see json_scan.h. */
#include "formats/json_scan.h"

#include "base/text.h"
#include "formats/json.h"

static enum lvn_status fail(const struct lvn_json_scan *scan, const char *reason)
{
    int64_t line = 1;
    for (const char *p = scan->text; p < scan->at && p < scan->end; p++) line += *p == '\n';
    LVN_FAIL(FORMAT, "%s:%lld: invalid JSON: %s", scan->name, (long long)line, reason);
}

struct lvn_json_scan lvn_json_scan_begin(const char *name, const char *text, int64_t bytes, struct lvn_arena *arena)
{
    return (struct lvn_json_scan){
        .name = name, .text = text, .at = text + lvn_utf8_bom(text, bytes), .end = text + bytes, .arena = arena};
}

char lvn_json_scan_peek(struct lvn_json_scan *scan)
{
    while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t'))
        scan->at++;
    return scan->at < scan->end ? *scan->at : '\0';
}

enum lvn_status lvn_json_scan_enter(struct lvn_json_scan *scan, char bracket)
{
    if (lvn_json_scan_peek(scan) != bracket)
        return fail(scan, bracket == '[' ? "expected a list" : "expected an object");
    scan->at++;
    return LVN_OK;
}

enum lvn_status lvn_json_scan_next(struct lvn_json_scan *scan, char bracket, int64_t i, bool *more)
{
    char c = lvn_json_scan_peek(scan);
    *more = c != bracket;
    if (i && *more) {
        if (c != ',') return fail(scan, "expected a comma or a closing bracket");
        scan->at++;
        if (lvn_json_scan_peek(scan) == bracket) return fail(scan, "expected a value after the comma");
    }
    if (!*more) scan->at++;
    return LVN_OK;
}

/* --- strings --- */

/* The closing quote of the string that begins at `p`; NULL: not found. */
static const char *string_end(const char *p, const char *end)
{
    for (const char *quote; (quote = memchr(p, '"', (size_t)(end - p))); p = quote + 1) {
        const char *back = quote;
        while (back > p && back[-1] == '\\') back--;
        if ((quote - back) % 2 == 0) return quote;
    }
    return NULL;
}

static int32_t hex(const char *p, const char *end)
{
    return end - p < 4 ? -1 : (int32_t)lvn_hex_number(p, 4);
}

/* Decode \uXXXX (p is after the u), or a surrogate pair of two; -1: invalid. */
static int32_t code_of(const char **p, const char *end)
{
    int32_t code = hex(*p, end);
    *p += 4;
    if (code < 0xd800 || code > 0xdfff) return code;
    int32_t second = end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u' ? hex(*p + 2, end) : -1;
    *p += 6;
    if (code > 0xdbff || second < 0xdc00 || second > 0xdfff) return -1;
    return 0x10000 + ((code - 0xd800) << 10) + second - 0xdc00;
}

/* Decode a string with escapes into the arena; [p, end) is between its quotes. */
static enum lvn_status unescape(struct lvn_json_scan *scan, const char *p, const char *end, const char **text,
                                int64_t *bytes)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char *out = lvn_arena_alloc(scan->arena, (size_t)(end - p) + 1);
    if (!out) return LVN_MEMORY;
    *text = out;
    while (p < end) {
        if ((unsigned char)*p < 0x20) return fail(scan, "a string contains a control character");
        if (*p != '\\') {
            *out++ = *p++;
            continue;
        }
        const char *known = p[1] ? strchr(letters, p[1]) : NULL;
        bool coded = p[1] == 'u';
        p += 2;
        int32_t code = coded ? code_of(&p, end) : known ? values[known - letters] : -1;
        if (code < 0) return fail(scan, "a string has an invalid escape");
        out += lvn_utf8_encode(code, out);
    }
    *bytes = out - *text;
    return LVN_OK;
}

enum lvn_status lvn_json_scan_string(struct lvn_json_scan *scan, const char **text, int64_t *bytes)
{
    if (lvn_json_scan_peek(scan) != '"') return fail(scan, "expected a string");
    const char *begin = scan->at + 1, *p = begin, *end = scan->end;
    unsigned char all = 0;
    for (; p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20; p++) all |= (unsigned char)*p;
    bool plain = p < end && *p == '"';
    if (!plain) p = string_end(begin, end);
    if (!p) return fail(scan, "unterminated string");
    if (plain) {
        *text = begin;
        *bytes = p - begin;
    } else {
        LVN_TRY(unescape(scan, begin, p, text, bytes));
    }
    if ((all >= 0x80 || !plain) && lvn_utf8_check(*text, *bytes) >= 0) return fail(scan, "a string is not UTF-8");
    scan->at = p + 1;
    return LVN_OK;
}

enum lvn_status lvn_json_scan_key(struct lvn_json_scan *scan, const char **key, int64_t *bytes)
{
    LVN_TRY(lvn_json_scan_string(scan, key, bytes));
    if (lvn_json_scan_peek(scan) != ':') return fail(scan, "expected a colon after the key");
    scan->at++;
    return LVN_OK;
}

/* --- numbers --- */

/* True if this character ends a word (a number, true, null). */
static inline bool ends_word(char c)
{
    unsigned char u = (unsigned char)c;
    return u <= ' ' || u >= 0x7f || c == ',' || c == ':' || c == '[' || c == ']' || c == '{' || c == '}' || c == '"';
}

/* The end of the word at `p`. */
static const char *word_end(const char *p, const char *end)
{
    while (p < end && !ends_word(*p)) p++;
    return p;
}

enum lvn_status lvn_json_scan_index(struct lvn_json_scan *scan, int64_t *value)
{
    char first = lvn_json_scan_peek(scan);
    const char *p = scan->at;
    int64_t n = 0;
    while (p < scan->end && *p >= '0' && *p <= '9' && p - scan->at < 16) n = n * 10 + (*p++ - '0');
    bool ended = p == scan->end || ends_word(*p), zero = first == '0' && p - scan->at > 1;
    *value = -1;
    if (p == scan->at || !ended || zero || p - scan->at > 15) return lvn_json_scan_skip(scan, NULL);
    *value = n;
    scan->at = p;
    return LVN_OK;
}

enum lvn_status lvn_json_scan_real(struct lvn_json_scan *scan, double *value, bool *is)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    char first = lvn_json_scan_peek(scan);
    const char *p = scan->at + (first == '-'), *begin = p, *point = NULL, *end = word_end(scan->at, scan->end);
    uint64_t digits = 0;
    *is = first == '-' || (first >= '0' && first <= '9');
    if (!*is) return lvn_json_scan_skip(scan, NULL);
    for (; p < end && ((*p >= '0' && *p <= '9') || (*p == '.' && !point)) && digits < (uint64_t)1 << 49; p++) {
        if (*p == '.')
            point = p;
        else
            digits = digits * 10 + (uint64_t)(*p - '0');
    }
    int64_t fraction = point ? p - point - 1 : 0;
    bool plain = p == end && p > begin && (!point || fraction > 0) && point != begin && digits <= (uint64_t)1 << 53 &&
                 fraction <= 22 && (*begin != '0' || p == begin + 1 || point == begin + 1);
    if (plain) { /* an integer and a power of ten, both exact: the quotient is correctly rounded */
        *value = (first == '-' ? -1.0 : 1.0) * ((double)digits / power[fraction]);
    } else {
        json_error_t error;
        json_t *number = NULL;
        LVN_TRY(lvn_json_load(scan->at, end - scan->at, JSON_DECODE_ANY, &number, &error));
        *is = json_is_number(number);
        *value = json_number_value(number);
        json_decref(number);
        if (!*is) return fail(scan, "expected a number");
    }
    scan->at = end;
    return LVN_OK;
}

/* --- other values --- */

enum lvn_status lvn_json_scan_skip(struct lvn_json_scan *scan, int64_t *entries)
{
    int64_t depth = 0, n = 0;
    do {
        char c = lvn_json_scan_peek(scan);
        const char *end = scan->at + 1;
        if (depth == 1 && !n && c != ']' && c != '}') n = 1;
        if (c == '"') {
            end = string_end(scan->at + 1, scan->end);
            if (!end) return fail(scan, "unterminated string");
            end++;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if (depth && (c == '}' || c == ']')) {
            depth--;
        } else if (depth && (c == ',' || c == ':')) {
            n += depth == 1 && c == ',';
        } else {
            end = word_end(scan->at, scan->end);
            if (end == scan->at) return fail(scan, "expected a value");
        }
        scan->at = end;
    } while (depth);
    if (entries) *entries = n;
    return LVN_OK;
}

enum lvn_status lvn_json_scan_end(struct lvn_json_scan *scan)
{
    return lvn_json_scan_peek(scan) || scan->at < scan->end ? fail(scan, "unexpected text after its end") : LVN_OK;
}

/* --- whole values --- */

enum { BUILT_DEPTH = 32 };

static enum lvn_status build(struct lvn_json_scan *scan, int depth, json_t **out);

static enum lvn_status build_list(struct lvn_json_scan *scan, int depth, json_t *list)
{
    bool more;
    for (int64_t i = 0;; i++) {
        json_t *value;
        LVN_TRY(lvn_json_scan_next(scan, ']', i, &more));
        if (!more) return LVN_OK;
        LVN_TRY(build(scan, depth, &value));
        if (json_array_append_new(list, value)) return LVN_MEMORY;
    }
}

static enum lvn_status build_object(struct lvn_json_scan *scan, int depth, json_t *object)
{
    bool more;
    for (int64_t i = 0;; i++) {
        const char *text, *key;
        json_t *value;
        int64_t n;
        LVN_TRY(lvn_json_scan_next(scan, '}', i, &more));
        if (!more) return LVN_OK;
        LVN_TRY(lvn_json_scan_key(scan, &text, &n));
        if (!(key = lvn_arena_printf(scan->arena, "%.*s", (int)n, text))) return LVN_MEMORY;
        if ((int64_t)strlen(key) != n || json_object_get(object, key)) return fail(scan, "a key that jansson refuses");
        LVN_TRY(build(scan, depth, &value));
        if (json_object_set_new_nocheck(object, key, value)) return LVN_MEMORY;
    }
}

static enum lvn_status build_word(struct lvn_json_scan *scan, json_t **out)
{
    const char *begin = scan->at;
    json_error_t error;
    int64_t n;
    LVN_TRY(lvn_json_scan_index(scan, &n));
    if (n >= 0) {
        *out = json_integer(n);
        return LVN_OK;
    }
    scan->at = word_end(begin, scan->end);
    return lvn_json_load(begin, scan->at - begin, JSON_DECODE_ANY | LVN_JSON_ROW, out, &error);
}

/* Fail for everything that jansson may refuse; *out may be part of a value then. */
static enum lvn_status build(struct lvn_json_scan *scan, int depth, json_t **out)
{
    const char c = lvn_json_scan_peek(scan), *text;
    int64_t n;
    *out = NULL;
    if (depth > BUILT_DEPTH) return fail(scan, "too deep for this function");
    if (c == '"') {
        LVN_TRY(lvn_json_scan_string(scan, &text, &n));
        if (!memchr(text, 0, (size_t)n)) *out = json_stringn_nocheck(text, (size_t)n);
    } else if (c == '[' || c == '{') {
        *out = c == '[' ? json_array() : json_object();
        scan->at++;
        const enum lvn_status status =
            c == '[' ? build_list(scan, depth + 1, *out) : build_object(scan, depth + 1, *out);
        if (status != LVN_OK) json_decref(*out);
        LVN_TRY(status);
    } else {
        LVN_TRY(build_word(scan, out));
    }
    return *out ? LVN_OK : LVN_MEMORY;
}

enum lvn_status lvn_json_scan_load(const char *text, int64_t bytes, json_t **out, json_error_t *error)
{
    LVN_LOCAL_ARENA(a);
    struct lvn_json_scan scan = {.name = "", .text = text, .at = text, .end = text + bytes, .arena = &a};
    const long begun = lvn_json_begin();
    json_t *value = NULL;
    enum lvn_status status = build(&scan, 0, &value);
    if (status == LVN_OK) {
        status = lvn_json_scan_end(&scan);
        if (status == LVN_OK && lvn_json_check(begun) == LVN_OK && (json_is_object(value) || json_is_array(value))) {
            *out = value;
            return LVN_OK;
        }
        json_decref(value);
    }
    lvn_error_clear();
    return lvn_json_load(text, bytes, JSON_REJECT_DUPLICATES | LVN_JSON_ROW, out, error); /* with its message */
}
