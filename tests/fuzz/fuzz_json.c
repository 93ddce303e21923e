/* fuzz_json.c - JSON that was read and written again, in either form, reads back as the same value; good JSON has the
 * same values when it is scanned, and other texts do no harm to the scanner. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "formats/json.h"
#include "formats/json_scan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_form(const json_t *value, int indent)
{
    struct lvn_text t = {0};
    json_t *again;
    lvn_json_add(&t, lvn_json_begin(), value, indent);
    if (lvn_json_parse("what was written", lvn_text_string(&t), t.n, &again) != LVN_OK) abort();
    if (!json_equal(value, again)) abort();
    json_decref(again);
    lvn_text_release(&t);
}

/* The next value is a string; it is `value`, unless that is NULL. */
static bool scan_string(struct lvn_json_scan *s, const json_t *value)
{
    const char *text;
    int64_t bytes;
    if (lvn_json_scan_string(s, &text, &bytes) != LVN_OK) return false;
    json_t *same = json_stringn(text, (size_t)bytes);
    if (!same || (value && !json_equal(same, value))) abort();
    json_decref(same);
    return true;
}

static bool scan_number(struct lvn_json_scan *s, const json_t *value)
{
    struct lvn_json_scan again = *s;
    const char *at = s->at;
    double real;
    int64_t n = -1;
    bool is;
    if (lvn_json_scan_real(s, &real, &is) != LVN_OK) return false;
    if (lvn_json_scan_index(&again, &n) != LVN_OK || again.at != s->at) abort();
    if (!value) return true;
    int64_t whole = json_is_integer(value) && *at != '-' ? json_integer_value(value) : -1;
    if (is != json_is_number(value) || (is && real != json_number_value(value))) abort();
    if (n != (whole >= 0 && whole < 1000000000000000 ? whole : -1)) abort();
    return true;
}

/* Read the next value of the scan, and compare it with `value`, unless that is NULL. False: it is not JSON. */
static bool scan(struct lvn_json_scan *s, const json_t *value, int depth)
{
    char c = lvn_json_scan_peek(s), close = c == '[' ? ']' : '}';
    struct lvn_json_scan again = *s;
    int64_t i = 0, n = -1;
    if (depth > 64) return false;
    if (c == '"') return scan_string(s, value);
    if (c != '[' && c != '{') return scan_number(s, value);
    if (lvn_json_scan_enter(s, c) != LVN_OK) return false;
    for (bool more;; i++) {
        const json_t *entry = json_array_get(value, (size_t)i);
        if (lvn_json_scan_next(s, close, i, &more) != LVN_OK) return false;
        if (!more) break;
        if (c == '{') {
            const char *key;
            int64_t bytes;
            if (lvn_json_scan_key(s, &key, &bytes) != LVN_OK) return false;
            char *copy = lvn_arena_alloc(s->arena, (size_t)bytes + 1);
            if (!copy) return false;
            memcpy(copy, key, (size_t)bytes);
            entry = json_object_get(value, copy);
        }
        if (value && !entry) abort();
        if (!scan(s, entry, depth + 1)) return false;
    }
    if (value && i != (int64_t)(c == '[' ? json_array_size(value) : json_object_size(value))) abort();
    if (lvn_json_scan_skip(&again, &n) != LVN_OK || n != i || again.at != s->at) abort();
    return true;
}

/* Both readers accept the same texts, with the same values. */
static void check_load(const char *text, int64_t bytes)
{
    json_t *one = NULL, *two = NULL;
    json_error_t error;
    if (lvn_json_load(text, bytes, JSON_REJECT_DUPLICATES | LVN_JSON_ROW, &one, &error) != LVN_OK) return;
    if (lvn_json_scan_load(text, bytes, &two, &error) != LVN_OK) abort();
    if (!one != !two || (one && !json_equal(one, two))) abort();
    json_decref(one);
    json_decref(two);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_load((const char *)data, (int64_t)size);
    json_t *value;
    LVN_LOCAL_ARENA(a);
    bool good = lvn_json_parse("the input", (const char *)data, (int64_t)size, &value) == LVN_OK;
    bool zeros = size && memchr(data, 0, size); /* jansson skips these anywhere */
    struct lvn_json_scan s = lvn_json_scan_begin("the input", (const char *)data, (int64_t)size, &a);
    bool scanned = scan(&s, good && !zeros ? value : NULL, 0) && lvn_json_scan_end(&s) == LVN_OK;
    if (!good) return 0;
    if (!scanned && !zeros) abort();
    check_form(value, 0);
    check_form(value, 2);
    json_decref(value);
    return 0;
}
