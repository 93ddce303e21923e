/* json.c - see json.h: strict reading with jansson, and a separate writer.
 *
 * jansson handles UTF-8, duplicate keys and numbers; the depth is checked here before the call, because jansson
 * recurses. It is not used for writing, because it prints 0.1 as 0.10000000000000001, and differently from
 * version to version. */
#include "formats/json.h"

#include <float.h>
#include <pthread.h>
#include <stdalign.h>

#include "base/files.h"
#include "base/target.h"

enum { DEPTH = 64, LARGEST = 1 << 30 };

/* --- memory --- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local long failures; /* failed allocations of this thread */

/* jansson's reader does not detect that its buffer for a token could not grow: it loses letters of the token, then
 * searches for the closing quote beyond the buffer, or aborts on a number that lacks a digit. So its buffer must always
 * grow: after the first failed allocation it grows from this reserve, and all other allocations fail, so that jansson
 * stops. The buffer's sizes are powers of two, each requested once per text. Few other allocations have such a size;
 * these may use the reserve a limited number of times, so that enough remains for the buffer. */
enum { SMALL_RESERVE = 4096, MIN_GROWTH = 32, USES_PER_SIZE = 4 };
static _Thread_local struct {
    bool active;      /* lvn_json_load() is running */
    bool failed;      /* an allocation failed since it started */
    char *reserve;    /* `small`, or a larger block if the longest token needs it */
    size_t capacity;  /* bytes of it */
    size_t used;      /* bytes of it */
    uint8_t uses[64]; /* how often a block of 2^i bytes was used */
    alignas(max_align_t) char small[SMALL_RESERVE];
} reader;

static void *use_reserve(size_t bytes)
{
    bool grows = bytes >= MIN_GROWTH && (bytes & (bytes - 1)) == 0;
    if (!grows || bytes > reader.capacity - reader.used) return NULL;
    if (reader.uses[__builtin_ctzll(bytes)]++ >= USES_PER_SIZE) return NULL;
    reader.used += bytes;
    return reader.reserve + reader.used - bytes;
}

static void *allocate(size_t bytes)
{
    void *p = reader.failed ? NULL : lvn_malloc(bytes);
    if (p) return p;
    failures++;
    reader.failed = reader.active;
    return reader.failed ? use_reserve(bytes) : NULL;
}

static void release(void *p)
{
    if ((uintptr_t)p - (uintptr_t)reader.reserve >= reader.capacity) free(p);
}

/* Prepare the reserve for tokens of up to `token` bytes: the sum of the buffer's sizes from 32 to the first one above
 * that is less than four times `token`. */
static enum lvn_status begin_reading(int64_t token)
{
    const size_t needed = (size_t)USES_PER_SIZE * 4 * ((size_t)token + MIN_GROWTH);
    const bool large = needed > sizeof reader.small;
    memset(reader.uses, 0, sizeof reader.uses);
    reader.used = 0;
    reader.capacity = large ? needed : sizeof reader.small;
    reader.reserve = large ? lvn_malloc(needed) : reader.small;
    if (!reader.reserve) return LVN_MEMORY;
    reader.active = true;
    return LVN_OK;
}

static void end_reading(void)
{
    if (reader.reserve != reader.small) free(reader.reserve);
    reader.reserve = NULL;
    reader.capacity = 0;
    reader.active = reader.failed = false;
}

static void set_functions(void)
{
    json_set_alloc_funcs(allocate, release);
}

long lvn_json_begin(void)
{
    pthread_once(&once, set_functions);
    return failures;
}

enum lvn_status lvn_json_check(long begun)
{
    LVN_CHECK(failures == begun, MEMORY, "not enough memory for a JSON value");
    return LVN_OK;
}

/* --- read --- */

/* The line (from 1) on which nesting exceeds DEPTH; 0 if it does not. */
static int too_deep(const char *text, int64_t bytes)
{
    int depth = 0, line = 1;
    bool string = false;
    for (int64_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (c == '\n') line++;
        if (string) {
            if (c == '\\') i++;
            if (c == '"') string = false;
        } else if (c == '"') {
            string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > DEPTH) return line;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return 0;
}

/* Length of the longest string or number, quotes included. */
static int64_t longest_token(const char *text, int64_t bytes)
{
    int64_t max = 0, begin = 0;
    bool string = false;
    for (int64_t i = 0; i < bytes; i++) {
        const char c = text[i];
        if (string && c == '\\') i++;
        if (string ? c != '"' : c != '"' && c != ',' && c != ':' && c != '[' && c != '{') continue;
        if (i - begin + 1 > max) max = i - begin + 1;
        if (c == '"') string = !string;
        begin = string ? i : i + 1;
    }
    return bytes - begin > max ? bytes - begin : max;
}

/* Length of NaN, Infinity or -Infinity at the beginning of a text; 0: it begins otherwise. */
static int64_t not_finite(const char *text, int64_t bytes)
{
    static const char *const words[] = {"NaN", "Infinity", "-Infinity"};
    for (int i = 0; i < 3; i++) {
        const int64_t n = (int64_t)strlen(words[i]);
        if (n <= bytes && memcmp(text, words[i], (size_t)n) == 0) return n;
    }
    return 0;
}

/* Copy a JSON text, and change what jansson refuses: integers beyond 64 bits and reals beyond DBL_MAX. Such integers
 * become reals ("e0" is appended), and such reals become DBL_MAX. In rows of data such integers become strings, and the
 * words NaN and Infinity become null. */
static void add_rounded(struct lvn_text *t, const char *text, int64_t bytes, bool row)
{
    bool string = false;
    int64_t copied = 0;
    for (int64_t i = 0; i < bytes && !t->failed; i++) {
        if (text[i] == '"') string = !string;
        if (string && text[i] == '\\') i++;
        const int64_t word = row && !string ? not_finite(text + i, bytes - i) : 0;
        if (word) {
            lvn_text_add_bytes(t, text + copied, i - copied);
            lvn_text_add(t, "null");
            copied = i + word;
            i = copied - 1;
        }
        if (word || string || (text[i] != '-' && (text[i] < '0' || text[i] > '9'))) continue;
        const int64_t begin = i++;
        while (i < bytes && memchr("0123456789+-.eE", text[i], 15)) i++;
        const int64_t before = t->n + begin - copied;
        lvn_text_add_bytes(t, text + copied, i - copied);
        copied = i--;
        const char *number = t->failed ? "0" : t->p + before;
        const double real = strtod(number, NULL);
        errno = 0;
        if (isinf(real)) {
            t->n = before;
            lvn_text_printf(t, "%.17g", real < 0 ? -DBL_MAX : DBL_MAX);
        } else if (!strpbrk(number, ".eE")) {
            (void)strtoll(number, NULL, 10);
            if (errno == ERANGE && row) {
                LVN_LOCAL_TEXT(digits);
                lvn_text_add(&digits, number);
                t->n = before;
                lvn_text_printf(t, "\"%s\"", lvn_text_string(&digits));
            } else if (errno == ERANGE) {
                lvn_text_add(t, "e0");
            }
        }
    }
    lvn_text_add_bytes(t, text + copied, bytes - copied);
}

static enum lvn_status load(const char *text, int64_t bytes, size_t flags, json_t **out, json_error_t *error)
{
    long begun = lvn_json_begin();
    *out = NULL;
    LVN_TRY(begin_reading(longest_token(text, bytes)));
    *out = json_loadb(text, (size_t)bytes, flags & ~(size_t)LVN_JSON_ROW, error);
    const bool whole = failures == begun;
    if (!whole) {
        json_decref(*out);
        *out = NULL;
    }
    end_reading();
    LVN_CHECK(whole, MEMORY, "not enough memory for %lld bytes of JSON", (long long)bytes);
    if (!*out && strstr(error->text, "JSON_ALLOW_NUL"))
        snprintf(error->text, sizeof error->text,
                 "a string has the character U+0000 (\\u0000), which is not supported");
    return LVN_OK;
}

enum lvn_status lvn_json_load(const char *text, int64_t bytes, size_t flags, json_t **out, json_error_t *error)
{
    LVN_LOCAL_TEXT(t);
    LVN_TRY(load(text, bytes, flags, out, error));
    const bool row = flags & LVN_JSON_ROW;
    if (*out || (!strstr(error->text, "too big") && !strstr(error->text, "overflow") &&
                 !(row && strstr(error->text, "invalid token"))))
        return LVN_OK;
    add_rounded(&t, text, bytes, row);
    LVN_TRY(lvn_text_status(&t));
    return load(t.p, t.n, flags, out, error);
}

enum lvn_status lvn_json_parse(const char *name, const char *text, int64_t bytes, json_t **out)
{
    *out = NULL;
    int deep = too_deep(text, bytes);
    LVN_CHECK(!deep, FORMAT, "%s:%d: the JSON nests more than %d levels", name, deep, DEPTH);
    json_error_t error;
    int64_t bom = lvn_utf8_bom(text, bytes);
    LVN_TRY_WHILE(lvn_json_load(text + bom, bytes - bom, JSON_REJECT_DUPLICATES, out, &error), "reading '%s'", name);
    if (*out) return LVN_OK;
    LVN_FAIL(FORMAT, "%s:%d: invalid JSON: %s", name, error.line > 0 ? error.line : 1, error.text);
}

enum lvn_status lvn_json_read(const char *path, json_t **out)
{
    char *text;
    int64_t bytes;
    *out = NULL;
    LVN_TRY(lvn_file_read(path, LARGEST, &text, &bytes));
    enum lvn_status status = lvn_json_parse(path, text, bytes, out);
    free(text);
    return status;
}

/* --- write --- */

static void add_string(struct lvn_text *t, const char *s, size_t n)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    lvn_text_add(t, "\"");
    size_t start = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) continue;
        lvn_text_add_bytes(t, s + start, (int64_t)(i - start));
        start = i + 1;
        const char *known = c ? strchr(plain, c) : NULL;
        if (known)
            lvn_text_printf(t, "\\%c", letter[known - plain]);
        else
            lvn_text_printf(t, "\\u%04x", c);
    }
    lvn_text_add_bytes(t, s + start, (int64_t)(n - start));
    lvn_text_add(t, "\"");
}

static void add_real(struct lvn_text *t, double value)
{
    char text[LVN_NUMBER_TEXT];
    for (char *p = lvn_shortest_text(value, 15, text); *p; p++)
        if (*p == ',') *p = '.'; /* the decimal comma of some locales */
    lvn_text_add(t, text);
    if (!strpbrk(text, ".en")) lvn_text_add(t, ".0"); /* reads back as a real */
}

static bool has_containers(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        if (json_is_object(v) || json_is_array(v)) return true;
    }
    return false;
}

static void new_line(struct lvn_text *t, int spaces)
{
    lvn_text_printf(t, "\n%*s", spaces, "");
}

static void add(struct lvn_text *t, const json_t *value, int indent, int depth);

static void add_object(struct lvn_text *t, const json_t *object, int indent, int depth)
{
    const char *separator = "";
    lvn_text_add(t, "{");
    for (void *iterator = json_object_iter((json_t *)object); iterator;
         iterator = json_object_iter_next((json_t *)object, iterator)) {
        lvn_text_add(t, separator);
        separator = indent ? "," : ", ";
        if (indent > 0) new_line(t, indent * (depth + 1));
        const char *key = json_object_iter_key(iterator);
        add_string(t, key, strlen(key));
        lvn_text_add(t, indent == LVN_JSON_COMPACT ? ":" : ": ");
        add(t, json_object_iter_value(iterator), indent, depth + 1);
    }
    if (indent > 0 && json_object_size(object)) new_line(t, indent * depth);
    lvn_text_add(t, "}");
}

static void add_array(struct lvn_text *t, const json_t *array, int indent, int depth)
{
    bool lines = indent > 0 && has_containers(array);
    lvn_text_add(t, "[");
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (i) lvn_text_add(t, lines || indent == LVN_JSON_COMPACT ? "," : ", ");
        if (lines) new_line(t, indent * (depth + 1));
        add(t, json_array_get(array, i), indent, depth + 1);
    }
    if (lines) new_line(t, indent * depth);
    lvn_text_add(t, "]");
}

static void add(struct lvn_text *t, const json_t *value, int indent, int depth)
{
    if (depth > DEPTH || !value)
        t->failed = true; /* a bug in the caller: fail rather than write an unreadable file */
    else if (json_is_object(value))
        add_object(t, value, indent, depth);
    else if (json_is_array(value))
        add_array(t, value, indent, depth);
    else if (json_is_string(value))
        add_string(t, json_string_value(value), json_string_length(value));
    else if (json_is_integer(value))
        lvn_text_printf(t, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        add_real(t, json_real_value(value));
    else
        lvn_text_add(t, json_is_true(value) ? "true" : json_is_false(value) ? "false" : "null");
}

void lvn_json_add(struct lvn_text *t, long begun, const json_t *value, int indent)
{
    if (lvn_json_check(begun) == LVN_OK)
        add(t, value, indent, 0);
    else
        t->failed = true;
}

enum lvn_status lvn_json_write(const char *path, long begun, const json_t *value)
{
    LVN_TRY_WHILE(lvn_json_check(begun), "writing '%s'", path);
    LVN_LOCAL_TEXT(t);
    add(&t, value, 2, 0);
    lvn_text_add(&t, "\n");
    LVN_TRY_WHILE(lvn_text_status(&t), "writing '%s'", path);
    return lvn_target_write(path, t.p, t.n);
}

enum lvn_status lvn_json_dump(long begun, const json_t *value, size_t flags, char **text)
{
    *text = json_dumps(value, flags);
    if (*text && lvn_json_check(begun) == LVN_OK) return LVN_OK;
    free(*text);
    *text = NULL;
    LVN_FAIL(MEMORY, "not enough memory for a JSON text");
}

/* --- members of objects --- */

static const char *type_text(const json_t *value)
{
    static const char *const text[] = {[JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",
                                       [JSON_STRING] = "a string",  [JSON_INTEGER] = "a whole number",
                                       [JSON_REAL] = "a number",    [JSON_TRUE] = "true",
                                       [JSON_FALSE] = "false",      [JSON_NULL] = "null"};
    return text[json_typeof(value)];
}

/* *value is NULL if the key is missing. */
static enum lvn_status get_member(const char *name, const json_t *object, const char *key, bool required,
                                  const json_t **value)
{
    *value = NULL;
    LVN_CHECK(json_is_object(object), FORMAT, "%s: cannot read '%s' from %s, expected an object", name, key,
              object ? type_text(object) : "nothing");
    const json_t *v = json_object_get(object, key);
    if (json_is_null(v)) v = NULL;
    LVN_CHECK(v || !required, FORMAT, "%s: '%s' is missing", name, key);
    *value = v;
    return LVN_OK;
}

/* Read an integer; `expected` describes it in messages: "a whole number". */
static enum lvn_status read_integer(const char *name, const char *key, const char *expected, const json_t *v,
                                    int64_t low, int64_t high, int64_t *out)
{
    double real = json_is_real(v) ? json_real_value(v) : 0;
    LVN_CHECK(json_is_integer(v) || (json_is_real(v) && real == floor(real) && fabs(real) < 0x1p53), FORMAT,
              "%s: '%s' must be %s, found %s", name, key, expected, type_text(v));
    int64_t value = json_is_integer(v) ? (int64_t)json_integer_value(v) : (int64_t)real;
    LVN_CHECK(value >= low && value <= high, FORMAT, "%s: '%s' is %lld, expected a number from %lld to %lld", name, key,
              (long long)value, (long long)low, (long long)high);
    *out = value;
    return LVN_OK;
}

enum lvn_status lvn_json_int(const char *name, const json_t *object, const char *key, bool required, int64_t low,
                             int64_t high, int64_t *out)
{
    const json_t *v;
    LVN_TRY(get_member(name, object, key, required, &v));
    return v ? read_integer(name, key, "a whole number", v, low, high, out) : LVN_OK;
}

enum lvn_status lvn_json_ints(const char *name, const json_t *object, const char *key, int64_t low, int64_t high,
                              int64_t **out, int *n)
{
    static const char expected[] = "a whole number or a list of them";
    const json_t *v;
    *out = NULL;
    *n = 0;
    LVN_TRY(get_member(name, object, key, false, &v));
    if (!v || (json_is_array(v) && !json_array_size(v))) return LVN_OK;
    int count = json_is_array(v) ? (int)json_array_size(v) : 1;
    int64_t *list = lvn_malloc(sizeof *list * (size_t)count);
    enum lvn_status status = list ? LVN_OK : LVN_MEMORY;
    for (int i = 0; status == LVN_OK && i < count; i++)
        status =
            read_integer(name, key, expected, json_is_array(v) ? json_array_get(v, (size_t)i) : v, low, high, &list[i]);
    if (status != LVN_OK) {
        free(list);
        return status;
    }
    *out = list;
    *n = count;
    return LVN_OK;
}

enum lvn_status lvn_json_list(const char *name, const json_t *object, const char *key, bool required,
                              const json_t **out)
{
    LVN_TRY(get_member(name, object, key, required, out));
    LVN_CHECK(!*out || json_is_array(*out), FORMAT, "%s: '%s' must be a list, found %s", name, key, type_text(*out));
    return LVN_OK;
}

const char *lvn_json_type(const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "type"));
    return type ? type : "(none)";
}

enum lvn_status lvn_json_real(const char *name, const json_t *object, const char *key, bool required, double *out)
{
    const json_t *v;
    LVN_TRY(get_member(name, object, key, required, &v));
    if (!v) return LVN_OK;
    LVN_CHECK(json_is_number(v), FORMAT, "%s: '%s' must be a number, found %s", name, key, type_text(v));
    *out = json_number_value(v);
    return LVN_OK;
}

enum lvn_status lvn_json_bool(const char *name, const json_t *object, const char *key, bool required, bool *out)
{
    const json_t *v;
    LVN_TRY(get_member(name, object, key, required, &v));
    if (!v) return LVN_OK;
    LVN_CHECK(json_is_boolean(v), FORMAT, "%s: '%s' must be true or false, found %s", name, key, type_text(v));
    *out = json_is_true(v);
    return LVN_OK;
}

enum lvn_status lvn_json_string(const char *name, const json_t *object, const char *key, bool required,
                                const char **out)
{
    const json_t *v;
    LVN_TRY(get_member(name, object, key, required, &v));
    if (!v) return LVN_OK;
    LVN_CHECK(json_is_string(v), FORMAT, "%s: '%s' must be a string, found %s", name, key, type_text(v));
    *out = json_string_value(v);
    return LVN_OK;
}

json_t *lvn_json_number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

json_t *lvn_json_text(const char *s, int64_t max)
{
    LVN_LOCAL_TEXT(t);
    int used;
    for (int64_t left = (int64_t)strlen(s); left > 0; s += used, left -= used) {
        const bool good = lvn_utf8_decode(s, left, &used) >= 0;
        if (t.n + used > max) {
            lvn_text_add(&t, "...");
            break;
        }
        lvn_text_add_bytes(&t, good ? s : "\xef\xbf\xbd", good ? used : 3);
    }
    if (t.failed) failures++;
    return t.failed ? NULL : json_string(t.p ? t.p : "");
}
